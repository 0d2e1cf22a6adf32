"""Reads the body of an operation: which of its media types is sent, its schema, and how parts are encoded.

Pure; runs in a process that can be killed. Raises DocumentUnreadable for a body that is required and cannot
be sent.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.http.requests import FORM_MEDIA_TYPE, MULTIPART_MEDIA_TYPE
from tools.http.service import SAFE_METHODS
from tools.http.styles import STYLES, HttpParameter
from tools.openapi.loader import DocumentUnreadable
from tools.openapi.outline import OpenApiOperation, Outline
from tools.openapi.values import as_list, as_mapping

SENDABLE_BODIES = "JSON, forms and text, all that a model can write, are sent"
FILE_DESCRIPTION = "the text of the file"
DEFAULT_FILE_TYPE = "text/plain"
# Of several kinds of JSON the first that fits: a whole object, then a merge. Only its own resources know the
# strategic merge of Kubernetes. A list of changes is for bodies that are lists.
JSON_PATCH = "application/json-patch+json"
_JSON_PREFERENCE = ("application/json", "application/merge-patch+json")
_LAST_JSON = ("application/strategic-merge-patch+json", JSON_PATCH)


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A body as it is sent.

    `forms` are the parts of a form that are not encoded in the default way; `files` the parts of a
    multipart form that are files, each with its media type.
    """

    media_type: str
    schema: object
    is_required: bool
    forms: Mapping[str, HttpParameter] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def read_request_body(
    outline: Outline, operation: OpenApiOperation, warnings: list[str]
) -> RequestBody | None:
    """The body of the request; None: none is sent. A body that is left out is reported in `warnings`."""
    raw_body = outline.resolve(operation.written.get("requestBody"))
    if not isinstance(raw_body, Mapping):
        return None
    is_required = raw_body.get("required") is True
    if not raw_body.get("content") and not is_required:
        return None
    content = as_mapping(raw_body.get("content"))
    media_type = _choose_media_type(outline, {str(key): media for key, media in content.items()})
    if media_type is None:
        kinds = ", ".join(map(str, content))[:80] or "of no kind"
        _report_body(f"{kinds}; {SENDABLE_BODIES}", warnings, is_required=is_required)
        return None
    if operation.method in SAFE_METHODS:
        reason = f"that of a {operation.method}, which servers may ignore; it is not sent"
        _report_body(reason, warnings, is_required=is_required)
        return None
    media = as_mapping(outline.resolve(content[media_type]))
    schema = media.get("schema", {})
    plain = _to_plain_type(media_type)
    if "*" in media_type:
        return RequestBody("application/json", schema, is_required)
    if plain == FORM_MEDIA_TYPE:
        return RequestBody(plain, schema, is_required, _read_encodings(media))
    if plain == MULTIPART_MEDIA_TYPE:
        return _read_multipart(outline, media, warnings, is_required=is_required)
    return RequestBody(media_type.partition(";")[0].strip(), schema, is_required)


def _choose_media_type(outline: Outline, content: Mapping[str, object]) -> str | None:
    """The media type of a body that is sent; None: none of them can be."""
    json_types = [kind for kind in content if _is_json(kind)]
    if json_types:
        return min(json_types, key=lambda kind: _rank_json(outline, kind, content[kind]))
    fitting: tuple[Callable[[str], bool], ...] = (_is_form, _is_multipart, _is_text)
    return next((kind for fits in fitting for kind in content if fits(kind)), None)


def _rank_json(outline: Outline, media_type: str, raw_media: object) -> int:
    plain = _to_plain_type(media_type)
    if plain == JSON_PATCH and _is_list(outline, raw_media):
        return -1
    order = (*_JSON_PREFERENCE, "", *_LAST_JSON)
    return order.index(plain) if plain in order else order.index("")


def _is_list(outline: Outline, raw_media: object) -> bool:
    try:
        media = as_mapping(outline.resolve(raw_media))
        schema = as_mapping(outline.resolve(media.get("schema")))
    except DocumentUnreadable:
        return False
    return schema.get("type") == "array"


def _read_multipart(
    outline: Outline, media: Mapping[str, Any], warnings: list[str], *, is_required: bool
) -> RequestBody | None:
    """A multipart form: fields, and files whose text a model can write."""
    schema = as_mapping(outline.resolve(media.get("schema")))
    properties = as_mapping(schema.get("properties"))
    if not properties:
        _report_body("multipart/form-data without named parts", warnings, is_required=is_required)
        return None
    encodings = as_mapping(media.get("encoding"))
    required_names = list(map(str, as_list(schema.get("required"))))
    kept: dict[str, object] = {}
    files: dict[str, str] = {}
    for name, raw_property in properties.items():
        described = as_mapping(outline.resolve(raw_property))
        if not _is_file(described):
            kept[name] = raw_property
            continue
        media_type = _find_file_type(encodings.get(name), described)
        if media_type is None:
            if name in required_names:
                raise DocumentUnreadable(
                    f"its file {name[:60]!r} is no text, and only text is sent as a file"
                )
            warnings.append(f"the file {name[:60]} is left out: it is no text")
            continue
        files[name] = media_type
        kept[name] = _describe_file(described)
    sent = {**schema, "properties": kept}
    return RequestBody(MULTIPART_MEDIA_TYPE, sent, is_required, _read_encodings(media), files)


def _is_file(schema: Mapping[str, Any]) -> bool:
    is_text = schema.get("type", "string") in ("string", ["string", "null"])
    return is_text and (
        schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema)
    )


def _find_file_type(encoding: object, schema: Mapping[str, Any]) -> str | None:
    """The media type of a file of text; None where the document asks for another kind."""
    named = as_mapping(encoding).get("contentType")
    if not isinstance(named, str):
        named = schema.get("contentMediaType")
    if not isinstance(named, str):
        return DEFAULT_FILE_TYPE
    for kind in named.split(","):
        plain = _to_plain_type(kind)
        if plain in ("*/*", "text/*", "application/*", "application/octet-stream"):
            return DEFAULT_FILE_TYPE
        if _is_text(plain) or _is_json(plain) or plain.endswith(("xml", "yaml", "csv")):
            return plain
    return None


def _describe_file(schema: Mapping[str, Any]) -> dict[str, Any]:
    description = schema.get("description")
    text = FILE_DESCRIPTION
    if isinstance(description, str) and description.strip():
        text = f"{description.strip().rstrip('.')} ({FILE_DESCRIPTION})"
    return {"type": "string", "description": text}


def _report_body(reason: str, warnings: list[str], *, is_required: bool) -> None:
    """Report a body that is left out; raises DocumentUnreadable for one that is required."""
    if is_required:
        raise DocumentUnreadable(f"its body is {reason}")
    warnings.append(f"its body is left out: it is {reason}")


def _read_encodings(media: Mapping[str, Any]) -> dict[str, HttpParameter]:
    """The parts of a form whose encoding the document names; headers of parts are not supported."""
    parts = {}
    for name, encoding in as_mapping(media.get("encoding")).items():
        if not isinstance(encoding, Mapping):
            continue
        style = encoding.get("style", "form")
        if not isinstance(style, str) or style not in STYLES["query"]:
            continue
        explode = encoding.get("explode", style in ("form", "deepObject")) is True
        is_default = "style" not in encoding and "explode" not in encoding
        as_json = is_default and "json" in str(encoding.get("contentType"))
        parts[str(name)] = HttpParameter(str(name), str(name), "query", style, explode, as_json=as_json)
    return parts


def _to_plain_type(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    plain = _to_plain_type(media_type)
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")


def _is_form(media_type: str) -> bool:
    return _to_plain_type(media_type) == FORM_MEDIA_TYPE


def _is_multipart(media_type: str) -> bool:
    return _to_plain_type(media_type) == MULTIPART_MEDIA_TYPE


def _is_text(media_type: str) -> bool:
    return bool(re.fullmatch(r"text/[a-z.+-]+", _to_plain_type(media_type)))

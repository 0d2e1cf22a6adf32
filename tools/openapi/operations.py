"""Makes a route of one operation: its parameters and body as one object of arguments, and where each of them
goes.

Pure; runs in a killable process. Raises Unreadable for an operation that cannot be called, saying why.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.http.requests import FORM_MEDIA_TYPE, IDEMPOTENCY_HEADER
from tools.http.routes import Body, HttpRoute
from tools.http.styles import STYLES, HttpParameter, ParameterLocation, placeholder_names
from tools.openapi.loader import DocumentUnreadable
from tools.openapi.names import to_tool_name, unique_argument_names
from tools.openapi.outline import OpenApiOperation, Outline
from tools.safety.injection import neutralize
from tools.schemas.reduce import SchemaPair, reduce_schema
from tools.schemas.signature import ToolDefinitionError

MAX_DESCRIPTION_CHARS = 500  # characters
BODY_ARGUMENT = "body"
SENDABLE_BODIES = "JSON, forms and text, all that a model can write, are sent"
COOKIES_ADVICE = (
    "cookies are not sent: they are somebody's login in a browser; see whether a key in a header does"
)
# Set by whoever sends a request; a document may name them, an argument never fills them.
RESERVED_HEADERS = frozenset(
    {
        *(
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "cookie",
        ),
        *(
            "accept",
            "content-type",
            "authorization",
            "accept-encoding",
            "user-agent",
            IDEMPOTENCY_HEADER.lower(),
        ),
    }
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")

ParameterSpec = tuple[
    HttpParameter, Mapping[str, Any], bool
]  # a value, its schema, and whether it is required


def build_route(outline: Outline, operation: OpenApiOperation, prefix: str) -> HttpRoute:
    """The route to an operation; its name begins with `prefix`."""
    name = to_tool_name(f"{prefix}{operation.key}") or to_tool_name(f"{prefix}{operation.method_and_path}")
    if not name:
        raise DocumentUnreadable("no name can be made of its operationId; give it one with letters")
    if operation.written.get("deprecated") is True:
        reported = ["it is marked as deprecated"]
    else:
        reported = []
    wanted = _read_parameters(outline, operation, reported)
    media, body, body_required = _read_body(outline, operation, reported)
    names = unique_argument_names([(value.name, value.place) for value, _, _ in wanted])
    values = [_with_argument(value, name) for (value, _, _), name in zip(wanted, names, strict=True)]
    whole = BODY_ARGUMENT if BODY_ARGUMENT not in names else "request_body"
    schema = _build_schema(names, wanted, (whole, body, body_required))
    try:
        both = reduce_schema(schema, outline.document)
    except ToolDefinitionError as error:
        raise DocumentUnreadable(str(error)) from error
    address = outline.server_url(operation) + operation.path
    missing = [
        one for one in placeholder_names(address) if one not in {v.name for v in values if v.place == "path"}
    ]
    if missing or "?" in operation.path or "#" in operation.path:
        raise DocumentUnreadable(
            f"its path asks for {missing[0][:60]!r}, which is no parameter"
            if missing
            else "its path is none: a ? or # stands in it, and what is behind that belongs to its parameters"
        )
    place, checked, told = (
        (None, both.input_schema, both.model_schema) if media is None else _spread_body(media, whole, both)
    )
    if place is not None and media == FORM_MEDIA_TYPE:
        place = replace(place, forms=_read_form_encoding(outline, operation))
    return HttpRoute(
        operation.key,
        name,
        _build_description(outline, operation),
        operation.method,
        address,
        tuple(values),
        place,
        checked,
        told,
        (*reported, *both.warnings),
    )


def _build_description(outline: Outline, operation: OpenApiOperation) -> str:
    parts = [operation.written.get(part) for part in ("summary", "description")]
    texts = [neutralize(part).rstrip(".") for part in parts if isinstance(part, str) and part.strip()]
    if len(texts) == 2 and texts[1].startswith(texts[0]):
        texts.pop(0)
    text = (
        ". ".join(text for text in texts if text)
        or f"{operation.method_and_path} of {neutralize(outline.title()) or 'the service'}"
    )
    if len(text) > MAX_DESCRIPTION_CHARS:
        return f"{text[:MAX_DESCRIPTION_CHARS].rstrip()}…"
    return f"{text}."


def _read_parameters(
    outline: Outline, operation: OpenApiOperation, warnings: list[str]
) -> list[ParameterSpec]:
    """Those of the path and of the operation, which come before them; what cannot be sent is reported."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for place in (operation.shared, operation.written):
        written = place.get("parameters")
        for each in written if isinstance(written, list) else []:
            parameter = outline.resolve(each)
            if isinstance(parameter, Mapping):
                found[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    wanted = [_read_parameter(outline, parameter, warnings) for parameter in found.values()]
    return [each for each in wanted if each is not None]


def _read_parameter(outline: Outline, raw: Mapping[str, Any], warnings: list[str]) -> ParameterSpec | None:
    from openapi_pydantic.v3.v3_1 import Parameter
    from pydantic import ValidationError

    frame = {
        key: each for key, each in raw.items() if key not in ("schema", "content", "example", "examples")
    }
    try:
        read = Parameter.model_validate(frame)
    except ValidationError as error:
        raise DocumentUnreadable(
            f"its parameter {str(raw.get('name'))[:60]!r} is not correct ({_format_first_error(error)})"
        ) from None
    place: Any = read.param_in.value
    required = read.required or place == "path"
    if place == "cookie" or (place == "header" and read.name.lower() in RESERVED_HEADERS):
        if required and place == "cookie":
            raise DocumentUnreadable(f"it needs the cookie {read.name[:60]!r}, and {COOKIES_ADVICE}")
        if place == "cookie":
            why = "cookies are not sent"
        else:
            why = "it is the house's to set"
        warnings.append(f"the {place} {read.name[:60]} is left out: {why}")
        return None
    value = _build_value(place, read, raw)
    schema, as_json = _content_schema(outline, raw)
    if as_json:
        value = HttpParameter(
            value.argument, value.name, value.place, value.style, value.explode, as_json=True
        )
    described = {"description": read.description} if read.description else {}
    return value, {**(schema if isinstance(schema, Mapping) else {}), **described}, required


def _build_value(location: ParameterLocation, parameter: Any, raw: Mapping[str, Any]) -> HttpParameter:
    style = parameter.style or ("form" if location == "query" else "simple")
    if style not in STYLES[location]:
        raise DocumentUnreadable(
            f"its parameter {parameter.name[:60]!r} has the style {style[:20]!r}, which {location} values do not have"
        )
    if location == "header" and not _HEADER_NAME.fullmatch(parameter.name):
        raise DocumentUnreadable(f"its header {parameter.name[:60]!r} has a name that no header can have")
    if isinstance(raw.get("explode"), bool):
        explode = bool(parameter.explode)
    else:
        explode = style in ("form", "deepObject")
    return HttpParameter(
        parameter.name, parameter.name, location, style, explode, bool(raw.get("allowReserved") is True)
    )


def _content_schema(outline: Outline, raw: Mapping[str, Any]) -> tuple[object, bool]:
    content = raw.get("content")
    if "schema" in raw or not isinstance(content, Mapping) or not content:
        return raw.get("schema"), False
    media, inner = next(iter(content.items()))
    inner = outline.resolve(inner)
    return (inner.get("schema") if isinstance(inner, Mapping) else None), "json" in str(media)


def _read_body(
    outline: Outline, operation: OpenApiOperation, warnings: list[str]
) -> tuple[str | None, object, bool]:
    """Media type, schema and whether there must be one; no media type: none is sent, which is reported."""
    written = outline.resolve(operation.written.get("requestBody"))
    content = written.get("content") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping) or not (content or written.get("required") is True):
        return None, None, False
    if isinstance(content, Mapping):
        kinds = [str(kind) for kind in content]
    else:
        kinds = []
    media = next((kind for fits in (_is_json, _is_form, _is_text) for kind in kinds if fits(kind)), None)
    required = written.get("required") is True
    if media is None or operation.method in ("GET", "HEAD"):
        what = f"{', '.join(kinds)[:80] or 'of no kind'}; {SENDABLE_BODIES}"
        if media is None:
            why = what
        else:
            why = f"that of a {operation.method}, which servers may ignore; it is not sent"
        if required:
            raise DocumentUnreadable(f"its body is {why}")
        warnings.append(f"its body is left out: it is {why}")
        return None, None, False
    if isinstance(content, Mapping):
        inner = outline.resolve(content[media])
    else:
        inner = None
    schema = inner.get("schema", {}) if isinstance(inner, Mapping) else {}
    if "*" in media:
        sent = "application/json"
    else:
        sent = media.partition(";")[0].strip()
    return sent, schema, required


def _read_form_encoding(outline: Outline, operation: OpenApiOperation) -> dict[str, HttpParameter]:
    """The parts of a form whose way of being written the document names; what it says of files and headers is
    none.
    """
    body: Any = outline.resolve(operation.written.get("requestBody"))
    inner: Any = outline.resolve(next(each for kind, each in body["content"].items() if _is_form(str(kind))))
    written = inner.get("encoding") if isinstance(inner, Mapping) else None
    found = {}
    for name, said in written.items() if isinstance(written, Mapping) else ():
        style = said.get("style", "form") if isinstance(said, Mapping) else None
        if isinstance(style, str) and style in STYLES["query"]:
            explode = said.get("explode", style in ("form", "deepObject")) is True
            as_json = "style" not in said and "explode" not in said and "json" in str(said.get("contentType"))
            found[str(name)] = HttpParameter(str(name), str(name), "query", style, explode, as_json=as_json)
    return found


def _is_json(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")


def _is_form(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() == FORM_MEDIA_TYPE


def _is_text(media_type: str) -> bool:
    return bool(re.fullmatch(r"text/[a-z.+-]+", media_type.partition(";")[0].strip().lower()))


def _build_schema(
    names: list[str], specs: list[ParameterSpec], body: tuple[str, object, bool]
) -> dict[str, Any]:
    properties: dict[str, Any] = {name: schema for name, (_, schema, _) in zip(names, specs, strict=True)}
    required = [name for name, (_, _, needed) in zip(names, specs, strict=True) if needed]
    whole, schema, needed = body
    if schema is not None:
        properties[whole] = schema
        required += [whole] if needed else []
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _spread_body(
    media_type: str, body_argument: str, schemas: SchemaPair
) -> tuple[Body, dict[str, Any], dict[str, Any]]:
    """The body and both schemas: an object's properties become arguments of their own where its shape allows."""
    inner = schemas.input_schema["properties"].get(body_argument)
    told = schemas.model_schema["properties"].get(body_argument, {})
    needed = body_argument in schemas.input_schema.get("required", ())
    if (
        not inner
        or not _is_plain_object(inner)
        or not set(inner.get("properties", ())) <= set(told.get("properties", ()))
    ):
        return Body(media_type, body_argument, None, needed), schemas.input_schema, schemas.model_schema
    taken = [(name, BODY_ARGUMENT) for name in schemas.input_schema["properties"] if name != body_argument]
    wanted = [
        (f"{name}_{BODY_ARGUMENT}" if (name, BODY_ARGUMENT) in taken else name, BODY_ARGUMENT)
        for name in inner["properties"]
    ]
    fields = dict(
        zip(unique_argument_names([*taken, *wanted])[len(taken) :], inner["properties"], strict=True)
    )
    return (
        Body(media_type, None, fields, needed),
        _inline_body(schemas.input_schema, inner, body_argument, fields, is_required=needed),
        _inline_body(schemas.model_schema, told, body_argument, fields, is_required=needed),
    )


def _is_plain_object(schema: Mapping[str, Any]) -> bool:
    """Whether it is an object that its properties say all about."""
    return (
        schema.get("type", "object") == "object"
        and bool(schema.get("properties"))
        and not {"anyOf", "oneOf", "allOf", "not", "if", "nullable", "patternProperties", "minProperties"}
        & set(schema)
        and schema.get("additionalProperties") in (None, False, True)
    )


def _inline_body(
    outer: Mapping[str, Any],
    inner: Mapping[str, Any],
    body_argument: str,
    fields: Mapping[str, str],
    *,
    is_required: bool,
) -> dict[str, Any]:
    properties = {name: each for name, each in outer["properties"].items() if name != body_argument}
    properties |= {argument: inner["properties"][name] for argument, name in fields.items()}
    required = [name for name in outer.get("required", ()) if name != body_argument]
    if is_required:
        required += [argument for argument, name in fields.items() if name in inner.get("required", ())]
    joined = {key: each for key, each in outer.items() if key != "required"} | {"properties": properties}
    if required:
        return {**joined, "required": required}
    return joined


def _with_argument(value: HttpParameter, argument: str) -> HttpParameter:
    return HttpParameter(
        argument, value.name, value.place, value.style, value.explode, value.reserved, value.as_json
    )


def _format_first_error(error: Any) -> str:
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))[:60]}: {found['msg'][:80]}"

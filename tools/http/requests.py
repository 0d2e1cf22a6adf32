"""Builds the HTTP request of a route from its arguments. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from tools.base import ToolError
from tools.http.multipart import encode_multipart
from tools.http.routes import Body, HttpRoute
from tools.http.service import SAFE_METHODS, HttpRequest
from tools.http.styles import (
    HttpParameter,
    encode_header,
    encode_path,
    encode_query,
    placeholder_names,
    to_text,
)

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
MULTIPART_MEDIA_TYPE = "multipart/form-data"
IDEMPOTENCY_HEADER = "Idempotency-Key"


def build_request(
    route: HttpRoute,
    arguments: Mapping[str, Any],
    idempotency_key: str,
    taken_names: frozenset[str] = frozenset(),
) -> HttpRequest:
    """The request for these checked arguments; `idempotency_key` marks repetitions of the same call.

    `taken_names` are names of the query that an admin has set: no part of another argument may have one.
    Raises ToolError.
    """
    path_values: dict[str, tuple[HttpParameter, Any]] = {}
    query: list[str] = []
    header_values: list[tuple[HttpParameter, Any]] = []
    for parameter in route.values:
        if parameter.argument not in arguments:
            continue
        content = arguments[parameter.argument]
        match parameter.place:
            case "path":
                path_values[parameter.name] = (parameter, content)
            case "query":
                _refuse_taken_names(parameter, content, taken_names)
                query += encode_query(parameter, content)
            case "header" if content is not None:
                header_values.append((parameter, content))
    url = _build_url(route, path_values, query)
    headers = {parameter.name: encode_header(parameter, content) for parameter, content in header_values}
    body = None
    if route.body is not None:
        media_type, body = _build_body(route.body, arguments)
        if body is not None:
            headers["Content-Type"] = media_type
    if route.method not in SAFE_METHODS:
        headers[IDEMPOTENCY_HEADER] = idempotency_key
    return HttpRequest(route.method, url, headers, body)


def _refuse_taken_names(parameter: HttpParameter, content: Any, taken_names: frozenset[str]) -> None:
    """Refuse an object whose parts would stand in the query under a name that an admin has set."""
    is_spread = parameter.explode and not parameter.as_json and parameter.style != "deepObject"
    if isinstance(content, Mapping) and is_spread:
        for name in taken_names.intersection(content):
            raise ToolError(f"{parameter.argument} must not have {name}: it is set already.")


def _build_url(
    route: HttpRoute, path_values: Mapping[str, tuple[HttpParameter, Any]], query: list[str]
) -> str:
    missing = [name for name in placeholder_names(route.address) if name not in path_values]
    if missing:
        raise ToolError(f"{route.name} needs {missing[0]}: it is a part of the address.")
    url = encode_path(route.address, path_values)
    if query:
        return f"{url}?{'&'.join(query)}"
    return url


def _build_body(body: Body, arguments: Mapping[str, Any]) -> tuple[str, bytes | None]:
    """The media type and the body; None: none is sent."""
    if body.whole is not None:
        if body.whole not in arguments:
            return body.media, None
        content = arguments[body.whole]
    else:
        fields = body.fields or {}
        content = {name: arguments[argument] for argument, name in fields.items() if argument in arguments}
        if not content and not body.required:
            return body.media, None
    if body.media == MULTIPART_MEDIA_TYPE and isinstance(content, Mapping):
        return encode_multipart(content, body.files, body.forms)
    if body.media == FORM_MEDIA_TYPE and isinstance(content, Mapping):
        return body.media, _encode_form(content, body.forms)
    if body.media.startswith("text/"):
        return body.media, to_text(content).encode("utf-8", "replace")
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return body.media, text.encode("utf-8", "replace")


def _encode_form(content: Mapping[str, Any], forms: Mapping[str, HttpParameter]) -> bytes:
    pieces: list[str] = []
    for name, part in content.items():
        parameter = forms.get(name) or HttpParameter(name, name, "query", "form", explode=True)
        pieces += encode_query(parameter, part)
    return "&".join(pieces).encode()

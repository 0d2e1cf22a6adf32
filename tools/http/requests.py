"""Builds the HTTP request of a route from its arguments. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

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
    to_compact_json,
    to_text,
)

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
MULTIPART_MEDIA_TYPE = "multipart/form-data"
IDEMPOTENCY_HEADER = "Idempotency-Key"


def build_request(
    route: HttpRoute,
    arguments: Mapping[str, Any],
    idempotency_key: str,
    fixed_names: frozenset[str] = frozenset(),
    secret_names: frozenset[str] = frozenset(),
) -> HttpRequest:
    """The request for these checked arguments; `idempotency_key` marks repetitions of the same call.

    `fixed_names` are names that an admin has set, `secret_names` those of secrets in the query: no part of
    another argument may be sent under one. Raises ToolError.
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
                query += _encode_pieces(parameter, content, fixed_names | secret_names)
            case "header" if content is not None:
                header_values.append((parameter, content))
    url = _build_url(route, path_values, query)
    headers = {parameter.name: encode_header(parameter, content) for parameter, content in header_values}
    body = None
    if route.body is not None:
        media_type, body = _build_body(route.body, arguments, fixed_names)
        if body is not None:
            headers["Content-Type"] = media_type
    if route.method not in SAFE_METHODS:
        headers[IDEMPOTENCY_HEADER] = idempotency_key
    return HttpRequest(route.method, url, headers, body)


def _encode_pieces(parameter: HttpParameter, content: Any, taken_names: frozenset[str]) -> list[str]:
    """The pieces of a query or form that carry a value; refused if a part of it has a name that is set."""
    pieces = encode_query(parameter, content)
    if parameter.name in taken_names:
        return pieces
    for piece in pieces:
        name = unquote(piece.partition("=")[0])
        if name != parameter.name:
            _refuse_taken_name(parameter.argument, name, taken_names)
    return pieces


def _refuse_taken_name(argument: str, name: str, taken_names: frozenset[str]) -> None:
    """Refuse a part of an argument that a service may read as one that is set: `Id` and `id[]` as `id`."""
    words = _split_name(name)
    for taken_name in taken_names:
        taken_words = _split_name(taken_name)
        if words[: len(taken_words)] == taken_words:
            raise ToolError(f"{argument} must not have {taken_name}: it is set already.")


def _split_name(name: str) -> list[str]:
    return [word for word in re.split(r"[\[\]]", name.casefold()) if word]


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


def _build_body(
    body: Body, arguments: Mapping[str, Any], fixed_names: frozenset[str]
) -> tuple[str, bytes | None]:
    """The media type and the body; None: none is sent."""
    if body.whole is not None:
        if body.whole not in arguments:
            return body.media, None
        content = arguments[body.whole]
        for name in content if isinstance(content, Mapping) else ():
            _refuse_taken_name(body.whole, name, fixed_names)
    else:
        fields = body.fields or {}
        content = {name: arguments[argument] for argument, name in fields.items() if argument in arguments}
        if not content and not body.required:
            return body.media, None
    if body.media == MULTIPART_MEDIA_TYPE and isinstance(content, Mapping):
        return encode_multipart(content, body.files, body.forms)
    if body.media == FORM_MEDIA_TYPE and isinstance(content, Mapping):
        return body.media, _encode_form(content, body.forms, fixed_names)
    if body.media.startswith("text/"):
        return body.media, to_text(content).encode("utf-8", "replace")
    return body.media, to_compact_json(content).encode("utf-8", "replace")


def _encode_form(
    content: Mapping[str, Any], forms: Mapping[str, HttpParameter], fixed_names: frozenset[str]
) -> bytes:
    pieces: list[str] = []
    for name, part in content.items():
        parameter = forms.get(name) or HttpParameter(name, name, "query", "form", explode=True)
        pieces += _encode_pieces(parameter, part, fixed_names)
    return "&".join(pieces).encode()

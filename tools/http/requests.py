"""Makes the request of a route and its arguments. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from tools.base import ToolError
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
IDEMPOTENCY_HEADER = "Idempotency-Key"


def build_request(route: HttpRoute, arguments: Mapping[str, Any], idempotency_key: str) -> HttpRequest:
    """The request for these checked arguments; `key` marks repetitions of one and the same call. Raises
    ToolError.
    """
    given = [(value, arguments[value.argument]) for value in route.values if value.argument in arguments]
    paths = {value.name: (value, content) for value, content in given if value.place == "path"}
    absent = [name for name in placeholder_names(route.address) if name not in paths]
    if absent:
        raise ToolError(f"{route.name} needs {absent[0]}: it is a part of the address.")
    pieces = [
        piece for value, content in given if value.place == "query" for piece in encode_query(value, content)
    ]
    url = encode_path(route.address, paths) + (f"?{'&'.join(pieces)}" if pieces else "")
    headers = {
        v.name: encode_header(v, content)
        for v, content in given
        if v.place == "header" and content is not None
    }
    body = None if route.body is None else _build_body(route.body, arguments)
    if body is not None and route.body is not None:
        headers["Content-Type"] = route.body.media
    if route.method not in SAFE_METHODS:
        headers[IDEMPOTENCY_HEADER] = idempotency_key
    return HttpRequest(route.method, url, headers, body)


def _build_body(body: Body, arguments: Mapping[str, Any]) -> bytes | None:
    if body.whole is not None and body.whole not in arguments:
        return None
    if body.whole is not None:
        content = arguments[body.whole]
    else:
        fields = body.fields or {}
        content = {name: arguments[argument] for argument, name in fields.items() if argument in arguments}
        if not content and not body.required:
            return None
    if body.media == FORM_MEDIA_TYPE and isinstance(content, Mapping):
        written = {
            name: body.forms.get(name) or HttpParameter(name, name, "query", "form", True) for name in content
        }
        pieces = [piece for name, part in content.items() for piece in encode_query(written[name], part)]
        return "&".join(pieces).encode()
    if body.media.startswith("text/"):
        return to_text(content).encode("utf-8", "replace")
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

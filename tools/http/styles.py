"""Encodes values into addresses and headers, following OpenAPI's parameter styles. Pure.

Everything is percent-encoded, so that a value never becomes a piece of the address.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, unquote

from tools.base import ToolError

ParameterLocation = Literal["path", "query", "header"]
# What `allowReserved` leaves unencoded; never & = + #, which would begin another value.
RESERVED_CHARS = ":/?[]@!$'()*,;"
STYLES: Mapping[str, frozenset[str]] = {
    "path": frozenset({"simple", "label", "matrix"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
}
# The same in a path, where ? would end it and ; is read by some servers.
RESERVED_PATH_CHARS = "/:@!$'()*,"
_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
PLACEHOLDER_PATTERN = re.compile(r"\{([^{}]*)\}")
HEADER_NAME_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Set by the sender of a request, never by an admin or an argument.
SENDER_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)


@dataclass(frozen=True, slots=True)
class HttpParameter:
    """One argument and where it goes.

    `name` is what the service calls it; `as_json`: it is written as JSON. The other fields are OpenAPI's.
    """

    argument: str
    name: str
    place: ParameterLocation
    style: str
    explode: bool
    reserved: bool = False
    as_json: bool = False

    def describe_place(self) -> str:
        """Where its value is sent, in words."""
        style = f", style {self.style}" if self.style not in {"simple", "form"} else ""
        return f"in the {self.place} as {self.name}{style}"


def encode_path(template: str, values: Mapping[str, tuple[HttpParameter, Any]]) -> str:
    """The path with its `{names}` filled in. Raises ToolError for values that would lead to another path."""

    def fill(match: re.Match[str]) -> str:
        parameter, content = values[match[1]]
        text = _encode_path_value(parameter, content)
        if not text:
            raise ToolError(f"{parameter.argument} must not be empty: it is a part of the address.")
        return text

    path = PLACEHOLDER_PATTERN.sub(fill, template)
    for segment in path.split("/"):
        if {".", ".."} & set(re.split(r"[/\\]", unquote(segment))):
            raise ToolError("A value with . or .. as a part of a path is not sent.")
    return path


def placeholder_names(template: str) -> list[str]:
    """The names a template needs, in order."""
    return PLACEHOLDER_PATTERN.findall(template)


def encode_query(parameter: HttpParameter, content: Any) -> list[str]:
    """The pieces of a query, `name=text`, that carry one value; none for null."""
    if content is None:
        return []

    unencoded = RESERVED_CHARS if parameter.reserved else ""

    def encode(part: Any) -> str:
        return quote(to_text(part), safe=unencoded, errors="replace")

    name = quote(parameter.name, safe="[]")
    if parameter.as_json:
        return [f"{name}={encode(to_compact_json(content))}"]
    if not isinstance(content, list | Mapping):
        return [f"{name}={encode(content)}"]
    if isinstance(content, Mapping):
        if parameter.style == "deepObject":
            return _encode_deep_object(name, content, encode)
        if parameter.explode:
            return [
                f"{quote(str(key), safe='[]', errors='replace')}={encode(part)}"
                for key, part in content.items()
                if part is not None
            ]
        content = [part for pair in content.items() for part in pair]
    if parameter.explode:
        return [f"{name}={encode(part)}" for part in content]
    separator = _SEPARATORS.get(parameter.style, ",")
    return [f"{name}={separator.join(map(encode, content))}"]


def encode_header(parameter: HttpParameter, content: Any) -> str:
    """The text of a header. Raises ToolError for what a header cannot carry."""
    if parameter.as_json:
        text = to_compact_json(content)
    else:
        text = _encode_simple(content, parameter.explode, to_text, ",")
    if not text.isascii() or not text.isprintable():
        raise ToolError(f"{parameter.argument} goes into a header, which carries plain ASCII text only.")
    return text.strip()


def to_text(content: Any) -> str:
    """One value as text: true, 3, null as nothing; lists and objects within others as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return to_compact_json(content)


def _encode_path_value(parameter: HttpParameter, content: Any) -> str:
    unencoded = RESERVED_PATH_CHARS if parameter.reserved else ""

    def encode(part: Any) -> str:
        return quote(to_text(part), safe=unencoded, errors="replace")

    if parameter.as_json:
        return encode(to_compact_json(content))
    if parameter.style == "matrix":
        return _encode_matrix(quote(parameter.name, safe=""), content, parameter.explode, encode)
    if parameter.style == "label":
        separator = "." if parameter.explode else ","
        return "." + _encode_simple(content, parameter.explode, encode, separator)
    return _encode_simple(content, parameter.explode, encode, ",")


def _encode_simple(content: Any, explode: bool, encode: Callable[[Any], str], separator: str) -> str:
    if isinstance(content, Mapping):
        pairs = [(encode(str(key)), encode(part)) for key, part in content.items()]
        if explode:
            return separator.join(f"{key}={part}" for key, part in pairs)
        return ",".join(map(",".join, pairs))
    if isinstance(content, list):
        return separator.join(map(encode, content))
    return encode(content)


def _encode_matrix(name: str, content: Any, explode: bool, encode: Callable[[Any], str]) -> str:
    if explode and isinstance(content, Mapping):
        return "".join(f";{encode(str(key))}={encode(part)}" for key, part in content.items())
    if explode and isinstance(content, list):
        return "".join(f";{name}={encode(part)}" for part in content)
    return f";{name}={_encode_simple(content, False, encode, ',')}"


def _encode_deep_object(name: str, content: Mapping[str, Any], encode: Callable[[Any], str]) -> list[str]:
    pieces = []
    for key, part in content.items():
        inner = f"{name}[{quote(str(key), safe='', errors='replace')}]"
        if isinstance(part, Mapping):
            pieces += _encode_deep_object(inner, part, encode)
        else:
            parts = part if isinstance(part, list) else [part]
            pieces += [f"{inner}={encode(item)}" for item in parts if item is not None]
    return pieces


def to_compact_json(content: Any) -> str:
    """The content as JSON without blanks."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

"""Writes values into addresses and headers the way OpenAPI's styles say. Pure.

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
RESERVED_CHARS = (
    ":/?[]@!$'()*,;"  # what `allowReserved` lets stand; never & = + #, which would begin another value
)
STYLES: Mapping[str, frozenset[str]] = {
    "path": frozenset({"simple", "label", "matrix"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
}
_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class HttpParameter:
    """One argument and where it goes: `name` is what the service calls it. `as_json`: written as JSON."""

    argument: str
    name: str
    place: ParameterLocation
    style: str
    explode: bool
    reserved: bool = False
    as_json: bool = False


def encode_path(template: str, values: Mapping[str, tuple[HttpParameter, Any]]) -> str:
    """The path with its `{names}` filled in. Raises ToolError for values that would lead to another place."""

    def written(found: re.Match[str]) -> str:
        value, content = values[found[1]]
        text = _encode_path_value(value, content)
        if not text:
            raise ToolError(f"{value.argument} must not be empty: it is a part of the address.")
        return text

    path = _PLACEHOLDER.sub(written, template)
    for segment in path.split("/"):
        if {".", ".."} & set(re.split(r"[/\\]", unquote(segment))):
            raise ToolError("A value with . or .. as a part of a path is not sent.")
    return path


def placeholder_names(template: str) -> list[str]:
    """The names a template asks for, in order."""
    return _PLACEHOLDER.findall(template)


def encode_query(parameter: HttpParameter, content: Any) -> list[str]:
    """The pieces of a query, `name=text`, that carry one value; none for null."""
    if content is None:
        return []

    def text(part: Any) -> str:
        return quote(to_text(part), safe=RESERVED_CHARS if parameter.reserved else "", errors="replace")

    name = quote(parameter.name, safe="[]")
    if parameter.as_json or not isinstance(content, list | Mapping):
        return [f"{name}={text(_compact_json(content) if parameter.as_json else content)}"]
    if parameter.style == "deepObject" and isinstance(content, Mapping):
        return _encode_deep_object(name, content, text)
    if isinstance(content, Mapping):
        if parameter.explode:
            return [
                f"{quote(str(key), safe='[]', errors='replace')}={text(part)}"
                for key, part in content.items()
                if part is not None
            ]
        content = [each for key, part in content.items() for each in (key, part)]
    if parameter.explode:
        return [f"{name}={text(part)}" for part in content]
    return [f"{name}={_SEPARATORS.get(parameter.style, ',').join(map(text, content))}"]


def encode_header(parameter: HttpParameter, content: Any) -> str:
    """The text of a header. Raises ToolError for what a header cannot carry."""
    if parameter.as_json:
        written = _compact_json(content)
    else:
        written = _encode_simple(content, parameter.explode, to_text, ",")
    if not written.isascii() or not written.isprintable():
        raise ToolError(f"{parameter.argument} goes into a header, which carries plain ASCII text only.")
    return written.strip()


def to_text(content: Any) -> str:
    """One value as text: true, 3, null as nothing; lists and objects within others as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return _compact_json(content)


def _encode_path_value(parameter: HttpParameter, content: Any) -> str:
    def text(part: Any) -> str:
        return quote(to_text(part), safe="", errors="replace")

    if parameter.as_json:
        return text(_compact_json(content))
    if parameter.style == "matrix":
        return _encode_matrix(quote(parameter.name, safe=""), content, parameter.explode, text)
    if parameter.style == "label":
        return "." + _encode_simple(content, parameter.explode, text, "." if parameter.explode else ",")
    return _encode_simple(content, parameter.explode, text, ",")


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
            pieces += [f"{inner}={encode(each)}" for each in parts if each is not None]
    return pieces


def _compact_json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

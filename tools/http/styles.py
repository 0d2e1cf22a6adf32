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

Place = Literal["path", "query", "header"]
RESERVED = ":/?[]@!$'()*,;"  # what `allowReserved` lets stand; never & = + #, which would begin another value
STYLES: Mapping[str, frozenset[str]] = {
    "path": frozenset({"simple", "label", "matrix"}),
    "query": frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject"}),
    "header": frozenset({"simple"}),
}
_BETWEEN = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_NAMED = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Value:
    """One argument and where it goes: `name` is what the service calls it. `as_json`: written as JSON."""

    argument: str
    name: str
    place: Place
    style: str
    explode: bool
    reserved: bool = False
    as_json: bool = False


def path_of(template: str, given: Mapping[str, tuple[Value, Any]]) -> str:
    """The path with its `{names}` filled in. Raises ToolError for values that would lead to another place."""

    def written(found: re.Match[str]) -> str:
        value, content = given[found[1]]
        text = _of_path(value, content)
        if not text:
            raise ToolError(f"{value.argument} must not be empty: it is a part of the address.")
        return text

    path = _NAMED.sub(written, template)
    for segment in path.split("/"):
        if {".", ".."} & set(re.split(r"[/\\]", unquote(segment))):
            raise ToolError("A value with . or .. as a part of a path is not sent.")
    return path


def names_in(template: str) -> list[str]:
    """The names a template asks for, in order."""
    return _NAMED.findall(template)


def query_of(value: Value, content: Any) -> list[str]:
    """The pieces of a query, `name=text`, that carry one value; none for null."""
    if content is None:
        return []

    def text(part: Any) -> str:
        return quote(plain(part), safe=RESERVED if value.reserved else "", errors="replace")

    name = quote(value.name, safe="[]")
    if value.as_json or not isinstance(content, list | Mapping):
        return [f"{name}={text(_json(content) if value.as_json else content)}"]
    if value.style == "deepObject" and isinstance(content, Mapping):
        return _deep(name, content, text)
    if isinstance(content, Mapping):
        if value.explode:
            return [
                f"{quote(str(key), safe='[]', errors='replace')}={text(part)}"
                for key, part in content.items()
                if part is not None
            ]
        content = [each for key, part in content.items() for each in (key, part)]
    if value.explode:
        return [f"{name}={text(part)}" for part in content]
    return [f"{name}={_BETWEEN.get(value.style, ',').join(map(text, content))}"]


def header_of(value: Value, content: Any) -> str:
    """The text of a header. Raises ToolError for what a header cannot carry."""
    if value.as_json:
        written = _json(content)
    else:
        written = _simple(content, value.explode, plain, ",")
    if not written.isascii() or not written.isprintable():
        raise ToolError(f"{value.argument} goes into a header, which carries plain ASCII text only.")
    return written.strip()


def plain(content: Any) -> str:
    """One value as text: true, 3, null as nothing; lists and objects within others as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return _json(content)


def _of_path(value: Value, content: Any) -> str:
    def text(part: Any) -> str:
        return quote(plain(part), safe="", errors="replace")

    if value.as_json:
        return text(_json(content))
    if value.style == "matrix":
        return _matrix(quote(value.name, safe=""), content, value.explode, text)
    if value.style == "label":
        return "." + _simple(content, value.explode, text, "." if value.explode else ",")
    return _simple(content, value.explode, text, ",")


def _simple(content: Any, explode: bool, text: Callable[[Any], str], between: str) -> str:
    if isinstance(content, Mapping):
        pairs = [(text(str(key)), text(part)) for key, part in content.items()]
        if explode:
            return between.join(f"{key}={part}" for key, part in pairs)
        return ",".join(map(",".join, pairs))
    if isinstance(content, list):
        return between.join(map(text, content))
    return text(content)


def _matrix(name: str, content: Any, explode: bool, text: Callable[[Any], str]) -> str:
    if explode and isinstance(content, Mapping):
        return "".join(f";{text(str(key))}={text(part)}" for key, part in content.items())
    if explode and isinstance(content, list):
        return "".join(f";{name}={text(part)}" for part in content)
    return f";{name}={_simple(content, False, text, ',')}"


def _deep(name: str, content: Mapping[str, Any], text: Callable[[Any], str]) -> list[str]:
    pieces = []
    for key, part in content.items():
        inner = f"{name}[{quote(str(key), safe='', errors='replace')}]"
        if isinstance(part, Mapping):
            pieces += _deep(inner, part, text)
        else:
            parts = part if isinstance(part, list) else [part]
            pieces += [f"{inner}={text(each)}" for each in parts if each is not None]
    return pieces


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

"""Reads the argument list of a Gemma tool call and writes it anew as JSON, with the schema's types.

Pure and as lenient as vLLM's reader: nothing is refused, what does not fit stays a string.
"""

import json
from collections.abc import Mapping
from typing import Any

DELIMITER = '<|"|>'
_BLANKS = " ,\n\t"
_NOTHING = object()

Schema = Mapping[str, Any]
Pairs = list[tuple[str, Any]]


class _Reader:
    """A place in the text of an argument list; `cut` means that the text may go on later."""

    def __init__(self, text: str, *, cut: bool) -> None:
        self._text = text
        self._at = 0
        self._cut = cut

    def pairs(self, closing: str) -> Pairs:
        found: Pairs = []
        while not self._ended(closing):
            colon = self._text.find(":", self._at)
            if colon < 0:
                self._at = len(self._text)
                break
            key = self._text[self._at : colon].strip()
            key = key.removeprefix(DELIMITER).removesuffix(DELIMITER)
            self._at = colon + 1
            value = self._value()
            if value is not _NOTHING:
                found.append((key, value))
        return found

    def _ended(self, closing: str) -> bool:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1
        if self._at >= len(self._text):
            return True
        if closing and self._text[self._at] == closing:
            self._at += 1
            return True
        return False

    def _value(self) -> Any:
        while self._at < len(self._text) and self._text[self._at] in " \n\t":
            self._at += 1
        if self._text.startswith(DELIMITER, self._at):
            return self._string()
        opener = self._text[self._at : self._at + 1]
        if opener == "{":
            self._at += 1
            return dict(self.pairs("}"))
        if opener == "[":
            self._at += 1
            return self._list()
        return self._bare()

    def _string(self) -> str:
        start = self._at + len(DELIMITER)
        end = self._text.find(DELIMITER, start)
        # A string that is never closed swallows everything behind it.
        self._at = len(self._text) if end < 0 else end + len(DELIMITER)
        if end < 0:
            return self._text[start:]
        return self._text[start:end]

    def _list(self) -> list[Any]:
        items = []
        while not self._ended("]"):
            item = self._value()
            if item is not _NOTHING:
                items.append(item)
        return items

    def _bare(self) -> Any:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in ",}]":
            self._at += 1
        if self._at >= len(self._text):
            if self._cut:
                return _NOTHING
            return self._text[start:].strip()
        if self._at == start:
            self._at = len(self._text)
            return _NOTHING
        return self._text[start : self._at].strip()


def read(text: str, schema: Schema, *, cut: bool = False) -> Pairs:
    """The key and value pairs of `text`, a key given twice included; values have the schema's types where
    they fit.
    """
    body = text.strip()
    if body.endswith("}") or (body.endswith(")") and body.count("(") < body.count(")")):
        body = body[:-1]
    properties = schema.get("properties") or {}
    return [(key, _typed(value, properties.get(key))) for key, value in _Reader(body, cut=cut).pairs("")]


def as_json(pairs: Pairs) -> str:
    """The pairs as the endpoint writes them; of a key given twice the last value stays."""
    return json.dumps(dict(pairs), ensure_ascii=False)


def safe_prefix(pairs: Pairs, schema: Schema) -> str:
    """What a stream may already say of unfinished arguments: all but a last value that could still change its
    type.
    """
    if not pairs:
        return ""
    *done, (key, value) = dict(pairs).items()
    head = "".join(f"{_dump(name)}: {_dump(item)}, " for name, item in done)
    properties = schema.get("properties") or {}
    steady = not properties or _kinds(properties.get(key, {})) == {"string"}
    tail = _dump(value)[:-1] if isinstance(value, str) and steady else ""
    return f"{{{head}{_dump(key)}: {tail}"


def unrepeated(pairs: Pairs) -> Pairs:
    """The pairs in front of the first key that was there already."""
    seen: set[str] = set()
    for place, (key, _) in enumerate(pairs):
        if key in seen:
            return pairs[:place]
        seen.add(key)
    return pairs


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _typed(value: Any, schema: Schema | None) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, str):
        return _fitted(value, _kinds(schema))
    if isinstance(value, list):
        return [_typed(item, schema.get("items")) for item in value]
    properties = schema.get("properties") or {}
    return {key: _typed(item, properties.get(key)) for key, item in value.items()}


def _kinds(schema: Schema) -> set[str]:
    kind = schema.get("type")
    kinds = {kind} if isinstance(kind, str) else set(kind or ())
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds |= _kinds(branch)
    return kinds or {"string"}


def _fitted(text: str, kinds: set[str]) -> Any:
    """The first kind that fits, from the narrowest to the widest."""
    for kind in ("null", "integer", "number", "boolean", "object", "array"):
        if kind in kinds or (kind == "null" and kinds != {"string"}):
            value = _READ[kind](text)
            if value is not _NOTHING:
                return value
    if "string" in kinds:
        return text
    return _from_json(text, object)


def _null(text: str) -> Any:
    if text.lower() == "null":
        return None
    return _NOTHING


def _integer(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return _NOTHING


def _number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return _NOTHING
    if value != value or value in (float("inf"), float("-inf")):
        return _NOTHING
    if value.is_integer():
        return int(value)
    return value


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), _NOTHING)


def _from_json(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = _NOTHING
    if kind is object:
        if value is _NOTHING:
            return text
        return value
    if isinstance(value, kind):
        return value
    return _NOTHING


_READ: Mapping[str, Any] = {
    "null": _null,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": lambda text: _from_json(text, dict),
    "array": lambda text: _from_json(text, list),
}

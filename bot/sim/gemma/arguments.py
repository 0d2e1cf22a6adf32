"""Reads the argument list of a Gemma tool call and writes it as JSON, with the schema's types.

Pure, and as lenient as vLLM's reader: nothing is refused, what does not fit stays a string.
"""

import json
from collections.abc import Mapping
from typing import Any

DELIMITER = '<|"|>'
_BLANKS = " ,\n\t"
_MISSING = object()

Schema = Mapping[str, Any]
Pairs = list[tuple[str, Any]]


class _ArgumentReader:
    """A position in the text of an argument list; `is_partial`: the text may continue later."""

    def __init__(self, text: str, *, is_partial: bool) -> None:
        self._text = text
        self._position = 0
        self._is_partial = is_partial

    def read_pairs(self, closing: str) -> Pairs:
        pairs: Pairs = []
        while not self._consume_end(closing):
            colon = self._text.find(":", self._position)
            if colon < 0:
                self._position = len(self._text)
                break
            key = self._text[self._position : colon].strip()
            key = key.removeprefix(DELIMITER).removesuffix(DELIMITER)
            self._position = colon + 1
            value = self._read_value()
            if value is not _MISSING:
                pairs.append((key, value))
        return pairs

    def _consume_end(self, closing: str) -> bool:
        while self._position < len(self._text) and self._text[self._position] in _BLANKS:
            self._position += 1
        if self._position >= len(self._text):
            return True
        if closing and self._text[self._position] == closing:
            self._position += 1
            return True
        return False

    def _read_value(self) -> Any:
        while self._position < len(self._text) and self._text[self._position] in " \n\t":
            self._position += 1
        if self._text.startswith(DELIMITER, self._position):
            return self._read_string()
        opener = self._text[self._position : self._position + 1]
        if opener == "{":
            self._position += 1
            return dict(self.read_pairs("}"))
        if opener == "[":
            self._position += 1
            return self._read_list()
        return self._read_bare_value()

    def _read_string(self) -> str:
        start = self._position + len(DELIMITER)
        end = self._text.find(DELIMITER, start)
        # A string that is never closed swallows everything behind it.
        self._position = len(self._text) if end < 0 else end + len(DELIMITER)
        if end < 0:
            return self._text[start:]
        return self._text[start:end]

    def _read_list(self) -> list[Any]:
        items = []
        while not self._consume_end("]"):
            item = self._read_value()
            if item is not _MISSING:
                items.append(item)
        return items

    def _read_bare_value(self) -> Any:
        start = self._position
        while self._position < len(self._text) and self._text[self._position] not in ",}]":
            self._position += 1
        if self._position >= len(self._text):
            if self._is_partial:
                return _MISSING
            return self._text[start:].strip()
        if self._position == start:
            self._position = len(self._text)
            return _MISSING
        return self._text[start : self._position].strip()


def parse_arguments(text: str, schema: Schema, *, is_partial: bool = False) -> Pairs:
    """The key and value pairs of `text`, repeated keys included.

    Values have the schema's types where they fit.
    """
    body = text.strip()
    if body.endswith("}") or (body.endswith(")") and body.count("(") < body.count(")")):
        body = body[:-1]
    properties = schema.get("properties") or {}
    return [
        (key, _convert(value, properties.get(key)))
        for key, value in _ArgumentReader(body, is_partial=is_partial).read_pairs("")
    ]


def to_json(pairs: Pairs) -> str:
    """The pairs as the endpoint writes them; the last value of a repeated key wins."""
    return json.dumps(dict(pairs), ensure_ascii=False)


def stable_json_prefix(pairs: Pairs, schema: Schema) -> str:
    """The part of unfinished arguments that a stream may already send.

    All but a last value whose type could still change.
    """
    if not pairs:
        return ""
    *done, (key, value) = dict(pairs).items()
    head = "".join(f"{_dump(name)}: {_dump(item)}, " for name, item in done)
    properties = schema.get("properties") or {}
    steady = not properties or _allowed_types(properties.get(key, {})) == {"string"}
    tail = _dump(value)[:-1] if isinstance(value, str) and steady else ""
    return f"{{{head}{_dump(key)}: {tail}"


def drop_repeated_keys(pairs: Pairs) -> Pairs:
    """The pairs before the first repeated key."""
    seen: set[str] = set()
    for place, (key, _) in enumerate(pairs):
        if key in seen:
            return pairs[:place]
        seen.add(key)
    return pairs


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _convert(value: Any, schema: Schema | None) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, str):
        return _convert_text(value, _allowed_types(schema))
    if isinstance(value, list):
        return [_convert(item, schema.get("items")) for item in value]
    properties = schema.get("properties") or {}
    return {key: _convert(item, properties.get(key)) for key, item in value.items()}


def _allowed_types(schema: Schema) -> set[str]:
    kind = schema.get("type")
    kinds = {kind} if isinstance(kind, str) else set(kind or ())
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds |= _allowed_types(branch)
    return kinds or {"string"}


def _convert_text(text: str, allowed_types: set[str]) -> Any:
    """The first type that fits, from the narrowest to the widest."""
    for kind in ("null", "integer", "number", "boolean", "object", "array"):
        if kind in allowed_types or (kind == "null" and allowed_types != {"string"}):
            value = _CONVERTERS[kind](text)
            if value is not _MISSING:
                return value
    if "string" in allowed_types:
        return text
    return _from_json(text, object)


def _to_null(text: str) -> Any:
    if text.lower() == "null":
        return None
    return _MISSING


def _to_integer(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return _MISSING


def _to_number(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return _MISSING
    if value != value or value in (float("inf"), float("-inf")):
        return _MISSING
    if value.is_integer():
        return int(value)
    return value


def _to_boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), _MISSING)


def _from_json(text: str, python_type: type) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = _MISSING
    if python_type is object:
        if value is _MISSING:
            return text
        return value
    if isinstance(value, python_type):
        return value
    return _MISSING


_CONVERTERS: Mapping[str, Any] = {
    "null": _to_null,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "object": lambda text: _from_json(text, dict),
    "array": lambda text: _from_json(text, list),
}

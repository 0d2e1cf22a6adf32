"""Writes the arguments of a tool as a type of TypeScript: a third of what JSON Schema takes. Pure.

For texts in which many tools stand beside each other. Models read this notation well; what it leaves out
(descriptions, bounds, patterns) is checked all the same when the tool is called. Its schemas are those of
tools.registry, with the keywords that the model's template renders and no others.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_OPTIONS = 4  # of a union, that are written out
_REST = "…"
# How deep objects are written, and how many choices of an argument; the next is taken where one is too long.
_DETAILS = ((4, 8), (2, 8), (2, 4), (1, 8), (1, 4), (1, 0))


def write_arguments(schema: Mapping[str, Any], max_chars: int) -> str:
    """The arguments as `{name: type, optional?: type}`, in as much detail as fits into `max_chars`.

    Required ones come first and are always there, so a tool that requires very much takes more; `…` stands
    for names that do not fit.
    """
    text = ""
    for depth, max_choices in _DETAILS:
        text = _TypeWriter(max_choices).write_object(schema, depth)
        if len(text) <= max_chars:
            return text
    return _write_names(schema, max_chars)


class _TypeWriter:
    """Writes types, with at most `max_choices` choices each; 0: with the type of the choices instead."""

    def __init__(self, max_choices: int) -> None:
        self._max_choices = max_choices

    def write_object(self, schema: Mapping[str, Any], depth: int) -> str:
        if depth <= 0:
            return "object"
        fields = schema.get("properties")
        if isinstance(fields, Mapping):
            required = _list_required(schema)
            optional = [name for name in fields if name not in required]
            parts = [self.write_field(name, fields.get(name), depth) for name in required]
            parts += [self.write_field(f"{name}?", fields[name], depth) for name in optional]
            return f"{{{', '.join(parts)}}}"
        return "object"

    def write_field(self, name: str, schema: object, depth: int) -> str:
        return f"{name}: {self._write_type(schema, depth - 1)}"

    def _write_type(self, schema: object, depth: int) -> str:
        if not isinstance(schema, Mapping):
            return "any"
        choices = schema.get("enum")
        if isinstance(choices, list) and choices and self._max_choices:
            written = [json.dumps(choice, ensure_ascii=False) for choice in choices]
            return _join_options(written, self._max_choices)
        kinds = schema.get("type", "any")
        if isinstance(kinds, list):
            return _join_options([self._write_kind(str(kind), schema, depth) for kind in kinds], MAX_OPTIONS)
        return self._write_kind(str(kinds), schema, depth)

    def _write_kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            item = self._write_type(schema.get("items"), depth)
            if "|" in item:
                return f"({item})[]"
            return f"{item}[]"
        if kind == "object" or isinstance(schema.get("properties"), Mapping):
            return self.write_object(schema, depth)
        return kind


def _write_names(schema: Mapping[str, Any], max_chars: int) -> str:
    """What is required with its type, and the names of other arguments as far as they fit."""
    fields = schema.get("properties") or {}
    required = _list_required(schema)
    parts = [_TypeWriter(0).write_field(name, fields.get(name), 1) for name in required]
    for name in fields:
        if name in required:
            continue
        if len(", ".join([*parts, f"{name}?", _REST])) + len("{}") > max_chars:
            parts.append(_REST)
            break
        parts.append(f"{name}?")
    return f"{{{', '.join(parts)}}}"


def _list_required(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    if isinstance(required, list):
        return [name for name in required if isinstance(name, str)]
    return []


def _join_options(options: Sequence[str], limit: int) -> str:
    if len(options) > limit:
        options = [*options[:limit], _REST]
    return "|".join(options)

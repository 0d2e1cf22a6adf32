"""Makes of a stranger's JSON schema the two a tool has: what arguments are checked against, what the model is
told.

Pure and bounded. The model's template renders description, type, enum of strings, items, properties, required
and nullable; whatever else limits a value is put into words here, and what cannot be told is reported to the
admin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.safety.injection import harmless
from tools.schemas.choices import kind_of, names_of, one_of
from tools.schemas.describe_limits import words_of
from tools.schemas.resolve import checkable
from tools.schemas.signature import ToolDefinitionError

LEVELS = 5  # objects and lists within one another that the model is told; the rest is free to it
SIZE = 4000  # characters of what it is told, some 1,000 tokens of every prompt; fewer levels are told beyond
LENGTH = 400  # characters of one description

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reduced:
    """`schema` is what the model is told, `checked` what arguments are checked against, `reported` what an
    admin should know about the difference to the original, a sentence each."""

    schema: Schema
    checked: Schema
    reported: tuple[str, ...]


def reduced(schema: object, within: object = None) -> Reduced:
    """Both schemas of an object of arguments; `#/…` is looked up in `within`, or in the schema itself.

    Raises ToolDefinitionError, saying what to do, for what describes no object and for references that lead
    elsewhere.
    """
    if not isinstance(schema, Mapping):
        raise ToolDefinitionError("the schema of the arguments must be a JSON object")
    made = checkable(schema, within)
    checked = _of_arguments(made.schema)
    for levels in range(LEVELS, 0, -1):
        teller = _Teller(levels)
        told = teller.told(checked, "", 0)
        if len(str(told)) <= SIZE:
            break
    return Reduced(
        {"type": "object", "properties": told.get("properties", {}), **_named(told)},
        checked,
        (*made.reported, *teller.reported),
    )


def _of_arguments(schema: Schema) -> Schema:
    """The schema as that of an object with named arguments, all of them in `properties`."""
    if schema.get("type", "object") != "object":
        raise ToolDefinitionError(
            f"arguments are an object with named values, not {schema['type']}: describe an object with properties"
        )
    known = schema.get("properties", {})
    for choice in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(choice, ()):
            known = {**option.get("properties", {}), **known}
    named: Schema = {name: {} for name in schema.get("required", ()) if name not in known}
    checked = {**schema, "type": "object", "properties": {**known, **named}}
    checked.pop("nullable", None)
    return checked


def _named(told: Schema) -> Schema:
    if told.get("required"):
        return {"required": told["required"]}
    return {}


class _Teller:
    """Tells one schema to so many levels; keeps what it could not tell."""

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._reported: dict[str, None] = {}

    @property
    def reported(self) -> tuple[str, ...]:
        return tuple(self._reported)[:20]

    def _report(self, path: str, why: str) -> None:
        self._reported[f"{path or 'the schema'} {why}"] = None

    def told(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        schema = self._one(schema, path)
        kind = kind_of(schema)
        told: Schema = {"type": kind}
        words = words_of(schema)
        if kind == "object":
            told |= self._object(schema, path, level)
        elif kind == "array":
            told |= self._array(schema, path, level)
        elif kind == "string" and (names := names_of(schema)):
            told["enum"] = names
        if schema.get("nullable") is True:
            told["nullable"] = True
        description = self._described(schema.get("description", ""), words, path)
        if description:
            return {"description": description, **told}
        return told

    def _described(self, text: str, words: list[str], path: str) -> str:
        room = LENGTH - sum(len(each) + 2 for each in words)
        text = harmless(text)
        if len(text) > max(room, 40):
            self._report(path, f"has a description of {len(text)} characters, of which the beginning is told")
            text = text[: max(room, 40)].rstrip() + "…"
        limits = "; ".join(words)
        if not text or not limits:
            if limits:
                return harmless(limits)
            return text
        return harmless(f"{text.removesuffix('.')} ({limits})")

    def _object(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        properties = schema.get("properties", {})
        if not properties:
            return {}
        if level == self._levels:
            self._report(
                path, f"is nested more than {self._levels} deep; what is inside is checked but not told"
            )
            return {}
        told = {}
        for name, inner in properties.items():
            if harmless(name) == name:
                told[name] = self.told(inner, f"{path}.{name}".strip(".")[:120], level + 1)
            else:
                self._report(path, "has a name that the model cannot be told; it is left out")
        needed = sorted(name for name in schema.get("required", ()) if name in told)
        return {"properties": told, **({"required": needed} if needed else {})}

    def _array(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items:
            return {}
        if level == self._levels:
            self._report(
                path, f"is nested more than {self._levels} deep; what is inside is checked but not told"
            )
            return {}
        return {"items": self.told(items, f"{path}[]", level + 1)}

    def _one(self, schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """One of the choices, with the others in words: the template renders no choice."""
        for keyword in (
            "if",
            "not",
            "dependentSchemas",
            "dependentRequired",
            "patternProperties",
            "propertyNames",
        ):
            if keyword in schema:
                self._report(path, f"has {keyword}, which is checked but not told")
        if "allOf" in schema:
            self._report(path, "has conditions under allOf that are checked but not all told")
        options = schema.get("anyOf") or schema.get("oneOf")
        if not options:
            return schema
        self._report(path, "is a choice, which is told in words")
        rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
        return one_of(rest, options)

"""Derives what the model is told of arguments from the schema that they are checked against.

Pure and bounded. The model's template renders description, type, enum of strings, items, properties, required
and nullable; everything else that limits a value is put into words here, and what cannot be told is reported
to the admin. Derived each time a tool is made and no part of its hash, so that it can be improved without a
grant being lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.safety.injection import neutralize
from tools.schemas.choices import infer_type, list_enum_names, merge_options
from tools.schemas.describe_limits import describe_limits

MAX_LEVELS = 5  # of nested objects and lists that the model is shown; deeper ones are open to it
# Of the schema shown to the model, some 1,000 tokens of every prompt; a longer one is shown in fewer levels.
MAX_MODEL_SCHEMA_CHARS = 4000
MAX_DESCRIPTION_CHARS = 400  # of one description
MIN_DESCRIPTION_CHARS = 40  # of a description that are kept however long the limits in words are
UNRENDERED_KEYWORDS = (
    "if",
    "not",
    "dependentSchemas",
    "dependentRequired",
    "patternProperties",
    "propertyNames",
)

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToldSchema:
    """The schema that the model is told; `warnings` are what an admin should know it leaves out."""

    schema: Schema
    warnings: tuple[str, ...]


def build_told_schema(checked: Mapping[str, Any]) -> ToldSchema:
    """What the model is told of the arguments that `checked` (`tools.schemas.resolve`) checks."""
    for levels in range(MAX_LEVELS, 0, -1):
        builder = _ModelSchemaBuilder(levels)
        shown = builder.build(checked, "", 0)
        if len(str(shown)) <= MAX_MODEL_SCHEMA_CHARS:
            break
    told = {"type": "object", "properties": shown.get("properties", {})}
    if shown.get("required"):
        told["required"] = shown["required"]
    return ToldSchema(told, builder.warnings)


class _ModelSchemaBuilder:
    """Builds the schema shown to the model, down to `levels`; keeps warnings of what it could not show."""

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)[:20]

    def _warn(self, path: str, reason: str) -> None:
        self._warnings[f"{path or 'the schema'} {reason}"] = None

    def build(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        schema = self._flatten_choice(schema, path)
        kind = infer_type(schema)
        shown: Schema = {"type": kind}
        if kind == "object":
            shown |= self._build_object(schema, path, level)
        elif kind == "array":
            shown |= self._build_array(schema, path, level)
        elif kind == "string" and (names := list_enum_names(schema)):
            shown["enum"] = names
        if schema.get("nullable") is True:
            shown["nullable"] = True
        description = self._describe(schema.get("description", ""), describe_limits(schema), path)
        if description:
            return {"description": description, **shown}
        return shown

    def _describe(self, text: str, constraints: list[str], path: str) -> str:
        constraint_chars = sum(len(constraint) + 2 for constraint in constraints)
        max_chars = max(MAX_DESCRIPTION_CHARS - constraint_chars, MIN_DESCRIPTION_CHARS)
        text = neutralize(text)
        if len(text) > max_chars:
            self._warn(path, f"has a description of {len(text)} characters, of which the beginning is told")
            text = text[:max_chars].rstrip() + "…"
        limits = "; ".join(constraints)
        if not limits:
            return text
        if not text:
            return neutralize(limits)
        return neutralize(f"{text.removesuffix('.')} ({limits})")

    def _build_object(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        properties = schema.get("properties", {})
        if not properties:
            return {}
        if self._is_too_deep(path, level):
            return {}
        shown = {}
        for name, inner in properties.items():
            if neutralize(name) == name:
                shown[name] = self.build(inner, f"{path}.{name}".strip(".")[:120], level + 1)
            else:
                self._warn(path, "has a name that the model cannot be told; it is left out")
        required = sorted({name for name in schema.get("required", ()) if name in shown})
        if required:
            return {"properties": shown, "required": required}
        return {"properties": shown}

    def _build_array(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items:
            return {}
        if self._is_too_deep(path, level):
            return {}
        return {"items": self.build(items, f"{path}[]", level + 1)}

    def _is_too_deep(self, path: str, level: int) -> bool:
        if level < self._levels:
            return False
        self._warn(path, f"is nested more than {self._levels} deep; what is inside is checked but not told")
        return True

    def _flatten_choice(self, schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """One of the choices, with the others in words: the template renders no choice."""
        for keyword in UNRENDERED_KEYWORDS:
            if keyword in schema:
                self._warn(path, f"has {keyword}, which is checked but not told")
        if "allOf" in schema:
            self._warn(path, "has conditions under allOf that are checked but not all told")
        options = schema.get("anyOf") or schema.get("oneOf")
        if not options:
            return schema
        self._warn(path, "is a choice, which is told in words")
        rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
        return merge_options(rest, options)

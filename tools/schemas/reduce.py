"""Makes of a stranger's JSON schema the two a tool has: what arguments are checked against, what the model is
told.

Pure and bounded. The model's template renders description, type, enum of strings, items, properties, required
and nullable; whatever else limits a value is put into words here, and what cannot be told is reported to the
admin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.safety.injection import neutralize
from tools.schemas.choices import infer_type, list_enum_names, merge_options
from tools.schemas.describe_limits import describe_limits
from tools.schemas.resolve import resolve_schema
from tools.schemas.signature import ToolDefinitionError

MAX_LEVELS = 5  # objects and lists within one another that the model is told; the rest is free to it
MAX_MODEL_SCHEMA_CHARS = (
    4000  # characters of what it is told, some 1,000 tokens of every prompt; fewer levels are told beyond
)
MAX_DESCRIPTION_CHARS = 400  # characters of one description

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaPair:
    """`schema` is what the model is told, `checked` what arguments are checked against, `reported` what an
    admin should know about the difference to the original, a sentence each."""

    model_schema: Schema
    input_schema: Schema
    warnings: tuple[str, ...]


def reduce_schema(schema: object, document: object = None) -> SchemaPair:
    """Both schemas of an object of arguments; `#/…` is looked up in `within`, or in the schema itself.

    Raises ToolDefinitionError, saying what to do, for what describes no object and for references that lead
    elsewhere.
    """
    if not isinstance(schema, Mapping):
        raise ToolDefinitionError("the schema of the arguments must be a JSON object")
    made = resolve_schema(schema, document)
    checked = _to_object_schema(made.schema)
    for levels in range(MAX_LEVELS, 0, -1):
        teller = _ModelSchemaBuilder(levels)
        told = teller.build(checked, "", 0)
        if len(str(told)) <= MAX_MODEL_SCHEMA_CHARS:
            break
    return SchemaPair(
        {"type": "object", "properties": told.get("properties", {}), **_required_of(told)},
        checked,
        (*made.warnings, *teller.warnings),
    )


def _to_object_schema(schema: Schema) -> Schema:
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


def _required_of(schema: Schema) -> Schema:
    if schema.get("required"):
        return {"required": schema["required"]}
    return {}


class _ModelSchemaBuilder:
    """Tells one schema to so many levels; keeps what it could not tell."""

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
        told: Schema = {"type": kind}
        words = describe_limits(schema)
        if kind == "object":
            told |= self._build_object(schema, path, level)
        elif kind == "array":
            told |= self._build_array(schema, path, level)
        elif kind == "string" and (names := list_enum_names(schema)):
            told["enum"] = names
        if schema.get("nullable") is True:
            told["nullable"] = True
        description = self._describe(schema.get("description", ""), words, path)
        if description:
            return {"description": description, **told}
        return told

    def _describe(self, text: str, constraints: list[str], path: str) -> str:
        room = MAX_DESCRIPTION_CHARS - sum(len(each) + 2 for each in constraints)
        text = neutralize(text)
        if len(text) > max(room, 40):
            self._warn(path, f"has a description of {len(text)} characters, of which the beginning is told")
            text = text[: max(room, 40)].rstrip() + "…"
        limits = "; ".join(constraints)
        if not text or not limits:
            if limits:
                return neutralize(limits)
            return text
        return neutralize(f"{text.removesuffix('.')} ({limits})")

    def _build_object(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        properties = schema.get("properties", {})
        if not properties:
            return {}
        if level == self._levels:
            self._warn(
                path, f"is nested more than {self._levels} deep; what is inside is checked but not told"
            )
            return {}
        told = {}
        for name, inner in properties.items():
            if neutralize(name) == name:
                told[name] = self.build(inner, f"{path}.{name}".strip(".")[:120], level + 1)
            else:
                self._warn(path, "has a name that the model cannot be told; it is left out")
        needed = sorted(name for name in schema.get("required", ()) if name in told)
        return {"properties": told, **({"required": needed} if needed else {})}

    def _build_array(self, schema: Mapping[str, Any], path: str, level: int) -> Schema:
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items:
            return {}
        if level == self._levels:
            self._warn(
                path, f"is nested more than {self._levels} deep; what is inside is checked but not told"
            )
            return {}
        return {"items": self.build(items, f"{path}[]", level + 1)}

    def _flatten_choice(self, schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
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
                self._warn(path, f"has {keyword}, which is checked but not told")
        if "allOf" in schema:
            self._warn(path, "has conditions under allOf that are checked but not all told")
        options = schema.get("anyOf") or schema.get("oneOf")
        if not options:
            return schema
        self._warn(path, "is a choice, which is told in words")
        rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
        return merge_options(rest, options)

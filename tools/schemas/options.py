"""The options of a choice between schemas, and which of them a value belongs to. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from tools.schemas.kinds import Kinds, find_kinds

Schema = Mapping[str, Any]

CLOSED: Schema = {"not": {}}  # `additionalProperties: false` as `tools.schemas.resolve` writes it

_QUOTED_TEXT = re.compile(r"""(["'])((?:(?!\1).)*)\1""", re.DOTALL)
_CHOICE_KEYWORDS = ("anyOf", "oneOf")
_TEXT_KEYWORDS = frozenset({"pattern", "x-pattern", "minLength", "maxLength", "format"})
_NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


def list_options(schema: Schema) -> list[dict[str, Any]]:
    """The schemas that a choice, or a list of types, is between; each with what holds for all of them."""
    for keyword in _CHOICE_KEYWORDS:
        if schema.get(keyword):
            rest = {name: value for name, value in schema.items() if name not in _CHOICE_KEYWORDS}
            return [_join_option(rest, option) for option in schema[keyword]]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    return []


def _join_option(rest: Schema, option: Schema) -> dict[str, Any]:
    joined = {**rest, **option}
    if "properties" in rest:
        joined["properties"] = {**rest["properties"], **option.get("properties", {})}
    if "required" in rest:
        joined["required"] = [*rest["required"], *option.get("required", ())]
    return joined


def find_option(value: object, options: Sequence[Schema]) -> int | None:
    """The place of the option that an object belongs to by its kind; None: nothing says so."""
    kinds = find_object_kinds(options)
    if kinds is None or not isinstance(value, Mapping):
        return None
    chosen = kinds.find_option(match_choice(value.get(kinds.name), kinds.list_values()))
    if chosen is None:
        return None
    return [place for place, option in enumerate(options) if option.get("properties")][chosen]


def find_object_kinds(options: Sequence[Schema]) -> Kinds | None:
    """What tells the options that are objects apart."""
    return find_kinds([option for option in options if option.get("properties")])


def find_nearest_option(value: object, options: Sequence[Schema]) -> int:
    """The place of the option that a value which fits none comes nearest to."""

    def count_matches(place: int) -> tuple[bool, int]:
        option = options[place]
        if not isinstance(value, Mapping):
            return Draft202012Validator({"type": option.get("type", "string")}).is_valid(value), 0
        names = set(option.get("properties", {}))
        missing = set(option.get("required", ())) - set(value)
        return find_type(option) == "object", len(names & set(value)) - len(missing)

    return max(range(len(options)), key=count_matches)


def find_type(schema: Schema) -> str:
    """The type that a schema has or implies; empty if it says nothing."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if schema.get("enum") or "const" in schema:
        return "enum"
    if schema.get("properties") or "additionalProperties" in schema or "patternProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if _TEXT_KEYWORDS & set(schema):
        return "string"
    if _NUMBER_KEYWORDS & set(schema):
        return "number"
    return ""


def match_choice(value: Any, choices: Sequence[Any]) -> Any:
    """The choice that is spelled alike, whatever its case; or the value unchanged."""
    if not isinstance(value, str) or value in choices:
        return value
    word = strip_quotes(value).strip().lower()
    alike = [choice for choice in choices if _spell(choice).lower() == word]
    if len(alike) == 1:
        return alike[0]
    return value


def _spell(choice: object) -> str:
    if isinstance(choice, str):
        return choice
    return json.dumps(choice)


def strip_quotes(text: str) -> str:
    """Text without a second layer of quotes, which the model writes when it takes the call for JSON."""
    quoted = _QUOTED_TEXT.fullmatch(text.strip())
    if quoted:
        return quoted[2]
    return text


def expand_nullable(schema: Any) -> Any:
    """The same schema in standard JSON Schema, which has no `nullable`; closed objects are closed by name."""
    if isinstance(schema, list):
        return [expand_nullable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    expanded = {key: expand_nullable(value) for key, value in schema.items()}
    if expanded.get("additionalProperties") == CLOSED:
        expanded["additionalProperties"] = False
    if schema.get("nullable") is not True:
        return expanded
    return {"description": schema.get("description", ""), "anyOf": [expanded, {"type": "null"}]}

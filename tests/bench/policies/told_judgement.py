"""Judges what the model is told of a schema: bare objects, and names and choices that are hidden. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from tools.safety.injection import neutralize
from tools.schemas.choices import flatten_choice, infer_type, list_enum_names

Schema = Mapping[str, Any]


class Gap(NamedTuple):
    """Something that is checked and not told, and where."""

    kind: Literal["bare object", "required name", "choices"]
    path: str


def find_gaps(checked: Schema, told: Schema, path: str = "") -> Iterator[Gap]:
    """What is missing in the told schema at and below this place.

    A name counts as told where it has a schema, and where it stands in the words of the object.
    """
    checked = flatten_choice(checked)
    kind = infer_type(checked)
    if kind == "object":
        yield from _find_gaps_of_object(checked, told, path)
    elif kind == "array" and isinstance(checked.get("items"), Mapping):
        items = checked["items"]
        inner = told.get("items", {"type": "object", "description": told.get("description", "")})
        yield from find_gaps(items, inner, f"{path}[]")
    elif len(set(list_enum_names(checked))) > 1 and "enum" not in told and not _has_choice_words(told):
        yield Gap("choices", path)


def _has_choice_words(told: Schema) -> bool:
    words = told.get("description", "")
    return "one of " in words or "either " in words


def _find_gaps_of_object(checked: Schema, told: Schema, path: str) -> Iterator[Gap]:
    names = [name for name in checked.get("properties", {}) if neutralize(name) == name]
    words = told.get("description", "")
    told_properties = told.get("properties", {})
    if names and not told_properties and not ("needs " in words or "takes " in words):
        yield Gap("bare object", path)
        return
    for name in names:
        inner = checked["properties"][name]
        if name in told_properties:
            yield from find_gaps(inner, told_properties[name], f"{path}.{name}".strip("."))
        elif name in checked.get("required", ()) and "x-default" not in inner and name not in words:
            yield Gap("required name", f"{path}.{name}".strip("."))

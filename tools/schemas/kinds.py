"""The property that tells the options of a choice apart, such as `kind` or `type`. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kinds:
    """A property that has other values in each option: its name, and those values by option."""

    name: str
    values: tuple[tuple[Any, ...], ...]

    def find_option(self, value: object) -> int | None:
        """The option that an object with this value of the property belongs to."""
        for index, values in enumerate(self.values):
            if value in values:
                return index
        return None

    def list_values(self) -> list[Any]:
        return [value for values in self.values for value in values]


def find_kinds(options: Sequence[Mapping[str, Any]]) -> Kinds | None:
    """The first property that all options have and whose values say which of them is meant."""
    if len(options) < 2:
        return None
    for name in options[0].get("properties", {}):
        values = tuple(
            tuple(list_allowed_values(option.get("properties", {}).get(name, {}))) for option in options
        )
        texts = [json.dumps(value, sort_keys=True) for option_values in values for value in option_values]
        if all(values) and len(set(texts)) == len(texts):
            return Kinds(name, values)
    return None


def list_allowed_values(schema: Mapping[str, Any]) -> list[Any]:
    """The values of an enum or a constant; none when the schema has neither."""
    if schema.get("enum"):
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    return []

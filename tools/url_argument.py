"""Which argument of a stranger's tool is an address it opens. Pure."""

from collections.abc import Mapping
from typing import Any

WORDS = ("url", "uri")  # names, and formats of JSON Schema


def opens(schema: Mapping[str, Any], kept: Mapping[str, Any]) -> str | None:
    """The first argument that is an address, by its format or its name: what it leads to is judged before a
    call.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    for name, one in properties.items():
        is_address = name in WORDS or (isinstance(one, dict) and one.get("format") in WORDS)
        if is_address and name in kept.get("properties", {}):
            return str(name)
    return None

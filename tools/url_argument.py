"""Finds the argument of a registered tool that is an address it opens. Pure.

Alone because both `tools.http` and `tools.mcp` use it.
"""

from collections.abc import Mapping
from typing import Any

URL_WORDS = ("url", "uri")  # names, and formats of JSON Schema


def find_url_argument(schema: Mapping[str, Any], checked_schema: Mapping[str, Any]) -> str | None:
    """The first argument that is an address, by its format or its name; None: there is none.

    The address it holds is judged before a call.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    for name, property_schema in properties.items():
        has_url_format = isinstance(property_schema, dict) and property_schema.get("format") in URL_WORDS
        if (has_url_format or name in URL_WORDS) and name in checked_schema.get("properties", {}):
            return str(name)
    return None

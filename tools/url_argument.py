"""Which argument of a stranger's tool is an address it opens. Pure."""

from collections.abc import Mapping
from typing import Any

URL_WORDS = ("url", "uri")  # names, and formats of JSON Schema


def find_url_argument(schema: Mapping[str, Any], checked_schema: Mapping[str, Any]) -> str | None:
    """The first argument that is an address, by its format or its name: what it leads to is judged before a
    call.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    for name, one in properties.items():
        is_address = name in URL_WORDS or (isinstance(one, dict) and one.get("format") in URL_WORDS)
        if is_address and name in checked_schema.get("properties", {}):
            return str(name)
    return None

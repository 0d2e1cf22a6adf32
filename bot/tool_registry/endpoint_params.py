"""Parses what an admin writes about one plain endpoint: its address, and its parameters, a line each.

Pure.
"""

import re
from collections.abc import Iterable
from typing import Any

from bot.errors import ChangeRefused
from bot.translations.translator import defer, translatable

PARAMETER_HELP = translatable(
    "A parameter is written as `city: the city's name`, or `days (integer, optional): how many days`."
)
_TYPES = ("string", "integer", "number", "boolean")
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_][\w-]{0,63})\s*"
    rf"(?:\((?P<type>{'|'.join(_TYPES)})?\s*,?\s*(?P<optional>optional)?\s*\))?"
    r"\s*:\s*(?P<description>\S.*)"
)


def build_parameter_schema(parameters: Iterable[str]) -> dict[str, Any]:
    """Build the JSON Schema of parameters, a line each. Raises ChangeRefused for one that cannot be read."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for line in parameters:
        match = _PARAMETER.fullmatch(line.strip())
        if match is None:
            raise ChangeRefused(
                "{line} doesn't describe a parameter. {help}",
                line=repr(line[:60]),
                help=defer(PARAMETER_HELP),
            )
        properties[match["name"]] = {
            "type": match["type"] or "string",
            "description": match["description"].strip(),
        }
        if not match["optional"]:
            required.append(match["name"])
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def suggest_name(address: str) -> str:
    """Suggest a name for what is at an address: the last label of its host that says something."""
    host = re.sub(r"^[a-z]+://", "", address.lower()).partition("/")[0].partition(":")[0]
    labels = host.split(".")[:-1] or [host]
    telling = [label for label in labels if label not in {"www", "api", "mcp", "co", "com"}]
    name = re.sub(r"[^a-z0-9]+", "_", telling[-1] if telling else "").strip("_")
    if name[:1].isalpha():
        return name[:30]
    return f"at_{name}"[:30].rstrip("_")

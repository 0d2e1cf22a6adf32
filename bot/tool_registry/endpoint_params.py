"""Reads what an admin writes about one plain endpoint: what it does, and its parameters, a line each. Pure."""

import re
from collections.abc import Iterable
from typing import Any

from bot.errors import ChangeRefused

PARAMETER_HELP = (
    "A parameter is written as `city: the city's name`, or `days (integer, optional): how many days`."
)
_TYPES = ("string", "integer", "number", "boolean")
_PARAMETER = re.compile(
    rf"(?P<name>[A-Za-z_][\w-]{{0,63}})\s*(?:\((?P<kind>{'|'.join(_TYPES)})?\s*,?\s*(?P<optional>optional)?\s*\))?"
    r"\s*:\s*(?P<what>\S.*)"
)


def build_parameter_schema(parameters: Iterable[str]) -> dict[str, Any]:
    """The JSON Schema of parameters, a line each. Raises ChangeRefused for one that cannot be read."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for line in parameters:
        found = _PARAMETER.fullmatch(line.strip())
        if found is None:
            raise ChangeRefused(f"{line[:60]!r} describes no parameter. {PARAMETER_HELP}")
        properties[found["name"]] = {"type": found["kind"] or "string", "description": found["what"].strip()}
        if not found["optional"]:
            required.append(found["name"])
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def suggest_name(address: str) -> str:
    """A name for what is at an address: the last telling word of its host."""
    host = re.sub(r"^[a-z]+://", "", address.lower()).partition("/")[0].partition(":")[0]
    words = [
        word for word in host.split(".")[:-1] or [host] if word not in {"www", "api", "mcp", "co", "com"}
    ]
    name = re.sub(r"[^a-z0-9]+", "_", words[-1] if words else "").strip("_")
    if name[:1].isalpha():
        return name[:30]
    return f"at_{name}"[:30].rstrip("_")

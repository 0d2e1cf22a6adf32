"""The tools there are: found in this package, joined by what the caller registers, sorted by name.

Also writes what a model is told about them, byte for byte the same each time: a changed tool block would
throw the endpoint's prefix cache away.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from tools import builtin
from tools.base import Tool
from tools.safety.control_tokens import break_control_tokens
from tools.safety.injection import neutralize
from tools.schemas.signature import ToolDefinitionError

RENDERED_KEYWORDS = ("description", "enum", "items", "nullable", "properties", "required", "type")


class Registry:
    """Tools by name, in the order of their names; never changes. Raises ToolDefinitionError when two share a
    name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda tool: tool.name):
            if tool.name in self._tools:
                raise ToolDefinitionError(f"two tools are called {tool.name}")
            self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def discover(registered: Iterable[Tool] = (), package: ModuleType = builtin) -> Registry:
    """Every Tool defined at the top of a module of `package`, and those `registered`."""
    found: set[Tool] = set()  # a tool that two modules hold is one tool; two of the same name are refused
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        found |= {value for value in vars(module).values() if isinstance(value, Tool)}
    return Registry([*found, *registered])


def render_definitions(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """What the model is told, in the shape of OpenAI functions, reduced to what is rendered: the house's own
    first, so that prompts with different others begin alike, and each in the order of their names.

    Words of others lose what the template or nobody would see in them, also those that an admin has accepted.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": neutralize(tool.description) if tool.source else tool.description,
                "parameters": _render_parameters(tool),
            },
        }
        for tool in sorted(tools, key=lambda tool: (bool(tool.source), tool.name))
    ]


def _render_parameters(tool: Tool) -> Any:
    shown = render_schema(tool.input_schema if tool.told is None else tool.told)
    if tool.source:
        return _neutralize_schema(shown)
    return shown


def _neutralize_schema(value: Any) -> Any:
    """Names and choices are written back by the model as they stand, so only tokens are broken in them."""
    if isinstance(value, str):
        return break_control_tokens(value)
    if isinstance(value, list):
        return [_neutralize_schema(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    told = {break_control_tokens(key): _neutralize_schema(inner) for key, inner in value.items()}
    if isinstance(told.get("description"), str):
        return told | {"description": neutralize(told["description"])}
    return told


def render_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with only the keywords the model's template renders, in a fixed order."""
    return {key: _render_keyword(key, schema[key]) for key in RENDERED_KEYWORDS if key in schema}


def _render_keyword(keyword: str, value: Any) -> Any:
    if keyword == "properties":
        return {name: render_schema(value[name]) for name in sorted(value)}
    if keyword == "items" and isinstance(value, dict):
        return render_schema(value)
    if keyword == "required":
        return sorted(value)
    return value

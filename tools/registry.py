"""Finds the tools of `tools.builtin`, joined by those the caller registers, sorted by name.

Also renders their definitions for the model, byte for byte the same each time: a changed tool block would
throw the endpoint's prefix cache away.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from tools import builtin
from tools.base import Tool
from tools.safety.control_tokens import break_control_tokens
from tools.safety.injection import neutralize
from tools.schemas.signature import ToolDefinitionError

RENDERED_KEYWORDS = ("description", "enum", "items", "nullable", "properties", "required", "type")


def discover(registered: Iterable[Tool] = (), package: ModuleType = builtin) -> tuple[Tool, ...]:
    """Every Tool defined at the top of a module of `package`, and those `registered`, in the order of names.

    Raises ToolDefinitionError when two share a name.
    """
    tools = set(registered)  # a set: a tool that two modules hold is one tool
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        tools |= {value for value in vars(module).values() if isinstance(value, Tool)}
    for name, count in Counter(tool.name for tool in tools).items():
        if count > 1:
            raise ToolDefinitionError(f"two tools are called {name}")
    return tuple(sorted(tools, key=lambda tool: tool.name))


_FRAME_CHARS = len("{'type': 'function', 'function': }")


def render_definitions(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The definitions a model reads: name, description and parameters, reduced to what is rendered.

    Built-in tools come first, so that prompts with different registered tools begin alike; each group is in
    the order of names. Descriptions of registered tools lose what the template or nobody would see in them,
    also where an admin has accepted them.
    """
    return [
        _render_definition(tool) for tool in sorted(tools, key=lambda tool: (bool(tool.source), tool.name))
    ]


def _render_definition(tool: Tool) -> dict[str, Any]:
    told = tool.input_schema if tool.told is None else tool.told
    if not tool.source:
        return build_definition(tool.name, tool.description, told)
    definition = build_definition(tool.name, neutralize(tool.description), told)
    return definition | {"parameters": _neutralize_schema(definition["parameters"])}


def build_definition(name: str, description: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a tool, of what is told of it.

    What is said of the arguments as a whole joins the description: the template renders it nowhere else.
    """
    parameters = render_schema(told)
    words = parameters.pop("description", "")
    if words:
        description = f"{description} Arguments: {words}"
    return {"name": name, "description": description, "parameters": parameters}


def measure_definition(definition: Mapping[str, Any]) -> int:
    """Characters that a definition takes in a request, what the protocol puts around it included."""
    return len(str(definition)) + _FRAME_CHARS


def _neutralize_schema(value: Any) -> Any:
    """A schema without control tokens; only its descriptions are fully neutralized.

    Names and choices are written back by the model as they are, so only tokens are broken in them.
    """
    if isinstance(value, str):
        return break_control_tokens(value)
    if isinstance(value, list):
        return [_neutralize_schema(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    neutralized = {break_control_tokens(key): _neutralize_schema(inner) for key, inner in value.items()}
    if isinstance(neutralized.get("description"), str):
        return neutralized | {"description": neutralize(neutralized["description"])}
    return neutralized


def render_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
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

"""What a server says its tools are, made fit for the gateway: names, descriptions, schemas and hints. Pure.

All of it was written by a stranger. What cannot be used is left out and reported; it never affects the other
tools.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tools.base import TOOL_NAME_PATTERN
from tools.schemas.resolve import resolve_arguments
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema
from tools.url_argument import find_url_argument

if TYPE_CHECKING:
    from mcp_types import Tool

MAX_TOOLS = 200  # of one server
MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 2000  # it is in every prompt that offers the tool
MAX_SCHEMA_CHARS = 30_000  # of JSON before it is reduced


# Methods of the protocol that a call of a tool may be a request of.
TOOLS_METHOD = "tools/call"
RESOURCES_METHOD = "resources/read"
PROMPTS_METHOD = "prompts/get"


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it; `schema` is None where it is too long to be kept.

    `needs_task`: it can only be started, and asked for its result later. `method` is that of a call of it.
    """

    name: str
    description: str
    schema: Mapping[str, Any] | None
    read_only: bool
    idempotent: bool
    needs_task: bool = False
    method: str = TOOLS_METHOD


def to_server_tool(tool: "Tool") -> ServerTool:
    """A tool of a list as the SDK reads it."""
    hints = tool.annotations
    return ServerTool(
        name=tool.name,
        description=tool.description or tool.title or "",
        schema=tool.input_schema,
        read_only=bool(hints and hints.read_only_hint),
        idempotent=bool(hints and hints.idempotent_hint),
        needs_task=bool(tool.execution and tool.execution.task_support == "required"),
    )


def truncate_tool(server_tool: ServerTool) -> ServerTool:
    """The tool without what is too long: a list may have hundreds of them."""
    is_too_long = server_tool.schema is not None and len(json.dumps(server_tool.schema)) > MAX_SCHEMA_CHARS
    return replace(
        server_tool,
        name=server_tool.name[: MAX_NAME_CHARS + 1],
        description=server_tool.description[: MAX_DESCRIPTION_CHARS + 1],
        schema=None if is_too_long else server_tool.schema,
    )


@dataclass(frozen=True, slots=True)
class McpToolDefinition:
    """A tool of a server as the gateway knows it; JSON values only, so that it can be stored with `as_json`.

    `name` is what the model calls it, `remote` what its server calls it.
    `input_schema` is what arguments are checked against.
    `reads`: its server says that it changes nothing; `repeatable`: that a second run does no harm.
    `opens`: the argument that holds an address. `method`: what a call of it is a request of.
    """

    name: str
    remote: str
    description: str
    input_schema: dict[str, Any]
    reads: bool
    repeatable: bool
    opens: str | None
    method: str = TOOLS_METHOD

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of a server's tool: what it is a request of, and the server's name for the tool.

    `delivers`: the person is sent the files that it returns.
    """

    method: str
    tool: str
    arguments: dict[str, Any]
    delivers: bool = False


@dataclass(frozen=True, slots=True)
class McpToolListing:
    """The usable tools of a server, sorted by name, and `warnings` about them and the others."""

    definitions: tuple[McpToolDefinition, ...]
    warnings: tuple[str, ...]


class _ToolUnusable(Exception):
    """This tool is left out; the text says why."""


def build_listing(server: str, server_tools: Iterable[ServerTool]) -> McpToolListing:
    """The listing of the server with this name, from the tools it described."""
    definitions: dict[str, McpToolDefinition] = {}
    warnings: list[str] = []
    for number, server_tool in enumerate(server_tools):
        if number == MAX_TOOLS:
            warnings.append(f"only the first {MAX_TOOLS} tools are used")
            break
        short_name = server_tool.name[:80]
        try:
            definition, remarks = _build_definition(server, server_tool)
        except _ToolUnusable as error:
            warnings.append(f"{short_name!r} is left out: {error}")
            continue
        name = definition.name
        if name in definitions:
            first = definitions[name].remote
            warnings.append(f"{short_name!r} is left out: it would be called {name}, as {first!r} is")
            continue
        definitions[name] = definition
        warnings.extend(f"{name}: {remark}" for remark in remarks)
    return McpToolListing(tuple(definitions[name] for name in sorted(definitions)), tuple(warnings))


def _build_definition(server: str, server_tool: ServerTool) -> tuple[McpToolDefinition, list[str]]:
    name = _build_name(server, server_tool.name)
    remarks = []
    description = server_tool.description.strip() or f"The tool {server_tool.name} of {server}."
    if len(description) > MAX_DESCRIPTION_CHARS:
        remarks.append(f"its description is cut to {MAX_DESCRIPTION_CHARS} characters")
        description = description[:MAX_DESCRIPTION_CHARS]
    if server_tool.needs_task:
        raise _ToolUnusable("it runs as a task of its own, and its result could not be asked for")
    if server_tool.schema is None:
        raise _ToolUnusable(f"its schema is longer than {MAX_SCHEMA_CHARS} characters")
    try:
        resolved = resolve_arguments(dict(server_tool.schema))
        told = build_told_schema(resolved.schema)
    except (ToolDefinitionError, ValueError, RecursionError) as error:
        raise _ToolUnusable(f"its schema cannot be used ({str(error)[:200]})") from error
    definition = McpToolDefinition(
        name=name,
        remote=server_tool.name,
        description=description,
        input_schema=resolved.schema,
        reads=server_tool.read_only,
        repeatable=server_tool.read_only or server_tool.idempotent,
        opens=find_url_argument(server_tool.schema, resolved.schema),
        method=server_tool.method,
    )
    return definition, [*remarks, *resolved.warnings, *told.warnings]


def normalize_name(remote_name: str) -> str:
    """A server's name for a tool in the letters that names here have; it may be empty."""
    separated = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", remote_name)
    return re.sub(r"[^a-z0-9]+", "_", separated.lower()).strip("_")


def _build_name(server: str, remote_name: str) -> str:
    normalized = normalize_name(remote_name)
    name = f"{server}_{normalized}"
    if not normalized or not TOOL_NAME_PATTERN.fullmatch(name) or len(remote_name) > MAX_NAME_CHARS:
        raise _ToolUnusable("no name of at most 64 letters, digits and _ can be made of its own")
    return name

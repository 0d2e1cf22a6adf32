"""What an admin sees of a source: where it is, what it is sent, its limits, its home, its tools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.tool_registry.formatting import SOURCE_KINDS, format_state
from bot.tool_registry.program_homes import find_home, is_own_home
from bot.tool_registry.service_access import list_access_lines, read_access
from bot.tool_registry.time_limits import format_time_limits, read_time_limits
from bot.tool_registry.tool_info import BuiltinTools, ToolInfo, load_tool_infos
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import format_utc


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A source as it stands, with its tools by name, and the home of its program if it is one."""

    source: Source
    tools: Sequence[ToolInfo]
    home: Path | None


async def load_source_info(
    tx: Transaction, builtin_tools: BuiltinTools, source: Source, homes: Path | None
) -> SourceInfo:
    """Return what an admin sees of this source; `homes` is the folder of the homes of programs."""
    infos = await load_tool_infos(tx, builtin_tools)
    own = [info for info in infos if info.source is not None and info.source.name == source.name]
    return SourceInfo(source, own, find_home(source, homes))


def format_source(info: SourceInfo) -> Iterator[str]:
    """Yield everything about a source, a line each; of an MCP server's headers the names alone."""
    source = info.source
    state = "on" if source.enabled else "off"
    yield f"{escape_for_terminal(source.name)}: {SOURCE_KINDS[source.kind]}, {state}"
    yield f"At: {escape_for_terminal(source.address)}"
    yield from map(escape_for_terminal, list_access_lines(read_access(source.options)))
    if source.trouble:
        yield f"Trouble: {escape_for_terminal(source.trouble)}"
    by = "on the machine" if source.added_by is None else f"by {source.added_by}"
    yield f"Added: {format_utc(source.added_at)} UTC, {by}"
    for label, names in _collect_names(source.options).items():
        yield f"{label}: {', '.join(map(escape_for_terminal, names))}"
    if source.kind != "file":
        yield f"Time: {format_time_limits(source)}"
    if info.home is not None:
        kept = "deleted with it" if is_own_home(source) else "named by an admin"
        yield f"Home: {escape_for_terminal(str(info.home))}, {kept}"
    yield f"Tools: {len(info.tools)}" if info.tools else "Tools: none"
    for tool in info.tools:
        yield f"· {escape_for_terminal(tool.name)}: {format_state(tool)}"


def to_source_record(info: SourceInfo) -> dict[str, object]:
    """A source as a record for JSON."""
    source = info.source
    keys = ("name", "kind", "address", "enabled", "trouble", "added_by")
    return {
        **{key: getattr(source, key) for key in keys},
        **asdict(read_time_limits(source.options)),
        "home": str(info.home) if info.home is not None else None,
        "tools": {tool.name: tool.state for tool in info.tools},
    }


def _collect_names(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of what an MCP server is sent or given, by what it is."""
    names = {"Headers": [*options.get("headers", ())], "Environment": [*options.get("environment", ())]}
    return {label: found for label, found in names.items() if found}

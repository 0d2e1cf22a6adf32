"""What an admin sees of a source: where it is, what it is sent, its limits, its home, its tools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.tool_registry.formatting import SOURCE_KINDS, format_enabled, format_state, format_trust
from bot.tool_registry.program_homes import find_home, is_own_home
from bot.tool_registry.service_access import list_access_lines, read_access
from bot.tool_registry.time_limits import format_time_limits, read_time_limits
from bot.tool_registry.tool_info import BuiltinTools, ToolInfo, load_tool_infos
from bot.translations.formats import format_series
from bot.translations.translator import Translator, translatable
from bot.usage.local_times import format_utc
from bot.usage.plain_text import escape_for_terminal


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


def format_source(translate: Translator, info: SourceInfo) -> Iterator[str]:
    """Yield everything about a source, a line each; of an MCP server's headers the names alone."""
    source = info.source
    kind = translate(SOURCE_KINDS[source.kind])
    yield f"{escape_for_terminal(source.name)}: {kind}, {format_enabled(translate, source)}"
    yield translate("At: {address}", address=escape_for_terminal(source.address))
    yield from map(escape_for_terminal, list_access_lines(read_access(source.options)))
    if source.trouble:
        yield translate("Trouble: {trouble}", trouble=escape_for_terminal(source.trouble))
    added_at = f"{format_utc(source.added_at)} UTC"
    if source.added_by is None:
        yield translate("Added: {time}, on the server", time=added_at)
    else:
        yield translate("Added: {time}, by {name}", time=added_at, name=source.added_by)
    for label, names in _collect_names(source.options).items():
        yield f"{translate(label)}: {format_series(translate, map(escape_for_terminal, names))}"
    if source.kind != "file":
        yield translate("Time: {limits}", limits=format_time_limits(translate, source))
    if source.is_trusted:
        yield translate("Results: {trust}", trust=format_trust(translate, source))
    if info.home is not None:
        yield _format_home(translate, info.source, info.home)
    yield translate("Tools: {count}", count=len(info.tools)) if info.tools else translate("Tools: none")
    for tool in info.tools:
        yield f"· {escape_for_terminal(tool.name)}: {format_state(translate, tool)}"


def _format_home(translate: Translator, source: Source, home: Path) -> str:
    folder = escape_for_terminal(str(home))
    if is_own_home(source):
        return translate("Home: {folder}, deleted with it", folder=folder)
    return translate("Home: {folder}, named by an admin", folder=folder)


def to_source_record(info: SourceInfo) -> dict[str, object]:
    """A source as a record for JSON."""
    source = info.source
    keys = ("name", "kind", "address", "enabled", "trouble", "added_by")
    return {
        **{key: getattr(source, key) for key in keys},
        **asdict(read_time_limits(source.options)),
        "trusted": source.is_trusted,
        "home": str(info.home) if info.home is not None else None,
        "tools": {tool.name: tool.state for tool in info.tools},
    }


def _collect_names(options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of what an MCP server is sent or given, by what it is."""
    names = {
        translatable("Headers"): [*options.get("headers", ())],
        translatable("Environment"): [*options.get("environment", ())],
    }
    return {label: found for label, found in names.items() if found}

"""What an admin sees of a tool: its source, state and rule, who may use it, what it costs a prompt.

Reads rows only, so that it says the same beside a running gateway and without one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.agent import history
from bot.db.tools import grants, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source, SourceKind
from bot.db.tools.tools import StoredTool
from bot.db.transaction import Transaction
from bot.errors import ChangeRefused
from tools.base import Rule, Tool, definition_of, hash_definition
from tools.registry import build_definition, measure_definition, render_schema
from tools.schemas.told_schema import build_told_schema

ToolState = Literal["on", "off", "new", "changed", "flagged", "source off", "gone", "in trouble"]

ONLY_READS = Rule("never", only_reads=True)

BuiltinTools = Mapping[str, Tool]
"""The built-in tools, by name."""


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool as it stands; `source` None: a built-in tool.

    `definition` was accepted last, `pending` waits to be: a new or a changed one. `rule` is the one that
    holds, None: what its source says; `is_set`: an admin set it. Without any `grants` a built-in tool is
    everyone's, any other the admins'. `delivers`: an admin lets it send files that its service returns.
    """

    name: str
    source: Source | None
    state: ToolState
    definition: Mapping[str, Any]
    hash: str
    pending: Mapping[str, Any] | None
    flagged: str | None
    rule: Rule | None
    is_set: bool
    grants: tuple[Grant, ...]
    delivers: bool = False

    @property
    def effective_definition(self) -> Mapping[str, Any]:
        """The definition that counts: the accepted one, or the pending one of a new tool."""
        return self.definition or self.pending or {}

    @property
    def is_removable(self) -> bool:
        """Whether it stays away once removed; what a server or a file gives would come back."""
        return self.state == "gone" or (
            self.source is not None and self.source.kind in {"openapi", "endpoint"}
        )

    @property
    def is_of_service(self) -> bool:
        """Whether a service answers its calls, not a function of this machine."""
        return self.source is not None and self.source.kind != "file"

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of a prompt that offers it."""
        return estimate_tokens(self.effective_definition, self.source_kind)

    @property
    def reduction(self) -> str:
        """The JMESPath of what the model reads of its results; empty: all of them."""
        return self.source.get_reduction(self.name) if self.source is not None else ""

    @property
    def source_kind(self) -> SourceKind | None:
        """The kind of its source; None: it is built in."""
        return self.source.kind if self.source is not None else None


def choose_told_schema(schema: dict[str, Any], source_kind: SourceKind | None) -> dict[str, Any]:
    """Return the schema that the model is told: tools of functions are told as they are checked."""
    if source_kind in (None, "file"):
        return schema
    return build_told_schema(schema).schema


def derive_told_schema(definition: Mapping[str, Any], source_kind: SourceKind | None) -> dict[str, Any]:
    """The schema of a definition's arguments as the model reads it."""
    return render_schema(choose_told_schema(definition.get("input_schema", {}), source_kind))


def estimate_tokens(definition: Mapping[str, Any], source_kind: SourceKind | None) -> int:
    """Estimate the tokens a definition takes of a prompt, as the rest of a prompt is estimated."""
    description = definition.get("description", "")
    told_schema = derive_told_schema(definition, source_kind)
    told = build_definition(definition.get("name", ""), description, told_schema)
    return measure_definition(told) // history.BYTES_PER_TOKEN


async def load_tool_infos(tx: Transaction, builtin_tools: BuiltinTools) -> list[ToolInfo]:
    """Return every tool, by name."""
    rows = {row.name: row for row in await tools.list_all(tx)}
    sources_by_name = {source.name: source for source in await sources.list_all(tx)}
    grants_by_tool: dict[str, list[Grant]] = {}
    for grant in await grants.list_all(tx):
        grants_by_tool.setdefault(grant.tool, []).append(grant)
    registered = {name for name, row in rows.items() if row.source}
    infos = []
    for name in sorted(registered.union(builtin_tools)):
        row = rows.get(name) or StoredTool(name, "")
        builtin_tool = builtin_tools.get(name)
        source = sources_by_name.get(row.source) if builtin_tool is None else None
        infos.append(_build_tool_info(row, source, builtin_tool, grants_by_tool.get(name, ())))
    return infos


async def load_tool_info(tx: Transaction, builtin_tools: BuiltinTools, name: str) -> ToolInfo:
    """Return one tool. Raises ChangeRefused if there is none of this name."""
    row = await tools.find(tx, name) or StoredTool(name, "")
    source = None
    if name not in builtin_tools:
        if not row.source:
            raise ChangeRefused("There is no tool called {name}.", name=name[:80])
        source = await sources.find(tx, row.source)
    return _build_tool_info(row, source, builtin_tools.get(name), await grants.list_all(tx, name))


def _build_tool_info(
    row: StoredTool, source: Source | None, builtin_tool: Tool | None, tool_grants: Sequence[Grant]
) -> ToolInfo:
    admin_rule = None
    if row.rule is not None:
        admin_rule = build_rule(row.rule, row.hash)
    own_rule = None
    state = _determine_state(row, source)
    if builtin_tool is not None:
        own_rule = builtin_tool.rule
        definition = definition_of(builtin_tool)
        row = StoredTool(row.name, "", definition, hash_definition(definition))
    return ToolInfo(
        name=row.name,
        source=source,
        state=state,
        definition=row.definition,
        hash=row.hash,
        pending=row.pending,
        flagged=row.flagged,
        rule=admin_rule or own_rule,
        is_set=admin_rule is not None,
        grants=tuple(tool_grants),
        delivers=row.delivers,
    )


def _determine_state(stored: StoredTool, source: Source | None) -> ToolState:
    if not stored.enabled:
        return "off"
    if source is not None and not source.enabled:
        return "source off"
    if source is not None and stored.name not in _list_provided_names(source, stored.name):
        return "gone"
    if stored.pending is not None:
        if stored.definition:
            return "changed"
        return "new"
    if stored.flagged is not None:
        return "flagged"
    if source is not None and source.trouble:
        return "in trouble"
    return "on"


def _list_provided_names(source: Source, name: str) -> Collection[str]:
    """The names of the tools a source gives, as far as its row says."""
    if source.kind == "file":
        return {name}
    options = source.options
    return {entry["name"] for part in ("routes", "listing") for entry in options.get(part, ())}


def build_rule(stored: Mapping[str, Any], hash: str) -> Rule | None:
    """Build an admin's rule from its stored JSON.

    `hash` is that of the tool's definition. None: the rule said that the tool only reads, and the definition
    has changed since.
    """
    if "only_reads" not in stored:
        return Rule(stored.get("ask", "never"), stored.get("when"), stored.get("who", "asker"))
    if stored["only_reads"] == hash:
        return ONLY_READS
    return None

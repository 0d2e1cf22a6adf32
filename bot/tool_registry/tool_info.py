"""What an admin sees of a tool: where it comes from, how it stands, its rule, who may use it, what it costs a
prompt.

Reads rows only, so that it tells the same beside a running gateway and without one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.agent import history
from bot.db.engine import Transaction
from bot.db.tools import grants, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import ChangeRefused
from tools.base import Rule, Tool, definition_of, hash_definition
from tools.registry import render_schema

ToolState = Literal["on", "off", "new", "changed", "flagged", "source off", "gone", "in trouble"]

BuiltinTools = Mapping[str, Tool]
"""The house's own tools, by name."""


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool as it stands. `source` None: the house's own. `rule` is the one that holds, None: what its
    source says; `is_set`: an admin set it.

    `definition` is what was accepted last, `pending` what waits to be: a new or a changed one. `grants`
    without any: the house's own are everyone's, others the admins'. `cost` is in tokens of a prompt,
    estimated.
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

    @property
    def effective_definition(self) -> Mapping[str, Any]:
        """The definition that counts: the accepted one, or of a new tool the one that waits."""
        return self.definition or self.pending or {}

    @property
    def is_removable(self) -> bool:
        """Whether it stays away once it is removed; what a server or a file gives would come back."""
        return self.state == "gone" or (
            self.source is not None and self.source.kind in {"openapi", "endpoint"}
        )

    @property
    def prompt_tokens(self) -> int:
        """Tokens of a prompt that offers it, estimated."""
        return estimate_tokens(self.effective_definition)


def estimate_tokens(definition: Mapping[str, Any]) -> int:
    """What a definition takes of a prompt, in tokens, estimated as the rest of a prompt is."""
    told = {
        "name": definition.get("name", ""),
        "description": definition.get("description", ""),
        "parameters": render_schema(definition.get("input_schema", {})),
    }
    return len(str({"type": "function", "function": told})) // history.BYTES_PER_TOKEN


async def load_tool_infos(tx: Transaction, builtin_tools: BuiltinTools) -> list[ToolInfo]:
    """Every tool there is, by name."""
    stored = {one.name: one for one in await tools.list_all(tx)}
    came = {one.name: one for one in await sources.list_all(tx)}
    given: dict[str, list[Grant]] = {}
    for grant in await grants.list_all(tx):
        given.setdefault(grant.tool, []).append(grant)
    names = sorted({*builtin_tools, *(name for name, one in stored.items() if one.source)})
    return [
        _build_tool_info(name, builtin_tools.get(name), stored.get(name), came, given.get(name, ()))
        for name in names
    ]


async def load_tool_info(tx: Transaction, builtin_tools: BuiltinTools, name: str) -> ToolInfo:
    """One tool. Raises ChangeRefused if there is none of this name."""
    stored = await tools.find(tx, name)
    if name not in builtin_tools and (stored is None or not stored.source):
        raise ChangeRefused(f"There is no tool called {name[:80]}.")
    if stored and stored.source:
        came = await sources.find(tx, stored.source)
    else:
        came = None
    return _build_tool_info(
        name,
        builtin_tools.get(name),
        stored,
        {came.name: came} if came else {},
        await grants.list_all(tx, name),
    )


def _build_tool_info(
    name: str,
    builtin_tool: Tool | None,
    stored: StoredTool | None,
    sources_by_name: Mapping[str, Source],
    tool_grants: Sequence[Grant],
) -> ToolInfo:
    if builtin_tool is not None:
        definition: Mapping[str, Any] = definition_of(builtin_tool)
        source = None
        pending = None
        flagged = None
    else:
        assert stored is not None
        definition = stored.definition
        source = sources_by_name.get(stored.source)
        pending = stored.pending
        flagged = stored.flagged
    rule = build_rule(stored.rule) if stored and stored.rule is not None else None
    return ToolInfo(
        name=name,
        source=source,
        state=_determine_state(stored, source),
        definition=definition,
        hash=hash_definition(definition) if builtin_tool is not None or stored is None else stored.hash,
        pending=pending,
        flagged=flagged,
        rule=rule or (builtin_tool.rule if builtin_tool is not None else None),
        is_set=rule is not None,
        grants=tuple(tool_grants),
    )


def _determine_state(stored: StoredTool | None, source: Source | None) -> ToolState:
    if stored is None:
        return "on"
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
    """The names of the tools a source gives, as far as its row tells."""
    if source.kind == "file":
        return {name}
    options = source.options
    return {one["name"] for part in ("routes", "listing") for one in options.get(part, ())}


def build_rule(stored: Mapping[str, Any]) -> Rule:
    """An admin's own rule as it is kept."""
    return Rule(stored.get("ask", "never"), stored.get("when"), stored.get("who", "asker"))

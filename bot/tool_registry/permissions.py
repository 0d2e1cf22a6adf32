"""Who may use which tool, by what admins granted. Pure.

Without a grant the house's own tools are everyone's and all others the admins'; admins may always. A grant of
a registered tool holds for the definition it was given for, and for no other.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bot.db.tools.grants import Grant
from tools.base import Tool, hash_tool


class Permissions:
    """The grants of these tools as they stand."""

    def __init__(self, tools: Iterable[Tool], grants: Iterable[Grant]) -> None:
        given: dict[str, list[Grant]] = defaultdict(list)
        for one in grants:
            given[one.tool].append(one)
        self._grantees: Mapping[str, frozenset[tuple[str, int]]] = {
            tool.name: _collect_grantees(tool, given[tool.name]) for tool in tools
        }

    def can_use(self, name: str, person: int, chat: int) -> bool:
        """Whether somebody who is no admin may use a tool in a chat."""
        whom = self._grantees.get(name, frozenset())
        return not whom.isdisjoint({("everyone", 0), ("person", person), ("chat", chat)})


def _collect_grantees(tool: Tool, grants: list[Grant]) -> frozenset[tuple[str, int]]:
    if tool.source:
        hash = hash_tool(tool)
        return frozenset((one.whom, one.number) for one in grants if one.hash == hash)
    if grants:
        return frozenset((one.whom, one.number) for one in grants)
    return frozenset({("everyone", 0)})

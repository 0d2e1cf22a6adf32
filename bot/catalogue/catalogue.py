"""The tools the house has now, who may use which, and what a conversation is offered.

Built once; everything on the way of a message asks it and waits for nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from bot.agent.toolbox import Toolbox
from bot.db.engine import Database
from tools.base import Tool


class Catalogue:
    """`own` are the house's own tools; `is_admin` says who is one."""

    def __init__(self, database: Database, own: Iterable[Tool], is_admin: Callable[[int], bool]) -> None:
        self._database = database
        self._is_admin = is_admin
        self.tools: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in own})
        self._toolboxes: dict[tuple[str, ...], Toolbox] = {}

    def get(self, name: str) -> Tool | None:
        """A tool that can be used now: it is enabled, and not suspended. An admin's own rule stands in it."""
        return self.tools.get(name)

    def granted(self, name: str, person: int, chat: int) -> bool:
        """Whether this person may use this tool in this chat now."""
        return name in self.tools

    def offered(self, person: int, chat: int, texts: Sequence[str]) -> tuple[str, ...]:
        """Names of the tools that a conversation is offered which a person begins now in a chat, with these texts."""
        return tuple(self.tools)

    def toolbox(self, names: Iterable[str]) -> Toolbox:
        """Those of the tools that have one of the names; the same object for the same names."""
        wanted = tuple(name for name in names if name in self.tools)
        if wanted not in self._toolboxes:
            self._toolboxes[wanted] = Toolbox(self.tools[name] for name in wanted)
        return self._toolboxes[wanted]

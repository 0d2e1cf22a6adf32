"""The tools the house has now, who may use which, and what a conversation is offered.

Built once. Whoever is on the way of a message asks it and waits for nothing; what changed in the database, in
files or at a server is taken over beside that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from bot.agent.tool_search import DOORS, Shelf, picked
from bot.agent.toolbox import Toolbox
from bot.db.engine import Database
from bot.db.retry import patiently
from bot.db.revisions import FILES
from bot.db.tools.grants import Grant
from bot.errors import StoreUnavailable
from bot.tool_registry.assembly import Standing, gone
from bot.tool_registry.change_notices import news
from bot.tool_registry.loader import HERE, Stock, Where
from bot.tool_registry.permissions import Granting
from tools.base import Tool

LOOK = 2.0  # seconds between looks for changes that another process made
KEPT = 256  # toolboxes that are kept: where there are many tools, each conversation may have its own

Tell = Callable[[str, str], Awaitable[None]]

log = logging.getLogger(__name__)


async def _untold(subject: str, text: str) -> None:
    """Where there is no feed, the log is enough."""


class Catalogue:
    """`own` are the house's own tools; `is_admin` says who is one, `tell` reaches the admins' feed.

    `members_changed` is called when conversations of people without a grant of their own begin with other
    tools than before; whoever wants to know puts a function there.
    """

    def __init__(
        self,
        database: Database,
        own: Iterable[Tool],
        is_admin: Callable[[int], bool],
        where: Where = HERE,
        tell: Tell = _untold,
    ) -> None:
        self.members_changed: Callable[[], None] = lambda: None
        self._stock = Stock(database, own, where, self.renew)
        self._room = where.room
        self._is_admin = is_admin
        self._tell = tell
        self._renewing = asyncio.Lock()
        self._revisions: Mapping[str, int] = {}
        ready = {tool.name: tool for tool in sorted(self._stock.own, key=lambda tool: tool.name)}
        self._take(Standing(ready, {}), ())

    def get(self, name: str) -> Tool | None:
        """A tool that can be used now: it is enabled, and not suspended. An admin's own rule stands in it."""
        return self.tools.get(name)

    def knows(self, name: str) -> bool:
        """Whether there is a tool of this name, though it may rest."""
        return name in self.tools or name in self._resting or name in DOORS

    def rests(self, name: str) -> bool:
        """Whether a tool cannot be used now, though prompts that began with it name it."""
        return name not in self.tools and name not in DOORS

    def granted(self, name: str, person: int, chat: int) -> bool:
        """Whether this person may use this tool in this chat now. All may search what they may use."""
        return name in DOORS or (
            name in self.tools and (self._granting.may(name, person, chat) or self._is_admin(person))
        )

    def shelf(self, person: int, chat: int) -> Shelf:
        """What somebody may use in a chat, the same object for the same tools.

        In a group these are the tools of everybody there; what one of them may use besides is not named to
        all.
        """
        alone = person if person == chat else 0
        is_all = alone and self._is_admin(alone)
        names = tuple(name for name in self.tools if is_all or self._granting.may(name, alone, chat))
        if names not in self._shelves:
            self._shelves[names] = Shelf(self.tools[name] for name in names)
        return self._shelves[names]

    def offered(
        self, person: int, chat: int, texts: Sequence[str], recent: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Names of the tools that a conversation is offered which a person begins now in a chat, with these
        texts.

        `recent` are tools that were used there of late, the newest first.
        """
        return picked(self.shelf(person, chat), texts, recent, self._room)

    def toolbox(self, names: Iterable[str], shelf: Shelf | None = None) -> Toolbox:
        """The tools of these names, the same object for the same names. Those that rest are named in it
        still, so that a prompt stays as it began, and say so when they are called; those that are gone are
        left out.

        All others of the `shelf` can be found and used.
        """
        key = tuple(names), shelf
        found = self._toolboxes.get(key)
        if found is None:
            doors = {tool.name: tool for tool in shelf.doors} if shelf else {}
            there = {**self._resting, **self.tools, **doors}
            if len(self._toolboxes) >= KEPT:
                del self._toolboxes[next(iter(self._toolboxes))]
            found = self._toolboxes[key] = Toolbox((there[name] for name in key[0] if name in there), shelf)
        return found

    def after(self, toolbox: Toolbox, called: Iterable[str]) -> Toolbox:
        """The tools of a turn that goes on: what it has called is found again, whatever has become of it
        since.
        """
        missing = [name for name in dict.fromkeys(called) if name not in toolbox.tools]
        if not missing:
            return toolbox
        return toolbox.joined(
            self.tools.get(name) or self._resting.get(name) or gone(name) for name in missing
        )

    def kit(
        self,
        person: int,
        chat: int,
        texts: Sequence[str],
        names: tuple[str, ...] | None,
        recent: Iterable[str] = (),
    ) -> Toolbox:
        """The tools of a conversation whose prompt offers these names; None: what one is offered that begins
        now.
        """
        if names is None:
            offered = self.offered(person, chat, texts, recent)
        else:
            offered = names
        return self.toolbox(offered, self.shelf(person, chat) if set(offered) >= DOORS else None)

    def kit_of(self, chat: int) -> Callable[[tuple[str, ...] | None], Toolbox]:
        """The same, of a chat in which nobody asks now."""
        return partial(self.kit, chat, chat, ())

    def of_members(self) -> Toolbox:
        """What conversations of people without a grant of their own are offered."""
        return self.kit(0, 0, (), None)

    def largest(self) -> Toolbox:
        """About the most that a prompt may have to hold."""
        full = picked(self._all, (), self.tools, self._room)
        return self.toolbox(full, self._all if self.crowded else None)

    @property
    def crowded(self) -> bool:
        """Whether there are more tools than a prompt has room for."""
        return not self._all.fits(self._room)

    async def load(self) -> None:
        """Take over what is registered, and load the files; once, before the first message is answered."""
        for line in await self._stock.load_files():
            log.warning("%s", line, extra={"action": "tools.refused"})
        await self.renew()

    async def run(self) -> None:
        """Notice what other processes change and keep the connections to servers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stock.run(), name="tool servers")
            while True:
                await asyncio.sleep(LOOK)
                try:
                    await self._look()
                except StoreUnavailable as away:
                    log.warning("%s", away, extra={"action": "store.away"})
                except Exception:  # the house goes on with the tools it has
                    log.exception(
                        "what is registered could not be taken over", extra={"action": "tools.broken"}
                    )

    async def reload(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR anew, and take over what is registered; what went wrong, a line each."""
        troubles = await self._stock.load_files()
        await self.renew()
        return troubles

    async def ask_servers(self) -> tuple[str, ...]:
        """Have all servers say anew what they offer; what went wrong, a line each. It may take a minute."""
        return await self._stock.ask_servers()

    async def renew(self) -> None:
        """Take over what is registered now; turns that run keep the tools they have."""
        async with self._renewing:
            rows, standing = await self._stock.renew()
            self._revisions = rows.revisions
            before = self._head
            self._take(standing, rows.grants)
        if self._head != before:
            self.members_changed()
        for subject, text in news(rows, standing):
            await self._say(subject, text)

    @property
    def _head(self) -> Sequence[Mapping[str, Any]]:
        """What conversations of members begin with, as the endpoint is sent it."""
        return self.of_members().definitions

    async def _look(self) -> None:
        now = await self._stock.revisions()
        if now.get(FILES) != self._revisions.get(FILES):
            await self.reload()
        elif now != self._revisions or self._stock.trouble_changed:
            await self.renew()

    def _take(self, standing: Standing, grants: Iterable[Grant]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType(dict(standing.tools))
        self._resting = standing.resting
        self._granting = Granting(standing.tools.values(), grants)
        self._toolboxes: dict[tuple[tuple[str, ...], Shelf | None], Toolbox] = {}
        self._all = Shelf(self.tools.values())
        self._shelves = {tuple(self.tools): self._all}

    async def _say(self, subject: str, text: str) -> None:
        log.warning("%s", text, extra={"action": "tools.news", "subject": subject})
        await patiently(lambda: self._tell(subject, text))

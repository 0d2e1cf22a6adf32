"""Errands that only look or run something: a tool tried once, all sources looked at anew, a message deleted."""

import time
from collections.abc import Awaitable, Callable, Mapping

from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.commands.long_text import parts
from bot.telegram.commands.tool_tasks import Errand, Finish, telling
from bot.tool_registry import refresh as refreshing
from bot.tool_registry import try_tool as trying
from bot.tool_registry.loader import Where
from bot.tool_registry.registry import Catalogue
from bot.tool_registry.try_tool import Trial
from bot.usage.plain_text import plain

AGAIN = "The gateway stopped while {name} ran; what it did is unknown. I do not run it again by myself."
NOT_DELETED = "I could not delete your message with the secret: delete it yourself, please."
WELL = "All sources are as they should be."


class Trials:
    """What runs them."""

    def __init__(self, database: Database, catalogue: Catalogue, where: Where, gestures: Gestures) -> None:
        self._database = database
        self._catalogue = catalogue
        self._where = where
        self._gestures = gestures

    def by_name(self) -> Mapping[str, Callable[[Errand], Awaitable[Finish]]]:
        """The errands, by what is to be done."""
        return {"try": self._try, "reload": self._reload, "unsay": self._unsay}

    async def _try(self, errand: Errand) -> Finish:
        name, *arguments = errand.words.split(maxsplit=1)
        tool = self._catalogue.get(name)
        if tool is None:
            raise ChangeRefused(f"{name[:80]} cannot be used now; /tools shows how it stands.")
        if errand.item.attempt > 1 and not tool.repeatable:
            raise ChangeRefused(AGAIN.format(name=name))
        if not tool.repeatable:
            async with self._database.transaction() as tx:
                await inbox.surely_taken(tx, errand.item.id)
        trial = Trial(tool, arguments[0] if arguments else "", errand.person, errand.name, errand.lane)
        tried = await trying.run(self._database, trial)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await trying.note(tx, errand.by, tried, now=time.time())
            return parts([plain(line) for line in trying.told(tried)])

        return finish

    async def _reload(self, errand: Errand) -> Finish:
        troubles = await refreshing.refresh(self._database, self._where)
        troubles += await self._catalogue.reload()
        troubles += await self._catalogue.ask_servers()
        lines = [plain(one) for one in troubles] or [WELL]
        return telling(*lines, f"{len(self._catalogue.tools)} tools can be used now.")

    async def _unsay(self, errand: Errand) -> Finish:
        deleted = await self._gestures.delete(errand.lane, int(errand.item.body["message"]))
        await self._database.scrub()
        if deleted:
            return telling()
        return telling(NOT_DELETED)

"""The runner of inbox items of kind `task`: a turn the house wrote down itself, such as a /retry or a tapped example.

Its body is {"person", "name", "texts"}, and the "turn" whose messages these are if something may have come with them;
"deep" if the second endpoint is to answer. The person must still be let in when it runs.
"""

import time

from bot.db import attachments, inbox, turns
from bot.db.engine import Database
from bot.domain import Attachment, InboxItem
from bot.opening import Ask
from bot.telegram.access import NOT_LET_IN, Access
from bot.telegram.acts import Turns


class Tasks:
    """Gives tasks to turns."""

    def __init__(self, database: Database, access: Access, turns: Turns) -> None:
        self._database = database
        self._access = access
        self._turns = turns

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        assert item.lane is not None
        person = int(item.body["person"])
        if self._access.standing(person) in {"admin", "member"}:
            texts, came = tuple(item.body["texts"]), await self._came(item.body.get("turn"))
            deep = bool(item.body.get("deep"))
            await self._turns.run(Ask(items, item.lane, person, str(item.body["name"]), texts, came, deep=deep))
            return
        now = time.time()
        async with self._database.transaction() as tx:
            await turns.fail(tx, item.id, why=NOT_LET_IN, now=now)
            await inbox.done(tx, [item.id], now=now)

    async def _came(self, turn: int | None) -> tuple[tuple[Attachment, ...], ...]:
        """What came with the messages of a turn."""
        if turn is None:
            return ()
        async with self._database.reading() as tx:
            return await attachments.of_turn(tx, turn)

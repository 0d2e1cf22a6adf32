"""What /tools leaves to be done outside of its transaction, as items of the house: adding, trying, looking
anew, deleting a message. The answer is sent to the admin who asked.

An item outlives the process; what may not simply run again is not run a second time.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from bot.db.engine import Database, Transaction
from bot.db.queues import inbox, outbox
from bot.db.retry import patiently
from bot.db.tools.audit import By
from bot.domain import InboxItem, Lane, Part
from bot.errors import ChangeRefused, SettingsRefused, StoreUnavailable
from bot.telegram.actions import Answer, Call, say
from bot.tool_registry.registry import Catalogue
from bot.usage.plain_text import plain

JOB = "tools"
BEGUN = {
    "add": "I look at it; what I find comes here.",
    "pick": "I look at it; what I find comes here.",
    "try": "I run it once.",
    "reload": "I look at all sources anew.",
}

Finish: TypeAlias = Callable[[Transaction], Awaitable[tuple[Part, ...]]]
"""Ends an errand in one transaction: writes down what came of it and gives what the admin reads."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One errand: what was asked, by whom and where; `attempt` counts how often it was begun."""

    item: InboxItem
    person: int
    name: str
    lane: Lane
    words: str

    @property
    def by(self) -> By:
        """Who changes something by this."""
        return By(self.person, "telegram")


async def send(call: Call, rest: str, *, do: str) -> Answer:
    """Have something done about tools; `rest` are the words of the person who asks."""
    return await write(call, do, {"words": rest}, BEGUN[do])


async def write(call: Call, do: str, what: Mapping[str, Any], said: str = "") -> Answer:
    """Write an errand down, to be done at once."""
    about = {"person": call.person, "name": call.name, "lane": call.lane.key}
    body = {"job": JOB, "do": do, **about, **what}
    await inbox.add(call.tx, kind="house", lane=None, sender=call.person, body=body, now=call.now)
    return Answer(say(said).parts if said else (), then=(call.reach.wake_worker,))


class Errands:
    """The runner of errands, by what is to be done; `wake_sender` is called for the lane that has something
    to read.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        runners: Mapping[str, Callable[[Errand], Awaitable[Finish]]],
        wake_sender: Callable[[Lane], None],
    ) -> None:
        self._database = database
        self._catalogue = catalogue
        self._runners = runners
        self._wake_sender = wake_sender

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        body = item.body
        errand = Errand(item, body["person"], body["name"], Lane.parse(body["lane"]), body.get("words", ""))
        try:
            finish = await self._runners[body["do"]](errand)
            await patiently(
                partial(self._end, errand, finish)
            )  # what was done is not done again for the database
        except (ChangeRefused, SettingsRefused) as refused:
            await patiently(partial(self._end, errand, telling(*map(plain, str(refused).splitlines()))))
        with contextlib.suppress(StoreUnavailable):  # the errand is done, and this is noticed a little later
            await self._catalogue.renew()

    async def _end(self, errand: Errand, finish: Finish) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            parts = await finish(tx)
            if parts:
                await outbox.add(tx, item=errand.item.id, lane=errand.lane, parts=parts, now=now)
            await inbox.done(tx, [errand.item.id], now=now)
        self._wake_sender(errand.lane)


def telling(*lines: str) -> Finish:
    """The end of an errand of which nothing is written down."""

    async def finish(_: Transaction) -> tuple[Part, ...]:
        if lines:
            return (Part("\n".join(lines)),)
        return ()

    return finish

"""What /tools leaves to be done outside of its transaction, as items of the house: adding, trying, looking anew,
deleting a message. The answer is sent to the admin who asked.

An item outlives the process; one that may not simply run again is not run a second time.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.catalogue import trying
from bot.catalogue.catalogue import Catalogue
from bot.catalogue.trying import Trial
from bot.db import inbox, outbox
from bot.db.audit import By
from bot.db.engine import Database, Transaction
from bot.domain import InboxItem, Lane, Part
from bot.errors import ChangeRefused
from bot.telegram.acts import Answer, Call, say
from bot.telegram.gestures import Gestures
from bot.telegram.toolparts import parts
from bot.usage.plain import plain

JOB = "tools"
BEGUN = {
    "add": "I look at it; what I find comes here.",
    "try": "I run it once.",
    "reload": "I look at all sources anew.",
}
AGAIN = "The gateway stopped while {name} ran; what it did is unknown. I do not run it again by myself."
NOT_DELETED = "I could not delete your message with the secret: delete it yourself, please."


async def send(call: Call, rest: str, *, do: str) -> Answer:
    """Have something done about tools; `rest` are the words of the person who asks."""
    return await write(call, do, {"words": rest}, BEGUN[do])


async def write(call: Call, do: str, what: Mapping[str, Any], said: str = "") -> Answer:
    """Write an errand down, to be done at once."""
    about = {"person": call.person, "name": call.name, "lane": call.lane.key}
    body = {"job": JOB, "do": do, **about, **what}
    await inbox.add(call.tx, kind="house", lane=None, sender=call.person, body=body, now=call.now)
    return Answer(say(said).parts if said else (), then=(call.reach.wake_worker,))


@dataclass(frozen=True, slots=True)
class Errand:
    """One errand: what was asked, by whom and where."""

    item: InboxItem
    person: int
    name: str
    lane: Lane
    words: str

    @property
    def by(self) -> By:
        """Who changes something by this."""
        return By(self.person, "telegram")


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an errand: messages, and what is to be written down with them."""

    parts: tuple[Part, ...] = ()
    record: Callable[[Transaction], Awaitable[object]] | None = None


class Errands:
    """The runner of errands; `wake_sender` is called for the lane in which there is something to read."""

    def __init__(
        self, database: Database, catalogue: Catalogue, gestures: Gestures, wake_sender: Callable[[Lane], None]
    ) -> None:
        self._database = database
        self._catalogue = catalogue
        self._gestures = gestures
        self._wake_sender = wake_sender
        self._runners: Mapping[str, Callable[[Errand], Awaitable[Done]]] = {
            "try": self._try,
            "reload": self._reload,
            "unsay": self._unsay,
        }

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        body = item.body
        errand = Errand(item, body["person"], body["name"], Lane.parse(body["lane"]), body.get("words", ""))
        try:
            done = await self._runners[body["do"]](errand)
        except ChangeRefused as refused:
            done = Done((Part(plain(str(refused))),))
        await self._end(errand, done)

    async def _end(self, errand: Errand, done: Done) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            if done.record is not None:
                await done.record(tx)
            if done.parts:
                await outbox.add(tx, item=errand.item.id, lane=errand.lane, parts=done.parts, now=now)
            await inbox.done(tx, [errand.item.id], now=now)
        self._wake_sender(errand.lane)

    async def _try(self, errand: Errand) -> Done:
        name, *arguments = errand.words.split(maxsplit=1)
        tool = self._catalogue.get(name)
        if tool is None:
            raise ChangeRefused(f"{name[:80]} cannot be used now; /tools shows how it stands.")
        if errand.item.attempt > 1 and not tool.repeatable:
            raise ChangeRefused(AGAIN.format(name=name))
        trial = Trial(tool, arguments[0] if arguments else "", errand.person, errand.name, errand.lane)
        tried = await trying.run(self._database, trial)
        lines = [f"{tried.name} {plain(tried.arguments)}"]
        lines.append(f"{tried.result.outcome} after {1000 * tried.seconds:,.0f} ms, {tried.size:,} characters:")
        lines += [plain(line) for line in tried.result.text.splitlines()]

        async def record(tx: Transaction) -> None:
            await trying.note(tx, errand.by, tried, now=time.time())

        return Done(parts(lines), record)

    async def _reload(self, errand: Errand) -> Done:
        troubles = await self._catalogue.reload()
        lines = [plain(one) for one in troubles] or ["All sources are as they should be."]
        return Done(parts([*lines, f"{len(self._catalogue.tools)} tools can be used now."]))

    async def _unsay(self, errand: Errand) -> Done:
        deleted = await self._gestures.delete(errand.lane, int(errand.item.body["message"]))
        await self._database.scrub()
        return Done() if deleted else Done((Part(NOT_DELETED),))

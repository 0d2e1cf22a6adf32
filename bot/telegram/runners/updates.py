"""What is done about an update: the gate, then a turn, a command, a tap, or one line that says why not.

Whatever is answered here is one transaction: the effect, its outbox row and the item done. Turns do their
own.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bot.db.conversations import attachments, turns
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, Standing
from bot.db.queues import inbox, outbox
from bot.domain import InboxItem, Lane
from bot.errors import StoreUnavailable
from bot.telegram.access import NOT_LET_IN
from bot.telegram.actions import Act, Answer, Call, Reach, nothing, say
from bot.telegram.commands import callbacks as taps
from bot.telegram.commands import consent
from bot.telegram.commands import onboarding as door
from bot.telegram.commands import registry as commands
from bot.telegram.incoming import user_message as composing
from bot.telegram.incoming.attachment_loader import Gathering
from bot.telegram.incoming.attachments import enclosed
from bot.telegram.incoming.update import Visit, read
from bot.telegram.incoming.user_message import Letter
from bot.telegram.runners.refusals import Refusals
from bot.turns.handle import Running
from bot.turns.start import Ask

UNREADABLE = "An update from Telegram could not be read and was set aside; the log says more."
WAITED = 2.0  # seconds after which an answer says which message it is about

log = logging.getLogger(__name__)


class Handlers:
    """The runner of inbox items of kind `update`; `most_waiting` messages of a person are kept."""

    def __init__(
        self,
        database: Database,
        reach: Reach,
        gathering: Gathering,
        *,
        most_waiting: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._reach = reach
        self._gathering = gathering
        self._refusals = Refusals(most_waiting)
        self._clock = clock

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        """Handle one item, or several texts of one lane together; raises when an update cannot be read."""
        visits = await self._readable(items)
        first = visits[0]
        if first.person is not None:
            standing = self._reach.access.standing(first.person)
        else:
            standing = None
        if (
            standing in {"admin", "member"}
            and first.lane is not None
            and await self._is_turn(first, first.lane)
        ):
            await self._turn(visits, first.lane)
        else:
            await self._finish(visits, standing, *self._choose(first, standing))

    async def _is_turn(self, visit: Visit, lane: Lane) -> bool:
        if visit.item.shape != "deep" or visit.message is None:
            return visit.item.shape == "text"
        words = commands.parse(visit.message.text or visit.message.caption or "")[1]
        async with self._database.reading() as tx:
            return await consent.answered_deep(tx, visit.item, self._reach.second, lane.chat, words)

    async def _turn(self, visits: Sequence[Visit], lane: Lane) -> None:
        first = visits[0]
        last = visits[-1].message
        assert first.person is not None
        if self._reach.access.is_new(first.person):
            await self._admit(first.person, first.name)
        letters = self._gathering.foreseen([_letter(visit) for visit in visits])
        wanting = any(letter.wanting for letter in letters)
        if not wanting and (why := composing.refused(letters)) and not await self._is_known(first.item):
            await self._refuse(visits, why)
            return
        now = self._clock()
        goes_on = first.item.measured is not None
        named = first.item.stale or goes_on or len(visits) > 1 or now - first.item.received_at > WAITED
        told = composing.compose(letters, self._gathering.room)
        ask = Ask(
            items=tuple(visit.item for visit in visits),
            lane=lane,
            person=first.person,
            name=first.name,
            texts=told.texts,
            attachments=told.attachments,
            sent=told.sent,
            reply_to=last.message_id if last and named else None,
            silent=first.item.stale,
            preface=(late(now - first.sent_at) if first.item.stale else "") + composing.preface(letters),
            deep=first.item.shape == "deep",
        )
        await self._reach.turns.run(ask, partial(self._complete, visits, letters, ask) if wanting else None)

    async def _complete(
        self, visits: Sequence[Visit], letters: Sequence[Letter], ask: Ask, running: Running
    ) -> Ask | None:
        """The ask with what came with its messages; None if nothing of it can be used and nothing else was
        said.
        """
        if await self._is_known(ask.items[0]):
            return ask
        gathered = await running.work(self._gathering.gathered(letters, running.watch))
        if gathered is None:
            return ask  # it was stopped, and will say so
        if why := composing.refused(gathered):
            await self._refuse(visits, why)
            return None
        told = composing.compose(gathered, self._gathering.room)
        return replace(ask, texts=told.texts, attachments=told.attachments)

    async def _is_known(self, item: InboxItem) -> bool:
        """Whether its turn has begun before a restart, or was stopped: then what came with it is decided."""
        if item.attempt == 1:
            return False
        async with self._database.reading() as tx:
            return await attachments.needless(tx, item.id)

    async def _refuse(self, visits: Sequence[Visit], why: str) -> None:
        """Nothing that was sent can be answered: one line says why."""

        async def refuse(_: Call) -> Answer:
            return say(why)

        await self._finish(visits, "member", refuse, "")

    async def _admit(self, person: int, name: str) -> None:
        """The bot is open: somebody's first message makes them a guest, whom admins can see and block."""
        async with self._database.transaction() as tx:
            await people.put(tx, person, name, "member", now=self._clock())
        self._reach.access.remember(Person(person, name, "member", guest=True))

    def _choose(self, visit: Visit, standing: Standing | None) -> tuple[Act, str]:
        """What to do about a visit that is no turn, and the words it carries."""
        if visit.membership:
            return partial(self._refusals.membership, visit), ""
        if visit.chat in {"group", "supergroup"} and visit.message:
            return self._refusals.group, ""
        if visit.chat != "private" or visit.person is None or standing == "blocked":
            return nothing, ""
        if visit.query:
            return taps.choose(visit.query.data or "", standing)
        if visit.item.shape == "stop" and standing:
            return commands.stop, ""
        if visit.message and visit.item.shape in {"command", "new", "deep"}:
            return commands.choose(visit.message.text or visit.message.caption or "", standing)
        if visit.message is None:
            return commands.edited(
                (visit.edited.text or visit.edited.caption or "") if visit.edited else "", standing
            )
        if standing:
            return (partial(self._refusals.message, visit), "")
        return (door.knocked, "")

    async def _finish(self, visits: Sequence[Visit], standing: Standing | None, act: Act, words: str) -> None:
        """Act, answer and mark the items done in one transaction; then what only memory and Telegram must
        know.
        """
        first = visits[0]
        now = self._clock()
        ids = [visit.item.id for visit in visits]
        lane = first.lane or Lane(0)
        async with self._database.transaction() as tx:
            call = Call(
                tx, self._reach, first.item, lane, first.person or 0, first.name, standing, words, now
            )
            answer = await act(call)
            if answer.parts:
                silent = first.item.stale
                parts = [
                    replace(one, silent=one.silent or silent or at > 0) for at, one in enumerate(answer.parts)
                ]
                await outbox.add(tx, item=first.item.id, lane=lane, parts=parts, now=now)
            await inbox.done(tx, ids, now=now)
            if standing in {None, "blocked"}:
                await inbox.forget_body(tx, ids)
                await turns.fail(
                    tx, first.item.id, why=NOT_LET_IN, now=now
                )  # begun before a restart, if ever
        for then in answer.then:
            then()
        if answer.renews:
            with contextlib.suppress(StoreUnavailable):  # it is noticed a little later
                await self._reach.renew()
        if answer.parts:
            self._reach.wake_sender(lane)
        await self._gesture(first, answer)

    async def _gesture(self, visit: Visit, answer: Answer) -> None:
        gestures = self._reach.gestures
        if visit.query:
            await gestures.answer(visit.query.id, answer.toast)
            if answer.redraw and visit.query.message and visit.lane:
                await gestures.redraw(visit.lane, visit.query.message.message_id, answer.redraw)
        for gesture in answer.gestures:
            await gesture()

    async def _readable(self, items: Sequence[InboxItem]) -> list[Visit]:
        """Read the items; those that cannot be read are set aside if others can, else the library's error is
        raised.
        """
        visits = list[Visit]()
        broken = list[int]()
        for item in items:
            try:
                visits.append(read(item))
            except Exception:
                if len(broken) == len(items) - 1:
                    raise
                log.exception("an update cannot be read", extra={"action": "handlers.unreadable"})
                broken.append(item.id)
        if broken:
            await self._set_aside(broken)
        return visits

    async def _set_aside(self, items: Sequence[int]) -> None:
        now = self._clock()
        async with self._database.transaction() as tx:
            await inbox.dead(tx, items, error=UNREADABLE, now=now)
            told = await self._reach.notices.tell(tx, "unreadable", UNREADABLE, now=now)
        for lane in told:
            self._reach.wake_sender(lane)


def _letter(visit: Visit) -> Letter:
    """The raw message without the command before it, and what came with it."""
    message: dict[str, Any] = visit.item.body["message"]
    if visit.item.shape == "deep":
        words = "text" if "text" in message else "caption"
        message = message | {words: commands.parse(message[words])[1]}
    return Letter(message, visit.sent_at, enclosed(message))


def late(seconds: float) -> str:
    """What stands before an answer to something written long ago."""
    hours = seconds / 3600
    if hours < 2:
        ago = f"{seconds / 60:.0f} minutes"
    else:
        ago = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
    return f"(You wrote this {ago} ago, while I was away.)\n\n"

"""Asks a person about a tool call, hears the answer, and puts the turn back: also hours later, also after a
restart.

Owns who is asked and may answer, what an answer leads to, and when a question expires. Each act works inside
the caller's transaction and returns the lanes in which something is to be delivered once that is committed.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bot.agent import approval_prompt as questions
from bot.agent.approval_prompt import Matter
from bot.agent.taint import Ask
from bot.agent.tool_calls import Wanted
from bot.db.engine import Database, Transaction
from bot.db.queues import outbox
from bot.db.queues import parked_items as parking
from bot.db.queues.parked_items import Ended
from bot.db.retry import patiently
from bot.db.tools import approvals as stored
from bot.db.tools.approvals import Call, NewQuestion, Question, Who, Word
from bot.domain import Lane, Part
from tools.base import Tool, definition_hash

HERE_SECONDS = questions.HERE_HOURS * 3600.0

ASKED_ADMINS = "I have asked the admins whether I may run {}. You can write on meanwhile; I answer here."
NO_ADMIN = (
    "Only an admin who did not ask could allow me to run {}, and none can be reached now. So I do not run it."
)
NOT_YOURS = "This is not yours to answer."
TOO_LATE = "It is too late for that: nobody answered in time."

_TOLD: dict[Word, str] = {
    "once": "Allowed once by {}.",
    "here": f"Allowed for {questions.HERE_HOURS} hours by {{}}. /approvals takes it back.",
    "denied": "Denied by {}.",
    "expired": "Nobody answered in time; it is not run.",
    "stopped": "Stopped; it is not run.",
}
_TOAST: dict[Word, str] = {
    "once": "Allowed once.",
    "here": "Allowed here.",
    "denied": "Denied.",
    "expired": TOO_LATE,
    "stopped": "This was stopped.",
}


@dataclass(frozen=True, slots=True)
class Asker:
    """In which turn, for whom and where a call is made."""

    turn: int
    person: int
    name: str
    lane: Lane


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that needs a person; `is_asked`: the question is put already, and open."""

    call: Wanted
    tool: Tool
    ask: Ask
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What comes of a tap: a line for whoever tapped, the lanes to wake, and whether it `settled` the
    question.
    """

    toast: str
    lanes: tuple[Lane, ...] = ()
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """What approvals need of the house: `admins` who can be written to now, who is one, and whom to wake.

    `ended` hears of turns that were ended where they waited, once that is committed; their lanes need not be
    woken.
    """

    admins: Callable[[Transaction], Awaitable[Sequence[int]]]
    is_admin: Callable[[int], bool]
    wake_sender: Callable[[Lane], None]
    wake_worker: Callable[[], None]
    ended: Callable[[Ended], None]


class Approvals:
    """The one way to ask; `seconds` is how long a question stays open."""

    def __init__(
        self, database: Database, reach: Reach, *, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._reach = reach
        self._seconds = seconds
        self._clock = clock
        self._asked = asyncio.Event()

    async def where(self, tx: Transaction, who: Who, asker: Asker) -> list[Lane]:
        """Where a question is put; empty if nobody who may answer can be reached."""
        if who == "asker":
            return [asker.lane]
        return [Lane(admin) for admin in await self._reach.admins(tx) if admin != asker.person]

    async def allowed(self, tx: Transaction, asker: Asker, tool: Tool, binding: str, *, now: float) -> bool:
        """Whether such a call of theirs was allowed in this chat for a while by somebody who may allow it
        now, and the tool is the same since.
        """
        call = Call(asker.person, asker.lane.chat, tool.name, definition_hash(tool), binding)
        by = await stored.allowed_by(tx, call, now=now)
        return by is not None and (tool.rule.who == "asker" or self._is_other_admin(by, asker.person))

    async def of_turn(self, tx: Transaction, turn: int) -> dict[tuple[int, str], Question]:
        """What was asked in a turn, by step and call."""
        return await stored.of_turn(tx, turn)

    async def ask(
        self, tx: Transaction, asker: Asker, step: int, waiting: Iterable[Waiting], *, now: float
    ) -> list[Lane]:
        """Put the questions of a turn that is parked now. Call `asked` once that is committed."""
        woken = []
        for one in waiting:
            if not one.is_asked:
                woken += await self._ask(tx, asker, step, one, now)
        return woken

    def asked(self, lanes: Iterable[Lane]) -> None:
        """What was put is committed: have it delivered, and look when it expires."""
        self._wake(lanes)
        self._asked.set()

    async def answer(
        self, tx: Transaction, question: int, word: Word, by: tuple[int, str], *, now: float
    ) -> Heard:
        """Somebody tapped: who it is, by number and name. Wake the lanes, and the worker, once it is
        committed.
        """
        found = await stored.find(tx, question)
        (person, name) = by
        if found is None or (word == "here" and found.binding is None):
            return Heard("This button is too old.")
        if not self.may_answer(found, person):
            return Heard(NOT_YOURS)
        if found.answer is not None:
            mine = found.answered_by == person
            return Heard("You have answered this." if mine else _TOLD[found.answer].format("another admin"))
        if found.expires_at <= now:
            return Heard(TOO_LATE, await self._settle(tx, [found], "expired", None, now=now), settled=True)
        lanes = await self._settle(tx, [found], word, person, name, now=now)
        if word == "here" and found.binding is not None:
            call = Call(found.asker, found.lane.chat, found.tool, found.hash, found.binding)
            await stored.allow(tx, call, until=now + HERE_SECONDS, by=person, now=now)
        return Heard(_TOAST[word], lanes, settled=True)

    def may_answer(self, question: Question, person: int) -> bool:
        """Whether a question is this person's to answer; what only admins may allow is never the asker's own."""
        if question.who == "admins":
            return self._is_other_admin(person, question.asker)
        return person == question.asker

    def _is_other_admin(self, person: int, asker: int) -> bool:
        return person != asker and self._reach.is_admin(person)

    async def stop(self, tx: Transaction, turns: Sequence[int], *, now: float) -> tuple[Lane, ...]:
        """A person stopped these parked turns: they come to their end when they are taken up again."""
        return await self._settle(tx, await stored.open_questions(tx, turns=turns), "stopped", None, now=now)

    async def forget(self, tx: Transaction, lane: Lane, *, before: int, now: float) -> tuple[Lane, ...]:
        """A chat is forgotten: what waits in this lane of it ends, what was allowed in it is allowed no more."""
        await stored.revoke_all(tx, chat=lane.chat)
        return await self.stop(tx, await parking.of_lane(tx, lane, before=before), now=now)

    async def end(
        self, tx: Transaction, person: int, *, why: str, now: float
    ) -> tuple[Callable[[], object], ...]:
        """A person is let in no more: their questions, allowances and waiting turns end. Returns what is to
        be done once that is committed.
        """
        await stored.revoke_all(tx, person=person)
        lanes = []
        for one in await stored.open_questions(tx, person=person):
            await stored.answer(tx, one.id, "stopped", None, now=now)
            lanes += await self._tell(tx, one, "stopped", "")
        ended = await parking.end(tx, person, why=why, now=now)
        return (partial(self._wake, lanes), *(partial(self._reach.ended, one) for one in ended))

    async def run(self) -> None:
        """Let questions expire, until cancelled."""
        while True:
            self._asked.clear()
            at = await patiently(self._expire)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if at is None else max(0.0, at - self._clock())):
                    await self._asked.wait()

    async def _expire(self) -> float | None:
        """Deny what nobody answered in time; returns when the next question expires."""
        now = self._clock()
        lanes = tuple[Lane, ...]()
        async with self._database.reading() as tx:
            at = await stored.next_expiry(tx)
        if at is None or at > now:
            return at
        async with self._database.transaction() as tx:
            lanes = await self._settle(
                tx, await stored.open_questions(tx, until=now), "expired", None, now=now
            )
            at = await stored.next_expiry(tx)
        self._wake(lanes)
        self._reach.wake_worker()
        return at

    async def _ask(self, tx: Transaction, asker: Asker, step: int, one: Waiting, now: float) -> list[Lane]:
        arguments = questions.stored(one.call.arguments)
        tool = one.tool
        new = NewQuestion(
            turn=asker.turn,
            step=step,
            call_id=one.call.call.id,
            tool=tool.name,
            arguments=arguments,
            hash=definition_hash(tool),
            asker=asker.person,
            lane=asker.lane,
            who=one.ask.who,
            why=one.ask.why,
            binding=one.ask.binding,
            expires_at=now + self._seconds,
        )
        number = await stored.ask(tx, new, now=now)
        is_elsewhere = one.ask.who == "admins"
        matter = Matter(
            tool.name, arguments, asker.name, asker.person, one.ask.why, one.ask.binding, is_elsewhere
        )
        parts = questions.question(matter, number)
        lanes = await self.where(tx, one.ask.who, asker)
        for lane in lanes:
            rows = await outbox.add(tx, item=None, lane=lane, parts=parts, now=now)
            await outbox.insist(tx, rows)
            await stored.told(tx, number, rows)
        if asker.lane not in lanes:
            line = Part(ASKED_ADMINS.format(tool.name), silent=True)
            await outbox.add(tx, item=None, lane=asker.lane, parts=(line,), now=now)
        return [*lanes, asker.lane]

    async def _settle(
        self,
        tx: Transaction,
        found: Sequence[Question],
        word: Word,
        by: int | None,
        name: str = "",
        *,
        now: float,
    ) -> tuple[Lane, ...]:
        """Store one answer to several questions, tell it where they were put, and let turns go on that wait
        no more.
        """
        lanes = list[Lane]()
        for one in found:
            await stored.answer(tx, one.id, word, by, now=now)
            lanes += await self._tell(tx, one, word, name)
        waiting = {one.turn for one in await stored.open_questions(tx, turns=[one.turn for one in found])}
        for turn in {one.turn for one in found} - waiting:
            await parking.resume(tx, turn, stopped=word == "stopped", now=now)
        return tuple(lanes)

    async def _tell(self, tx: Transaction, question: Question, word: Word, name: str) -> list[Lane]:
        """Put the answer under the question, wherever that stands."""
        rows = await stored.messages(tx, question.id)
        return await outbox.close(tx, rows, _TOLD[word].format(name))

    def _wake(self, lanes: Iterable[Lane]) -> None:
        for lane in dict.fromkeys(lanes):
            self._reach.wake_sender(lane)

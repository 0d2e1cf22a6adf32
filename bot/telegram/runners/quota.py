"""Lets no turn begin for whoever has used up the day's canvases, and tells them once when four fifths are
gone.

Judged before a turn begins and not between its steps: a turn is bounded anyway, and to break it off would
throw away what it has cost. What is refused is kept as a turn without an answer, so that /retry has it
answered later.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bot.agent import history
from bot.db.conversations import attachments, conversations, turns
from bot.db.conversations.turns import Done, NewTurn
from bot.db.engine import Database, Transaction
from bot.db.people.people import Standing
from bot.db.queues import admin_notices as notices
from bot.db.queues import inbox, outbox
from bot.domain import Lane, Message, Part
from bot.telegram.access import Access
from bot.telegram.actions import Turns
from bot.telegram.commands.limits import DAY, Share, canvases, limit_of, share
from bot.turns.handle import Running
from bot.turns.runner import Complete
from bot.turns.start import Ask, user_messages

MOSTLY = 0.8
ENDING = "limit"
"""How the turn of a refused message ended."""


@dataclass(frozen=True, slots=True)
class Portions:
    """In canvases: what the settings give a member a day (None: as many as they like), and the most one turn
    takes.
    """

    a_day: int | None
    a_turn: int


class Rations:
    """Turns for those who may have them."""

    def __init__(
        self,
        turns: Turns,
        database: Database,
        access: Access,
        *,
        portions: Portions,
        wake_sender: Callable[[Lane], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.stop = turns.stop
        self.go_on = turns.go_on
        self._turns = turns
        self._database = database
        self._access = access
        self._portions = portions
        self._wake_sender = wake_sender
        self._clock = clock
        self._limits: dict[tuple[int, Standing | None], int | None] = {}
        self._free: dict[
            int, tuple[int, int]
        ] = {}  # by person: a day, and turns of it that cannot take too much

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        """See Turns.run."""
        if self._is_free(ask.person):
            await self._turns.run(ask, complete)
            return
        mine = await self._share(ask.person)
        if mine is not None and mine.is_used_up:
            complete = partial(self._refused, ask, complete, mine)
        await self._turns.run(ask, complete)
        if (left := await self._share(ask.person)) is not None:
            await self._tell(ask, left)

    def changed(self) -> None:
        """Somebody's limit is another one now."""
        self._limits.clear()
        self._free.clear()

    def _is_free(self, person: int) -> bool:
        """Whether a turn needs no look at what they have used; each such turn is one fewer."""
        day, turns = self._free.get(person, (0, 0))
        if day != self._today() or not turns:
            return False
        self._free[person] = day, turns - 1
        return True

    async def _share(self, person: int) -> Share | None:
        """How a person stands today; None: without a limit."""
        limit = await self._limit(person)
        if limit is None:
            return None
        async with self._database.reading() as tx:
            return await share(tx, person, limit, now=self._clock())

    async def _limit(self, person: int) -> int | None:
        who = person, self._access.standing(person)
        if who not in self._limits:
            async with self._database.reading() as tx:
                self._limits[who] = await limit_of(tx, *who, self._portions.a_day)
        return self._limits[who]

    def _today(self) -> int:
        return int(self._clock() // DAY)

    async def _refused(
        self, ask: Ask, complete: Complete | None, mine: Share, running: Running
    ) -> Ask | None:
        """None: it is refused, or there is nothing to answer. A turn that has begun goes on."""
        async with self._database.reading() as tx:
            has_begun = await turns.begun(tx, ask.items[0].id)
        whole = ask if complete is None else await complete(running)
        if whole is None or has_begun:
            return whole
        await self._refuse(whole, mine)
        return None

    async def _refuse(self, ask: Ask, mine: Share) -> None:
        line = (
            f"You have used up your {canvases(mine.limit or 0)} of today (about {mine.used}, estimated). "
            f"There are new ones {mine.again}; /retry then answers this message."
        )
        now = self._clock()
        async with self._database.transaction() as tx:
            await _keep(tx, ask, line, now)
            part = Part(ask.preface + line, silent=ask.silent)
            await outbox.add(
                tx, item=ask.items[0].id, lane=ask.lane, parts=(part,), reply_to=ask.reply_to, now=now
            )
            await self._is_news(tx, ask.person, now)
            await inbox.done(tx, [item.id for item in ask.items], now=now)

    async def _tell(self, ask: Ask, mine: Share) -> None:
        """One notice a day."""
        assert mine.limit is not None
        if mine.used < MOSTLY * mine.limit:
            turns = int((MOSTLY * mine.limit - mine.used) / self._portions.a_turn)
            self._free[ask.person] = self._today(), turns
            return
        now = self._clock()
        used = f"You have used about {mine.used} of your {canvases(mine.limit)} of today."
        line = f"{used} There are new ones {mine.again}."
        async with self._database.transaction() as tx:
            if await self._is_news(tx, ask.person, now):
                await outbox.add(tx, item=None, lane=ask.lane, parts=(Part(line, silent=True),), now=now)
        self._wake_sender(ask.lane)

    async def _is_news(self, tx: Transaction, person: int, now: float) -> bool:
        """Whether the person has not been told today."""
        return await notices.news(tx, f"canvases of {person}", str(int(now // DAY)), now=now)


async def _keep(tx: Transaction, ask: Ask, line: str, now: float) -> None:
    """Store the turn of a refused message, as if the line were its answer."""
    new = NewTurn(
        item=ask.items[0].id,
        lane=ask.lane,
        person=ask.person,
        conversation=(await conversations.find(tx, ask.lane)).number,
        tools=(),
        thinking=False,
        thinking_why="it was not begun: the day's canvases were used up",
        received_at=ask.items[0].received_at,
    )
    whole = [*user_messages(ask, now, now), Message("assistant", line)]
    turn = await turns.open_turn(tx, new, [item.id for item in ask.items], whole[:-1], now=now)
    assert turn is not None  # none had begun
    if ask.attached:
        await attachments.keep(tx, turn.id, ask.attachments)
    await turns.say(tx, turn.id, whole[-1:], now=now)
    size = history.estimate(whole)
    short = history.estimate(history.shortened(whole))
    await turns.end(tx, turn.id, Done(ENDING, 0, size, short, None, ()), now=now)

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
from bot.db.conversations.turns import NewTurn, TurnEnd
from bot.db.engine import Database, Transaction
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import admin_notices as notices
from bot.db.queues import inbox, outbox
from bot.domain import Lane, Message, Part
from bot.telegram.access import Access
from bot.telegram.actions import TurnService
from bot.telegram.commands.limits import (
    DAY_SECONDS,
    QuotaUsage,
    format_canvases,
    load_limit,
    load_quota_usage,
)
from bot.turns.handle import TurnHandle
from bot.turns.runner import RequestCompleter
from bot.turns.start import TurnRequest, build_user_messages

WARN_FRACTION = 0.8
QUOTA_ENDING = "limit"
"""How the turn of a refused message ended."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """In canvases: what the settings give a member a day (None: as many as they like), and the most one turn
    takes.
    """

    canvases_per_day: int | None
    max_canvases_per_turn: int


class QuotaGate:
    """Turns for those who may have them."""

    def __init__(
        self,
        turns: TurnService,
        database: Database,
        access: Access,
        *,
        settings: QuotaSettings,
        wake_sender: Callable[[Lane], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.stop = turns.stop
        self.wake = turns.wake
        self._turns = turns
        self._database = database
        self._access = access
        self._settings = settings
        self._wake_sender = wake_sender
        self._clock = clock
        self._limit_cache: dict[tuple[int, RoleOrBlocked | None], int | None] = {}
        self._unchecked_turns: dict[
            int, tuple[int, int]
        ] = {}  # by person: a day, and turns of it that cannot take too much

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """See Turns.run."""
        if self._can_skip_check(request.person):
            await self._turns.run(request, complete)
            return
        mine = await self._load_usage(request.person)
        if mine is not None and mine.is_used_up:
            complete = partial(self._complete_or_refuse, request, complete, mine)
        await self._turns.run(request, complete)
        if (left := await self._load_usage(request.person)) is not None:
            await self._warn(request, left)

    def clear_cache(self) -> None:
        """Somebody's limit is another one now."""
        self._limit_cache.clear()
        self._unchecked_turns.clear()

    def _can_skip_check(self, person: int) -> bool:
        """Whether a turn needs no look at what they have used; each such turn is one fewer."""
        day, turns = self._unchecked_turns.get(person, (0, 0))
        if day != self._today() or not turns:
            return False
        self._unchecked_turns[person] = day, turns - 1
        return True

    async def _load_usage(self, person: int) -> QuotaUsage | None:
        """How a person stands today; None: without a limit."""
        limit = await self._load_limit(person)
        if limit is None:
            return None
        async with self._database.read_transaction() as tx:
            return await load_quota_usage(tx, person, limit, now=self._clock())

    async def _load_limit(self, person: int) -> int | None:
        who = person, self._access.get_role(person)
        if who not in self._limit_cache:
            async with self._database.read_transaction() as tx:
                self._limit_cache[who] = await load_limit(tx, *who, self._settings.canvases_per_day)
        return self._limit_cache[who]

    def _today(self) -> int:
        return int(self._clock() // DAY_SECONDS)

    async def _complete_or_refuse(
        self, request: TurnRequest, complete: RequestCompleter | None, usage: QuotaUsage, handle: TurnHandle
    ) -> TurnRequest | None:
        """None: it is refused, or there is nothing to answer. A turn that has begun goes on."""
        async with self._database.read_transaction() as tx:
            has_begun = await turns.has_turn(tx, request.items[0].id)
        whole = request if complete is None else await complete(handle)
        if whole is None or has_begun:
            return whole
        await self._refuse(whole, usage)
        return None

    async def _refuse(self, request: TurnRequest, usage: QuotaUsage) -> None:
        line = (
            f"You have used up your {format_canvases(usage.limit or 0)} of today (about {usage.used}, estimated). "
            f"There are new ones {usage.reset_text}; /retry then answers this message."
        )
        now = self._clock()
        async with self._database.transaction() as tx:
            await _store_refused_turn(tx, request, line, now)
            part = Part(request.preface + line, silent=request.silent)
            await outbox.add(
                tx,
                item=request.items[0].id,
                lane=request.lane,
                parts=(part,),
                reply_to=request.reply_to,
                now=now,
            )
            await self._is_first_today(tx, request.person, now)
            await inbox.mark_done(tx, [item.id for item in request.items], now=now)

    async def _warn(self, request: TurnRequest, usage: QuotaUsage) -> None:
        """One notice a day."""
        assert usage.limit is not None
        if usage.used < WARN_FRACTION * usage.limit:
            turns = int((WARN_FRACTION * usage.limit - usage.used) / self._settings.max_canvases_per_turn)
            self._unchecked_turns[request.person] = self._today(), turns
            return
        now = self._clock()
        used = f"You have used about {usage.used} of your {format_canvases(usage.limit)} of today."
        line = f"{used} There are new ones {usage.reset_text}."
        async with self._database.transaction() as tx:
            if await self._is_first_today(tx, request.person, now):
                await outbox.add(tx, item=None, lane=request.lane, parts=(Part(line, silent=True),), now=now)
        self._wake_sender(request.lane)

    async def _is_first_today(self, tx: Transaction, person: int, now: float) -> bool:
        """Whether the person has not been told today."""
        return await notices.record_if_changed(
            tx, f"canvases of {person}", str(int(now // DAY_SECONDS)), now=now
        )


async def _store_refused_turn(tx: Transaction, request: TurnRequest, answer: str, now: float) -> None:
    """Store the turn of a refused message, as if the line were its answer."""
    new = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=(await conversations.find(tx, request.lane)).number,
        tools=(),
        thinking=False,
        thinking_why="it was not begun: the day's canvases were used up",
        received_at=request.items[0].received_at,
    )
    whole = [*build_user_messages(request, now, now), Message("assistant", answer)]
    turn = await turns.open_turn(tx, new, [item.id for item in request.items], whole[:-1], now=now)
    assert turn is not None  # none had begun
    if request.attachment_count:
        await attachments.store(tx, turn.id, request.attachments)
    await turns.append_messages(tx, turn.id, whole[-1:], now=now)
    size = history.estimate_tokens(whole)
    short = history.estimate_tokens(history.shorten_turn(whole))
    await turns.end(tx, turn.id, TurnEnd(QUOTA_ENDING, 0, size, short, None, ()), now=now)

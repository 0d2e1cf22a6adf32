"""The daily quota of canvases: whose limit applies, what is used, and the gate before a turn.

A limit set for a person applies whatever their role; a limit for everybody does not apply to admins. A group
has one for all that is asked in it, beside those of its people. Whose limit it is, is a number: a person's
or, negative, a group's.

The quota is checked before a turn begins and not between its steps: a turn is bounded anyway, and to break
it off would throw away what it has cost. A refused message is kept as a turn without an answer, and nothing
of what came with it is fetched; /retry queues it again.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol
from zoneinfo import ZoneInfo

from bot.agent import history
from bot.chat.access import Access
from bot.db.conversations import conversations, turns
from bot.db.conversations.turns import NewTurn, TurnEnd
from bot.db.engine import Database
from bot.db.people import limits, people
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import admin_notices, inbox, outbox
from bot.db.transaction import Transaction
from bot.domain import Lane, Message, Part
from bot.translations.formats import format_share, format_span
from bot.translations.translator import Translator, translatable
from bot.turns import RequestCompleter, TurnHandle, TurnRequest, build_user_messages
from bot.usage.local_times import start_of_day

WARN_FRACTION = 0.8
_PART_SECONDS = 30.0  # after which a replica looks again what its part of a quota is
QUOTA_ENDING = "limit"
"""How the turn of a refused message ended."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """In canvases: what the settings give a member a day (None: no limit), and the most one turn takes.

    A day is one of `time_zone` for everybody: in each person's own, a /zone would begin another.
    `count_replicas`: those that answer turns of the same people; None: no other process does.
    """

    canvases_per_day: int | None
    max_canvases_per_turn: int
    time_zone: str = "UTC"
    count_replicas: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What a person has used of today's canvases (estimated), and their limit (None: no limit).

    `resets_at` is in the person's time zone. Of `unknown_calls` it is not known what they took; each counts
    as one canvas at most.
    """

    used: int
    limit: int | None
    resets_at: datetime
    resets_in_seconds: float
    unknown_calls: int = 0

    @property
    def percent(self) -> int:
        """The share of the limit that is used, in percent, at most 100; 0 without a limit."""
        if self.limit is None:
            return 0
        return min(100, round(100 * self.used / max(1, self.limit)))

    @property
    def is_used_up(self) -> bool:
        """Whether no more turns are begun today."""
        return self.limit is not None and self.used >= self.limit

    def format_reset(self, translate: Translator) -> str:
        """Format when the count starts again, as a sentence."""
        total_minutes = max(1, round(self.resets_in_seconds / 60))
        hours, minutes = divmod(total_minutes, 60)
        spans = []
        if hours:
            spans.append(format_span(translate, hours * 3600, "hour"))
        if minutes:
            spans.append(format_span(translate, minutes * 60, "minute"))
        return translate(
            "It renews at {time} (in {span}).", time=f"{self.resets_at:%H:%M}", span=" ".join(spans)
        )


async def load_limit(
    tx: Transaction, person: int, role: RoleOrBlocked | None, default_per_day: int | None
) -> int | None:
    """Return what a person or a group may use a day; `default_per_day` is what the settings give a member."""
    own, everybody = await limits.find_rules(tx, person)
    if own is not None:
        return own.canvases
    if role == "admin" or person < 0:
        return None
    if everybody is not None:
        return everybody.canvases
    return default_per_day


async def load_quota_usage(
    tx: Transaction, person: int, limit: int | None, time_zone: str, *, now: float
) -> QuotaUsage:
    """Return what a person has used today; days are those of `time_zone`."""
    zone = ZoneInfo(time_zone)
    used = await limits.count_used_canvases(tx, person, start_of_day(now, zone))
    resets_at = start_of_day(now, zone, days_later=1)
    person_zone = await people.load_zone(tx, person, time_zone)
    return QuotaUsage(
        used.canvases,
        limit,
        datetime.fromtimestamp(resets_at, person_zone),
        resets_at - now,
        used.unknown_calls,
    )


@dataclass(frozen=True, slots=True)
class _Margin:
    """So many turns of this day that cannot reach the warning together, until the clock says `until`."""

    turns: int
    day: str
    until: float


class TurnService(Protocol):
    """Runs the turns that answer messages."""

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """Answer the request and mark its items done.

        `complete` adds what has to be fetched first; it returns None if it answered by itself.
        """


@dataclass(frozen=True, slots=True)
class QuotaGate:
    """A TurnService that refuses turns of people and groups whose quota is used up.

    It warns once a day, at four fifths. Far from that it does not look before each turn what is used: of
    several replicas each has an equal part of the turns that are left, for a short while. So a person may
    take a little more than the quota by writing in chats of several replicas at once.
    """

    turns: TurnService
    database: Database
    access: Access
    settings: QuotaSettings
    clock: Callable[[], float] = time.time
    _limit_cache: dict[tuple[int, RoleOrBlocked | None], int | None] = field(default_factory=dict)
    _margins: dict[int, _Margin] = field(default_factory=dict)  # by person or group

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        concerned = _list_holders(request.person, request.lane)
        holders = [holder for holder in concerned if not self._take_from_margin(holder)]
        far_from_warning: set[int] = set()
        for holder in holders:
            turns_left = await self._count_turns_to_warning(holder)
            if turns_left is None or turns_left >= 1:
                far_from_warning.add(holder)
                self._store_margin(holder, turns_left)
                continue
            before = await self._load_usage(holder)
            if before is not None and before.is_used_up:
                complete = partial(self._complete_or_refuse, request, complete, holder, before)
                break
        await self.turns.run(request, complete)
        for holder in holders:
            after = None if holder in far_from_warning else await self._load_usage(holder)
            if after is not None:
                await self._warn(request, holder, after)

    async def has_quota(self, person: int, lane: Lane) -> bool:
        """Whether a question of this person in this lane would not be refused now."""
        usages = [await self._load_usage(holder) for holder in _list_holders(person, lane)]
        return not any(usage is not None and usage.is_used_up for usage in usages)

    def clear_cache(self) -> None:
        """Forget the limits read so far, for one of them has changed."""
        self._limit_cache.clear()
        self._margins.clear()

    def _take_from_margin(self, holder: int) -> bool:
        """Whether a turn can do without a query of what they have used; counts it."""
        margin = self._margins.get(holder)
        if margin is None or not margin.turns or margin.day != self._today() or margin.until < self.clock():
            return False
        self._margins[holder] = replace(margin, turns=margin.turns - 1)
        return True

    async def _count_turns_to_warning(self, holder: int) -> int | None:
        """How many turns, the one that begins now included, cannot reach the warning together.

        None: there is no limit.
        """
        limit = await self._load_limit(holder)
        if limit is None:
            return None
        today = start_of_day(self.clock(), ZoneInfo(self.settings.time_zone))
        async with self.database.read_transaction() as tx:
            used = await limits.count_used_canvases(tx, holder, today)
        return int((WARN_FRACTION * limit - used.canvases) / self.settings.max_canvases_per_turn)

    def _store_margin(self, holder: int, turns_left: int | None) -> None:
        """Let turns do without a query of what they have used, beside the one that begins now."""
        if turns_left is None:
            return
        until = math.inf
        if self.settings.count_replicas is not None:
            turns_left //= self.settings.count_replicas()
            until = self.clock() + _PART_SECONDS
        self._margins[holder] = _Margin(max(0, turns_left - 1), self._today(), until)

    async def _load_usage(self, holder: int) -> QuotaUsage | None:
        """Return what a person or a group has used today; None without a limit."""
        limit = await self._load_limit(holder)
        if limit is None:
            return None
        async with self.database.read_transaction() as tx:
            return await load_quota_usage(tx, holder, limit, self.settings.time_zone, now=self.clock())

    async def _load_limit(self, holder: int) -> int | None:
        role = self.access.get_role(holder)
        key = (holder, role)
        if key not in self._limit_cache:
            async with self.database.read_transaction() as tx:
                self._limit_cache[key] = await load_limit(tx, holder, role, self.settings.canvases_per_day)
        return self._limit_cache[key]

    def _today(self) -> str:
        return str(datetime.fromtimestamp(self.clock(), ZoneInfo(self.settings.time_zone)).date())

    async def _complete_or_refuse(
        self,
        request: TurnRequest,
        complete: RequestCompleter | None,
        holder: int,
        usage: QuotaUsage,
        handle: TurnHandle,
    ) -> TurnRequest | None:
        """Complete the request of a turn that has begun already, and refuse any other unfetched.

        None: it is refused, or there is nothing to answer.
        """
        async with self.database.read_transaction() as tx:
            has_begun = await turns.has_turn(tx, request.items[0].id)
        if not has_begun:
            await self._refuse(request, holder, usage)
            return None
        if complete is None:
            return request
        return await complete(handle)

    async def _refuse(self, request: TurnRequest, holder: int, usage: QuotaUsage) -> None:
        now = self.clock()
        translate = request.translate
        used_up = translate("You've used up today's allowance.")
        if holder < 0:
            used_up = translate("This group has used up today's allowance.")
        hint = translate("After that, /retry answers this message.")
        line = f"{used_up} {usage.format_reset(translate)} {hint}"
        async with self.database.transaction() as tx:
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
            await self._record_notified_today(tx, holder, now)
            await inbox.mark_done(tx, [item.id for item in request.items], now=now)

    async def _warn(self, request: TurnRequest, holder: int, usage: QuotaUsage) -> None:
        """Send the warning if it is due and has not been sent today."""
        assert usage.limit is not None
        if usage.used < WARN_FRACTION * usage.limit:
            return
        now = self.clock()
        translate = request.translate
        used = format_used_share(translate, usage, in_group=holder < 0)
        line = f"{used} {usage.format_reset(translate)}"
        async with self.database.transaction() as tx:
            if await self._record_notified_today(tx, holder, now):
                await outbox.add(tx, item=None, lane=request.lane, parts=(Part(line, silent=True),), now=now)

    async def _record_notified_today(self, tx: Transaction, holder: int, now: float) -> bool:
        """Record that the person or group has been notified today; False if they had been already."""
        return await admin_notices.record_if_changed(tx, f"canvases of {holder}", self._today(), now=now)


def format_used_share(translate: Translator, usage: QuotaUsage, *, in_group: bool = False) -> str:
    """Format which share of the day's allowance is used, as a sentence."""
    text = translatable("You've used about {share} of today's allowance.")
    if in_group:
        text = translatable("This group has used about {share} of today's allowance.")
    return translate(text, share=format_share(translate, usage.percent / 100))


def _list_holders(person: int, lane: Lane) -> tuple[int, ...]:
    """Whose limits a turn concerns: its person's, and its group's."""
    if lane.chat < 0:
        return (person, lane.chat)
    return (person,)


async def _store_refused_turn(tx: Transaction, request: TurnRequest, answer: str, now: float) -> None:
    """Store the turn of a refused message, as if the refusal were its answer."""
    new = NewTurn(
        item=request.items[0].id,
        lane=request.lane,
        person=request.person,
        conversation=(await conversations.find(tx, request.lane)).number,
        tools=(),
        thinking=False,
        thinking_why="it was not begun: the day's allowance was used up",
        received_at=request.items[0].received_at,
    )
    questions = build_user_messages(request, now, now, UTC)
    messages = [*questions, Message("assistant", answer)]
    turn = await turns.open_turn(tx, new, [item.id for item in request.items], questions, now=now)
    assert turn is not None  # none had begun
    await turns.append_messages(tx, turn.id, messages[-1:], now=now)
    size = history.estimate_tokens(messages)
    short_size = history.estimate_tokens(history.shorten_turn(messages))
    await turns.end(tx, turn.id, TurnEnd(QUOTA_ENDING, 0, size, short_size, None, ()), now=now)

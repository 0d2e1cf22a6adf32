"""Polls for what has ended since the last poll: model calls, tool calls, turns and accounts, each once.

Also counts what waits. A poll holds no lock.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Row, Select, func, or_, select

from bot.db.engine import Database
from bot.db.tables import accounts, inbox, jobs, model_calls, outbox, tool_calls, turns
from bot.db.transaction import Transaction
from bot.domain import DAY_SECONDS

INTERVALS: Final = tuple(
    column.name for column in accounts.columns if column.name not in {"turn", "settled_at"}
)
MAX_SETTLE_SECONDS = float(DAY_SECONDS)  # after its end; a turn without an account by then gets none
PAGE_ROWS = 5000  # rows that one query reads
# Of two transactions on PostgreSQL the one with the lower ids may commit later, but not by so much.
MAX_COMMIT_SECONDS = 60.0

_SELECT_CALLS = select(
    model_calls.c.id,
    model_calls.c.purpose,
    model_calls.c.model,
    model_calls.c.outcome,
    model_calls.c.prompt_tokens,
    model_calls.c.cached_tokens,
    model_calls.c.completion_tokens,
    model_calls.c.reasoning_tokens,
    model_calls.c.seat_at,
    model_calls.c.ended_at,
)
_SELECT_TOOLS = select(tool_calls.c.id, tool_calls.c.name, tool_calls.c.outcome, tool_calls.c.ended_at)
_SELECT_TURNS = select(turns.c.id, turns.c.ending, turns.c.ended_at)
_SELECT_ACCOUNTS = select(
    turns.c.id, turns.c.ended_at, accounts.c.settled_at, *(accounts.c[name] for name in INTERVALS)
).select_from(turns.outerjoin(accounts, accounts.c.turn == turns.c.id))

# The first turn that is not over, or whose answer is not delivered.
_SELECT_OLDEST_ACTIVE_TURN = select(func.min(inbox.c.turn)).where(
    or_(
        inbox.c.state.in_(("new", "running", "parked")),
        inbox.c.id.in_(select(outbox.c.item).where(outbox.c.state.in_(("new", "sending", "open")))),
    )
)


@dataclass(frozen=True, slots=True)
class EndedRows:
    """Rows that have ended, with columns of their tables; `accounts` have the INTERVALS, in seconds."""

    calls: tuple[Row[Any], ...]
    tools: tuple[Row[Any], ...]
    turns: tuple[Row[Any], ...]
    accounts: tuple[Row[Any], ...]

    def list_between(self, begin: float, end: float) -> "EndedRows":
        """Those that ended from `begin` until before `end`; what has no known end is left out."""

        def ended(moment: float | None) -> bool:
            return moment is not None and begin <= moment < end

        return EndedRows(
            tuple(row for row in self.calls if ended(row.ended_at)),
            tuple(row for row in self.tools if ended(row.ended_at)),
            tuple(row for row in self.turns if ended(row.ended_at)),
            tuple(row for row in self.accounts if ended(row.settled_at)),
        )


@dataclass(frozen=True, slots=True)
class QueueDepths:
    """How many inbox items wait to be done, and how many messages to be delivered.

    `oldest_at`: since when the one among both that waits longest has waited, but for system jobs (epoch
    seconds, None: nothing waits). `failed_jobs`: how many system jobs failed when they ran last.
    """

    inbox: int
    outbox: int
    oldest_at: float | None
    failed_jobs: int


class EndedWatcher:
    """Reports what has ended since `begin`, which must be called first."""

    def __init__(self, database: Database, *, page_rows: int = PAGE_ROWS) -> None:
        self._database = database
        self._calls = _TableWatcher(_SELECT_CALLS, model_calls.c.id, _has_outcome, page_rows)
        self._tools = _TableWatcher(_SELECT_TOOLS, tool_calls.c.id, _has_outcome, page_rows)
        self._turns = _TableWatcher(_SELECT_TURNS, turns.c.id, _has_ended, page_rows)
        self._accounts = _TableWatcher(_SELECT_ACCOUNTS, turns.c.id, _is_settled, page_rows)

    async def begin(self) -> None:
        """Skip what has ended by now, and calls whose end an earlier process did not see."""
        async with self._database.read_transaction() as tx:
            for watcher, key in ((self._calls, model_calls.c.id), (self._tools, tool_calls.c.id)):
                watcher.reported_up_to = (await tx.execute(select(func.max(key)))).scalar_one() or 0
            last_settled = (await tx.execute(select(func.max(turns.c.id)))).scalar_one() or 0
            oldest_active = (await tx.execute(_SELECT_OLDEST_ACTIVE_TURN)).scalar_one_or_none()
            if oldest_active is not None:
                last_settled = oldest_active - 1
            self._turns.reported_up_to = last_settled
            self._accounts.reported_up_to = last_settled
        await self.poll(now=0.0)

    async def poll(self, *, now: float) -> EndedRows:
        """What has ended since the last poll. Raises StoreUnavailable."""
        async with self._database.read_transaction() as tx:
            return EndedRows(
                tuple(await self._calls.poll(tx, now=now)),
                tuple(await self._tools.poll(tx, now=now)),
                tuple(await self._turns.poll(tx, now=now)),
                tuple(await self._accounts.poll(tx, now=now, before=now - MAX_SETTLE_SECONDS)),
            )

    async def count_waiting(self) -> QueueDepths:
        """Count what waits now. Raises StoreUnavailable."""
        is_message = inbox.c.kind != "system"
        new_items = select(func.count(), func.min(inbox.c.received_at).filter(is_message)).where(
            inbox.c.state == "new"
        )
        is_due = (outbox.c.final, outbox.c.state.in_(("new", "open")))
        due_messages = select(func.count(), func.min(outbox.c.made_at)).where(*is_due)
        failed_jobs = select(func.count()).where(jobs.c.kind == "system", jobs.c.failures > 0)
        async with self._database.read_transaction() as tx:
            inbox_depth, oldest_item = (await tx.execute(new_items.select_from(inbox))).one()
            outbox_depth, oldest_message = (await tx.execute(due_messages.select_from(outbox))).one()
            failed_count = (await tx.execute(failed_jobs.select_from(jobs))).scalar_one()
        oldest_at = min((at for at in (oldest_item, oldest_message) if at is not None), default=None)
        return QueueDepths(int(inbox_depth), int(outbox_depth), oldest_at, int(failed_count))


class _TableWatcher:
    """Reports each row of a table once when it is over.

    All rows up to the id `reported_up_to` were reported, and after it those in `_reported_ids`. Rows up to
    `_complete_up_to` are all visible: none of them is in a transaction that has not committed yet.
    """

    def __init__(
        self, query: Select[Any], key: Column[Any], is_over: Callable[[Row[Any]], bool], page_rows: int
    ) -> None:
        self._query = query.order_by(key).limit(page_rows)
        self._key = key
        self._is_over = is_over
        self._page_rows = page_rows
        self.reported_up_to = 0
        self._reported_ids: set[int] = set()
        self._newest_ids: deque[tuple[float, int]] = deque()  # with the moments of the polls that saw them
        self._complete_up_to = 0

    async def poll(self, tx: Transaction, *, now: float, before: float = 0.0) -> list[Row[Any]]:
        """Rows that are over and were not reported; those that ended before `before` are not waited for."""
        newly_over = list[Row[Any]]()
        while self._newest_ids and self._newest_ids[0][0] <= now - MAX_COMMIT_SECONDS:
            self._complete_up_to = self._newest_ids.popleft()[1]
        after = self.reported_up_to
        is_contiguous = True  # every row up to here was reported, or is not expected to change
        while True:
            page = (await tx.execute(self._query.where(self._key > after))).all()
            for row in page:
                if self._is_over(row) and row.id not in self._reported_ids:
                    self._reported_ids.add(row.id)
                    newly_over.append(row)
                is_settled = row.id in self._reported_ids or _has_ended_before(row, before)
                is_contiguous = is_contiguous and is_settled and row.id <= self._complete_up_to
                if is_contiguous:
                    self.reported_up_to = row.id
                    self._reported_ids.discard(row.id)
            if page:
                after = page[-1].id
            if len(page) < self._page_rows:
                self._newest_ids.append((now, after))
                return newly_over
            await asyncio.sleep(0)  # queries do not yield to the event loop


def _has_outcome(row: Row[Any]) -> bool:
    return row.outcome is not None


def _has_ended(row: Row[Any]) -> bool:
    return row.ended_at is not None


def _is_settled(row: Row[Any]) -> bool:
    return row.whole is not None


def _has_ended_before(row: Row[Any], moment: float) -> bool:
    return moment > 0 and row.ended_at is not None and row.ended_at < moment

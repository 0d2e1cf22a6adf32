"""Connects the gateway with the other replicas that work on the same database.

A part of the composition root; factory.py builds the rest. What only replicas need is imported where they
are built, for a gateway alone on its database starts without it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bot.chat.access import Access
from bot.chat.group_directory import GroupDirectory
from bot.chat.quota import QuotaGate
from bot.db import revisions
from bot.db.conversations import calls
from bot.db.database_url import is_postgresql
from bot.db.engine import Database
from bot.db.queues import inbox, outbox
from bot.db.revision_watch import RevisionWatch
from bot.db.schema import find_newest_revision
from bot.db.shares import LockHolders, OwnShares, ShareHold
from bot.db.transaction import Transaction
from bot.domain import EndpointRole, Lane
from bot.errors import StoreUnavailable
from bot.jobs.outcomes import JobOutcomes
from bot.llm.seats import SeatLimiter, Seats
from bot.queue import Worker
from bot.settings import Settings
from bot.telegram.delivery.sender import OwnLanes, Sender
from bot.telegram.reactions import SeenReactions
from bot.tool_registry.registry import ToolRegistry
from bot.turns import Approvals, RunningTurns
from bot.usage.recorder import UsageRecorder

if TYPE_CHECKING:
    from bot.db.postgresql.session_locks import SessionLocks  # its driver is an extra
    from bot.replicas.leadership import Leadership
    from bot.replicas.messenger import ReplicaMessenger, Topic
    from bot.replicas.share_keeper import ShareKeeper
    from bot.replicas.shared_seats import ReplicaSeats

LOOK_SECONDS = 3.0  # between looks for work of which no notification came


@dataclass(frozen=True, slots=True)
class ReplicaLink:
    """What ties this process to the other replicas: shares, seats, and what they tell each other.

    `open_locks`: opens the session whose locks stand for shares.
    """

    messenger: "ReplicaMessenger"
    open_locks: "Callable[[], AbstractAsyncContextManager[SessionLocks]]"
    own_shares: OwnShares
    seats: "ReplicaSeats"

    def build_own_lanes(self) -> OwnLanes:
        """Which lanes the sender delivers in."""
        return OwnLanes(self.own_shares.holds, self.own_shares.is_confirmed)


@asynccontextmanager
async def open_replica_link(url: str, database: Database) -> AsyncIterator[ReplicaLink | None]:
    """What ties this process to the others on the same server; None: its database is a file of its own."""
    if not is_postgresql(url):
        yield None
        return
    from bot.db.postgresql.engine import open_server
    from bot.db.postgresql.session_locks import open_session_locks
    from bot.db.queues import seat_requests
    from bot.replicas.messenger import ReplicaMessenger
    from bot.replicas.shared_seats import ReplicaSeats, SeatStore

    messenger = ReplicaMessenger(database)
    own_shares = OwnShares()
    async with open_server(url, lock=seat_requests.LOCK) as seat_database:
        seats = ReplicaSeats(SeatStore(seat_database, messenger, own_shares.is_confirmed))
        yield ReplicaLink(messenger, partial(open_session_locks, url), own_shares, seats)


def build_seats(link: ReplicaLink | None, endpoint: EndpointRole, count: int) -> Seats:
    """The seats of an endpoint: this process's own, or those of all replicas."""
    return SeatLimiter(count) if link is None else link.seats.add(endpoint, count)


def build_revision_watch(
    database: Database,
    access: Access,
    groups: GroupDirectory,
    quota: QuotaGate,
    tool_registry: ToolRegistry,
) -> RevisionWatch:
    """Keeps what this process knows of people, groups and limits as other replicas change it."""

    async def reload_people() -> None:
        speakers = access.list_speakers()
        await access.load(database)
        for person in speakers - access.list_speakers():
            tool_registry.end_person(person)

    async def reload_limits() -> None:
        quota.clear_cache()

    return RevisionWatch(
        database,
        {
            revisions.PEOPLE: reload_people,
            revisions.GROUPS: partial(groups.load, database),
            revisions.LIMITS: reload_limits,
        },
    )


def find_holds(link: ReplicaLink | None) -> Mapping[int, ShareHold] | None:
    """The shares that this process holds, kept as they are at the moment; None: it is the only one."""
    return None if link is None else link.own_shares.holds


def bind_waiting_messages(link: ReplicaLink | None) -> Callable[[Lane, int], None]:
    """Return what tells the replica of another lane of a message that may have to wait there."""

    def tell_other(lane: Lane, message_id: int) -> None:
        if link is not None and not link.own_shares.has(lane):
            link.messenger.send("waits", f"{lane.key} {message_id}")

    return tell_other


class OtherTurns:
    """The turns that other replicas run, reached by messages."""

    def __init__(self, link: ReplicaLink) -> None:
        self._link = link

    def stop(self, lane: Lane, before: int | None) -> None:
        """Have the lane's turn stopped if another replica runs it, and it began before the item `before`."""
        self._link.messenger.send("stop", f"{lane.key} {before or ''}")

    def wake(self, lane: Lane) -> None:
        """Have the pause ended before the lane's turn, if another replica runs it, retries."""
        self._link.messenger.send("wake", lane.key)


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """The parts of this gateway that other replicas reach."""

    worker: Worker
    sender: Sender
    usage_recorder: UsageRecorder
    job_outcomes: JobOutcomes
    running_turns: RunningTurns
    approvals: Approvals
    reactions: SeenReactions
    tool_registry: ToolRegistry
    revision_watch: RevisionWatch


class ReplicaWork:
    """The work of this replica for its shares: it begins, goes on elsewhere, and is looked for."""

    def __init__(self, database: Database, own_shares: OwnShares, parts: ReplicaParts) -> None:
        self._database = database
        self._own_shares = own_shares
        self._parts = parts
        self._worker = parts.worker
        self._sender = parts.sender
        self._usage_recorder = parts.usage_recorder
        self._job_outcomes = parts.job_outcomes
        self._has_new_shares = False
        self._settled_lives: Collection[int] = ()

    def list_busy_shares(self) -> Collection[int]:
        """The shares in which something runs or is being sent."""
        return {*self._worker.list_busy_shares(), *self._sender.list_busy_shares()}

    async def take_over(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Put back what another replica had begun for the chats of these shares, held from `now` on."""
        await inbox.recover(tx, now=now, shares=numbers)
        await outbox.recover(tx, now=now, shares=numbers)
        await self._usage_recorder.take_over(tx, numbers, now=now)

    async def give_away(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Store what the next holder of these shares needs; nothing runs for them."""
        await self._usage_recorder.give_away(tx, numbers, now=now)

    async def begin(self) -> None:
        """Begin to work for shares that were taken."""
        self._has_new_shares = True
        self._worker.wake()
        await self._wake_due_lanes()

    def drain(self) -> None:
        """Begin nothing more; what runs ends soon, or goes on where its share is taken."""
        self._worker.drain()

    async def abandon(self, numbers: Collection[int]) -> None:
        """End at once whatever runs for these shares: another replica has them."""
        await self._worker.abandon(numbers)
        await self._sender.abandon(numbers)
        self._usage_recorder.abandon(numbers)

    def build_handlers(self) -> "dict[Topic, Callable[[str], object]]":
        """What is done when another replica tells of something."""
        return {
            "inbox": lambda _: self._worker.wake(),
            "outbox": lambda key: self._deliver(Lane.parse(key)),
            "stop": lambda key: self._stop_turn(*key.split(" ")),
            "wake": lambda key: self._parts.running_turns.wake_here(Lane.parse(key)),
            "changed": lambda _: self._look_for_changes(),
            "waits": lambda key: self._react(*key.split(" ")),
            "asked": lambda _: self._parts.approvals.wake(),
        }

    def _deliver(self, lane: Lane) -> None:
        if self._own_shares.has(lane):
            self._sender.wake(lane)

    def _stop_turn(self, lane_key: str, before: str) -> None:
        self._parts.running_turns.stop_here(Lane.parse(lane_key), int(before) if before else None)

    def _look_for_changes(self) -> None:
        self._parts.revision_watch.wake()
        self._parts.tool_registry.wake()

    def _react(self, lane_key: str, message_id: str) -> None:
        self._parts.reactions.react_if_waiting(Lane.parse(lane_key), int(message_id))

    async def run(self) -> None:
        """Look every few seconds, until cancelled, for what no notification told of."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._worker.wake()
            await self._wake_due_lanes()
            with suppress(StoreUnavailable):  # the next look does it
                await self._settle()

    async def _settle(self) -> None:
        """Store what replicas that are gone have left open: how due runs ended, and their own model calls."""
        if self._has_new_shares:
            await self._job_outcomes.recover()
            self._has_new_shares = False
        holders = self._own_shares.holders
        if holders is None or not self._own_shares.is_leader:
            return
        lives = holders.replicas.keys()
        if lives != self._settled_lives:
            async with self._database.transaction() as tx:
                await calls.abandon_calls_without_turn(tx, lives, now=time.time())
            self._settled_lives = lives

    async def _wake_due_lanes(self) -> None:
        due_lanes: list[Lane] = []
        with suppress(StoreUnavailable):
            async with self._database.read_transaction() as tx:
                due_lanes = await outbox.list_due_lanes(tx)
        for lane in due_lanes:
            if self._own_shares.has(lane):
                self._sender.wake(lane)


class Replica:
    """This process among the others: what it holds, what it hears, and whether it leads."""

    def __init__(
        self, link: ReplicaLink, work: ReplicaWork, keeper: "ShareKeeper", revision_watch: RevisionWatch
    ) -> None:
        self._link = link
        self._work = work
        self._keeper = keeper
        self._revision_watch = revision_watch

    @property
    def own_shares(self) -> OwnShares:
        """The shares it holds, and who holds the others."""
        return self._link.own_shares

    @property
    def leadership(self) -> "Leadership":
        """Whether this replica leads."""
        return self._keeper.leadership

    def leave(self) -> None:
        """Give everything to the others, each share as soon as its work has ended."""
        self._keeper.leave()
        self._link.seats.leave()

    async def run(self) -> None:
        """Hold shares and hear of work until cancelled; the locks are free then."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keeper.run(), name="share keeper")
            tasks.create_task(self._link.messenger.run(), name="replica messenger")
            tasks.create_task(self._work.run(), name="replica work")
            tasks.create_task(self._revision_watch.run(), name="revision watch")
            tasks.create_task(self._link.seats.run(), name="replica seats")


def build_replica(
    settings: Settings, bot_id: int, database: Database, link: ReplicaLink | None, parts: ReplicaParts
) -> Replica | None:
    """Build this replica once all that works for it is built; None: this process is the only one."""
    if link is None:
        return None
    from bot.replicas.agreement import ReplicaIdentity, digest_settings, list_agreed_values
    from bot.replicas.share_keeper import ReplicaCallbacks, ShareKeeper

    work = ReplicaWork(database, link.own_shares, parts)
    link.messenger.handlers = {**work.build_handlers(), **link.seats.build_handlers()}
    link.messenger.life = link.own_shares.life = life = parts.usage_recorder.life

    def on_look(holders: LockHolders) -> None:
        link.seats.note_holders(holders)
        parts.sender.divide_rate(link.own_shares.count_replicas())

    callbacks = ReplicaCallbacks(work, link.messenger.receive, on_look)
    digests = digest_settings(list_agreed_values(settings, bot_id))
    identity = ReplicaIdentity(life, find_newest_revision(), digests)
    keeper = ShareKeeper(database, link.own_shares, link.open_locks, callbacks, identity)
    return Replica(link, work, keeper, parts.revision_watch)

"""Holds an equal part of the shares for this replica, and leads when nobody else does."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from bot.db import share_holds
from bot.db.engine import Database
from bot.db.shares import PEER_SECONDS, LockHolders, OwnShares, ShareHold
from bot.db.transaction import Transaction
from bot.errors import SettingsRefused, ShareLost, StoreUnavailable
from bot.replicas.agreement import BOT, ReplicaIdentity, find_differences
from bot.replicas.leadership import Leadership
from bot.replicas.pulses import PULSE_SECONDS, SILENT_SECONDS, PulseWatch
from bot.replicas.share_plan import plan_shares

if TYPE_CHECKING:  # its driver is an extra
    from bot.db.postgresql.session_locks import SessionLocks

LOOK_SECONDS = 0.25  # between looks at who holds what, each of 0.2 ms: a dead replica is replaced as fast
LOOK_ALONE_SECONDS = 1.0  # while there is no other replica; one that comes waits so long for its part
_LOOKS_UNTIL_ALONE = 8  # whatever a replica left behind has been taken over by then
RECONNECT_SECONDS = 0.25
LEADING_SECONDS = PEER_SECONDS  # without a look; then another may lead, and two that poll hinder each other

log = logging.getLogger(__name__)


class ShareWork(Protocol):
    """What a replica does for the chats of its shares."""

    def list_busy_shares(self) -> Collection[int]:
        """The shares in which something runs or is being sent."""
        ...

    async def take_over(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Put back what another replica had begun for the chats of these shares, held from `now` on."""
        ...

    async def give_away(self, tx: Transaction, numbers: Collection[int], *, now: float) -> None:
        """Store what the next holder of these shares needs; nothing runs for them."""
        ...

    async def begin(self) -> None:
        """Begin to work for shares that were taken."""
        ...

    async def abandon(self, numbers: Collection[int]) -> None:
        """End at once whatever runs for these shares: another replica has them."""
        ...

    def drain(self) -> None:
        """Begin nothing more; what runs ends soon, or goes on where its share is taken."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaCallbacks:
    """`on_notification`: gets what other replicas notify. `on_look`: gets who holds what, at each look."""

    work: ShareWork
    on_notification: Callable[[str], object]
    on_look: Callable[[LockHolders], object]


class ShareKeeper:
    """Takes free shares, gives away what is beyond its part, and notices what it has lost.

    `own_shares`: kept as they are at the moment. `open_locks`: opens the session whose locks stand for
    shares. `leading_seconds`: for which it leads without a look. Once the database has another schema than
    `identity`, it gives everything to replicas of the other version; while replicas of another bot are there,
    `run` raises SettingsRefused.
    """

    def __init__(
        self,
        database: Database,
        own_shares: OwnShares,
        open_locks: "Callable[[], AbstractAsyncContextManager[SessionLocks]]",
        callbacks: ReplicaCallbacks,
        identity: ReplicaIdentity,
        *,
        leading_seconds: float = LEADING_SECONDS,
    ) -> None:
        self._database = database
        self._own_shares = own_shares
        self._holds = own_shares.holds
        self._open_locks = open_locks
        self._callbacks = callbacks
        self._identity = identity
        self._life = identity.life
        self.leadership = Leadership()
        self._leading_seconds = leading_seconds
        self._is_leaving = False
        self._is_lost = False  # the session
        self._looked_at = -math.inf  # monotonic
        self._looks_alone = 0  # in a row
        self._pulse_watch = PulseWatch()
        self._pulses_read_at = -math.inf  # monotonic

    def leave(self) -> None:
        """Lead no longer, take nothing more, and give each share away as soon as its work has ended."""
        self._is_leaving = True
        self.leadership.end()

    async def run(self) -> None:
        """Keep shares until cancelled; then the session ends, and with it all locks."""
        while True:
            try:
                await self._keep()
            except StoreUnavailable as error:
                self._note_loss(error)
            await asyncio.sleep(RECONNECT_SECONDS)

    def _note_loss(self, error: StoreUnavailable) -> None:
        """Note that there is no session; while the server is away nobody else leads, and admins are told."""
        if not self._is_lost:
            self._is_lost = True
            log.warning("the locks are lost: %s", error, extra={"action": "replica.lost"})
        if time.monotonic() > self._looked_at + self._leading_seconds:
            self.leadership.end()

    async def _keep(self) -> None:
        """Work with one session until it is lost."""
        async with self._open_locks() as locks:
            await locks.end_earlier_session(self._life)
            await self._compare_settings(locks)
            await locks.join(self._life)
            self._is_lost = False
            log.info("replica %d takes part", self._life, extra={"action": "replica.joined"})
            await self._retake(locks)
            while True:
                await self._look(locks)
                await self._end_silent_sessions(locks)
                is_alone = self._looks_alone >= _LOOKS_UNTIL_ALONE
                pause = LOOK_ALONE_SECONDS if is_alone else LOOK_SECONDS
                async for notification in locks.wait_for_notifications(pause):
                    self._callbacks.on_notification(notification)

    async def _compare_settings(self, locks: "SessionLocks") -> None:
        """Say which settings differ from those of the others, which began earlier."""
        own = self._identity.settings
        differences = find_differences(own, await locks.hold_settings(own))
        if BOT in differences:
            raise SettingsRefused(
                "DATABASE_URL: a gateway of another bot works on this database. "
                "Give each bot a database of its own, or stop the other gateway."
            )
        if differences:
            log.warning(
                "%s differ from those of a gateway that runs already: give all the same values",
                ", ".join(differences),
                extra={"action": "replica.disagrees"},
            )

    async def _retake(self, locks: "SessionLocks") -> None:
        """Take the shares of a lost session again, and abandon what another replica has by now."""
        taken = await locks.try_take(self._holds.keys())
        async with self._database.read_transaction() as tx:
            standing = await share_holds.list_standing(tx, self._holds.values())
        kept = {hold.share for hold in standing if hold.share in taken}
        await self._abandon(self._holds.keys() - kept)
        await self._begin(taken)

    async def _look(self, locks: "SessionLocks") -> None:
        looked_at = time.monotonic()
        holders = await locks.list_holders()
        self._check_schema(holders.schema)
        await self._abandon(self._holds.keys() - holders.own_shares)
        self._own_shares.confirm(holders, looked_at, locks.has_unread)
        self._looked_at = looked_at
        self._looks_alone = self._looks_alone + 1 if len(holders.replicas) == 1 else 0
        self._callbacks.on_look(holders)
        if self._is_leaving and holders.session not in holders.leaving:
            await locks.leave(self._life)
        await self._update_leadership(locks, holders)
        plan = plan_shares(holders, self._callbacks.work.list_busy_shares(), leaves=self._is_leaving)
        await self._give(locks, plan.give)
        taken = await locks.try_take(plan.take)
        await self._begin((taken | holders.own_shares) - set(plan.give) - self._holds.keys())

    async def _end_silent_sessions(self, locks: "SessionLocks") -> None:
        """Free what a replica holds that stands still; its late writes are refused."""
        now = time.monotonic()
        if self._looks_alone or now < self._pulses_read_at + PULSE_SECONDS:
            return
        self._pulses_read_at = now
        for session in self._pulse_watch.list_silent(await locks.list_pulses(), now):
            log.warning(
                "another gateway has stood still for %.0f s: its chats are taken over",
                SILENT_SECONDS,
                extra={"action": "replica.silent"},
            )
            await locks.end_session(session)

    def _check_schema(self, current: str | None) -> None:
        if current in {None, self._identity.schema, self._own_shares.other_schema}:
            return
        self._own_shares.other_schema = current
        log.warning(
            "the database has schema %s now, this version works with %s: "
            "the chats go to gateways of the other version; stop this one",
            current,
            self._identity.schema,
            extra={"action": "replica.outdated"},
        )
        self.leave()
        self._callbacks.work.drain()

    async def _update_leadership(self, locks: "SessionLocks", holders: LockHolders) -> None:
        if self._is_leaving:
            if holders.is_leader and not self.leadership.is_active:
                await locks.stop_leading()
        elif holders.leader not in {None, holders.session}:
            self.leadership.end()
        elif holders.leader is not None or await locks.try_lead():
            if not self.leadership.is_granted:
                log.info("replica %d leads", self._life, extra={"action": "replica.leads"})
            if holders.leader is None:
                # Known before the next look: /metrics leaves to the leader what ends meanwhile.
                leading = replace(holders, leader=holders.session)
                self._own_shares.confirm(leading, self._looked_at, locks.has_unread)
            self.leadership.grant()

    async def _begin(self, numbers: Collection[int]) -> None:
        """Begin to work for shares whose locks are held; while the database is away, at a later look."""
        if not numbers:
            return
        try:
            async with self._database.transaction() as tx:
                now = time.time()
                holds = await share_holds.take_over(
                    tx, numbers, self._life, now=now, kept=self._holds.values()
                )
                new = [hold.share for hold in holds if hold.share not in self._holds]
                await self._callbacks.work.take_over(tx, new, now=now)
        except StoreUnavailable:
            return
        self._holds.update({hold.share: hold for hold in holds})
        await self._callbacks.work.begin()

    async def _give(self, locks: "SessionLocks", numbers: Collection[int]) -> None:
        """Give shares away in which nothing runs; nothing more is begun for them from now on."""
        holds = [hold for number in numbers if (hold := self._holds.pop(number, None))]
        if not holds:
            return
        try:
            await self._end_holds(holds)
        except StoreUnavailable:
            self._holds.update({hold.share: hold for hold in holds})
            raise
        except ShareLost:
            pass  # another replica has one of them; who takes the others ends their holds
        await self._callbacks.work.abandon(numbers)
        await locks.give(numbers)

    async def _end_holds(self, holds: Collection[ShareHold]) -> None:
        """Store that these shares are given away, and what their next holder needs."""
        async with self._database.transaction() as tx:
            now = time.time()
            await share_holds.end_holds(tx, holds, now=now)
            await self._callbacks.work.give_away(tx, [hold.share for hold in holds], now=now)

    async def _abandon(self, numbers: Collection[int]) -> None:
        """End the work under holds that another replica has by now."""
        lost = [number for number in numbers if self._holds.pop(number, None)]
        if lost:
            await self._callbacks.work.abandon(lost)

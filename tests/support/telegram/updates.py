"""The queue of updates as tests fill it: with anything, with repetitions, with getUpdates' own throttles."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from bot.sim.telegram.events import ChangeNotifier, Clock
from bot.sim.telegram.params import TelegramRefusal
from bot.sim.telegram.updates import UPDATE_LIFETIME_SECONDS, PendingUpdate, UpdateQueue, encode_json

_MAX_REMEMBERED_UPDATES = 10_000


class RepeatedUpdate(PendingUpdate):
    """A repetition, which no offset confirms."""


class ScriptedUpdateQueue(UpdateQueue):
    """The updates of one bot.

    `throttled` adds getUpdates' own throttles: an offset requested again within 3 s waits, within 0.5 s gets
    one update, a second 409 within 3 s comes late.
    """

    def __init__(self, clock: Clock, changes: ChangeNotifier, *, throttled: bool) -> None:
        super().__init__(clock, changes)
        self._throttled = throttled
        self._bodies: dict[int, bytes] = {}
        self._last_poll = (-1, 0.0)
        self._next_conflict = 0.0

    @property
    def pending_ids(self) -> list[int]:
        """The ids that are not yet confirmed, in order."""
        self._forget_expired()
        return [update.update_id for update in self._pending]

    @property
    def is_polled(self) -> bool:
        """Whether a long poll is waiting."""
        return self._poll_waiter is not None

    def put_raw(self, raw: Mapping[str, Any] | bytes) -> int:
        """Queue anything: a mapping (gets an update_id if it has none) or bytes sent exactly as they are."""
        if isinstance(raw, bytes):
            update_id = self._take_id()
            body = raw
        else:
            own_id = raw.get("update_id")
            update_id = own_id if isinstance(own_id, int) else self._take_id()
            body = encode_json({"update_id": update_id, **raw})
        self._append(PendingUpdate(update_id, body, self._clock.now() + UPDATE_LIFETIME_SECONDS))
        return update_id

    def repeat(self, update_id: int) -> None:
        """Deliver an update once more whatever was confirmed, as after a lost confirmation.

        KeyError if it is long gone.
        """
        self._append(
            RepeatedUpdate(update_id, self._bodies[update_id], self._clock.now() + UPDATE_LIFETIME_SECONDS)
        )

    def restart_ids(self, next_id: int) -> None:
        """Continue counting at `next_id`, as Telegram does at a random id after a week of silence."""
        self._next_id = next_id

    async def poll(
        self, offset: int, limit: int, seconds: float, wait_for_disconnect: Callable[[], Awaitable[object]]
    ) -> list[PendingUpdate]:
        """One getUpdates: confirm, then wait up to `seconds` for updates."""
        limit, seconds = self._throttle(offset, limit, seconds)
        return await super().poll(offset, limit, seconds, wait_for_disconnect)

    def mark_sent(self, batch: Iterable[PendingUpdate]) -> None:
        """Record that the answer with these updates has left."""
        for update in batch:
            if isinstance(update, RepeatedUpdate) and update in self._pending:
                self._pending.remove(update)

    def _throttle(self, offset: int, limit: int, seconds: float) -> tuple[int, float]:
        last_offset, last_time = self._last_poll
        self._last_poll = (offset, self._clock.now())
        since = self._last_poll[1] - last_time
        if not self._throttled or offset != last_offset or since >= 3:
            return limit, seconds
        return (1 if since < 0.5 else limit), max(seconds, 3.0)

    def is_confirmed(self, update: PendingUpdate, offset: int) -> bool:
        """Whether an offset confirms an update."""
        return not isinstance(update, RepeatedUpdate) and super().is_confirmed(update, offset)

    async def build_conflict(self, reason: str) -> TelegramRefusal:
        """The refusal of a poll beside another one or a webhook."""
        now = self._clock.now()
        if self._throttled and now < self._next_conflict:
            await asyncio.sleep(3)
        else:
            self._next_conflict = now + 3
        return await super().build_conflict(reason)

    def _append(self, update: PendingUpdate) -> None:
        self._bodies[update.update_id] = update.body
        if len(self._bodies) > _MAX_REMEMBERED_UPDATES:
            del self._bodies[next(iter(self._bodies))]
        super()._append(update)

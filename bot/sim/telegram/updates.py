"""Keeps updates until they are confirmed by an offset or expire, and lets one long poll at a time wait for
them.

Owns the ids of updates, the webhook's address and the conflict between pollers; knows nothing of what updates
say.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.sim.telegram.events import Changes, Clock
from bot.sim.telegram.params import Json, Refusal

DAY = 86_400.0
LONGEST_POLL = 50.0
_BATCH_BYTES = 4 << 20
_REMEMBERED = 10_000
_FUTURE = 10  # an offset further ahead than this is of another age and confirms nothing
_NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
_OTHER_POLLER = "terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_SET = "terminated by setWebhook request"
_WEBHOOK_ACTIVE = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """An update as it will be sent. `expires` is Unix time; `again` marks a repetition that no offset
    confirms.
    """

    update_id: int
    body: bytes
    expires: float
    again: bool = False


class UpdateQueue:
    """The updates of one bot."""

    def __init__(self, clock: Clock, changes: Changes, *, paced: bool) -> None:
        self._clock = clock
        self._changes = changes
        self._paced = paced
        self._pending: deque[Pending] = deque()
        self._seen: dict[int, bytes] = {}
        self._next_id = random.randrange(100_000_000, 900_000_000)  # noqa: S311 - a number, not a secret
        self._allowed: frozenset[str] | None = None
        self._waiting: asyncio.Future[str] | None = None
        self._last_poll = (-1, 0.0)
        self._next_conflict = 0.0
        self.webhook_url = ""

    @property
    def pending_ids(self) -> list[int]:
        """Ids of what is not yet confirmed, in order."""
        self._forget_expired()
        return [update.update_id for update in self._pending]

    @property
    def is_polled(self) -> bool:
        """Whether a long poll waits right now."""
        return self._waiting is not None

    @property
    def allowed(self) -> frozenset[str] | None:
        """The kinds asked for, None for the default set."""
        return self._allowed

    def put(self, kind: str, payload: Json, lifetime: float = DAY, sent_at: float | None = None) -> int:
        """Queue an update; expires `lifetime` seconds after `sent_at` (Unix time). A kind not asked for is
        dropped.
        """
        update_id = self._take_id()
        if self._allowed is not None:
            wanted = kind in self._allowed
        else:
            wanted = kind not in _NOT_BY_DEFAULT
        if wanted:
            expires = (self._clock.now() if sent_at is None else sent_at) + lifetime
            self._append(Pending(update_id, _encode({"update_id": update_id, kind: payload}), expires))
        return update_id

    def put_raw(self, raw: Mapping[str, Any] | bytes, update_id: int | None = None) -> int:
        """Queue anything: a mapping (gets an update_id if it has none) or bytes sent exactly as they are."""
        if isinstance(raw, bytes):
            update_id = self._take_id() if update_id is None else update_id
            body = raw
        else:
            given = raw.get("update_id", update_id)
            update_id = given if isinstance(given, int) else self._take_id()
            body = _encode({"update_id": update_id, **raw})
        self._append(Pending(update_id, body, self._clock.now() + DAY))
        return update_id

    def repeat(self, update_id: int) -> None:
        """Deliver an update once more whatever was confirmed, as after a lost confirmation; KeyError if long
        gone.
        """
        self._append(Pending(update_id, self._seen[update_id], self._clock.now() + DAY, again=True))

    def restart_ids(self, at: int) -> None:
        """Go on counting from `at`, as Telegram does somewhere at random after a week of silence."""
        self._next_id = at

    def allow(self, kinds: Any) -> None:
        """Remember the kinds asked for; an empty list means the default set, anything unreadable changes
        nothing.
        """
        if isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds):
            self._allowed = frozenset(kind.lower() for kind in kinds) or None

    def set_webhook(self, url: str) -> None:
        self.webhook_url = url
        if url:
            self._end_waiting(_WEBHOOK_SET)

    def drop_all(self) -> None:
        self._pending.clear()
        self._changes.tell()

    async def poll(
        self, offset: int, limit: int, seconds: float, hung_up: Callable[[], Awaitable[object]]
    ) -> list[Pending]:
        """One getUpdates: confirm, then wait up to `seconds` for updates or until `hung_up` returns (client
        gone).
        """
        if self.webhook_url:
            raise await self._conflict(_WEBHOOK_ACTIVE)
        limit, seconds = self._pace(
            offset, limit if 1 <= limit <= 100 else 100, min(max(seconds, 0.0), LONGEST_POLL)
        )
        self._end_waiting(_OTHER_POLLER)
        self._confirm(offset)
        batch = self._batch(offset, limit)
        if batch or not seconds:
            return batch
        ended = await self._wait(seconds, hung_up)
        if ended:
            raise await self._conflict(ended)
        return self._batch(offset, limit)

    def sent(self, batch: Iterable[Pending]) -> None:
        """The answer with these updates has left."""
        for update in batch:
            if update.again and update in self._pending:
                self._pending.remove(update)

    def _pace(self, offset: int, limit: int, seconds: float) -> tuple[int, float]:
        last_offset, last_time = self._last_poll
        self._last_poll = (offset, self._clock.now())
        since = self._last_poll[1] - last_time
        if not self._paced or offset != last_offset or since >= 3:
            return limit, seconds
        return (1 if since < 0.5 else limit), max(seconds, 3.0)

    async def _wait(self, seconds: float, hung_up: Callable[[], Awaitable[object]]) -> str:
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._changes.tell()
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self._end_when(hung_up, waiting))
                try:
                    async with asyncio.timeout(seconds):
                        return await waiting
                except TimeoutError:
                    return ""
                finally:
                    watch.cancel()
        finally:
            if self._waiting is waiting:
                self._waiting = None
                self._changes.tell()

    async def _end_when(self, hung_up: Callable[[], Awaitable[object]], waiting: asyncio.Future[str]) -> None:
        await hung_up()
        if not waiting.done():
            waiting.set_result("")

    def _end_waiting(self, conflict: str) -> None:
        waiting = self._waiting
        self._waiting = None
        if waiting is not None and not waiting.done():
            waiting.set_result(conflict)

    async def _conflict(self, reason: str) -> Refusal:
        now = self._clock.now()
        if self._paced and now < self._next_conflict:
            await asyncio.sleep(3)
        else:
            self._next_conflict = now + 3
        return Refusal(409, f"Conflict: {reason}")

    def _take_id(self) -> int:
        update_id = self._next_id
        self._next_id = self._next_id + 1
        return update_id

    def _append(self, update: Pending) -> None:
        self._pending.append(update)
        self._seen[update.update_id] = update.body
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result("")
        self._changes.tell()

    def _confirm(self, offset: int) -> None:
        self._forget_expired()
        if offset < 0:
            while len(self._pending) > -offset:
                self._pending.popleft()
        elif offset <= self._next_id + _FUTURE and any(update.update_id < offset for update in self._pending):
            self._pending = deque(u for u in self._pending if u.again or u.update_id >= offset)
            self._changes.tell()

    def _forget_expired(self) -> None:
        now = self._clock.now()
        if any(update.expires <= now for update in self._pending):
            self._pending = deque(update for update in self._pending if update.expires > now)

    def _batch(self, offset: int, limit: int) -> list[Pending]:
        batch: list[Pending] = []
        size = 0
        stale = 0 < offset <= self._next_id + _FUTURE
        for update in self._pending:
            if stale and update.update_id < offset and not update.again:
                continue
            size += len(update.body)
            if len(batch) == limit or (batch and size > _BATCH_BYTES):
                break
            batch.append(update)
        return batch


def _encode(update: Json) -> bytes:
    return json.dumps(update, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

"""Keeps updates until an offset confirms them or they expire; one long poll at a time waits for them.

Owns the ids of updates, the webhook's address and the conflict between pollers; knows nothing of the contents
of updates.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bot.sim.telegram.events import ChangeNotifier, Clock
from bot.sim.telegram.params import Json, TelegramRefusal

UPDATE_LIFETIME_SECONDS = 86_400.0
MAX_POLL_SECONDS = 50.0
_MAX_BATCH_BYTES = 4 << 20
_MAX_OFFSET_AHEAD = 10  # an offset further ahead than this is of another age and confirms nothing
_OPT_IN_KINDS = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
_OTHER_POLLER = "terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_SET = "terminated by setWebhook request"
_WEBHOOK_ACTIVE = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """An update as it will be sent; `expires_at` is Unix time."""

    update_id: int
    body: bytes
    expires_at: float


class UpdateQueue:
    """The updates of one bot."""

    def __init__(self, clock: Clock, changes: ChangeNotifier) -> None:
        self._clock = clock
        self._changes = changes
        self._pending: deque[PendingUpdate] = deque()
        self._next_id = random.randrange(100_000_000, 900_000_000)  # noqa: S311 - a number, not a secret
        self._allowed_kinds: frozenset[str] | None = None
        self._poll_waiter: asyncio.Future[str] | None = None
        self.webhook_url = ""

    def put(
        self,
        kind: str,
        payload: Json,
        lifetime_seconds: float = UPDATE_LIFETIME_SECONDS,
        sent_at: float | None = None,
    ) -> int:
        """Queue an update, which expires `lifetime_seconds` after `sent_at` (Unix time).

        A kind that was not requested is dropped.
        """
        update_id = self._take_id()
        if self._allowed_kinds is not None:
            is_allowed = kind in self._allowed_kinds
        else:
            is_allowed = kind not in _OPT_IN_KINDS
        if is_allowed:
            expires = (self._clock.now() if sent_at is None else sent_at) + lifetime_seconds
            self._append(
                PendingUpdate(update_id, encode_json({"update_id": update_id, kind: payload}), expires)
            )
        return update_id

    def set_allowed_kinds(self, kinds: Any) -> None:
        """Remember the requested kinds.

        An empty list means the default set; an unreadable one changes nothing.
        """
        if isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds):
            self._allowed_kinds = frozenset(kind.lower() for kind in kinds) or None

    def set_webhook(self, url: str) -> None:
        self.webhook_url = url
        if url:
            self._end_poll(_WEBHOOK_SET)

    def drop_all(self) -> None:
        self._pending.clear()
        self._changes.notify()

    async def poll(
        self, offset: int, limit: int, seconds: float, wait_for_disconnect: Callable[[], Awaitable[object]]
    ) -> list[PendingUpdate]:
        """One getUpdates: confirm, then wait up to `seconds` for updates.

        The wait ends when `wait_for_disconnect` returns (the client is gone).
        """
        if self.webhook_url:
            raise await self.build_conflict(_WEBHOOK_ACTIVE)
        limit = limit if 1 <= limit <= 100 else 100
        seconds = min(max(seconds, 0.0), MAX_POLL_SECONDS)
        self._end_poll(_OTHER_POLLER)
        self._confirm(offset)
        batch = self._build_batch(offset, limit)
        if batch or not seconds:
            return batch
        ended = await self._wait_for_updates(seconds, wait_for_disconnect)
        if ended:
            raise await self.build_conflict(ended)
        return self._build_batch(offset, limit)

    async def _wait_for_updates(
        self, seconds: float, wait_for_disconnect: Callable[[], Awaitable[object]]
    ) -> str:
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._poll_waiter = waiting
        self._changes.notify()
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self._end_on_disconnect(wait_for_disconnect, waiting))
                try:
                    async with asyncio.timeout(seconds):
                        return await waiting
                except TimeoutError:
                    return ""
                finally:
                    watch.cancel()
        finally:
            if self._poll_waiter is waiting:
                self._poll_waiter = None
                self._changes.notify()

    async def _end_on_disconnect(
        self, wait_for_disconnect: Callable[[], Awaitable[object]], waiting: asyncio.Future[str]
    ) -> None:
        await wait_for_disconnect()
        if not waiting.done():
            waiting.set_result("")

    def _end_poll(self, conflict: str) -> None:
        waiting = self._poll_waiter
        self._poll_waiter = None
        if waiting is not None and not waiting.done():
            waiting.set_result(conflict)

    async def build_conflict(self, reason: str) -> TelegramRefusal:
        """The refusal of a poll beside another one or a webhook."""
        return TelegramRefusal(409, f"Conflict: {reason}")

    def _take_id(self) -> int:
        update_id = self._next_id
        self._next_id = self._next_id + 1
        return update_id

    def _append(self, update: PendingUpdate) -> None:
        self._pending.append(update)
        if self._poll_waiter is not None and not self._poll_waiter.done():
            self._poll_waiter.set_result("")
        self._changes.notify()

    def _confirm(self, offset: int) -> None:
        self._forget_expired()
        if offset < 0:
            while len(self._pending) > -offset:
                self._pending.popleft()
        elif offset <= self._next_id + _MAX_OFFSET_AHEAD and any(
            self.is_confirmed(update, offset) for update in self._pending
        ):
            self._pending = deque(u for u in self._pending if not self.is_confirmed(u, offset))
            self._changes.notify()

    def is_confirmed(self, update: PendingUpdate, offset: int) -> bool:
        """Whether an offset confirms an update."""
        return update.update_id < offset

    def _forget_expired(self) -> None:
        now = self._clock.now()
        if any(update.expires_at <= now for update in self._pending):
            self._pending = deque(update for update in self._pending if update.expires_at > now)

    def _build_batch(self, offset: int, limit: int) -> list[PendingUpdate]:
        batch: list[PendingUpdate] = []
        size = 0
        stale = 0 < offset <= self._next_id + _MAX_OFFSET_AHEAD
        for update in self._pending:
            if stale and self.is_confirmed(update, offset):
                continue
            size += len(update.body)
            if len(batch) == limit or (batch and size > _MAX_BATCH_BYTES):
                break
            batch.append(update)
        return batch


def encode_json(body: Json) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

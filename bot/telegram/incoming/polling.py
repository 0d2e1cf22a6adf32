"""Fetches raw updates and writes them down: stored and committed first, acknowledged to Telegram only then.

Owns the offset, the way back to work after failures of Telegram or of the database, and the refusal to share
a token.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telegram import Bot
from telegram.error import Conflict, EndPointNotFound, Forbidden, InvalidToken, RetryAfter, TelegramError

from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.db.queues.inbox import TURN_SHAPES, IncomingUpdate
from bot.errors import StoreUnavailable, TelegramConflict, TelegramRefused
from bot.telegram import client as wire
from bot.telegram.incoming import envelope
from bot.telegram.outcomes import get_retry_after

MAX_PAUSE_SECONDS = 30.0
MAX_REMEMBERED_PEOPLE = 1000  # people whose waiting messages need not be counted anew
ALLOWED_UPDATES = [
    "message",
    "edited_message",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollerCallbacks:
    """Whom the intake calls: `arrived` after a commit, with what is new; `alarm` tells admins without the
    database.
    """

    on_stored: Callable[[Sequence[IncomingUpdate]], None]
    alert_admins: Callable[[str], Awaitable[None]]


class UpdatePoller:
    """Polls until cancelled. `most_waiting` messages of a person are kept; `patience`: seconds conflicts may
    recur.
    """

    def __init__(
        self,
        bot: Bot,
        database: Database,
        callbacks: PollerCallbacks,
        *,
        max_waiting: int = 20,
        conflict_seconds: float = 40.0,
    ) -> None:
        self._bot = bot
        self._database = database
        self._callbacks = callbacks
        self._max_waiting = max_waiting
        self._conflict_seconds = conflict_seconds
        self._conflict_since = self._conflict_at = -math.inf
        self._last_poll_at = time.monotonic()  # Telegram has just said who we are
        self._max_waiting_by_person: dict[
            int, int
        ] = {}  # messages of a person, at most; of others it is not known

    def has_recent_poll(self) -> bool:
        """Whether Telegram answered a poll lately: two long polls ago at most."""
        return time.monotonic() - self._last_poll_at < 2 * wire.POLL_SECONDS

    async def run(self) -> None:
        """Raises TelegramConflict when another program keeps polling, TelegramRefused when the token is not
        known.
        """
        offset: int | None = None
        failures = 0
        while True:
            try:
                updates = await self._fetch(offset)
            except TelegramError as error:
                failures += 1
                await asyncio.sleep(await self._handle_poll_error(error, failures))
                continue
            failures = 0
            self._last_poll_at = time.monotonic()
            newest = await self._store_batch(updates)
            # All is acknowledged once a poll came back empty. Without an offset the next one also sees ids
            # that began anew at a smaller number, as they do after a week of silence.
            offset = None if newest is None else newest + 1

    async def _fetch(self, offset: int | None) -> list[Any]:
        wanted: dict[str, Any] = {"timeout": wire.POLL_SECONDS, "allowed_updates": ALLOWED_UPDATES}
        if offset is not None:
            wanted["offset"] = offset
        # Raw on purpose: PTB's own get_updates parses the whole batch, and one bad update would lose it for
        # ever.
        patience = wire.POLL_SECONDS + 10
        try:
            updates = await self._bot.do_api_request("getUpdates", api_kwargs=wanted, read_timeout=patience)
        except wire.UNREADABLE_ANSWER_ERRORS:
            updates = None
        if not isinstance(updates, list):
            raise TelegramError("what answered is no Bot API")
        return updates

    async def _handle_poll_error(self, error: TelegramError, failures: int) -> float:
        """How many seconds to wait after a failed poll; raises what waiting would not mend."""
        log.warning("polling failed: %.200s", error, extra={"action": "intake.failed"})
        match error:
            case InvalidToken() | Forbidden() | EndPointNotFound():
                raise TelegramRefused(
                    "Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it."
                ) from error
            case RetryAfter():
                return get_retry_after(error)
            case Conflict() if "webhook" in str(error).lower():
                await self._delete_webhook()
                self._note_conflict(error)
            case Conflict():
                self._note_conflict(error)
        return min(MAX_PAUSE_SECONDS, 0.25 * 2.0 ** min(failures - 1, 10))

    async def _delete_webhook(self) -> None:
        with contextlib.suppress(TelegramError):  # the next poll will say that it is still there
            await self._bot.delete_webhook(drop_pending_updates=False)

    def _note_conflict(self, error: Conflict) -> None:
        """Note a conflict. Polls that succeed in between do not count: two programs then share the updates."""
        now = time.monotonic()
        if now - self._conflict_at > self._conflict_seconds:
            self._conflict_since = now
        self._conflict_at = now
        if now - self._conflict_since >= self._conflict_seconds:
            raise TelegramConflict(
                "Another program fetches updates with this bot token. Stop it, or give one of the two its own bot."
            ) from error

    async def _store_batch(self, updates: Sequence[Any]) -> int | None:
        """Store a batch, however long the database takes to be writable again; the highest id of it."""
        now = time.time()
        arrivals = [arrival for arrival in (envelope.read_envelope(one, now) for one in updates) if arrival]
        if len(arrivals) < len(updates):
            log.error("updates without an id were left out", extra={"action": "intake.unreadable"})
            await asyncio.sleep(1.0)
        alarmed = False
        stored = not arrivals
        while not stored:
            try:
                await self._store_updates(arrivals, now)
                stored = True
            except StoreUnavailable as error:
                log.warning("%s", error, extra={"action": "intake.store"})
                if not alarmed:
                    alarmed = True
                    await self._callbacks.alert_admins(
                        f"I cannot store new messages ({error}). They wait at Telegram meanwhile."
                    )
                await asyncio.sleep(2.0)
        if alarmed:
            await self._callbacks.alert_admins("New messages can be stored again.")
        return max((arrival.update_id for arrival in arrivals), default=None)

    async def _store_updates(self, updates: Sequence[IncomingUpdate], now: float) -> None:
        texts = Counter(one.sender for one in updates if one.shape in TURN_SHAPES and one.sender is not None)
        async with self._database.transaction() as tx:
            counts = await self._count_waiting(tx, texts)
            kept = self._mark_overflows(updates, counts)
            if any(one.shape == "overflow" for one in kept):
                known = await inbox.find_known(tx, [one.update_id for one in updates])
                new = [one for one in updates if one.update_id not in known]
                counts = await self._count_waiting(tx, texts)
                kept = self._mark_overflows(new, counts)
            await inbox.store(tx, kept, now=now)
        self._max_waiting_by_person |= counts
        self._callbacks.on_stored(kept)

    async def _count_waiting(self, tx: Transaction, text_counts: Counter[int]) -> dict[int, int]:
        """How many messages of these people wait, at most; counted where that and what came may be too many."""
        if len(self._max_waiting_by_person) > MAX_REMEMBERED_PEOPLE:
            self._max_waiting_by_person.clear()
        near = [
            one
            for one, came in text_counts.items()
            if self._max_waiting_by_person.get(one, math.inf) + came > self._max_waiting
        ]
        if near:
            waiting = dict.fromkeys(near, 0) | await inbox.count_waiting(tx, near)
        else:
            waiting = {}
        return {one: self._max_waiting_by_person[one] for one in text_counts if one not in waiting} | waiting

    def _mark_overflows(
        self, updates: Sequence[IncomingUpdate], counts: dict[int, int]
    ) -> list[IncomingUpdate]:
        return [self._mark_overflow(one, counts) for one in updates]

    def _mark_overflow(self, update: IncomingUpdate, counts: dict[int, int]) -> IncomingUpdate:
        """The update as it is stored; beyond the bound it is told at once that it was not taken."""
        if update.shape not in TURN_SHAPES or update.sender is None:
            return update
        counts[update.sender] = counts.get(update.sender, 0) + 1
        if counts[update.sender] <= self._max_waiting:
            return update
        return replace(update, shape="overflow", lane=None)

"""Fetches raw updates and stores them: committed first, acknowledged to Telegram only then.

Owns the offset, the recovery from failures of Telegram or of the database, and the refusal to share a token.
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
from bot.telegram.client import POLL_SECONDS, UNREADABLE_ANSWER_ERRORS
from bot.telegram.incoming.envelope import read_envelope
from bot.telegram.outcomes import get_retry_after

MAX_PAUSE_SECONDS = 30.0
MAX_REMEMBERED_PEOPLE = 1000  # people whose waiting messages need not be counted again
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
    """`on_stored` is called after a commit, with what was stored.

    `alert_admins` notifies admins without the database.
    """

    on_stored: Callable[[Sequence[IncomingUpdate]], None]
    alert_admins: Callable[[str], Awaitable[None]]


class UpdatePoller:
    """Polls until cancelled.

    `max_waiting`: how many waiting messages of one person are accepted.
    `conflict_seconds`: how long conflicts with another program may recur before the poller gives up.
    """

    def __init__(
        self,
        bot: Bot,
        database: Database,
        callbacks: PollerCallbacks,
        *,
        max_waiting: int = 20,
        conflict_seconds: float = 40.0,
        max_remembered_people: int = MAX_REMEMBERED_PEOPLE,
    ) -> None:
        self._bot = bot
        self._database = database
        self._callbacks = callbacks
        self._max_waiting = max_waiting
        self._conflict_seconds = conflict_seconds
        self._max_remembered_people = max_remembered_people
        self._conflict_since = -math.inf
        self._conflict_at = -math.inf
        self._last_poll_at = time.monotonic()  # Telegram has just answered getMe
        # An upper bound of a person's waiting messages; unknown for people who are not in it.
        self._max_waiting_by_person: dict[int, int] = {}

    def has_recent_poll(self) -> bool:
        """Whether Telegram answered a poll recently: two long polls ago at most."""
        return time.monotonic() - self._last_poll_at < 2 * POLL_SECONDS

    async def run(self) -> None:
        """Poll until cancelled.

        Raises TelegramConflict when another program keeps polling, TelegramRefused for an unknown token.
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
            # that start again at a smaller number, as they do after a week without updates.
            offset = None if newest is None else newest + 1

    async def _fetch(self, offset: int | None) -> list[Any]:
        params: dict[str, Any] = {"timeout": POLL_SECONDS, "allowed_updates": ALLOWED_UPDATES}
        if offset is not None:
            params["offset"] = offset
        # Raw on purpose: the library's own get_updates parses the whole batch, and one bad update would lose
        # all of it for ever.
        try:
            updates = await self._bot.do_api_request(
                "getUpdates", api_kwargs=params, read_timeout=POLL_SECONDS + 10
            )
        except UNREADABLE_ANSWER_ERRORS:
            updates = None
        if not isinstance(updates, list):
            raise TelegramError("what answered is no Bot API")
        return updates

    async def _handle_poll_error(self, error: TelegramError, failures: int) -> float:
        """Return how many seconds to wait after a failed poll; raises what waiting would not fix."""
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
        """Note a conflict; polls that succeed in between change nothing: two programs share the updates."""
        now = time.monotonic()
        if now - self._conflict_at > self._conflict_seconds:
            self._conflict_since = now
        self._conflict_at = now
        if now - self._conflict_since >= self._conflict_seconds:
            raise TelegramConflict(
                "Another program fetches updates with this bot token. "
                "Stop it, or give one of the two its own bot."
            ) from error

    async def _store_batch(self, raw_updates: Sequence[Any]) -> int | None:
        """Store a batch, however long the database takes to be writable again; return its highest id."""
        now = time.time()
        envelopes = [read_envelope(raw, now) for raw in raw_updates]
        updates = [update for update in envelopes if update]
        if len(updates) < len(raw_updates):
            log.error("updates without an id were left out", extra={"action": "intake.unreadable"})
            await asyncio.sleep(1.0)
        alarmed = False
        stored = not updates
        while not stored:
            try:
                await self._store_updates(updates, now)
                stored = True
            except StoreUnavailable as error:
                if not alarmed:
                    alarmed = True
                    await self._callbacks.alert_admins(
                        f"I cannot store new messages ({error}). They wait at Telegram meanwhile."
                    )
                await asyncio.sleep(2.0)
        if alarmed:
            await self._callbacks.alert_admins("New messages can be stored again.")
        return max((update.update_id for update in updates), default=None)

    async def _store_updates(self, updates: Sequence[IncomingUpdate], now: float) -> None:
        text_counts = Counter(
            update.sender for update in updates if update.shape in TURN_SHAPES and update.sender is not None
        )
        async with self._database.transaction() as tx:
            waiting = await self._count_waiting(tx, text_counts)
            rows = self._mark_overflows(updates, waiting)
            if any(row.shape == "overflow" for row in rows):
                # Updates that are stored already were counted twice.
                stored_ids = await inbox.find_known(tx, [update.update_id for update in updates])
                new = [update for update in updates if update.update_id not in stored_ids]
                waiting = await self._count_waiting(tx, text_counts)
                rows = self._mark_overflows(new, waiting)
            await inbox.store(tx, rows, now=now)
        self._max_waiting_by_person |= waiting
        self._callbacks.on_stored(rows)

    async def _count_waiting(self, tx: Transaction, text_counts: Counter[int]) -> dict[int, int]:
        """Return an upper bound of the waiting messages of these people.

        The database is asked only for those whose bound and new messages together may be too many.
        """
        if len(self._max_waiting_by_person) > self._max_remembered_people:
            self._max_waiting_by_person.clear()
        bounds = {person: self._max_waiting_by_person.get(person, math.inf) for person in text_counts}
        near = [person for person, count in text_counts.items() if bounds[person] + count > self._max_waiting]
        counted = dict[int, int]()
        if near:
            counted = dict.fromkeys(near, 0) | await inbox.count_waiting(tx, near)
        return {
            person: self._max_waiting_by_person[person] for person in text_counts if person not in counted
        } | counted

    def _mark_overflows(
        self, updates: Sequence[IncomingUpdate], waiting: dict[int, int]
    ) -> list[IncomingUpdate]:
        """Return the updates as they are stored, counting them into `waiting`."""
        return [self._mark_overflow(update, waiting) for update in updates]

    def _mark_overflow(self, update: IncomingUpdate, counts: dict[int, int]) -> IncomingUpdate:
        """Beyond the bound a message becomes an overflow, whose sender is notified at once."""
        if update.shape not in TURN_SHAPES or update.sender is None:
            return update
        counts[update.sender] = counts.get(update.sender, 0) + 1
        if counts[update.sender] <= self._max_waiting:
            return update
        return replace(update, shape="overflow", lane=None)

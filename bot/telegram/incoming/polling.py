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
from bot.db.queues.inbox import ASKING, Arrival
from bot.errors import StoreUnavailable, TelegramConflict, TelegramRefused
from bot.telegram import client as wire
from bot.telegram.incoming import envelope
from bot.telegram.outcomes import seconds

LONGEST_PAUSE = 30.0
REMEMBERED = 1000  # people whose waiting messages need not be counted anew
WANTED = ["message", "edited_message", "callback_query", "my_chat_member", "stopped_message_generation"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ways:
    """Whom the intake calls: `arrived` after a commit, with what is new; `alarm` tells admins without the
    database.
    """

    arrived: Callable[[Sequence[Arrival]], None]
    alarm: Callable[[str], Awaitable[None]]


class Intake:
    """Polls until cancelled. `most_waiting` messages of a person are kept; `patience`: seconds conflicts may
    recur.
    """

    def __init__(
        self, bot: Bot, database: Database, ways: Ways, *, most_waiting: int = 20, patience: float = 40.0
    ) -> None:
        self._bot = bot
        self._database = database
        self._ways = ways
        self._most_waiting = most_waiting
        self._patience = patience
        self._conflict_since = self._conflict_at = -math.inf
        self._heard = time.monotonic()  # Telegram has just said who we are
        self._may_wait: dict[int, int] = {}  # messages of a person, at most; of others it is not known

    def is_fresh(self) -> bool:
        """Whether Telegram answered a poll lately: two long polls ago at most."""
        return time.monotonic() - self._heard < 2 * wire.POLL_SECONDS

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
                await asyncio.sleep(await self._pause(error, failures))
                continue
            failures = 0
            self._heard = time.monotonic()
            newest = await self._keep(updates)
            # All is acknowledged once a poll came back empty. Without an offset the next one also sees ids
            # that began anew at a smaller number, as they do after a week of silence.
            offset = None if newest is None else newest + 1

    async def _fetch(self, offset: int | None) -> list[Any]:
        wanted: dict[str, Any] = {"timeout": wire.POLL_SECONDS, "allowed_updates": WANTED}
        if offset is not None:
            wanted["offset"] = offset
        # Raw on purpose: PTB's own get_updates parses the whole batch, and one bad update would lose it for
        # ever.
        patience = wire.POLL_SECONDS + 10
        try:
            updates = await self._bot.do_api_request("getUpdates", api_kwargs=wanted, read_timeout=patience)
        except wire.UNREADABLE:
            updates = None
        if not isinstance(updates, list):
            raise TelegramError("what answered is no Bot API")
        return updates

    async def _pause(self, error: TelegramError, failures: int) -> float:
        """How many seconds to wait after a failed poll; raises what waiting would not mend."""
        log.warning("polling failed: %.200s", error, extra={"action": "intake.failed"})
        match error:
            case InvalidToken() | Forbidden() | EndPointNotFound():
                raise TelegramRefused(
                    "Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it."
                ) from error
            case RetryAfter():
                return seconds(error)
            case Conflict() if "webhook" in str(error).lower():
                await self._take_webhook_away()
                self._conflict(error)
            case Conflict():
                self._conflict(error)
        return min(LONGEST_PAUSE, 0.25 * 2.0 ** min(failures - 1, 10))

    async def _take_webhook_away(self) -> None:
        with contextlib.suppress(TelegramError):  # the next poll will say that it is still there
            await self._bot.delete_webhook(drop_pending_updates=False)

    def _conflict(self, error: Conflict) -> None:
        """Note a conflict. Polls that succeed in between do not count: two programs then share the updates."""
        now = time.monotonic()
        if now - self._conflict_at > self._patience:
            self._conflict_since = now
        self._conflict_at = now
        if now - self._conflict_since >= self._patience:
            raise TelegramConflict(
                "Another program fetches updates with this bot token. Stop it, or give one of the two its own bot."
            ) from error

    async def _keep(self, updates: Sequence[Any]) -> int | None:
        """Store a batch, however long the database takes to be writable again; the highest id of it."""
        now = time.time()
        arrivals = [arrival for arrival in (envelope.read(one, now) for one in updates) if arrival]
        if len(arrivals) < len(updates):
            log.error("updates without an id were left out", extra={"action": "intake.unreadable"})
            await asyncio.sleep(1.0)
        alarmed = False
        stored = not arrivals
        while not stored:
            try:
                await self._store(arrivals, now)
                stored = True
            except StoreUnavailable as error:
                log.warning("%s", error, extra={"action": "intake.store"})
                if not alarmed:
                    alarmed = True
                    await self._ways.alarm(
                        f"I cannot store new messages ({error}). They wait at Telegram meanwhile."
                    )
                await asyncio.sleep(2.0)
        if alarmed:
            await self._ways.alarm("New messages can be stored again.")
        return max((arrival.update_id for arrival in arrivals), default=None)

    async def _store(self, arrivals: Sequence[Arrival], now: float) -> None:
        texts = Counter(one.sender for one in arrivals if one.shape in ASKING and one.sender is not None)
        async with self._database.transaction() as tx:
            counts = await self._waiting(tx, texts)
            kept = self._bounded(arrivals, counts)
            if any(one.shape == "overflow" for one in kept):
                known = await inbox.known(tx, [one.update_id for one in arrivals])
                new = [one for one in arrivals if one.update_id not in known]
                counts = await self._waiting(tx, texts)
                kept = self._bounded(new, counts)
            await inbox.store(tx, kept, now=now)
        self._may_wait |= counts
        self._ways.arrived(kept)

    async def _waiting(self, tx: Transaction, texts: Counter[int]) -> dict[int, int]:
        """How many messages of these people wait, at most; counted where that and what came may be too many."""
        if len(self._may_wait) > REMEMBERED:
            self._may_wait.clear()
        near = [
            one
            for one, came in texts.items()
            if self._may_wait.get(one, math.inf) + came > self._most_waiting
        ]
        if near:
            waiting = dict.fromkeys(near, 0) | await inbox.waiting(tx, near)
        else:
            waiting = {}
        return {one: self._may_wait[one] for one in texts if one not in waiting} | waiting

    def _bounded(self, arrivals: Sequence[Arrival], counts: dict[int, int]) -> list[Arrival]:
        return [self._bound(one, counts) for one in arrivals]

    def _bound(self, one: Arrival, counts: dict[int, int]) -> Arrival:
        """The update as it is stored; beyond the bound it is told at once that it was not taken."""
        if one.shape not in ASKING or one.sender is None:
            return one
        counts[one.sender] = counts.get(one.sender, 0) + 1
        if counts[one.sender] <= self._most_waiting:
            return one
        return replace(one, shape="overflow", lane=None)

"""Fetches raw updates and stores them: committed first, acknowledged to Telegram only then.

Owns the offset, the recovery from failures of Telegram or of the database, and the refusal to share a token.
"""

import asyncio
import contextlib
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telegram import Bot
from telegram.error import Conflict, EndPointNotFound, Forbidden, InvalidToken, RetryAfter, TelegramError

from bot.db.engine import Database
from bot.db.people import group_texts, groups, people
from bot.db.queues import edited_messages, incoming_updates, unplaced_items, waiting_messages
from bot.db.queues.inbox import TURN_SHAPES
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.transaction import Transaction
from bot.domain import ItemShape
from bot.errors import SettingsRefused, StoreUnavailable, TelegramRefused
from bot.telegram.client import POLL_SECONDS, UNREADABLE_ANSWER_ERRORS
from bot.telegram.incoming.backlog import (
    Backlog,
    BacklogLimits,
    WaitingMessage,
    build_waiting_message,
    shorten_refused,
)
from bot.telegram.incoming.edits import EDIT_HOLD_SECONDS, fold_edits, has_new_content, judge_group_edits
from bot.telegram.incoming.envelope import find_lane, list_message_ages
from bot.telegram.incoming.poll_watch import AdminAlarm, PollWatch, is_about_webhook
from bot.telegram.outcomes import get_retry_after
from bot.translations.translator import defer

MAX_PAUSE_SECONDS = 30.0
# After updates, before the next poll: its request takes the processor, and what they ask for begins first.
BATCH_PAUSE_SECONDS = 0.01
OVERFLOW_HOLD_SECONDS = 1.5  # a refusal waits so long for more that is refused, and names all of it
MAX_REMEMBERED_PEOPLE = 1000  # people whose waiting messages need not be counted again
ALLOWED_UPDATES = [
    "message",
    "edited_message",
    "message_reaction",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollerCallbacks:
    """`on_stored` is called after a commit, with what was stored.

    `read_envelope` reads from a raw update, as it is at a time (epoch seconds), what is stored of it.
    `allowed_updates`: the kinds that Telegram is asked for.
    """

    on_stored: Callable[[Sequence[IncomingUpdate]], None]
    alarm: AdminAlarm
    read_envelope: Callable[[object, float], IncomingUpdate | None]
    allowed_updates: Sequence[str] = tuple(ALLOWED_UPDATES)


@dataclass(frozen=True, slots=True)
class PollerOptions:
    """`edit_hold_seconds`: how long an edit waits for another one of the same message.

    `is_replica`: other gateways on this database poll in turn with this one.
    """

    edit_hold_seconds: float = EDIT_HOLD_SECONDS
    is_replica: bool = False


DEFAULT_OPTIONS = PollerOptions()


def list_allowed_updates(*, guest_mode: bool) -> list[str]:
    """Return the kinds of updates to ask for. Each poll names them: Telegram keeps the list of the last."""
    if guest_mode:
        return [*ALLOWED_UPDATES, "guest_message"]
    return ALLOWED_UPDATES


class UpdatePoller:
    """Polls until cancelled; `has_begun` is set as the first poll goes out.

    `limits`: how much of one person may wait.
    """

    def __init__(
        self,
        bot: Bot,
        database: Database,
        callbacks: PollerCallbacks,
        *,
        limits: BacklogLimits | None = None,
        options: PollerOptions = DEFAULT_OPTIONS,
        max_remembered_people: int = MAX_REMEMBERED_PEOPLE,
    ) -> None:
        self._bot = bot
        self._database = database
        self._callbacks = callbacks
        self._limits = limits or BacklogLimits()
        self._options = options
        self._max_remembered_people = max_remembered_people
        self.watch = PollWatch(callbacks.alarm)
        self.has_begun = asyncio.Event()
        # An upper bound of a person's waiting messages; unknown for people who are not in it.
        self._max_waiting_by_person: dict[int, int] = {}

    async def run(self) -> None:
        """Poll until cancelled.

        Raises TelegramRefused for an unknown token, SettingsRefused when another program polls and this
        database is new: it is that program's messages that would be taken.
        """
        offset: int | None = None
        failures = 0
        self._max_waiting_by_person.clear()  # another replica may have polled since the last run
        self.watch.forget_conflicts()
        self.has_begun.set()
        while True:
            polled_at = time.monotonic()
            try:
                updates = await self._fetch(offset)
            except TelegramError as error:
                failures += 1
                await asyncio.sleep(await self._handle_poll_error(error, failures))
                continue
            failures = 0
            self.watch.note_success()
            await self.watch.note_messages(
                time.monotonic() - polled_at, list_message_ages(updates, time.time())
            )
            newest = await self._store_batch(updates)
            # All is acknowledged once a poll came back empty. Without an offset the next one also sees ids
            # that start again at a smaller number, as they do after a week without updates.
            offset = None if newest is None else newest + 1
            if updates:
                await asyncio.sleep(BATCH_PAUSE_SECONDS)

    async def _fetch(self, offset: int | None) -> list[Any]:
        params: dict[str, Any] = {
            "timeout": POLL_SECONDS,
            "allowed_updates": [*self._callbacks.allowed_updates],
        }
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
        if isinstance(error, InvalidToken | Forbidden | EndPointNotFound):
            raise TelegramRefused(
                "Telegram does not accept TELEGRAM_TOKEN. Ask @BotFather for it."
            ) from error
        log.warning("polling failed: %.200s", error, extra={"action": "intake.failed"})
        match error:
            case RetryAfter():
                seconds = get_retry_after(error)
                await self.watch.note_flood(seconds)
                return seconds
            case Conflict():
                if is_about_webhook(error):
                    await self._delete_webhook()
                elif not self._options.is_replica:
                    await self._check_is_known(error)
                await self.watch.note_conflict(error)
        return min(MAX_PAUSE_SECONDS, 0.25 * 2.0 ** min(failures - 1, 10))

    async def _delete_webhook(self) -> None:
        with contextlib.suppress(TelegramError):  # the next poll will say that it is still there
            await self._bot.delete_webhook(drop_pending_updates=False)

    async def _check_is_known(self, error: Conflict) -> None:
        """Raise SettingsRefused if nobody has ever written to this database."""
        with contextlib.suppress(StoreUnavailable):
            async with self._database.read_transaction() as tx:
                if await incoming_updates.has_updates(tx) or await people.list_people(tx):
                    return
            raise SettingsRefused(
                "Another program fetches messages with this TELEGRAM_TOKEN, and this database is new. "
                "Stop that program, set DATABASE_URL to its database, or give this gateway its own bot."
            ) from error

    async def _store_batch(self, raw_updates: Sequence[Any]) -> int | None:
        """Store a batch, however long the database takes to be writable again; return its highest id."""
        now = time.time()
        envelopes = [self._callbacks.read_envelope(raw, now) for raw in raw_updates]
        readable = [update for update in envelopes if update]
        updates = [
            update for update in readable if not update.is_for_others or update.group_text or update.edit
        ]
        if len(readable) < len(raw_updates):
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
                    alert = defer(
                        "I can't store new messages (“{error}”). They're waiting at Telegram.",
                        error=str(error),
                    )
                    await self._callbacks.alarm.alert_admins(alert)
                await asyncio.sleep(2.0)
        if alarmed:
            await self._callbacks.alarm.alert_admins(defer("New messages can be stored again."))
        return max((update.update_id for update in readable), default=None)

    async def _store_updates(self, received: Sequence[IncomingUpdate], now: float) -> None:
        texts = [update.group_text for update in received if update.group_text is not None]
        updates = await self._select_own(received, now)
        if not updates and not texts:
            return
        message_counts = Counter(
            update.sender for update in updates if update.shape in TURN_SHAPES and update.sender is not None
        )
        crowded = self._find_crowded(updates, message_counts)
        async with self._database.transaction() as tx:
            # An update that is stored already counts once, an older edit must not undo a newer one, and the
            # edit of a stored message changes its row.
            stored_ids = await incoming_updates.find_known(tx, updates)
            rows = fold_edits([update for update in updates if update.update_id not in stored_ids])
            if texts:
                await group_texts.store(tx, texts, now=now)
            waiting = await waiting_messages.load_waiting(tx, crowded) if crowded else {}
            rows = self._mark_overflows(rows, waiting, now)
            rows = [
                await _apply_edit(tx, row, now, hold_seconds=self._options.edit_hold_seconds) for row in rows
            ]
            rows = [replace(row, lane=row.lane and await groups.find_lane(tx, row.lane)) for row in rows]
            await incoming_updates.store(tx, rows, now=now)
            for update in updates:
                if update.is_edited_question and update.lane is not None and update.message_id is not None:
                    await group_texts.delete_message(tx, update.lane, update.message_id)
                    await unplaced_items.forget_message(tx, update.lane, update.message_id, now=now)
        for person, count in message_counts.items():
            known_count = len(waiting[person]) if person in waiting else self._max_waiting_by_person[person]
            self._max_waiting_by_person[person] = known_count + count
        if rows:
            self._callbacks.on_stored(rows)

    async def _select_own(self, received: Sequence[IncomingUpdate], now: float) -> list[IncomingUpdate]:
        """Return the updates that concern the assistant."""
        edits = [update.edit for update in received if update.edit is not None and update.edit.lane.is_group]
        if not edits:
            return [update for update in received if not update.is_for_others]
        async with self._database.read_transaction() as tx:
            known = await edited_messages.find_known(tx, edits)
        for update in received:
            if update.lane is not None and update.message_id is not None:
                known.add((update.lane, update.message_id))
        return judge_group_edits(received, known, now, hold_seconds=self._options.edit_hold_seconds)

    def _find_crowded(self, updates: Sequence[IncomingUpdate], message_counts: Mapping[int, int]) -> set[int]:
        """Return the people of whom too much may wait: too many messages, or the text of forwarded ones."""
        if len(self._max_waiting_by_person) > self._max_remembered_people:
            self._max_waiting_by_person.clear()
        bounds = {
            person: self._max_waiting_by_person.get(person, math.inf) + count
            for person, count in message_counts.items()
        }
        crowded = {person for person, bound in bounds.items() if bound > self._limits.max_waiting}
        return crowded | (message_counts.keys() & {update.sender for update in updates if update.is_forward})

    def _mark_overflows(
        self,
        updates: Sequence[IncomingUpdate],
        waiting: Mapping[int, Sequence[tuple[ItemShape, dict[str, Any]]]],
        now: float,
    ) -> list[IncomingUpdate]:
        """Return the updates as they are stored: what is not taken becomes an overflow."""
        backlogs = {person: Backlog(self._limits) for person in waiting}
        for person, stored in waiting.items():
            backlogs[person].add_waiting(_build_waiting(body, shape) for shape, body in stored)
        return [_mark_overflow(update, backlogs, now) for update in updates]


def _mark_overflow(update: IncomingUpdate, backlogs: Mapping[int, Backlog], now: float) -> IncomingUpdate:
    if update.shape not in TURN_SHAPES or update.sender is None or update.sender not in backlogs:
        return update
    raw_update = json.loads(update.body)
    if backlogs[update.sender].try_add(_build_waiting(raw_update, update.shape)):
        return update
    body = json.dumps(shorten_refused(raw_update), separators=(",", ":"))
    return replace(update, shape="overflow", lane=None, body=body, not_before=now + OVERFLOW_HOLD_SECONDS)


def _build_waiting(body: Mapping[str, Any], shape: ItemShape) -> WaitingMessage:
    lane = find_lane(body["message"])
    return build_waiting_message(body["message"], lane.key if lane else "", is_refused=shape == "overflow")


async def _apply_edit(
    tx: Transaction, update: IncomingUpdate, now: float, *, hold_seconds: float
) -> IncomingUpdate:
    """Change a waiting message as its edit says; nothing is left to be done about the edit then.

    The edit of a message that was taken waits in its lane, a little longer than people take to edit it again.
    """
    edit = update.edit
    if edit is None:
        return update
    if await waiting_messages.replace_waiting(tx, edit):
        return replace(update, shape="other")
    stored = await edited_messages.find(tx, edit.lane, edit.message_id)
    if stored is None or stored.shape != edit.shape:
        return replace(update, shape="other")
    edited = json.loads(edit.body)["message"]
    is_edited_again = await edited_messages.drop_pending(tx, edit.lane, edit.message_id, now=now)
    if not is_edited_again and not has_new_content(edited, stored.message):
        return replace(update, shape="other")
    return replace(update, lane=edit.lane, message_id=edit.message_id, not_before=now + hold_seconds)

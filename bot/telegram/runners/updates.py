"""What is done about an update: the gate, then a turn, a command, a tap, or one line that says why not.

Whatever is answered here is one transaction: the effect, its outbox row and the item done. Turns do their
own.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bot.db.conversations import attachments, turns
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person, RoleOrBlocked
from bot.db.queues import inbox, outbox
from bot.domain import InboxItem, Lane
from bot.errors import StoreUnavailable
from bot.telegram.access import ACCESS_LOST
from bot.telegram.actions import (
    Action,
    ActionContext,
    ActionDependencies,
    ActionResult,
    do_nothing,
    reply_text,
)
from bot.telegram.commands import callbacks as taps
from bot.telegram.commands import consent
from bot.telegram.commands import onboarding as door
from bot.telegram.commands import registry as commands
from bot.telegram.incoming import user_message as composing
from bot.telegram.incoming.attachment_loader import AttachmentLoader
from bot.telegram.incoming.attachments import extract_media
from bot.telegram.incoming.update import ParsedUpdate, parse_update
from bot.telegram.incoming.user_message import IncomingMessage
from bot.telegram.runners.refusals import RefusalReplies
from bot.turns.handle import TurnHandle
from bot.turns.start import TurnRequest

UNREADABLE_UPDATE = "An update from Telegram could not be read and was set aside; the log says more."
QUOTE_AFTER_SECONDS = 2.0  # seconds after which an answer says which message it is about

log = logging.getLogger(__name__)


class UpdateRunner:
    """The runner of inbox items of kind `update`; `most_waiting` messages of a person are kept."""

    def __init__(
        self,
        database: Database,
        deps: ActionDependencies,
        attachment_loader: AttachmentLoader,
        *,
        max_waiting: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._deps = deps
        self._attachment_loader = attachment_loader
        self._refusals = RefusalReplies(max_waiting)
        self._clock = clock

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        """Handle one item, or several texts of one lane together; raises when an update cannot be read."""
        visits = await self._parse_items(items)
        first = visits[0]
        if first.person is not None:
            standing = self._deps.access.get_role(first.person)
        else:
            standing = None
        if (
            standing in {"admin", "member"}
            and first.lane is not None
            and await self._is_turn(first, first.lane)
        ):
            await self._run_turn(visits, first.lane)
        else:
            await self._run_action(visits, standing, *self._choose_action(first, standing))

    async def _is_turn(self, update: ParsedUpdate, lane: Lane) -> bool:
        if update.item.shape != "deep" or update.message is None:
            return update.item.shape == "text"
        words = commands.parse_command(update.message.text or update.message.caption or "")[1]
        async with self._database.read_transaction() as tx:
            return await consent.can_answer_deep(
                tx, update.item, self._deps.fallback_endpoint, lane.chat, words
            )

    async def _run_turn(self, updates: Sequence[ParsedUpdate], lane: Lane) -> None:
        first = updates[0]
        last = updates[-1].message
        assert first.person is not None
        if self._deps.access.is_new_guest(first.person):
            await self._admit_guest(first.person, first.name)
        letters = self._attachment_loader.mark_unusable([_to_message(visit) for visit in updates])
        wanting = any(letter.needs_fetch for letter in letters)
        if (
            not wanting
            and (why := composing.explain_refusal(letters))
            and not await self._has_decided_attachments(first.item)
        ):
            await self._refuse(updates, why)
            return
        now = self._clock()
        goes_on = first.item.stored_spans is not None
        named = (
            first.item.stale
            or goes_on
            or len(updates) > 1
            or now - first.item.received_at > QUOTE_AFTER_SECONDS
        )
        told = composing.compose_user_messages(letters, self._attachment_loader.max_text_bytes)
        ask = TurnRequest(
            items=tuple(visit.item for visit in updates),
            lane=lane,
            person=first.person,
            name=first.name,
            texts=told.texts,
            attachments=told.attachments,
            sent_at=told.sent_times,
            reply_to=last.message_id if last and named else None,
            silent=first.item.stale,
            preface=(format_late_preface(now - first.sent_at) if first.item.stale else "")
            + composing.build_preface(letters),
            deep=first.item.shape == "deep",
        )
        await self._deps.turns.run(
            ask, partial(self._complete_request, updates, letters, ask) if wanting else None
        )

    async def _complete_request(
        self,
        updates: Sequence[ParsedUpdate],
        messages: Sequence[IncomingMessage],
        request: TurnRequest,
        handle: TurnHandle,
    ) -> TurnRequest | None:
        """The ask with what came with its messages; None if nothing of it can be used and nothing else was
        said.
        """
        if await self._has_decided_attachments(request.items[0]):
            return request
        gathered = await handle.run_cancellable(self._attachment_loader.load(messages, handle.timer))
        if gathered is None:
            return request  # it was stopped, and will say so
        if why := composing.explain_refusal(gathered):
            await self._refuse(updates, why)
            return None
        told = composing.compose_user_messages(gathered, self._attachment_loader.max_text_bytes)
        return replace(request, texts=told.texts, attachments=told.attachments)

    async def _has_decided_attachments(self, item: InboxItem) -> bool:
        """Whether its turn has begun before a restart, or was stopped: then what came with it is decided."""
        if item.attempt == 1:
            return False
        async with self._database.read_transaction() as tx:
            return await attachments.can_skip_fetch(tx, item.id)

    async def _refuse(self, updates: Sequence[ParsedUpdate], reason: str) -> None:
        """Nothing that was sent can be answered: one line says why."""

        async def refuse(_: ActionContext) -> ActionResult:
            return reply_text(reason)

        await self._run_action(updates, "member", refuse, "")

    async def _admit_guest(self, person: int, name: str) -> None:
        """The bot is open: somebody's first message makes them a guest, whom admins can see and block."""
        async with self._database.transaction() as tx:
            await people.put(tx, person, name, "member", now=self._clock())
        self._deps.access.remember(Person(person, name, "member", guest=True))

    def _choose_action(self, update: ParsedUpdate, role: RoleOrBlocked | None) -> tuple[Action, str]:
        """What to do about a visit that is no turn, and the words it carries."""
        if update.membership:
            return partial(self._refusals.handle_membership, update), ""
        if update.chat_type in {"group", "supergroup"} and update.message:
            return self._refusals.refuse_group, ""
        if update.chat_type != "private" or update.person is None or role == "blocked":
            return do_nothing, ""
        if update.query:
            return taps.choose_button_action(update.query.data or "", role)
        if update.item.shape == "stop" and role:
            return commands.handle_stop, ""
        if update.message and update.item.shape in {"command", "new", "deep"}:
            return commands.choose_command_action(update.message.text or update.message.caption or "", role)
        if update.message is None:
            return commands.choose_edit_action(
                (update.edited.text or update.edited.caption or "") if update.edited else "", role
            )
        if role:
            return (partial(self._refusals.refuse_message, update), "")
        return (door.reject_stranger, "")

    async def _run_action(
        self, updates: Sequence[ParsedUpdate], role: RoleOrBlocked | None, action: Action, args: str
    ) -> None:
        """Act, answer and mark the items done in one transaction; then what only memory and Telegram must
        know.
        """
        first = updates[0]
        now = self._clock()
        ids = [visit.item.id for visit in updates]
        lane = first.lane or Lane(0)
        async with self._database.transaction() as tx:
            call = ActionContext(
                tx, self._deps, first.item, lane, first.person or 0, first.name, role, args, now
            )
            answer = await action(call)
            if answer.parts:
                silent = first.item.stale
                parts = [
                    replace(one, silent=one.silent or silent or at > 0) for at, one in enumerate(answer.parts)
                ]
                await outbox.add(tx, item=first.item.id, lane=lane, parts=parts, now=now)
            await inbox.mark_done(tx, ids, now=now)
            if role in {None, "blocked"}:
                await inbox.forget_body(tx, ids)
                await turns.fail(
                    tx, first.item.id, reason=ACCESS_LOST, now=now
                )  # begun before a restart, if ever
        for then in answer.after_commit:
            then()
        if answer.changes_tools:
            with contextlib.suppress(StoreUnavailable):  # it is noticed a little later
                await self._deps.reload_tools()
        if answer.parts:
            self._deps.wake_sender(lane)
        await self._make_best_effort_calls(first, answer)

    async def _make_best_effort_calls(self, update: ParsedUpdate, result: ActionResult) -> None:
        gestures = self._deps.best_effort_calls
        if update.query:
            await gestures.answer_callback_query(update.query.id, result.toast)
            if result.replacement and update.query.message and update.lane:
                await gestures.edit_message(update.lane, update.query.message.message_id, result.replacement)
        for gesture in result.best_effort_calls:
            await gesture()

    async def _parse_items(self, items: Sequence[InboxItem]) -> list[ParsedUpdate]:
        """Read the items; those that cannot be read are set aside if others can, else the library's error is
        raised.
        """
        visits = list[ParsedUpdate]()
        broken = list[int]()
        for item in items:
            try:
                visits.append(parse_update(item))
            except Exception:
                if len(broken) == len(items) - 1:
                    raise
                log.exception("an update cannot be read", extra={"action": "handlers.unreadable"})
                broken.append(item.id)
        if broken:
            await self._mark_dead(broken)
        return visits

    async def _mark_dead(self, item_ids: Sequence[int]) -> None:
        now = self._clock()
        async with self._database.transaction() as tx:
            await inbox.mark_dead(tx, item_ids, error=UNREADABLE_UPDATE, now=now)
            told = await self._deps.notices.notify(tx, "unreadable", UNREADABLE_UPDATE, now=now)
        for lane in told:
            self._deps.wake_sender(lane)


def _to_message(update: ParsedUpdate) -> IncomingMessage:
    """The raw message without the command before it, and what came with it."""
    message: dict[str, Any] = update.item.body["message"]
    if update.item.shape == "deep":
        words = "text" if "text" in message else "caption"
        message = message | {words: commands.parse_command(message[words])[1]}
    return IncomingMessage(message, update.sent_at, extract_media(message))


def format_late_preface(seconds: float) -> str:
    """What stands before an answer to something written long ago."""
    hours = seconds / 3600
    if hours < 2:
        ago = f"{seconds / 60:.0f} minutes"
    else:
        ago = f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
    return f"(You wrote this {ago} ago, while I was away.)\n\n"

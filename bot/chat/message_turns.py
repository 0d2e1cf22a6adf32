"""Runs the turn that answers messages: what came with them is read first, under the turn's own /stop.

If there is nothing to be answered, the sender reads why.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bot.chat.action_runner import ActionRunner
from bot.chat.actions import ActionContext, ActionDependencies, ActionResult, reply_text
from bot.chat.commands import registry
from bot.chat.commands.jobs import handle_zone
from bot.chat.outside_speech import SOUND_KEPT_HERE
from bot.chat.shared_locations import (
    find_newest_location,
    find_zone_answer,
    follow_location,
)
from bot.db.conversations import attachments, conversations, stored_files
from bot.db.engine import Database
from bot.db.people import speakers
from bot.domain import InboxItem, Lane
from bot.jobs.user_jobs import JobOwner
from bot.telegram.incoming.attachment_loader import AttachmentLoader, refuse_files
from bot.telegram.incoming.attachments import extract_media
from bot.telegram.incoming.group_address import (
    GroupIdentity,
    cut_leading_mention,
    find_speaker_name,
    is_reply_to,
    name_quoted_author,
)
from bot.telegram.incoming.update import ParsedUpdate
from bot.telegram.incoming.user_message import (
    IncomingMessage,
    compose_user_messages,
    explain_refusal,
)
from bot.translations.formats import format_ago
from bot.translations.translator import Translator
from bot.turns import TurnHandle, TurnRequest

QUOTE_AFTER_SECONDS = 2.0  # an answer that comes later says which message it is about


@dataclass(frozen=True, slots=True)
class MessageTurns:
    """Answers messages; `actions` reply to those that need no turn."""

    database: Database
    deps: ActionDependencies
    attachment_loader: AttachmentLoader
    actions: ActionRunner
    clock: Callable[[], float] = time.time

    async def run(self, updates: Sequence[ParsedUpdate], lane: Lane, translate: Translator) -> None:
        """Answer messages of one person in a lane; `translate` is into their language."""
        first = updates[0]
        assert first.person is not None
        if zone := await find_zone_answer(self.database, first):
            await self.actions.run([first], "member", handle_zone, zone)
            if updates[1:]:
                await self.run(updates[1:], lane, translate)
            return
        coordinates = find_newest_location(updates)
        if coordinates and first.item.attempt == 1:  # later its person may have set another zone since
            owner = JobOwner(first.person, first.name, lane)
            await follow_location(self.database, self.deps, coordinates, owner, now=self.clock())
        identity = None
        if lane.is_group or lane.is_guest:
            identity = self.deps.groups.directory.get_identity(lane.chat)
        if lane.is_guest and not first.item.has_turn:
            await self._begin_guest_conversation(first, lane)
        messages = self.attachment_loader.mark_unusable([_to_message(update, identity) for update in updates])
        speaker = await self._find_speaker(first, lane)
        judged = await self._judge_sound(messages, lane)
        if judged is None:
            await self.actions.run(updates, "member", _ask_about_sound, "")
            return
        messages = judged
        if any(message.needs_fetch for message in messages):
            request = self._build_request(updates, messages, lane, translate, speaker)
            complete = partial(self._complete_request, updates, messages, request)
            await self.deps.turns.quota_gate.run(request, complete)
            return
        refusal = explain_refusal(messages, translate)
        if refusal and not await self._has_decided_attachments(first.item):
            await self._refuse(updates, refusal)
            return
        await self.deps.turns.quota_gate.run(self._build_request(updates, messages, lane, translate, speaker))

    async def _judge_sound(
        self, messages: Sequence[IncomingMessage], lane: Lane
    ) -> list[IncomingMessage] | None:
        """The messages, without sound that may not leave the network; None: the chat has not said."""
        outside_speech = self.deps.turns.outside_speech
        if not any(map(_has_sound, messages)):
            return [*messages]
        async with self.database.read_transaction() as tx:
            is_allowed = await outside_speech.find_consent(tx, lane.chat, outside_speech.transcriber_host)
        if is_allowed is None:
            return None
        return [*messages] if is_allowed else [_keep_sound(message) for message in messages]

    def _build_request(
        self,
        updates: Sequence[ParsedUpdate],
        messages: Sequence[IncomingMessage],
        lane: Lane,
        translate: Translator,
        speaker: str,
    ) -> TurnRequest:
        now = self.clock()
        first = updates[0]
        assert first.person is not None
        last_message = updates[-1].message
        reply_to = None
        may_quote = last_message is not None and not lane.is_guest
        if last_message and may_quote and (lane.is_group or _should_quote(updates, now)):
            reply_to = last_message.message_id
        revision = first.item.body.get("revision")
        if revision is not None:
            reply_to = None if revision["in_place"] else int(revision["message_id"])
        late_preface = format_late_preface(translate, now - first.sent_at) if first.item.stale else ""
        composed = compose_user_messages(messages, self.attachment_loader.max_text_bytes, translate)
        return TurnRequest(
            items=tuple(update.item for update in updates),
            lane=lane,
            person=first.person,
            name=first.name,
            texts=composed.texts,
            attachments=composed.attachments,
            sent_at=composed.sent_times,
            reply_to=reply_to,
            silent=first.item.stale,
            preface=late_preface + composed.preface,
            deep=first.item.shape == "deep",
            revises_answer=revision is not None and revision["in_place"],
            revised_turn=revision.get("turn") if revision is not None else None,
            translate=translate,
            speaker=speaker,
            message_id=last_message.message_id if last_message else None,
            own_words=find_own_words(messages[-1].raw),
            is_spoken=any(_is_spoken(message) for message in messages),
        )

    async def _complete_request(
        self,
        updates: Sequence[ParsedUpdate],
        messages: Sequence[IncomingMessage],
        request: TurnRequest,
        handle: TurnHandle,
    ) -> TurnRequest | None:
        """Add what came with the messages; None if nothing of it can be used and there is no text."""
        if await self._has_decided_attachments(request.items[0]):
            return request
        async with self.database.read_transaction() as tx:
            has_space = await stored_files.has_space(tx, request.person)
        if not has_space:
            messages = refuse_files(messages)
        loaded = await handle.run_cancellable(
            self.attachment_loader.load(messages, request.person, handle.timer)
        )
        if loaded is None:
            return request  # it was stopped, and the turn will say so
        if refusal := explain_refusal(loaded, request.translate):
            await self._refuse(updates, refusal)
            return None
        completed = self._build_request(updates, loaded, request.lane, request.translate, request.speaker)
        return replace(completed, reply_to=request.reply_to)

    async def _begin_guest_conversation(self, update: ParsedUpdate, lane: Lane) -> None:
        """Begin a conversation, unless this goes on from the assistant's last answer by replying to it."""
        identity = self.deps.groups.directory.get_identity(lane.chat)
        if is_reply_to(update.item.body["message"], identity.id):
            return
        async with self.database.transaction(durable=False) as tx:
            await conversations.start_new(tx, lane)

    async def _find_speaker(self, update: ParsedUpdate, lane: Lane) -> str:
        """Return what a group's prompts call the sender of an update; "" in a private chat."""
        if not lane.is_group or update.person is None:
            return ""
        async with self.database.read_transaction() as tx:
            known_name = await speakers.find_name(tx, lane, update.person)
        if known_name is not None:
            return known_name
        name = find_speaker_name(update.item.body["message"])
        async with self.database.transaction() as tx:
            return await speakers.add(tx, lane, update.person, name)

    async def _refuse(self, updates: Sequence[ParsedUpdate], reason: str) -> None:
        """Reply with one line why nothing that was sent can be answered."""

        async def refuse(_: ActionContext) -> ActionResult:
            return reply_text(reason)

        await self.actions.run(updates, "member", refuse, "")

    async def _has_decided_attachments(self, item: InboxItem) -> bool:
        """Whether its turn began before a restart, or was stopped: then its attachments are settled."""
        if item.attempt == 1:
            return False
        async with self.database.read_transaction() as tx:
            return await attachments.can_skip_fetch(tx, item.id)


def _to_message(update: ParsedUpdate, identity: GroupIdentity | None) -> IncomingMessage:
    """Take the raw message, without /ask, /deep or a mention before it, and what came with it.

    `identity`: who the assistant is in a chat of several people; None in a private chat.
    """
    message: dict[str, Any] = update.item.body["message"]
    if identity is not None:
        message = name_quoted_author(cut_leading_mention(message, identity), identity)
    key = "text" if "text" in message else "caption"
    name, text = registry.parse_command(message.get(key) or "")
    if name == "ask" or update.item.shape == "deep":
        message = message | {key: text}
    return IncomingMessage(message, update.sent_at, extract_media(message))


def find_own_words(message: Mapping[str, Any]) -> str:
    """What the sender of a message wrote in it themselves; "" where some of it is of others."""
    entities = [*message.get("entities", ()), *message.get("caption_entities", ())]
    has_quote = any(entity["type"].endswith("blockquote") for entity in entities)
    if has_quote or "forward_origin" in message or "via_bot" in message:
        return ""
    text: str = message.get("text") or message.get("caption") or ""
    return text


async def _ask_about_sound(context: ActionContext) -> ActionResult:
    """Ask the chat whether its sound may leave the network; the messages wait for the answer."""
    await context.deps.turns.outside_speech.ask(
        context.tx, context.lane, context.translate, item=context.item.id, now=context.now
    )
    return ActionResult()


def _has_sound(message: IncomingMessage) -> bool:
    return message.needs_fetch and message.media is not None and message.media.kind == "sound"


def _keep_sound(message: IncomingMessage) -> IncomingMessage:
    """The message; if it has sound, that is not used."""
    return replace(message, unusable_reason=SOUND_KEPT_HERE) if _has_sound(message) else message


def _is_spoken(message: IncomingMessage) -> bool:
    """Whether its sender has said it, and it was understood."""
    media = message.media
    is_own = media is not None and media.is_own_voice and "forward_origin" not in message.raw
    return is_own and not message.unusable_reason


def _should_quote(updates: Sequence[ParsedUpdate], now: float) -> bool:
    """Whether the answer has to say which message it is about."""
    item = updates[0].item
    was_parked = item.stored_spans is not None
    is_slow = now - item.received_at > QUOTE_AFTER_SECONDS
    return item.stale or was_parked or len(updates) > 1 or is_slow


def format_late_preface(translate: Translator, seconds: float) -> str:
    """Format what stands before an answer to something written long ago."""
    ago = format_ago(translate, seconds)
    text = translate("(You wrote this {ago}, while I was away.)", ago=ago)
    return f"{text}\n\n"

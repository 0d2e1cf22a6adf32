"""/deep, which has one message answered by the second endpoint, and /consent: what a chat lets go there."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.db.conversations import chat_settings, turns
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent, ContentKind
from bot.db.engine import Transaction
from bot.db.queues import inbox, outbox
from bot.domain import Button, InboxItem, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, reply_text
from bot.turns import (
    ModelEndpoint,
    build_consent_question,
    can_send_to,
    format_consent_data,
    hash_host,
)

NO_FALLBACK = "No second model is set up here."
HOW_TO = "Write your message behind it, as in: /deep compare these two contracts"
DEEP_REASON = "For /deep"

_ANSWER_KINDS: dict[str, frozenset[ContentKind]] = {
    "text": frozenset({"text"}),
    "all": frozenset(CONTENT_KINDS),
    "no": frozenset(),
}
_NUMBER = re.compile(r"[0-9]{1,18}")


async def can_answer_deep(
    tx: Transaction, item: InboxItem, fallback: ModelEndpoint | None, chat: int, text: str
) -> bool:
    """Whether a /deep with this text is answered now: its turn has begun, or nothing stands against one."""
    if await turns.has_turn(tx, item.id):
        return True
    if fallback is None or not text:
        return False
    return can_send_to(fallback, await chat_settings.load_consent(tx, chat, fallback.host))


async def handle_deep(context: ActionContext) -> ActionResult:
    """A /deep that cannot be answered yet: says why, or asks the chat."""
    fallback = context.deps.fallback_endpoint
    if fallback is None:
        return reply_text(NO_FALLBACK)
    if not context.args:
        return reply_text(HOW_TO)
    if (await _load_consent(context, fallback)).kinds == frozenset():
        return reply_text(
            f"This chat said no to {fallback.host}, so I did not send this there. /consent changes that."
        )
    await chat_settings.mark_consent_asked(context.tx, context.lane.chat, fallback.host)
    # Not as the answer of its item: that place belongs to the turn, once the chat has agreed.
    question = build_consent_question(fallback, DEEP_REASON, item=context.item.id)
    await outbox.add(context.tx, item=None, lane=context.lane, parts=(question,), now=context.now)
    return ActionResult(after_commit=(partial(context.deps.wake_sender, context.lane),))


async def handle_consent(context: ActionContext) -> ActionResult:
    """/consent: what may go to the second endpoint, with buttons to change it."""
    fallback = context.deps.fallback_endpoint
    if fallback is None:
        return reply_text(NO_FALLBACK)
    if not fallback.is_external:
        return reply_text(f"The second model is at {fallback.host}, on our own network; nothing leaves it.")
    return ActionResult(parts=(_build_page(fallback, await _load_consent(context, fallback)),))


async def handle_consent_button(context: ActionContext) -> ActionResult:
    """A button of the question or of /consent.

    `context.args` is an answer or a kind of content, an item (0: none) and the hash of the host, by colons.
    """
    fallback = context.deps.fallback_endpoint
    choice, item, host_hash, *_ = [*context.args.split(":"), "", ""]
    if fallback is None or host_hash != hash_host(fallback.host) or not _NUMBER.fullmatch(item):
        return BUTTON_EXPIRED
    if choice in _ANSWER_KINDS:
        return await _apply_answer(context, fallback, _ANSWER_KINDS[choice], int(item))
    kinds = (await _load_consent(context, fallback)).kinds or frozenset[ContentKind]()
    if choice not in CONTENT_KINDS or not kinds:
        return BUTTON_EXPIRED
    await chat_settings.store_consent(context.tx, context.lane.chat, fallback.host, kinds ^ {choice})
    page = _build_page(fallback, await _load_consent(context, fallback))
    return ActionResult(toast="Changed.", replacement=page)


async def _apply_answer(
    context: ActionContext, fallback: ModelEndpoint, kinds: frozenset[ContentKind], item: int
) -> ActionResult:
    """Store what may go there and continue what waited for that, including the /deep `item` (0: none)."""
    await chat_settings.store_consent(context.tx, context.lane.chat, fallback.host, kinds)
    text = f"{_format_consent(fallback, kinds)} /consent changes that."
    if kinds and item:
        await inbox.requeue(context.tx, item, context.lane, now=context.now)
    elif item:
        text += " Send it without /deep, and I answer it here."
    return ActionResult(
        toast="Agreed." if kinds else "Nothing goes there.",
        replacement=Part(text),
        after_commit=(context.deps.wake_worker, partial(context.deps.turns.wake, context.lane)),
    )


async def _load_consent(context: ActionContext, fallback: ModelEndpoint) -> Consent:
    return await chat_settings.load_consent(context.tx, context.lane.chat, fallback.host)


def _build_page(fallback: ModelEndpoint, consent: Consent) -> Part:
    """Build what /consent shows."""
    if not consent.is_given:
        question = build_consent_question(fallback, "If the second model answers")
        return replace(question, text=_format_consent(fallback, frozenset()))
    kinds = consent.kinds or frozenset[ContentKind]()
    toggles = tuple(
        _build_toggle(kind, fallback, is_sent=kind in kinds) for kind in CONTENT_KINDS if kind != "text"
    )
    withdraw = (Button("Send nothing there", format_consent_data("no", fallback)),)
    return Part(_format_consent(fallback, kinds), buttons=(toggles, withdraw))


def _build_toggle(kind: ContentKind, fallback: ModelEndpoint, *, is_sent: bool) -> Button:
    verb = "Keep back" if is_sent else "Also send"
    return Button(f"{verb} {kind}", format_consent_data(kind, fallback))


def _format_consent(fallback: ModelEndpoint, kinds: frozenset[ContentKind]) -> str:
    if not kinds:
        return f"Nothing of this chat goes to {fallback.host}."
    sent = [kind for kind in CONTENT_KINDS if kind in kinds]
    kept_back = [kind for kind in CONTENT_KINDS if kind not in kinds]
    text = f"The {_join_kinds(sent)} of this chat may go to {fallback.host}"
    if kept_back:
        text += f"; {_join_kinds(kept_back)} stay here"
    return f"{text}."


def _join_kinds(kinds: Sequence[ContentKind]) -> str:
    *first, last = kinds
    if first:
        return f"{', '.join(first)} and {last}"
    return last

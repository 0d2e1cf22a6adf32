"""/deep, which has one message answered by the second endpoint, and what a chat lets go to it: the question,
its buttons, and /consent.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.db.conversations import chat_settings as chats
from bot.db.conversations import turns
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent, ContentKind
from bot.db.engine import Transaction
from bot.db.queues import inbox, outbox
from bot.domain import Button, InboxItem, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, reply_text
from bot.turns.endpoints import (
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
    """Whether a /deep with these words is answered now: it has begun a turn, or nothing stands against one."""
    if await turns.has_turn(tx, item.id):
        return True
    return (
        fallback is not None
        and bool(text)
        and can_send_to(fallback, await chats.load_consent(tx, chat, fallback.host))
    )


async def handle_deep(context: ActionContext) -> ActionResult:
    """A /deep that cannot be answered yet: says why, or asks the chat."""
    second = context.deps.fallback_endpoint
    if second is None:
        return reply_text(NO_FALLBACK)
    if not context.args:
        return reply_text(HOW_TO)
    if (await _load_consent(context, second)).kinds == frozenset():
        return reply_text(
            f"This chat said no to {second.host}, so I did not send this there. /consent changes that."
        )
    await chats.mark_consent_asked(context.tx, context.lane.chat, second.host)
    # Not as the answer of its item: that place belongs to the turn, once the chat has agreed.
    asked = build_consent_question(second, DEEP_REASON, item=context.item.id)
    await outbox.add(context.tx, item=None, lane=context.lane, parts=(asked,), now=context.now)
    return ActionResult(after_commit=(partial(context.deps.wake_sender, context.lane),))


async def handle_consent(context: ActionContext) -> ActionResult:
    """/consent: what may go to the second endpoint, with buttons to change it."""
    second = context.deps.fallback_endpoint
    if second is None:
        return reply_text(NO_FALLBACK)
    if not second.is_external:
        return reply_text(f"The second model is at {second.host}, on our own network; nothing leaves it.")
    return ActionResult(parts=(_build_page(second, await _load_consent(context, second)),))


async def handle_consent_button(context: ActionContext) -> ActionResult:
    """A button of the question or of /consent; `call.words` is an answer or a kind, an item, and for which
    host.
    """
    second = context.deps.fallback_endpoint
    (wish, item, sealed, *_) = [*context.args.split(":"), "", ""]
    if second is None or sealed != hash_host(second.host) or not _NUMBER.fullmatch(item):
        return BUTTON_EXPIRED
    if wish in _ANSWER_KINDS:
        return await _apply_answer(context, second, _ANSWER_KINDS[wish], int(item))
    kinds = (await _load_consent(context, second)).kinds or frozenset[ContentKind]()
    if wish not in CONTENT_KINDS or not kinds:
        return BUTTON_EXPIRED
    await chats.store_consent(context.tx, context.lane.chat, second.host, kinds ^ {wish})
    return ActionResult(
        toast="Changed.", replacement=_build_page(second, await _load_consent(context, second))
    )


async def _apply_answer(
    context: ActionContext, fallback: ModelEndpoint, kinds: frozenset[ContentKind], item: int
) -> ActionResult:
    """The chat has said what may go there: what waited for that goes on, the /deep `item` (0: none) included."""
    await chats.store_consent(context.tx, context.lane.chat, fallback.host, kinds)
    if kinds and item:
        await inbox.requeue(context.tx, item, context.lane, now=context.now)
    if item and not kinds:
        unanswered = " Send it without /deep, and I answer it here."
    else:
        unanswered = ""
    redraw = Part(f"{_format_consent(fallback, kinds)} /consent changes that.{unanswered}")
    then = (context.deps.wake_worker, partial(context.deps.turns.wake, context.lane))
    return ActionResult(
        toast="Agreed." if kinds else "Nothing goes there.", replacement=redraw, after_commit=then
    )


async def _load_consent(context: ActionContext, fallback: ModelEndpoint) -> Consent:
    return await chats.load_consent(context.tx, context.lane.chat, fallback.host)


def _build_page(fallback: ModelEndpoint, consent: Consent) -> Part:
    """What /consent shows."""
    if not consent.is_given:
        return replace(
            build_consent_question(fallback, "If the second model answers"),
            text=_format_consent(fallback, frozenset()),
        )
    kinds = consent.kinds or frozenset[ContentKind]()
    toggles = tuple(
        Button(f"{'Keep back' if kind in kinds else 'Also send'} {kind}", format_consent_data(kind, fallback))
        for kind in CONTENT_KINDS
        if kind != "text"
    )
    withdraw = (Button("Send nothing there", format_consent_data("no", fallback)),)
    return Part(_format_consent(fallback, kinds), buttons=(toggles, withdraw))


def _format_consent(fallback: ModelEndpoint, kinds: frozenset[ContentKind]) -> str:
    if not kinds:
        return f"Nothing of this chat goes to {fallback.host}."
    kept_back = [kind for kind in CONTENT_KINDS if kind not in kinds]
    stays = f"; {_join_kinds(kept_back)} stay here" if kept_back else ""
    return f"The {_join_kinds([kind for kind in CONTENT_KINDS if kind in kinds])} of this chat may go to {fallback.host}{stays}."


def _join_kinds(kinds: Sequence[ContentKind]) -> str:
    *first, last = kinds
    if first:
        return f"{', '.join(first)} and {last}"
    return last

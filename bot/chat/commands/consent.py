"""/deep, which has one message answered by the second endpoint, and /consent: what a chat lets go outside."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    build_part,
    reply_hint,
    reply_text,
)
from bot.chat.outside_speech import OutsideSpeech
from bot.db.conversations import chat_settings, turns
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent, ContentKind
from bot.db.queues import outbox, requeued_items
from bot.db.transaction import Transaction
from bot.domain import Button, InboxItem, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_series
from bot.translations.translator import Translator, translatable
from bot.turns import (
    CONTENT_NAMES,
    ModelEndpoint,
    build_consent_question,
    can_send_to,
    format_consent_data,
    hash_host,
)

NO_FALLBACK = translatable("A second model isn't set up here.")
DEEP_OCCASION = translatable(
    "The second model runs at {host}, outside our network. To use it, I'd send the text of this chat there."
)
CONSENT_OCCASION = translatable(
    "The second model runs at {host}, outside our network. Each time it answers, the text of this chat "
    "would go there."
)
SEND_LABELS: dict[ContentKind, str] = {
    "notes": translatable("Also send notes"),
    "files": translatable("Also send files"),
    "images": translatable("Also send images"),
}
KEEP_LABELS: dict[ContentKind, str] = {
    "notes": translatable("Don't send notes"),
    "files": translatable("Don't send files"),
    "images": translatable("Don't send images"),
}

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
    fallback = context.deps.turns.fallback_endpoint
    if fallback is None:
        raise ChangeRefused(NO_FALLBACK)
    if not context.args:
        return reply_hint(
            context.translate("Write your message after the command: `/deep compare these two contracts`")
        )
    if (await _load_consent(context, fallback)).kinds == frozenset():
        raise ChangeRefused(
            "This chat doesn't allow {host}, so I didn't send this there. /consent changes that.",
            host=fallback.host,
        )
    await chat_settings.mark_consent_asked(context.tx, context.lane.chat, fallback.host)
    # Not as the answer of its item: that place belongs to the turn, once the chat has agreed.
    question = build_consent_question(context.translate, fallback, DEEP_OCCASION, item=context.item.id)
    await outbox.add(context.tx, item=None, lane=context.lane, parts=(question,), now=context.now)
    return ActionResult()


async def handle_consent(context: ActionContext) -> ActionResult:
    """/consent: what may go to the second endpoint and to services for sound, with buttons to change it."""
    outside_speech = context.deps.turns.outside_speech
    if not outside_speech.hosts:
        return await _show_fallback_consent(context)
    is_allowed = await chat_settings.load_speech_consent(context.tx, context.lane.chat, outside_speech.hosts)
    page = outside_speech.build_question(context.translate)
    if is_allowed is not None:
        withdraw = Button(context.translate("Send nothing there"), outside_speech.format_data("no"))
        text = _format_speech_consent(context.translate, outside_speech, is_allowed=is_allowed)
        page = Part(text, buttons=((withdraw,),) if is_allowed else page.buttons)
    if context.is_group or context.deps.turns.fallback_endpoint is None:
        return ActionResult(parts=(page,))
    fallback_consent = await _show_fallback_consent(context)
    return replace(fallback_consent, parts=(*fallback_consent.parts, page))


async def handle_speech_button(context: ActionContext) -> ActionResult:
    """A button of the question about sound, or of /consent; `context.args` is as that of the other one."""
    outside_speech = context.deps.turns.outside_speech
    answer, item, host_hash = ["", "", *context.args.rsplit(":", 2)][-3:]
    is_known = answer in {"yes", "no"} and _NUMBER.fullmatch(item) is not None
    if not is_known or not outside_speech.hosts or host_hash != hash_host(outside_speech.hosts):
        raise ButtonExpired
    context.check_may_change_chat()
    is_allowed = answer == "yes"
    await chat_settings.store_speech_consent(
        context.tx, context.lane.chat, outside_speech.hosts, allowed=is_allowed
    )
    await requeued_items.requeue(context.tx, int(item), context.lane, now=context.now)
    text = _format_speech_consent(context.translate, outside_speech, is_allowed=is_allowed)
    hint = context.translate("/consent changes that.")
    toast = context.translate("Allowed.") if is_allowed else context.translate("Nothing is sent there.")
    return ActionResult(toast=toast, replacement=Part(f"{text} {hint}"))


def _format_speech_consent(translate: Translator, outside_speech: OutsideSpeech, *, is_allowed: bool) -> str:
    hosts = format_series(translate, outside_speech.hosts.split(","))
    if is_allowed:
        return translate("Voice messages and the answers I speak may be sent to {hosts}.", hosts=hosts)
    return translate("I don't send voice messages, or the answers I speak, to {hosts}.", hosts=hosts)


async def _show_fallback_consent(context: ActionContext) -> ActionResult:
    fallback = context.deps.turns.fallback_endpoint
    if fallback is None:
        raise ChangeRefused(NO_FALLBACK)
    if not fallback.is_external:
        text = context.translate(
            "The second model runs at {host}, on our own network. Nothing leaves it.", host=fallback.host
        )
        return reply_text(text)
    return ActionResult(
        parts=(_build_page(context.translate, fallback, await _load_consent(context, fallback)),)
    )


async def handle_consent_button(context: ActionContext) -> ActionResult:
    """A button of the question or of /consent.

    `context.args` is an answer or a toggle such as `files:off`, an item (0: none) and the hash of the host,
    by colons. A toggle names the state it sets, so that a second tap does not undo the first.
    """
    fallback = context.deps.turns.fallback_endpoint
    choice, item, host_hash = ["", "", *context.args.rsplit(":", 2)][-3:]
    if fallback is None or host_hash != hash_host(fallback.host) or not _NUMBER.fullmatch(item):
        raise ButtonExpired
    if choice in _ANSWER_KINDS:
        return await _apply_answer(context, fallback, _ANSWER_KINDS[choice], int(item))
    kinds = (await _load_consent(context, fallback)).kinds or frozenset[ContentKind]()
    name, _, state = choice.partition(":")
    toggled = frozenset(kind for kind in SEND_LABELS if kind == name)
    if not toggled or state not in {"on", "off"} or not kinds:
        raise ButtonExpired
    kinds = kinds | toggled if state == "on" else kinds - toggled
    await chat_settings.store_consent(context.tx, context.lane.chat, fallback.host, kinds)
    page = _build_page(context.translate, fallback, await _load_consent(context, fallback))
    return ActionResult(toast=context.translate("Changed."), replacement=page)


async def _apply_answer(
    context: ActionContext, fallback: ModelEndpoint, kinds: frozenset[ContentKind], item: int
) -> ActionResult:
    """Store what may go there and continue what waited for that, including the /deep `item` (0: none)."""
    await chat_settings.store_consent(context.tx, context.lane.chat, fallback.host, kinds)
    translate = context.translate
    text = _format_consent(translate, fallback, kinds) + " " + translate("/consent changes that.")
    if kinds and item:
        await requeued_items.requeue(context.tx, item, context.lane, now=context.now)
    elif item:
        text += " " + translate("Send it without /deep and I'll answer it here.")
    toast = translate("Allowed.") if kinds else translate("Nothing is sent there.")
    return ActionResult(
        toast=toast,
        replacement=Part(text),
        after_commit=(partial(context.deps.turns.control.wake, context.lane),),
    )


async def _load_consent(context: ActionContext, fallback: ModelEndpoint) -> Consent:
    return await chat_settings.load_consent(context.tx, context.lane.chat, fallback.host)


def _build_page(translate: Translator, fallback: ModelEndpoint, consent: Consent) -> Part:
    """Build what /consent shows."""
    if not consent.is_given:
        question = build_consent_question(translate, fallback, CONSENT_OCCASION)
        return replace(question, text=_format_consent(translate, fallback, frozenset()))
    kinds = consent.kinds or frozenset[ContentKind]()
    toggles = tuple(
        _build_toggle(translate, kind, fallback, is_sent=kind in kinds)
        for kind in CONTENT_KINDS
        if kind != "text"
    )
    withdraw = (Button(translate("Send nothing there"), format_consent_data("no", fallback)),)
    return build_part(_format_consent(translate, fallback, kinds), toggles, withdraw)


def _build_toggle(
    translate: Translator, kind: ContentKind, fallback: ModelEndpoint, *, is_sent: bool
) -> Button:
    if is_sent:
        return Button(translate(KEEP_LABELS[kind]), format_consent_data(f"{kind}:off", fallback))
    return Button(translate(SEND_LABELS[kind]), format_consent_data(f"{kind}:on", fallback))


def _format_consent(translate: Translator, fallback: ModelEndpoint, kinds: frozenset[ContentKind]) -> str:
    if not kinds:
        return translate("Nothing from this chat is sent to {host}.", host=fallback.host)
    sent = [kind for kind in CONTENT_KINDS if kind in kinds]
    kept_back = [kind for kind in CONTENT_KINDS if kind not in kinds]
    text = translate(
        "May be sent to {host}: {kinds}.", host=fallback.host, kinds=_join_kinds(translate, sent)
    )
    if kept_back:
        text += " " + translate("Stay here: {kinds}.", kinds=_join_kinds(translate, kept_back))
    return text


def _join_kinds(translate: Translator, kinds: Sequence[ContentKind]) -> str:
    return format_series(translate, (translate(CONTENT_NAMES[kind]) for kind in kinds))

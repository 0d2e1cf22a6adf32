"""Strangers: they get a code or a refusal, and admins once a card with buttons.

An admin lets a stranger in by a button, by /people, or by pasting the code.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import replace

from bot.chat.actions import ActionContext, ActionResult, build_part, reply_text
from bot.chat.commands.people import change_person
from bot.chat.commands.people_changes import PeopleChanges, describe_decision
from bot.db.people import people
from bot.db.queues import admin_notices, outbox
from bot.domain import Button, Lane, Part
from bot.telegram.incoming.update import to_plain_name
from bot.translations.translator import DeferredText, Translator, defer

_CODE = re.compile(r"[A-Za-z]{8}", re.ASCII)
MAX_TITLE_CHARS = 60  # of a group, in a card
_MAX_CARDS = 5
_CARD_WINDOW_SECONDS = 3600.0
_BUTTON = re.compile(r"(add|block):([1-9][0-9]{0,15})", re.ASCII)

log = logging.getLogger(__name__)


def is_code(text: str) -> bool:
    """Whether a message may be a stranger's code and nothing else."""
    return _CODE.fullmatch(text.strip()) is not None


async def reject_stranger(context: ActionContext) -> ActionResult:
    """Answer a stranger with one line, and not again for a while. What they wrote is not stored."""
    if context.deps.access.mode != "pairing":
        return _refuse_access(context)
    translate = context.translate
    is_known = await people.find_stranger(context.tx, context.person) is not None
    registered = await people.register_stranger(
        context.tx, context.person, context.name, language=translate.language, now=context.now
    )
    if registered is None:
        return ActionResult()
    code, good_until = registered
    if code is None:
        minutes = max(1, round((good_until - context.now) / 60))
        return reply_text(
            translate.plural(
                "You don't have access yet. Your code is valid for another minute.",
                "You don't have access yet. Your code is valid for another {count} minutes.",
                minutes,
            )
        )
    text = translate(
        "This is a private bot. To get access, give an admin this code: {code} (valid for an hour).",
        code=code,
    )
    if not is_known:
        card_text = defer(
            "{name} ({number}) asks for access, with the code {code}.",
            name=defer("“{name}”", name=context.name),
            number=context.person,
            code=code,
        )
        await _announce_stranger(context, card_text)
    return reply_text(text, code=code)


def _refuse_access(context: ActionContext) -> ActionResult:
    if not context.deps.access.can_send_refusal(context.person, context.now):
        return ActionResult()
    line = context.translate(
        "This is a private bot. Its admins can give you access: tell them your Telegram ID, {number}.",
        number=context.person,
    )
    return reply_text(line, code=str(context.person))


async def ask_from_group(title: str, context: ActionContext) -> ActionResult:
    """Tell admins of a stranger who asked in a group that the bot answers in; nothing is said there."""
    if context.deps.access.mode != "pairing" or await people.find_stranger(context.tx, context.person):
        return ActionResult()
    language = context.translate.language
    await people.register_stranger(
        context.tx, context.person, context.name, language=language, is_told=False, now=context.now
    )
    text = defer(
        "{name} ({number}) has asked me something in the group “{title}”.",
        name=defer("“{name}”", name=context.name),
        number=context.person,
        title=to_plain_name(title, MAX_TITLE_CHARS),
    )
    await _announce_stranger(context, text)
    return ActionResult()


async def send_cards(context: ActionContext, build_card: Callable[[Translator], Part]) -> bool:
    """Send every admin a card that a stranger causes; False once they had as many as they get in an hour.

    All strangers together get few: /people and /groups have the rest.
    """
    may_send = await admin_notices.count_sending(
        context.tx,
        "stranger card",
        max_count=_MAX_CARDS,
        window_seconds=_CARD_WINDOW_SECONDS,
        now=context.now,
    )
    if not may_send:
        return False
    for admin in await context.deps.notices.list_admins(context.tx):
        card = replace(build_card(context.deps.access.get_translator(admin)), silent=True)
        await outbox.add(context.tx, item=None, lane=Lane(admin), parts=(card,), now=context.now)
    return True


async def _announce_stranger(context: ActionContext, text: DeferredText) -> None:
    def build_card(translate: Translator) -> Part:
        buttons = (
            Button(translate("Give access"), f"stranger:add:{context.person}"),
            Button(translate("Block"), f"stranger:block:{context.person}"),
        )
        return build_part(text(translate), buttons)

    if await send_cards(context, build_card):
        log.info("person %d asks to be let in", context.person, extra={"action": "people.asked"})


async def handle_card_button(context: ActionContext) -> ActionResult:
    """A button of a card; `context.args` is the change and the person, such as `add:12345`.

    An admin who taps after another one sees what that one did.
    """
    match = context.match_args(_BUTTON)
    person = int(match[2])
    if decision := await describe_decision(context.tx, person):
        outcome = decision(context.translate)
        return ActionResult(toast=outcome, replacement=build_part(outcome))
    change = PeopleChanges.let_in if match[1] == "add" else PeopleChanges.block
    result = await change_person(context, change, person)
    outcome = "".join(part.text for part in result.parts)
    return replace(result, parts=(), toast=outcome, replacement=build_part(outcome))


async def let_in_by_code(context: ActionContext) -> ActionResult:
    """Let in the stranger whose code an admin has pasted; `context.args` is the code."""
    stranger = await people.find_stranger_by_code(context.tx, context.args, now=context.now)
    if stranger is None:
        return ActionResult()
    return await change_person(context, PeopleChanges.let_in, stranger.id)

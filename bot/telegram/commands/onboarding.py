"""How people get access: strangers get a code or a refusal, a link lets in; then comes a greeting."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db.people import people
from bot.db.people.people import Person, RoleOrBlocked
from bot.domain import Button, Part
from bot.telegram.actions import ActionContext, ActionResult, build_part, reply_hint, reply_text
from bot.translations.translator import Translator, translatable

FIRST_LINK_USED_UP = translatable(
    "This link no longer works. While nobody is admin, the gateway's log shows a new one every hour; "
    "`canvasgram setup` shows one at once."
)
LINK_USED_UP = translatable("This link no longer works. Ask an admin for a new one.")
EXAMPLES = (
    translatable("What time is it in Tokyo?"),
    translatable("What is 17.5 % of 2,480?"),
    translatable("Explain tides in three sentences."),
)

log = logging.getLogger(__name__)


async def reject_stranger(context: ActionContext) -> ActionResult:
    """Answer a stranger with one line, and not again for a while. What they wrote is not stored."""
    if context.deps.access.mode != "pairing":
        return _refuse_access(context)
    translate = context.translate
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
                "You have not been let in yet. Your code is valid for another minute.",
                "You have not been let in yet. Your code is valid for another {count} minutes.",
                minutes,
            )
        )
    text = translate(
        "This is a private bot. To be let in, give an admin this code: {code} (valid for an hour).", code=code
    )
    return reply_text(text, code=code)


def _refuse_access(context: ActionContext) -> ActionResult:
    if not context.deps.access.can_send_refusal(context.person, context.now):
        return ActionResult()
    line = context.translate(
        "This is a private bot. Its admins can let you in: tell them your number, {number}.",
        number=context.person,
    )
    return reply_text(line, code=str(context.person))


async def join_by_link(context: ActionContext) -> ActionResult:
    """Let in somebody who opened `t.me/<bot>?start=CODE`; `context.args` is the code."""
    access = context.deps.access
    if context.role == "admin":
        return build_welcome(context, "admin")
    if not access.can_try_code(context.person, context.now):
        if context.role:
            return reply_text(context.translate("That was too many attempts. Try again in an hour."))
        return await reject_stranger(context)
    before = await people.find(context.tx, context.person)
    role = await people.redeem_invite(context.tx, context.args, context.person, context.name, now=context.now)
    if role is None:
        reason = LINK_USED_UP if access.list_admins() else FIRST_LINK_USED_UP
        return reply_hint(context.translate(reason))
    after = await people.find(context.tx, context.person)
    if after != before:
        await _record_joining(context, before, role)
    return await _admit(context, role)


async def _record_joining(context: ActionContext, before: Person | None, role: people.Role) -> None:
    state_before = None
    if before is not None:
        state_before = {"role": before.role, "name": before.name}
    state_after = {"role": role, "name": context.name}
    await context.record_audit("came in by a link", f"person {context.person}", state_before, state_after)


async def _admit(context: ActionContext, role: people.Role) -> ActionResult:
    """Welcome a person who has been let in, and notify the admins."""
    deps = context.deps
    log.info("person %d came in by a link, as %s", context.person, role, extra={"action": "people.joined"})
    line = f"{context.name} ({context.person}) came in by a link, as {role}."
    lanes = await deps.notices.notify(
        context.tx, f"person {context.person}", line, now=context.now, excluded_admin=context.person
    )
    remember = partial(deps.access.remember, Person(context.person, context.name, role))
    return replace(
        build_welcome(context, role),
        after_commit=(remember, *(partial(deps.wake_sender, lane) for lane in lanes)),
    )


def build_welcome(context: ActionContext, role: RoleOrBlocked) -> ActionResult:
    """Greet a person; an admin's menu is set with it, for Telegram refuses it before they have written."""
    set_menu: tuple[Callable[[], Awaitable[None]], ...] = ()
    if role == "admin":
        client = context.deps.best_effort_calls
        set_menu = (partial(client.set_menu, context.person, context.translate.language, is_admin=True),)
    greeting = build_greeting(context.translate, context.name, role)
    return ActionResult(parts=(greeting,), best_effort_calls=set_menu)


def build_greeting(translate: Translator, name: str, role: RoleOrBlocked) -> Part:
    """Build what somebody reads first: a greeting with three examples to tap."""
    paragraphs = [
        translate(
            "Hello {name}. Just write to me. I can look things up on web pages, read photos and PDFs, and "
            "remind you of things. /help shows more.",
            name=name,
        )
    ]
    if role == "admin":
        paragraphs.append(
            translate(
                "You are an admin here: /invite makes a link that lets somebody in, /people shows everybody."
            )
        )
    paragraphs.append(translate("To begin, tap an example:"))
    rows = [(Button(translate(question), f"ask:{number}"),) for number, question in enumerate(EXAMPLES)]
    return build_part("\n\n".join(paragraphs), *rows)

"""What happens at the door: strangers get a code or a refusal, and whoever has a link comes in."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db.people import people
from bot.db.people.people import Person, RoleOrBlocked
from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.commands.greeting import build_greeting

LINK_USED_UP = "This link has been used, or it is too old. Ask for a new one."


async def reject_stranger(context: ActionContext) -> ActionResult:
    """A stranger wrote something: one line, and not again for a while. What they wrote is not kept."""
    if context.deps.access.mode != "pairing":
        told = context.deps.access.can_send_refusal(context.person, context.now)
        line = f"This is a private bot. Its admins can let you in; your number is {context.person}."
        if told:
            return reply_text(line, code=str(context.person))
        return ActionResult()
    heard = await people.register_stranger(context.tx, context.person, context.name, now=context.now)
    if heard is None:
        return ActionResult()
    code, good_until = heard
    minutes = max(1, round((good_until - context.now) / 60))
    if code is None:
        return reply_text(
            f"An admin has not let you in yet. The code you have is good for {minutes} more minutes."
        )
    return reply_text(
        f"This is a private bot. Give an admin this code to be let in: {code} (good for an hour).", code=code
    )


async def join_by_link(context: ActionContext) -> ActionResult:
    """Somebody opened `t.me/<bot>?start=CODE`; `call.words` is the code."""
    access = context.deps.access
    if context.role == "admin":
        return build_welcome(context, "admin")
    if not access.can_try_code(context.person, context.now):
        if context.role:
            return reply_text("That were too many links. Try again in an hour.")
        return await reject_stranger(context)
    before = await people.find(context.tx, context.person)
    role = await people.redeem_invite(context.tx, context.args, context.person, context.name, now=context.now)
    if role is None:
        return reply_text(LINK_USED_UP)
    after = await people.find(context.tx, context.person)
    if after != before:
        if before is None:
            was = None
        else:
            was = {"role": before.role, "name": before.name}
        await context.record_audit(
            "came in by a link", f"person {context.person}", was, {"role": role, "name": context.name}
        )
    return await _admit(context, role)


def build_welcome(context: ActionContext, role: RoleOrBlocked) -> ActionResult:
    """The greeting; an admin's menu is shown with it, for Telegram refuses it before somebody has written."""
    menu: tuple[Callable[[], Awaitable[None]], ...] = ()
    if role == "admin":
        menu = (partial(context.deps.best_effort_calls.set_admin_menu, context.person),)
    return ActionResult(parts=(build_greeting(context.name, role),), best_effort_calls=menu)


async def _admit(context: ActionContext, role: people.Role) -> ActionResult:
    reach = context.deps
    line = f"{context.name} ({context.person}) came in by a link, as {role}."
    told = await reach.notices.notify(
        context.tx, f"person {context.person}", line, now=context.now, excluded_admin=context.person
    )
    remember = partial(reach.access.remember, Person(context.person, context.name, role))
    return replace(
        build_welcome(context, role),
        after_commit=(remember, *(partial(reach.wake_sender, lane) for lane in told)),
    )

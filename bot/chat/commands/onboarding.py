"""How people come in by a link."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bot.chat.actions import ActionContext, ActionResult, reply_hint
from bot.chat.commands.people_changes import describe_role
from bot.chat.commands.strangers import reject_stranger
from bot.chat.commands.welcome import build_welcome
from bot.db.people import people
from bot.db.people.people import Person
from bot.errors import ChangeRefused
from bot.translations.translator import defer, translatable

FIRST_LINK_USED_UP = translatable("This link no longer works. `canvasgram setup` shows a new one at once.")
LINK_USED_UP = translatable("This link no longer works. Ask an admin for a new one.")

_JOINED: Mapping[people.Role, str] = {
    "admin": translatable("{name} ({number}) joined with an invite link, as an admin."),
    "member": translatable("{name} ({number}) joined with an invite link, as a member."),
}

log = logging.getLogger(__name__)


async def join_by_link(context: ActionContext) -> ActionResult:
    """Let in somebody who opened `t.me/<bot>?start=CODE`; `context.args` is the code."""
    access = context.deps.access
    if context.role == "admin":
        return build_welcome(context, "admin")
    if not access.can_try_code(context.person, context.now):
        if context.role:
            raise ChangeRefused("That was too many attempts. Try again in an hour.")
        return await reject_stranger(context)
    before = await people.find(context.tx, context.person)
    role = await people.redeem_invite(
        context.tx,
        context.args,
        context.person,
        context.name,
        configured_admins=context.deps.access.configured_admins,
        now=context.now,
    )
    if role is None:
        reason = LINK_USED_UP if access.list_admins() else FIRST_LINK_USED_UP
        return reply_hint(context.translate(reason))
    after = await people.find(context.tx, context.person)
    if after != before:
        subject = f"person {context.person}"
        after_joining = {"role": role, "name": context.name}
        await context.record_audit("came in by a link", subject, describe_role(before), after_joining)
    return await _admit(context, role)


async def _admit(context: ActionContext, role: people.Role) -> ActionResult:
    """Welcome a person who has been let in, and notify the admins."""
    deps = context.deps
    log.info("person %d came in by a link, as %s", context.person, role, extra={"action": "people.joined"})
    line = defer(_JOINED[role], name=context.name, number=context.person)
    await deps.notices.notify(
        context.tx, f"person {context.person}", line, now=context.now, excluded_admin=context.person
    )
    remember = partial(deps.access.remember, Person(context.person, context.name, role))
    return replace(build_welcome(context, role), after_commit=(remember,))

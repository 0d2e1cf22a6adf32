"""What admins change about people on the page: limits, and links that let somebody in."""

from collections.abc import Mapping

import htpy as h

from bot.admin.names import name_person
from bot.admin.page_request import Act, PageRequest, Redirect, ScreenPage
from bot.db.people import admin_changes, people
from bot.db.people.admin_changes import LIMIT_VALUE, LINK_HOURS
from bot.db.people.limits import EVERYBODY
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.people.people import Role
from bot.db.transaction import Transaction
from bot.errors import NothingFound, QuestionRefused


async def set_limit(request: PageRequest, form: Mapping[str, str]) -> Redirect:
    """Set the limit of somebody, of a group or of every member."""
    value = form.get("value", "").strip().lower()
    if not LIMIT_VALUE.fullmatch(value):
        raise QuestionRefused(f"A limit is a number of {request.output_unit.name}, none, or default.")
    async with request.write() as tx:
        holder = await _find_holder(tx, form.get("holder", ""))
        await admin_changes.set_limit(tx, request.actor, holder, value, now=request.now)
        names = await people.list_names(tx)
    request.gateway.on_limits_changed()
    name = "Every member" if holder == EVERYBODY else name_person(holder, names)
    return Redirect(f"{ADMIN_PATH}/people", f"{name}: the limit is {value} now.")


async def _find_holder(tx: Transaction, number: str) -> int:
    """Whose limit is meant. Raises NothingFound for nobody."""
    known = {EVERYBODY, *await people.list_names(tx)}
    holder = next((holder for holder in known if str(holder) == number), None)
    if holder is None:
        raise NothingFound(f"Nobody who is in has the number {number[:40]}.")
    return holder


async def make_invite(request: PageRequest, form: Mapping[str, str]) -> ScreenPage:
    """Make a link that lets one person in, and show it, once."""
    roles: Mapping[str, Role] = {"member": "member", "admin": "admin"}
    role = roles.get(form.get("role", ""))
    if role is None:
        raise QuestionRefused("A link is for a member or for an admin.")
    async with request.write() as tx:
        code = await admin_changes.make_invite(tx, request.actor, role, now=request.now)
    link = f"https://t.me/{request.gateway.bot_name}?start={code}"
    whom = "as an admin, " if role == "admin" else ""
    body = [
        h.p[f"This link lets one person in, {whom}once, within {LINK_HOURS} hours. It is not shown again."],
        h.p[h.code[link]],
        h.p[h.a(href=f"{ADMIN_PATH}/people")["Back to people"]],
    ]
    return ScreenPage("A link that lets one person in", body)


async def revoke_invite(request: PageRequest, form: Mapping[str, str]) -> Redirect:
    """Void a link that nobody has used."""
    async with request.write() as tx:
        await admin_changes.revoke_invite(tx, request.actor, form.get("link", ""), now=request.now)
    return Redirect(f"{ADMIN_PATH}/people", "The link lets nobody in any more.")


PEOPLE_ACTS: Mapping[str, Act] = {
    "/limit": set_limit,
    "/invite": make_invite,
    "/revoke": revoke_invite,
}
"""The acts by their paths below that of the screen."""

"""/invite and /people: links that let one person in, the list of who is in and who waits, and its buttons."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    ListEntry,
    build_pages,
    redraw_list,
    reply_change,
    reply_hint,
    reply_text,
)
from bot.chat.commands.people_changes import PeopleChanges, describe_decision
from bot.db.people import admin_changes, people
from bot.db.people.admin_changes import LINK_HOURS, AdminChange
from bot.db.people.people import Person, Role, RoleOrBlocked, Stranger
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_ago
from bot.translations.translator import isolate, translatable

PersonChange = Callable[..., Awaitable[AdminChange]]
"""A method of PeopleChanges."""

MAX_PEOPLE_LISTED = 60
HOW_TO = translatable(
    "/people lists everybody, with buttons. Or write `/people add CODE`, `/people remove NAME` or `/people "
    "block NAME`; a Telegram ID works too. `/invite admin` makes another admin."
)


async def handle_invite(context: ActionContext) -> ActionResult:
    """/invite, or /invite admin."""
    if context.args not in {"", "admin", "member"}:
        return reply_hint(
            context.translate("Write `/invite` for a member, or `/invite admin` for another admin.")
        )
    role: Role = "member"
    text = translatable("This link gives one person access. It works once, within {hours} hours:\n{link}")
    if context.args == "admin":
        role = "admin"
        text = translatable(
            "This link makes one person an admin. It works once, within {hours} hours:\n{link}"
        )
    code = await admin_changes.make_invite(context.tx, context.actor, role, now=context.now)
    link = f"https://t.me/{context.deps.settings.bot_name}?start={code}"
    return reply_text(context.translate(text, hours=LINK_HOURS, link=link))


async def handle_people(context: ActionContext) -> ActionResult:
    """/people, and what may follow it."""
    verb, _, target = context.args.partition(" ")
    if not verb:
        return ActionResult(parts=await _build_list(context))
    if verb == "add":
        return await _add_person(context, target.strip())
    change = _ROLE_CHANGES.get(verb)
    if change is None or not target.strip():
        return reply_hint(context.translate(HOW_TO))
    return await change_person(context, change, await people.find_id(context.tx, target))


async def handle_people_button(context: ActionContext) -> ActionResult:
    """A button of the list; `context.args` is the change and the person, such as `block:12345`."""
    verb, _, target = context.args.partition(":")
    change = _BUTTON_CHANGES.get(verb)
    person_id = _parse_number(target)
    if change is None or person_id is None:
        raise ButtonExpired
    if newer_decision := await _describe_newer_decision(context, verb, person_id):
        return redraw_list(newer_decision, await _build_list(context))
    result = await change_person(context, change, person_id)
    toast = "".join(part.text for part in result.parts)
    return replace(
        redraw_list(toast, await _build_list(context)),
        after_commit=result.after_commit,
        best_effort_calls=result.best_effort_calls,
    )


async def _describe_newer_decision(context: ActionContext, verb: str, person_id: int) -> str | None:
    """What was decided about a person since the list was sent, if their button no longer fits it."""
    person = await people.find(context.tx, person_id)
    if person is None or (person.role == "blocked") == (verb == "unblock"):
        return None
    if decision := await describe_decision(context.tx, person_id):
        return decision(context.translate)
    return context.translate("{name} already has access.", name=person.name)


async def _add_person(context: ActionContext, code_or_number: str) -> ActionResult:
    stranger = await people.find_stranger_by_code(context.tx, code_or_number, now=context.now)
    if stranger is not None:
        return await change_person(context, PeopleChanges.let_in, stranger.id)
    person_id = _parse_number(code_or_number)
    if person_id is None:
        raise ChangeRefused(
            "Nobody is waiting with this code. Codes are valid for an hour; /people shows who is waiting."
        )
    return await change_person(context, PeopleChanges.let_in, person_id)


async def change_person(context: ActionContext, change: PersonChange, person_id: int) -> ActionResult:
    """Make a change about somebody; what cannot be is said."""
    changes = PeopleChanges(context.deps)
    try:
        made = await change(changes, context.tx, context.actor, person_id, now=context.now)
    except ChangeRefused as refused:
        return reply_text(refused.explain(context.translate))
    return reply_change(context, made)


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    stored = await people.list_people(context.tx)
    strangers = await people.list_strangers(context.tx)
    unstored_admins = context.deps.access.configured_admins - {person.id for person in stored}
    everyone = [Person(person_id, f"Person {person_id}", "admin") for person_id in sorted(unstored_admins)]
    everyone += stored
    entries = [_build_entry(context, person) for person in everyone[:MAX_PEOPLE_LISTED]]
    if len(everyone) > len(entries):
        more = context.translate("… and {count} more", count=len(everyone) - len(entries))
        entries.append((more, ()))
    if strangers:
        entries += [("", ()), (context.translate("Waiting for access:"), ())]
        entries += [_build_stranger_entry(context, stranger) for stranger in strangers]
    return build_pages(context.translate("People:"), entries, buttons_per_row=None)


def _build_entry(context: ActionContext, person: Person) -> ListEntry:
    translate = context.translate
    is_configured = person.id in context.deps.access.configured_admins
    if is_configured:
        role = translate("admin (ADMIN_IDS)")
    elif person.guest:
        role = translate("guest")
    else:
        role = translate(_ROLE_NAMES[person.role])
    line = f"{isolate(person.name)} · {person.id} · {role}"
    if person.id == context.person:
        return line + " · " + translate("you"), ()
    if is_configured:
        return line, ()
    if person.role == "blocked":
        return line, (Button(translate("Unblock {name}", name=person.name), f"people:unblock:{person.id}"),)
    return line, (
        Button(translate("Remove {name}", name=person.name), f"people:remove:{person.id}"),
        Button(translate("Block {name}", name=person.name), f"people:block:{person.id}"),
    )


def _build_stranger_entry(context: ActionContext, stranger: Stranger) -> ListEntry:
    translate = context.translate
    ago = format_ago(translate, context.now - stranger.asked_at)
    buttons = (
        Button(translate("Give {name} access", name=stranger.name), f"people:add:{stranger.id}"),
        Button(translate("Block {name}", name=stranger.name), f"people:block:{stranger.id}"),
    )
    line = f"{isolate(stranger.name)} · {stranger.id}"
    if stranger.expires_at > context.now:
        line += f" · {stranger.code}"
    elif stranger.expires_at > stranger.asked_at:  # else they were not told their code yet
        line += " · " + translate("code expired")
    return f"{line} · {ago}", buttons


def _parse_number(text: str) -> int | None:
    if re.fullmatch(r"[1-9][0-9]{0,15}", text.strip(), re.ASCII):
        return int(text)
    return None


_ROLE_NAMES: dict[RoleOrBlocked, str] = {
    "admin": translatable("admin"),
    "member": translatable("member"),
    "blocked": translatable("blocked"),
}
_ROLE_CHANGES: dict[str, PersonChange] = {
    "add": PeopleChanges.let_in,
    "remove": PeopleChanges.remove,
    "block": PeopleChanges.block,
}
_BUTTON_CHANGES = _ROLE_CHANGES | {"unblock": PeopleChanges.remove}

"""/invite and /people: links that let one person in, the list of who is in and who waits, and its buttons.

Removing or blocking somebody ends what runs for them; the last admin stays.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db import revisions
from bot.db.people import admin_changes, people
from bot.db.people.admin_changes import LINK_HOURS
from bot.db.people.people import Person, Role, RoleOrBlocked, Stranger
from bot.db.queues import jobs, outbox, stop_requests
from bot.db.tools import audit, grants, secrets
from bot.domain import Button, Lane, Part
from bot.errors import ChangeRefused
from bot.telegram.access import ACCESS_LOST
from bot.telegram.actions import (
    ActionContext,
    ActionResult,
    build_pages,
    expire_button,
    redraw_list,
    reply_hint,
    reply_text,
)
from bot.telegram.commands.welcome import build_greeting
from bot.translations.translator import load_translator, translatable

MAX_PEOPLE_LISTED = 60
HOW_TO = translatable(
    "/people shows everybody, with buttons. Or write `/people add CODE`, `/people remove NAME` or "
    "`/people block NAME`; a number in Telegram works, too. `/invite admin` makes another admin."
)


async def handle_invite(context: ActionContext) -> ActionResult:
    """/invite, or /invite admin."""
    if context.args not in {"", "admin", "member"}:
        return reply_hint(
            context.translate("Write `/invite` for a member, or `/invite admin` for another admin.")
        )
    role: Role = "member"
    text = translatable("This link lets one person in, once, within {hours} hours:\n{link}")
    if context.args == "admin":
        role = "admin"
        text = translatable("This link lets one person in as an admin, once, within {hours} hours:\n{link}")
    code = await admin_changes.make_invite(context.tx, context.actor, role, now=context.now)
    link = f"https://t.me/{context.deps.bot_name}?start={code}"
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
    try:
        person_id = await people.find_id(context.tx, target)
    except ChangeRefused as refused:
        return reply_text(refused.explain(context.translate))
    return await change(context, person_id)


async def handle_people_button(context: ActionContext) -> ActionResult:
    """A button of the list; `context.args` is the change and the person, such as `block:12345`."""
    verb, _, target = context.args.partition(":")
    change = _BUTTON_CHANGES.get(verb)
    person_id = _parse_number(target)
    if change is None or person_id is None:
        return expire_button(context)
    if newer_decision := await _describe_newer_decision(context, verb, person_id):
        return redraw_list(newer_decision, await _build_list(context))
    result = await change(context, person_id)
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
    decision = await describe_decision(context, person_id)
    return decision or context.translate("{name} already has access.", name=person.name)


async def describe_decision(context: ActionContext, person_id: int) -> str | None:
    """What became of a stranger in the meantime, and who decided it; None: nothing yet."""
    person = await people.find(context.tx, person_id)
    if person is None or person.guest:
        return None
    entry = await audit.find_latest(context.tx, f"person {person_id}")
    names = await people.list_names(context.tx)
    admin = context.translate("an admin")
    if entry is not None and entry.who is not None:
        admin = names.get(entry.who, admin)
    if person.role == "blocked":
        return context.translate("{name} has been blocked by {admin}.", name=person.name, admin=admin)
    if entry is not None and entry.who == person_id:
        return context.translate("{name} has come in by a link.", name=person.name)
    return context.translate("{name} has been let in by {admin}.", name=person.name, admin=admin)


async def _add_person(context: ActionContext, code_or_number: str) -> ActionResult:
    stranger = await people.find_stranger_by_code(context.tx, code_or_number, now=context.now)
    if stranger is not None:
        return await let_in(context, stranger.id)
    person_id = _parse_number(code_or_number)
    if person_id is None:
        return reply_text(
            context.translate(
                "Nobody is waiting with this code. Codes are valid for an hour; /people shows who is waiting."
            )
        )
    return await let_in(context, person_id)


async def let_in(context: ActionContext, person_id: int) -> ActionResult:
    """Make somebody a member, and greet them."""
    access = context.deps.access
    name = await _load_name(context, person_id)
    if access.get_role(person_id) in {"admin", "member"} and not access.is_new_guest(person_id):
        return reply_text(context.translate("{name} already has access.", name=name))
    await _record_role_change(context, person_id, "let in", "member")
    stranger = await people.find_stranger(context.tx, person_id)
    languages = access.get_languages(person_id)
    if stranger is not None:
        languages = replace(languages, telegram=stranger.language)
    await people.put(context.tx, person_id, name, "member", let_in_by=context.person, now=context.now)
    await people.set_languages(context.tx, person_id, languages)
    lane = Lane(person_id)
    greeting = build_greeting(load_translator(languages.effective), name, "member")
    await outbox.add(context.tx, item=None, lane=lane, parts=(greeting,), reply_to=None, now=context.now)
    after_commit = (
        partial(access.remember, Person(person_id, name, "member")),
        partial(access.remember_languages, person_id, languages),
        partial(context.deps.wake_sender, lane),
    )
    text = context.translate("{name} has been let in.", name=name)
    return ActionResult(reply_text(text).parts, after_commit=after_commit)


async def _remove_person(context: ActionContext, person_id: int) -> ActionResult:
    if refusal := await _explain_must_stay(context, person_id):
        return reply_text(refusal)
    person = await people.find(context.tx, person_id)
    if person is None:
        return reply_text(context.translate("Nobody with this number has access."))
    await _record_role_change(context, person_id, "removed", None)
    await people.remove(context.tx, person_id, now=context.now)
    await jobs.remove_all(context.tx, person_id)
    cuts = await _end_turns(context, person_id)
    if person.role == "blocked":
        text = context.translate("{name} is no longer blocked.", name=person.name)
    else:
        text = context.translate("{name} has been removed.", name=person.name)
    reset_menu: tuple[Callable[[], Awaitable[None]], ...] = ()
    if person.role == "admin":
        reset_menu = (partial(context.deps.best_effort_calls.reset_menu, person_id),)
    forget = partial(context.deps.access.forget, person_id)
    return ActionResult(
        reply_text(text).parts,
        after_commit=(forget, *cuts),
        best_effort_calls=reset_menu,
    )


async def block_person(context: ActionContext, person_id: int) -> ActionResult:
    """Block somebody, and end what runs for them."""
    if refusal := await _explain_must_stay(context, person_id):
        return reply_text(refusal)
    name = await _load_name(context, person_id)
    await _record_role_change(context, person_id, "blocked", "blocked")
    await people.put(context.tx, person_id, name, "blocked", let_in_by=context.person, now=context.now)
    await jobs.remove_all(context.tx, person_id)
    cuts = await _end_turns(context, person_id)
    remember = partial(context.deps.access.remember, Person(person_id, name, "blocked"))
    reset_menu = partial(context.deps.best_effort_calls.reset_menu, person_id)
    return ActionResult(
        reply_text(context.translate("{name} is blocked.", name=name)).parts,
        after_commit=(remember, *cuts),
        best_effort_calls=(reset_menu,),
    )


async def _record_role_change(
    context: ActionContext, person_id: int, action: str, role: RoleOrBlocked | None
) -> None:
    """Record that somebody gets another role, or loses theirs (None)."""
    person = await people.find(context.tx, person_id)
    before = None
    if person is not None:
        before = {"role": person.role, "name": person.name}
    after = None
    if role is not None:
        after = {"role": role}
    await context.record_audit(action, f"person {person_id}", before, after)


async def _explain_must_stay(context: ActionContext, person_id: int) -> str | None:
    """Return why this person cannot be removed or blocked; None if they can."""
    configured_admins = context.deps.access.configured_admins
    if person_id in configured_admins:
        return context.translate("The setting ADMIN_IDS makes this person an admin; change it there.")
    if set(await people.list_admins(context.tx)) | configured_admins == {person_id}:
        return context.translate("This is the last admin. First make another one, with /invite admin.")
    return None


async def _end_turns(context: ActionContext, person_id: int) -> tuple[Callable[[], object], ...]:
    """Stop what runs for this person and end what waits; return what has to be called after the commit."""
    lanes = await people.list_busy_lanes(context.tx, person_id)
    for lane in lanes:
        await stop_requests.stop(context.tx, lane, before=context.item.id, now=context.now)
    await grants.revoke_all(context.tx, person_id)
    await secrets.remove_sign_ins_of_person(context.tx, person_id)
    await revisions.bump(context.tx, revisions.TOOLS)
    callbacks = await context.deps.approvals.end_for_person(
        context.tx, person_id, reason=ACCESS_LOST, now=context.now
    )
    stops = (partial(context.deps.turns.stop, lane, context.item.id) for lane in lanes)
    return (*stops, *callbacks, partial(context.deps.end_programs, person_id))


async def _load_name(context: ActionContext, person_id: int) -> str:
    row = await people.find(context.tx, person_id) or await people.find_stranger(context.tx, person_id)
    if row is not None:
        return row.name
    entry = await audit.find_latest(context.tx, f"person {person_id}")
    if entry is not None and entry.before is not None:  # they were removed, or are no longer blocked
        return str(entry.before["name"])
    return f"Person {person_id}"


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
        entries += [("", ()), (context.translate("Waiting to be let in:"), ())]
        entries += [_build_stranger_entry(context, stranger) for stranger in strangers]
    return build_pages(context.translate("People:"), entries, buttons_per_row=None)


def _build_entry(context: ActionContext, person: Person) -> tuple[str, tuple[Button, ...]]:
    translate = context.translate
    is_configured = person.id in context.deps.access.configured_admins
    if is_configured:
        role = translate("admin (ADMIN_IDS)")
    elif person.guest:
        role = translate("guest")
    else:
        role = translate(_ROLE_NAMES[person.role])
    line = f"{person.name} · {person.id} · {role}"
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


def _build_stranger_entry(context: ActionContext, stranger: Stranger) -> tuple[str, tuple[Button, ...]]:
    minutes = int((context.now - stranger.asked_at) / 60)
    translate = context.translate
    if minutes < 120:
        ago = translate("{count} min ago", count=minutes)
    else:
        ago = translate("{count} h ago", count=minutes // 60)
    buttons = (
        Button(translate("Let in {name}", name=stranger.name), f"people:add:{stranger.id}"),
        Button(translate("Block {name}", name=stranger.name), f"people:block:{stranger.id}"),
    )
    code = stranger.code if stranger.expires_at > context.now else translate("code expired")
    return f"{stranger.name} · {stranger.id} · {code} · {ago}", buttons


def _parse_number(text: str) -> int | None:
    if re.fullmatch(r"[1-9][0-9]{0,15}", text.strip(), re.ASCII):
        return int(text)
    return None


_ROLE_NAMES: dict[RoleOrBlocked, str] = {
    "admin": translatable("admin"),
    "member": translatable("member"),
    "blocked": translatable("blocked"),
}
_ROLE_CHANGES: dict[str, Callable[[ActionContext, int], Awaitable[ActionResult]]] = {
    "add": let_in,
    "remove": _remove_person,
    "block": block_person,
}
_BUTTON_CHANGES = _ROLE_CHANGES | {"unblock": _remove_person}

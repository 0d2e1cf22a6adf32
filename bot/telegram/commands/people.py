"""What admins do about people: links that let one in, the list of who is in and who waits, and its buttons.

Removing or blocking somebody ends what runs for them; the last admin stays.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial

from bot.db import revisions
from bot.db.people import people
from bot.db.people.people import Person, Role, RoleOrBlocked, Stranger
from bot.db.queues import jobs, outbox
from bot.db.queues import stop_requests as stopping
from bot.db.tools import grants
from bot.domain import Button, Lane, Part
from bot.telegram.access import ACCESS_LOST
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, build_pages, reply_text
from bot.telegram.commands.greeting import build_greeting

LINK_HOURS = 24
MAX_PEOPLE_LISTED = 60
HOW_TO = "Use /people, or /people add CODE (or a number), /people remove NUMBER, /people block NUMBER."


async def handle_invite(context: ActionContext) -> ActionResult:
    """/invite, or /invite admin."""
    if context.args not in {"", "admin", "member"}:
        return reply_text("Use /invite for a member, or /invite admin for another admin.")
    role: Role = "admin" if context.args == "admin" else "member"
    code = await people.insert_invite(
        context.tx, role, LINK_HOURS * 60, made_by=context.person, now=context.now
    )
    await context.record_audit("made a link", f"for one {role}", None, {"role": role, "hours": LINK_HOURS})
    link = f"https://t.me/{context.deps.bot_name}?start={code}"
    who = "one person in as an admin" if role == "admin" else "one person in"
    return reply_text(f"This link lets {who}, once, within {LINK_HOURS} hours:\n{link}")


async def handle_people(context: ActionContext) -> ActionResult:
    """/people, and what may follow it."""
    verb, _, which = context.args.partition(" ")
    if not verb:
        return ActionResult(parts=await _build_list(context))
    if verb == "add":
        return await _add_person(context, which.strip())
    change = _ROLE_CHANGES.get(verb)
    number = _parse_number(which)
    if change and number:
        return await change(context, number)
    return reply_text(HOW_TO)


async def handle_people_button(context: ActionContext) -> ActionResult:
    """A button of the list: `call.words` is what to do and with whom, such as `block:12345`."""
    verb, _, which = context.args.partition(":")
    change = _ROLE_CHANGES.get(verb)
    number = _parse_number(which)
    if change is None or number is None:
        return BUTTON_EXPIRED
    done = await change(context, number)
    shown = await _build_list(context)
    toast = done.parts[0].text if done.parts else ""
    return ActionResult(
        toast=toast,
        replacement=shown[0] if len(shown) == 1 else None,
        after_commit=done.after_commit,
        best_effort_calls=done.best_effort_calls,
    )


async def _add_person(context: ActionContext, code_or_number: str) -> ActionResult:
    stranger = await people.find_stranger_by_code(context.tx, code_or_number, now=context.now)
    number = stranger.id if stranger else _parse_number(code_or_number)
    if number is None:
        return reply_text("No stranger has this code. Codes are good for an hour; /people shows who waits.")
    return await _let_in(context, number)


async def _let_in(context: ActionContext, person_id: int) -> ActionResult:
    name = await _load_name(context, person_id)
    if context.deps.access.get_role(person_id) in {
        "admin",
        "member",
    } and not context.deps.access.is_new_guest(person_id):
        return reply_text(f"{name} is in already.")
    await _record_role_change(context, person_id, "let in", "member")
    await people.put(context.tx, person_id, name, "member", let_in_by=context.person, now=context.now)
    lane = Lane(person_id)
    await outbox.add(
        context.tx,
        item=None,
        lane=lane,
        parts=(build_greeting(name, "member"),),
        reply_to=None,
        now=context.now,
    )
    remember = partial(context.deps.access.remember, Person(person_id, name, "member"))
    return ActionResult(
        reply_text(f"{name} is in.").parts, after_commit=(remember, partial(context.deps.wake_sender, lane))
    )


async def _remove_person(context: ActionContext, person_id: int) -> ActionResult:
    if refusal := await _explain_must_stay(context, person_id):
        return reply_text(refusal)
    known = await people.find(context.tx, person_id)
    if known is None:
        return reply_text("Nobody with this number is in.")
    await _record_role_change(context, person_id, "removed", None)
    await people.remove(context.tx, person_id)
    await jobs.remove_all(context.tx, person_id)
    cuts = await _end_turns(context, person_id)
    was = "blocked no more" if known.role == "blocked" else "out"
    menus: tuple[Callable[[], Awaitable[None]], ...] = ()
    if known.role == "admin":
        menus = (partial(context.deps.best_effort_calls.reset_menu, person_id),)
    forget = partial(context.deps.access.forget, person_id)
    return ActionResult(
        reply_text(f"{known.name} is {was}.").parts, after_commit=(forget, *cuts), best_effort_calls=menus
    )


async def _block_person(context: ActionContext, person_id: int) -> ActionResult:
    if refusal := await _explain_must_stay(context, person_id):
        return reply_text(refusal)
    name = await _load_name(context, person_id)
    await _record_role_change(context, person_id, "blocked", "blocked")
    await people.put(context.tx, person_id, name, "blocked", let_in_by=context.person, now=context.now)
    await jobs.remove_all(context.tx, person_id)
    cuts = await _end_turns(context, person_id)
    remember = partial(context.deps.access.remember, Person(person_id, name, "blocked"))
    menus = (partial(context.deps.best_effort_calls.reset_menu, person_id),)
    return ActionResult(
        reply_text(f"{name} is blocked.").parts, after_commit=(remember, *cuts), best_effort_calls=menus
    )


async def _record_role_change(
    context: ActionContext, person_id: int, action: str, role: RoleOrBlocked | None
) -> None:
    """Write down that somebody gets another role, or loses theirs (None)."""
    known = await people.find(context.tx, person_id)
    before = None if known is None else {"role": known.role, "name": known.name}
    await context.record_audit(
        action, f"person {person_id}", before, None if role is None else {"role": role}
    )


async def _explain_must_stay(context: ActionContext, person_id: int) -> str | None:
    """Why this person cannot be taken out, if so."""
    fixed = context.deps.access.configured_admins
    if person_id in fixed:
        return "ADMIN_IDS names this person as an admin; change it there."
    if set(await people.list_admins(context.tx)) | fixed == {person_id}:
        return "The last admin stays. Make another one first, with /invite admin."
    return None


async def _end_turns(context: ActionContext, person_id: int) -> tuple[Callable[[], object], ...]:
    """Mark what runs for this person as stopped, and end what waits; returns what cuts it once that is
    committed.
    """
    lanes = await people.list_busy_lanes(context.tx, person_id)
    for lane in lanes:
        await stopping.stop(context.tx, lane, before=context.item.id, now=context.now)
    await grants.revoke_all(context.tx, person_id)
    await revisions.bump(context.tx, revisions.TOOLS)
    ended = await context.deps.approvals.end_for_person(
        context.tx, person_id, reason=ACCESS_LOST, now=context.now
    )
    return (*(partial(context.deps.turns.stop, lane, context.item.id) for lane in lanes), *ended)


async def _load_name(context: ActionContext, person_id: int) -> str:
    known = await people.find(context.tx, person_id) or await people.find_stranger(context.tx, person_id)
    if known:
        return known.name
    return f"Person {person_id}"


async def _build_list(context: ActionContext) -> tuple[Part, ...]:
    everyone = await people.list_people(context.tx)
    waiting = await people.list_strangers(context.tx)
    stored = {person.id for person in everyone}
    named = [
        Person(number, f"Person {number}", "admin")
        for number in sorted(context.deps.access.configured_admins - stored)
    ]
    entries = [_build_entry(context, person) for person in [*named, *everyone][:MAX_PEOPLE_LISTED]]
    left_out = len(named) + len(everyone) - len(entries)
    if left_out:
        entries.append((f"… and {left_out} more", ()))
    if waiting:
        entries += [
            ("", ()),
            ("Waiting to be let in:", ()),
            *(_build_stranger_entry(context, one) for one in waiting),
        ]
    return build_pages("People:", entries, buttons_per_row=2)


def _build_entry(context: ActionContext, person: Person) -> tuple[str, tuple[Button, ...]]:
    fixed = person.id in context.deps.access.configured_admins
    if fixed:
        role = "admin (ADMIN_IDS)"
    else:
        role = "guest" if person.guest else person.role
    line = f"{person.name} · {person.id} · {role}"
    if person.id == context.person:
        return f"{line} · you", ()
    if fixed:
        return line, ()
    if person.role == "blocked":
        return line, (Button(f"Unblock {person.name}", f"people:remove:{person.id}"),)
    return line, (
        Button(f"Remove {person.name}", f"people:remove:{person.id}"),
        Button(f"Block {person.name}", f"people:block:{person.id}"),
    )


def _build_stranger_entry(context: ActionContext, stranger: Stranger) -> tuple[str, tuple[Button, ...]]:
    minutes = int((context.now - stranger.asked_at) / 60)
    ago = f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
    buttons = (
        Button(f"Let in {stranger.name}", f"people:add:{stranger.id}"),
        Button(f"Block {stranger.name}", f"people:block:{stranger.id}"),
    )
    return f"{stranger.name} · {stranger.id} · {ago}", buttons


def _parse_number(text: str) -> int | None:
    if re.fullmatch(r"[1-9][0-9]{0,15}", text.strip(), re.ASCII):
        return int(text)
    return None


_ROLE_CHANGES: dict[str, Callable[[ActionContext, int], Awaitable[ActionResult]]] = {
    "add": _let_in,
    "remove": _remove_person,
    "block": _block_person,
}

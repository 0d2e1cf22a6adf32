"""What admins do about people: links that let one in, the list of who is in and who waits, and its buttons.

Removing or blocking somebody ends what runs for them; the last admin stays.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial

from bot.db import revisions
from bot.db.people import people
from bot.db.people.people import Person, Role, Standing, Stranger
from bot.db.queues import jobs, outbox
from bot.db.queues import stop_requests as stopping
from bot.db.tools import grants
from bot.domain import Button, Lane, Part
from bot.telegram.access import NOT_LET_IN
from bot.telegram.actions import TOO_OLD, Answer, Call, pages, say
from bot.telegram.commands.greeting import greeting

LINK_HOURS = 24
PEOPLE_SHOWN = 60
HOW_TO = "Use /people, or /people add CODE (or a number), /people remove NUMBER, /people block NUMBER."


async def invite(call: Call) -> Answer:
    """/invite, or /invite admin."""
    if call.words not in {"", "admin", "member"}:
        return say("Use /invite for a member, or /invite admin for another admin.")
    role: Role = "admin" if call.words == "admin" else "member"
    code = await people.offer(call.tx, role, LINK_HOURS * 60, made_by=call.person, now=call.now)
    await call.note("made a link", f"for one {role}", None, {"role": role, "hours": LINK_HOURS})
    link = f"https://t.me/{call.reach.bot_name}?start={code}"
    who = "one person in as an admin" if role == "admin" else "one person in"
    return say(f"This link lets {who}, once, within {LINK_HOURS} hours:\n{link}")


async def show(call: Call) -> Answer:
    """/people, and what may follow it."""
    verb, _, which = call.words.partition(" ")
    if not verb:
        return Answer(parts=await _list(call))
    if verb == "add":
        return await _add(call, which.strip())
    change = _CHANGES.get(verb)
    number = _number(which)
    if change and number:
        return await change(call, number)
    return say(HOW_TO)


async def tapped(call: Call) -> Answer:
    """A button of the list: `call.words` is what to do and with whom, such as `block:12345`."""
    verb, _, which = call.words.partition(":")
    change = _CHANGES.get(verb)
    number = _number(which)
    if change is None or number is None:
        return TOO_OLD
    done = await change(call, number)
    shown = await _list(call)
    toast = done.parts[0].text if done.parts else ""
    return Answer(
        toast=toast, redraw=shown[0] if len(shown) == 1 else None, then=done.then, gestures=done.gestures
    )


async def _add(call: Call, which: str) -> Answer:
    stranger = await people.stranger_of(call.tx, which, now=call.now)
    number = stranger.id if stranger else _number(which)
    if number is None:
        return say("No stranger has this code. Codes are good for an hour; /people shows who waits.")
    return await _let_in(call, number)


async def _let_in(call: Call, number: int) -> Answer:
    name = await _name(call, number)
    if call.reach.access.standing(number) in {"admin", "member"} and not call.reach.access.is_new(number):
        return say(f"{name} is in already.")
    await _note(call, number, "let in", "member")
    await people.put(call.tx, number, name, "member", by=call.person, now=call.now)
    lane = Lane(number)
    await outbox.add(
        call.tx, item=None, lane=lane, parts=(greeting(name, "member"),), reply_to=None, now=call.now
    )
    remember = partial(call.reach.access.remember, Person(number, name, "member"))
    return Answer(say(f"{name} is in.").parts, then=(remember, partial(call.reach.wake_sender, lane)))


async def _remove(call: Call, number: int) -> Answer:
    if refusal := await _must_stay(call, number):
        return say(refusal)
    known = await people.find(call.tx, number)
    if known is None:
        return say("Nobody with this number is in.")
    await _note(call, number, "removed", None)
    await people.remove(call.tx, number)
    await jobs.remove_all(call.tx, number)
    cuts = await _end_turns(call, number)
    was = "blocked no more" if known.role == "blocked" else "out"
    menus: tuple[Callable[[], Awaitable[None]], ...] = ()
    if known.role == "admin":
        menus = (partial(call.reach.gestures.member_menu, number),)
    forget = partial(call.reach.access.forget, number)
    return Answer(say(f"{known.name} is {was}.").parts, then=(forget, *cuts), gestures=menus)


async def _block(call: Call, number: int) -> Answer:
    if refusal := await _must_stay(call, number):
        return say(refusal)
    name = await _name(call, number)
    await _note(call, number, "blocked", "blocked")
    await people.put(call.tx, number, name, "blocked", by=call.person, now=call.now)
    await jobs.remove_all(call.tx, number)
    cuts = await _end_turns(call, number)
    remember = partial(call.reach.access.remember, Person(number, name, "blocked"))
    menus = (partial(call.reach.gestures.member_menu, number),)
    return Answer(say(f"{name} is blocked.").parts, then=(remember, *cuts), gestures=menus)


async def _note(call: Call, number: int, what: str, role: Standing | None) -> None:
    """Write down that somebody gets another role, or loses theirs (None)."""
    known = await people.find(call.tx, number)
    before = None if known is None else {"role": known.role, "name": known.name}
    await call.note(what, f"person {number}", before, None if role is None else {"role": role})


async def _must_stay(call: Call, number: int) -> str | None:
    """Why this person cannot be taken out, if so."""
    fixed = call.reach.access.fixed
    if number in fixed:
        return "ADMIN_IDS names this person as an admin; change it there."
    if set(await people.admins(call.tx)) | fixed == {number}:
        return "The last admin stays. Make another one first, with /invite admin."
    return None


async def _end_turns(call: Call, number: int) -> tuple[Callable[[], object], ...]:
    """Mark what runs for this person as stopped, and end what waits; returns what cuts it once that is
    committed.
    """
    lanes = await people.lanes_at_work(call.tx, number)
    for lane in lanes:
        await stopping.stop(call.tx, lane, before=call.item.id, now=call.now)
    await grants.forget(call.tx, number)
    await revisions.bump(call.tx, revisions.TOOLS)
    ended = await call.reach.approvals.end(call.tx, number, why=NOT_LET_IN, now=call.now)
    return (*(partial(call.reach.turns.stop, lane, call.item.id) for lane in lanes), *ended)


async def _name(call: Call, number: int) -> str:
    known = await people.find(call.tx, number) or await people.stranger(call.tx, number)
    if known:
        return known.name
    return f"Person {number}"


async def _list(call: Call) -> tuple[Part, ...]:
    everyone = await people.everyone(call.tx)
    waiting = await people.waiting(call.tx)
    stored = {person.id for person in everyone}
    named = [
        Person(number, f"Person {number}", "admin") for number in sorted(call.reach.access.fixed - stored)
    ]
    entries = [_entry(call, person) for person in [*named, *everyone][:PEOPLE_SHOWN]]
    left_out = len(named) + len(everyone) - len(entries)
    if left_out:
        entries.append((f"… and {left_out} more", ()))
    if waiting:
        entries += [("", ()), ("Waiting to be let in:", ()), *(_stranger(call, one) for one in waiting)]
    return pages("People:", entries, in_a_row=2)


def _entry(call: Call, person: Person) -> tuple[str, tuple[Button, ...]]:
    fixed = person.id in call.reach.access.fixed
    if fixed:
        role = "admin (ADMIN_IDS)"
    else:
        role = "guest" if person.guest else person.role
    line = f"{person.name} · {person.id} · {role}"
    if person.id == call.person:
        return f"{line} · you", ()
    if fixed:
        return line, ()
    if person.role == "blocked":
        return line, (Button(f"Unblock {person.name}", f"people:remove:{person.id}"),)
    return line, (
        Button(f"Remove {person.name}", f"people:remove:{person.id}"),
        Button(f"Block {person.name}", f"people:block:{person.id}"),
    )


def _stranger(call: Call, one: Stranger) -> tuple[str, tuple[Button, ...]]:
    minutes = int((call.now - one.asked_at) / 60)
    ago = f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
    buttons = (
        Button(f"Let in {one.name}", f"people:add:{one.id}"),
        Button(f"Block {one.name}", f"people:block:{one.id}"),
    )
    return f"{one.name} · {one.id} · {ago}", buttons


def _number(text: str) -> int | None:
    if re.fullmatch(r"[1-9][0-9]{0,15}", text.strip(), re.ASCII):
        return int(text)
    return None


_CHANGES: dict[str, Callable[[Call, int], Awaitable[Answer]]] = {
    "add": _let_in,
    "remove": _remove,
    "block": _block,
}

"""Whom admins let in, remove and block on the page, and which groups they let in and leave: as in the chat.

A link opens a page that says what will happen, and its button does it; neither needs a script.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import htpy as h

from bot.admin.components import act_form, cut, show_section
from bot.admin.data_table import Cell, CellLink
from bot.admin.error_pages import PageRefused
from bot.admin.page_request import (
    AccessChanges,
    Act,
    ChangeAccess,
    PageRequest,
    Redirect,
    ScreenPage,
    View,
)
from bot.db.people import groups, people
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.transaction import Transaction
from bot.errors import NothingFound

PEOPLE_PATH = f"{ADMIN_PATH}/people"
GROUPS_PATH = f"{PEOPLE_PATH}/groups"

_NUMBER = re.compile(r"-?[1-9][0-9]{0,17}", re.ASCII)
_END_OF_WORK = (
    "What runs for them ends at once, and what waits is dropped.",
    "Their reminders and tasks are deleted. What they allowed, were granted or signed in to is taken back.",
    "An admin is also logged out of this page, and links that they made and nobody used let nobody in.",
)
_STANDINGS = {"admin": "an admin", "member": "a member", "blocked": "blocked"}


@dataclass(frozen=True, slots=True)
class AccessAct:
    """What can be done about a person or a group.

    `name`: the last part of its address. `command`: the same in the chat. `effects`: what will happen, a
    sentence each. `note`: what has happened. `lost_note`: what is added if a call to Telegram was lost.
    """

    name: str
    label: str
    command: str
    choose_change: Callable[[AccessChanges], ChangeAccess]
    effects: tuple[str, ...]
    note: str
    lost_note: str = ""


@dataclass(frozen=True, slots=True)
class AccessSubject:
    """A person or a group as they stand now, and what can be done about them."""

    number: int
    name: str
    standing: str
    acts: tuple[AccessAct, ...]
    code: str | None = None


LET_IN = AccessAct(
    "let-in",
    "Let in",
    "/people add {number}",
    lambda access: access.let_in,
    ("They may write to the bot as a member, and get a greeting now.",),
    "{name} now has access.",
)
REMOVE = AccessAct(
    "remove",
    "Remove",
    "/people remove {number}",
    lambda access: access.remove,
    (*_END_OF_WORK, "They can ask to be let in again; where the bot is open to all, they can write at once."),
    "{name} has been removed.",
)
BLOCK = AccessAct(
    "block",
    "Block",
    "/people block {number}",
    lambda access: access.block,
    (*_END_OF_WORK, "They get no answer to anything, until an admin unblocks them."),
    "{name} is blocked.",
)
UNBLOCK = AccessAct(
    "unblock",
    "Unblock",
    "/people remove {number}",
    lambda access: access.remove,
    ("They are a stranger then, who can ask to be let in.",),
    "{name} is no longer blocked.",
)
LET_GROUP_IN = AccessAct(
    "let-in",
    "Let in",
    "/groups",
    lambda access: access.let_group_in,
    ("The bot introduces itself in the group, and answers those there who have been let in.",),
    "{name} now has access.",
)
LEAVE = AccessAct(
    "leave",
    "Leave",
    "/groups",
    lambda access: access.leave_group,
    (
        "The bot leaves the group. To have it back, somebody adds it there again.",
        "What runs there ends, what waits is dropped, and its reminders and tasks are paused.",
    ),
    "The bot has left {name}.",
    " But Telegram did not confirm it: this is tried again every hour, for a day.",
)


def list_person_acts(role: str | None, *, is_waiting: bool = False) -> tuple[AccessAct, ...]:
    """What can be done about somebody of this role (None: a stranger), who may wait to be let in."""
    if role == "blocked":
        return (UNBLOCK,)
    let_in = (LET_IN,) if is_waiting else ()
    return (*let_in, BLOCK) if role is None else (*let_in, REMOVE, BLOCK)


def list_group_acts(state: str) -> tuple[AccessAct, ...]:
    """What can be done about a group."""
    return (LET_GROUP_IN, LEAVE) if state == "asked" else (LEAVE,)


def build_act_cell(
    request: PageRequest, path: str, number: int, name: str, acts: Sequence[AccessAct]
) -> Cell:
    """The links to what can be done about a row; the commands where the page only shows."""
    if request.dependencies.gateway is None:
        return Cell("", ", ".join(dict.fromkeys(act.command.format(number=number) for act in acts)))
    return Cell(
        "",
        links=tuple(
            CellLink(act.label, f"{path}/{number}/{act.name}", f"{act.label} {cut(name)}") for act in acts
        ),
    )


async def _find_person(tx: Transaction, request: PageRequest) -> AccessSubject:
    """Whom the address of an act names. Raises NothingFound for nobody."""
    number = _parse_number(request)
    person = await people.find(tx, number)
    stranger = await people.find_stranger(tx, number)
    if person is None and stranger is None:
        raise NothingFound(f"Nobody who is in, blocked or waiting has the number {number}.")
    code = stranger.code if stranger is not None else None
    if person is None:
        assert stranger is not None
        acts = list_person_acts(None, is_waiting=True)
        return AccessSubject(number, cut(stranger.name), "waiting to be let in", acts, code)
    acts = list_person_acts(person.role, is_waiting=stranger is not None)
    standing = "a guest" if person.guest else _STANDINGS[person.role]
    return AccessSubject(number, cut(person.name), standing, acts, code)


async def _find_group(tx: Transaction, request: PageRequest) -> AccessSubject:
    """Which group the address of an act names. Raises NothingFound for none that the bot is in."""
    number = _parse_number(request)
    for group in await groups.list_groups(tx):
        if group.has_number(number) and group.state != "left":
            standing = "let in" if group.state == "in" else "waiting to be let in"
            return AccessSubject(
                group.number, f"“{cut(group.title)}”", standing, list_group_acts(group.state)
            )
    raise NothingFound(f"The bot is in no group with the number {number}.")


def _parse_number(request: PageRequest) -> int:
    text = request.parts["number"]
    if not _NUMBER.fullmatch(text):
        raise NothingFound("This is no number of a person or a group.")
    return int(text)


FindSubject = Callable[[Transaction, PageRequest], Awaitable[AccessSubject]]


async def _check_subject(
    find_subject: FindSubject, act: AccessAct, tx: Transaction, request: PageRequest
) -> AccessSubject:
    """Whom or what an act concerns. Raises PageRefused if the act does not fit any more."""
    subject = await find_subject(tx, request)
    if act not in subject.acts:
        text = f"{subject.name} is {subject.standing} now. People shows what can be done."
        raise PageRefused(text, status=409)
    return subject


async def _ask(find_subject: FindSubject, act: AccessAct, request: PageRequest) -> ScreenPage:
    """Say what an act will do, with the button that does it."""
    _ = request.gateway
    async with request.read() as tx:
        subject = await _check_subject(find_subject, act, tx, request)
    facts = [h.dt["Number"], h.dd[str(subject.number)], h.dt["Now"], h.dd[subject.standing]]
    if subject.code is not None:
        facts += [h.dt["Code"], h.dd[h.code[subject.code]]]
    body = [
        h.dl(".facts")[facts],
        show_section("What will happen", h.ul[(h.li[effect] for effect in act.effects)]),
        h.div(".acts")[act_form(request, request.path, act.label), h.a(href=PEOPLE_PATH)["Cancel"]],
    ]
    return ScreenPage(f"{act.label} {subject.name}?", body)


async def _change(
    find_subject: FindSubject, act: AccessAct, request: PageRequest, form: Mapping[str, str]
) -> Redirect:
    """Do an act, as the chat does it, and say what has happened."""
    change_access = act.choose_change(request.gateway.access)
    async with request.write() as tx:
        subject = await _check_subject(find_subject, act, tx, request)
        change = await change_access(tx, request.actor, subject.number, now=request.now)
    note = act.note.format(name=subject.name)
    if not await change.complete():
        note += act.lost_note
    return Redirect(PEOPLE_PATH, note)


_PERSON_PATHS = {f"/{{number}}/{act.name}": act for act in (LET_IN, REMOVE, BLOCK, UNBLOCK)}
_GROUP_PATHS = {f"/groups/{{number}}/{act.name}": act for act in (LET_GROUP_IN, LEAVE)}
ACCESS_VIEWS: Mapping[str, View] = {
    **{path: partial(_ask, _find_person, act) for path, act in _PERSON_PATHS.items()},
    **{path: partial(_ask, _find_group, act) for path, act in _GROUP_PATHS.items()},
}
ACCESS_ACTS: Mapping[str, Act] = {
    **{path: partial(_change, _find_person, act) for path, act in _PERSON_PATHS.items()},
    **{path: partial(_change, _find_group, act) for path, act in _GROUP_PATHS.items()},
}
"""The questions and the acts by their paths below that of the screen."""

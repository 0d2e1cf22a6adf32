"""The buttons under a question whether a tool call may run, and /approvals: what waits for an answer, what is
allowed for a while, and how that is taken back.
"""

import re
from datetime import UTC, datetime
from functools import partial
from typing import cast, get_args

from bot.agent.approval_prompt import bound
from bot.db.people import people
from bot.db.tools import approvals
from bot.db.tools.approvals import Allowance, Question, Word
from bot.domain import Button
from bot.telegram.actions import TOO_OLD, Answer, Call, pages

REVOKE = "revoke:"
SHOWN = 60  # lines of a list

_ANSWERS = frozenset(get_args(Word)) - {"expired", "stopped"}
_NUMBER = re.compile(r"[0-9]{1,18}")


async def tapped(call: Call) -> Answer:
    """A button of a question; `call.words` is the answer and the number of the question."""
    word, _, number = call.words.partition(":")
    if word not in _ANSWERS or not _NUMBER.fullmatch(number):
        return TOO_OLD
    by = (call.person, call.name)
    heard = await call.reach.approvals.answer(call.tx, int(number), cast(Word, word), by, now=call.now)
    woken = (partial(call.reach.wake_sender, lane) for lane in dict.fromkeys(heard.lanes))
    return Answer(toast=heard.toast, then=(call.reach.wake_worker, *woken) if heard.settled else ())


async def show(call: Call) -> Answer:
    """/approvals; admins see everybody's."""
    asked = [one for one in await approvals.open_questions(call.tx) if _concerns(call, one)]
    allowed = await approvals.allowances_of(call.tx, _whose(call), now=call.now)
    names = await _names(call, {one.person for one in allowed} | {one.asker for one in asked})
    waiting = [(_question(one, names), ()) for one in asked[:SHOWN]]
    standing = [(_allowance(one, names), (_revoke(one),)) for one in allowed[:SHOWN]]
    left_out = len(asked) + len(allowed) - len(waiting) - len(standing)
    entries = [
        *([("Waiting for an answer:", ()), *waiting] if waiting else [("Nothing waits for an answer.", ())]),
        *(
            [("", ()), ("Allowed for a while:", ()), *standing]
            if standing
            else [("Nothing is allowed ahead.", ())]
        ),
        *([(f"… and {left_out} more", ())] if left_out else []),
    ]
    return Answer(parts=pages("Tools that ask first", entries, in_a_row=2))


async def revoked(call: Call) -> Answer:
    """A button of the list: such calls ask again."""
    if not _NUMBER.fullmatch(call.words):
        return TOO_OLD
    standing = await approvals.allowances_of(call.tx, _whose(call), now=call.now)
    was = await approvals.revoke(call.tx, int(call.words), _whose(call))
    for one in standing:
        if one.id == int(call.words) and one.person != call.person:
            before = {"tool": one.tool, "allowed": bound(one.binding), "until": _moment(one.until)}
            await call.note("took back what was allowed", f"person {one.person}", before, None)
    shown = (await show(call)).parts
    toast = "It asks again." if was else "This is not allowed any more."
    return Answer(toast=toast, redraw=shown[0] if len(shown) == 1 else None)


def _whose(call: Call) -> int | None:
    """Whose allowances somebody sees and takes back; None: everybody's."""
    if call.standing == "admin":
        return None
    return call.person


def _concerns(call: Call, question: Question) -> bool:
    return question.asker == call.person or call.reach.approvals.may_answer(question, call.person)


async def _names(call: Call, persons: set[int]) -> dict[int, str]:
    known = {one.id: one.name for one in await people.everyone(call.tx)}
    known |= {call.person: call.name}  # an admin by the settings has no row
    return {person: known.get(person, f"Person {person}") for person in persons}


def _question(one: Question, names: dict[int, str]) -> str:
    who = "an admin" if one.who == "admins" else names[one.asker]
    return f"{one.tool}, for {names[one.asker]}: {who} may answer until {_moment(one.expires_at)}"


def _allowance(one: Allowance, names: dict[int, str]) -> str:
    return f"{one.tool} {bound(one.binding)}, for {names[one.person]}, until {_moment(one.until)} (number {one.id})"


def _revoke(one: Allowance) -> Button:
    return Button(f"Ask again: {one.tool} ({one.id})", f"{REVOKE}{one.id}")


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%-d %B %H:%M} UTC"

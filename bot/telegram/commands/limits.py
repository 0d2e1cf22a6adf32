"""How many canvases somebody may use a day, and /limits: shows one's own, and lets admins set those of
others.

A limit set for a person holds whoever they are; those for everybody do not concern admins.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.db.engine import Transaction
from bot.db.people import limits, people
from bot.db.people.limits import EVERYBODY, Rule
from bot.db.people.people import Standing
from bot.telegram.actions import Answer, Call, pages, part, say

DAY = 86_400  # a day begins at midnight UTC
HOW_TO = (
    "Use /limits NUMBER 200 for one person, /limits all 200 for every member; none in place of 200 lifts a limit, "
    "default takes back what was set."
)

_SETTING = re.compile(r"(all|[1-9][0-9]{0,15}) (none|default|[0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Share:
    """What somebody has used of today's canvases (estimated); `limit` None: they may use as many as they
    like.
    """

    used: int
    limit: int | None
    ends_in: float

    @property
    def is_used_up(self) -> bool:
        """Whether no turn is begun any more today."""
        return self.limit is not None and self.used >= self.limit

    @property
    def again(self) -> str:
        """When the count begins anew, in words."""
        minutes = max(1, round(self.ends_in / 60))
        hours, minutes = divmod(minutes, 60)
        spans = [f"{hours} h"] if hours else []
        return f"at 00:00 UTC, in {' '.join(spans + [f'{minutes} min'] * bool(minutes))}"


async def limit_of(tx: Transaction, person: int, standing: Standing | None, a_day: int | None) -> int | None:
    """What a person may use a day; `a_day` is what the settings give a member."""
    own, everybody = await limits.rules_for(tx, person)
    if own is not None:
        return own.canvases
    if standing == "admin":
        return None
    if everybody is not None:
        return everybody.canvases
    return a_day


async def share(tx: Transaction, person: int, limit: int | None, *, now: float) -> Share:
    """How a person stands today."""
    begin = now - now % DAY
    return Share(await limits.used(tx, person, begin), limit, begin + DAY - now)


async def show(call: Call) -> Answer:
    """/limits, and what may follow it."""
    if not call.words:
        return await _standing(call)
    if call.standing != "admin":
        return say("Admins set limits; /limits alone shows yours.")
    found = _SETTING.fullmatch(" ".join(call.words.lower().split()))
    if found:
        return await _set(call, found[1], found[2])
    return say(HOW_TO)


async def _standing(call: Call) -> Answer:
    limit = await limit_of(call.tx, call.person, call.standing, call.reach.canvases_a_day)
    mine = await share(call.tx, call.person, limit, now=call.now)
    if mine.limit is None:
        line = f"You have used {canvases(mine.used)} today, estimated; you have no limit."
    else:
        line = f"You have used {mine.used} of your {canvases(mine.limit)} of today, estimated; anew {mine.again}."
    if call.standing != "admin":
        return say(line)
    rules = await limits.rules(call.tx)
    everybody = next((rule for rule in rules if rule.person == EVERYBODY), None)
    entries = ["", _line("Every member", everybody or Rule(EVERYBODY, call.reach.canvases_a_day))]
    entries += [_line(await _name(call, rule.person), rule) for rule in rules if rule.person != EVERYBODY]
    return Answer(parts=pages(line, [(one, ()) for one in [*entries, "", HOW_TO]], in_a_row=1))


async def _set(call: Call, whom: str, wish: str) -> Answer:
    person = EVERYBODY if whom == "all" else int(whom)
    before, _ = await limits.rules_for(call.tx, person)
    if wish == "default":
        await limits.remove(call.tx, person)
        _, everybody = await limits.rules_for(call.tx, person)
        rule = everybody or Rule(person, call.reach.canvases_a_day)
        if person in call.reach.access.admins():
            rule = Rule(person, None)
    else:
        rule = Rule(person, None if wish == "none" else int(wish))
        await limits.put(call.tx, person, rule.canvases, by=call.person, now=call.now)
    after = None if wish == "default" else rule
    await call.note(
        "set a limit", "every member" if whom == "all" else f"person {person}", _told(before), _told(after)
    )
    told = part(f"{_line(await _name(call, person), rule)}.")
    return Answer(parts=(told,), then=(call.reach.limits_changed,))


def _told(rule: Rule | None) -> dict[str, Any] | None:
    """A limit as the audit tells it."""
    if rule is None:
        return None
    return {"canvases a day": rule.canvases}


async def _name(call: Call, person: int) -> str:
    if person == EVERYBODY:
        return "Every member"
    known = await people.find(call.tx, person)
    return f"{known.name if known else 'Person'} · {person}"


def _line(who: str, rule: Rule) -> str:
    return f"{who}: {'no limit' if rule.canvases is None else f'{canvases(rule.canvases)} a day'}"


def canvases(count: int) -> str:
    """A count of canvases in words."""
    if count == 1:
        return "1 canvas"
    return f"{count} canvases"

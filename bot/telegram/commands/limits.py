"""How many canvases somebody may use a day, and /limits: shows one's own, and lets admins set those of
others.

A limit set for a person holds whoever they are; those for everybody do not concern admins.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.db.engine import Transaction
from bot.db.people import limits, people
from bot.db.people.limits import EVERYBODY, QuotaRule
from bot.db.people.people import RoleOrBlocked
from bot.telegram.actions import ActionContext, ActionResult, build_pages, build_part, reply_text

DAY_SECONDS = 86_400  # a day begins at midnight UTC
HOW_TO = (
    "Use /limits NUMBER 200 for one person, /limits all 200 for every member; none in place of 200 lifts a limit, "
    "default takes back what was set."
)

_LIMIT_PATTERN = re.compile(r"(all|[1-9][0-9]{0,15}) (none|default|[0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What somebody has used of today's canvases (estimated); `limit` None: they may use as many as they
    like.
    """

    used: int
    limit: int | None
    resets_in_seconds: float

    @property
    def is_used_up(self) -> bool:
        """Whether no turn is begun any more today."""
        return self.limit is not None and self.used >= self.limit

    @property
    def reset_text(self) -> str:
        """When the count begins anew, in words."""
        minutes = max(1, round(self.resets_in_seconds / 60))
        hours, minutes = divmod(minutes, 60)
        spans = [f"{hours} h"] if hours else []
        return f"at 00:00 UTC, in {' '.join(spans + [f'{minutes} min'] * bool(minutes))}"


async def load_limit(
    tx: Transaction, person: int, role: RoleOrBlocked | None, default_per_day: int | None
) -> int | None:
    """What a person may use a day; `a_day` is what the settings give a member."""
    own, everybody = await limits.find_rules(tx, person)
    if own is not None:
        return own.canvases
    if role == "admin":
        return None
    if everybody is not None:
        return everybody.canvases
    return default_per_day


async def load_quota_usage(tx: Transaction, person: int, limit: int | None, *, now: float) -> QuotaUsage:
    """How a person stands today."""
    begin = now - now % DAY_SECONDS
    return QuotaUsage(await limits.count_used_canvases(tx, person, begin), limit, begin + DAY_SECONDS - now)


async def handle_limits(context: ActionContext) -> ActionResult:
    """/limits, and what may follow it."""
    if not context.args:
        return await _show_current(context)
    if context.role != "admin":
        return reply_text("Admins set limits; /limits alone shows yours.")
    found = _LIMIT_PATTERN.fullmatch(" ".join(context.args.lower().split()))
    if found:
        return await _set_limit(context, found[1], found[2])
    return reply_text(HOW_TO)


async def _show_current(context: ActionContext) -> ActionResult:
    limit = await load_limit(context.tx, context.person, context.role, context.deps.canvases_per_day)
    mine = await load_quota_usage(context.tx, context.person, limit, now=context.now)
    if mine.limit is None:
        line = f"You have used {format_canvases(mine.used)} today, estimated; you have no limit."
    else:
        line = f"You have used {mine.used} of your {format_canvases(mine.limit)} of today, estimated; anew {mine.reset_text}."
    if context.role != "admin":
        return reply_text(line)
    rules = await limits.list_rules(context.tx)
    everybody = next((rule for rule in rules if rule.person == EVERYBODY), None)
    entries = [
        "",
        _format_line("Every member", everybody or QuotaRule(EVERYBODY, context.deps.canvases_per_day)),
    ]
    entries += [
        _format_line(await _load_name(context, rule.person), rule)
        for rule in rules
        if rule.person != EVERYBODY
    ]
    return ActionResult(
        parts=build_pages(line, [(one, ()) for one in [*entries, "", HOW_TO]], buttons_per_row=1)
    )


async def _set_limit(context: ActionContext, target: str, value: str) -> ActionResult:
    person = EVERYBODY if target == "all" else int(target)
    before, _ = await limits.find_rules(context.tx, person)
    if value == "default":
        await limits.remove(context.tx, person)
        _, everybody = await limits.find_rules(context.tx, person)
        rule = everybody or QuotaRule(person, context.deps.canvases_per_day)
        if person in context.deps.access.list_admins():
            rule = QuotaRule(person, None)
    else:
        rule = QuotaRule(person, None if value == "none" else int(value))
        await limits.put(context.tx, person, rule.canvases, set_by=context.person, now=context.now)
    after = None if value == "default" else rule
    await context.record_audit(
        "set a limit",
        "every member" if target == "all" else f"person {person}",
        _to_audit_record(before),
        _to_audit_record(after),
    )
    told = build_part(f"{_format_line(await _load_name(context, person), rule)}.")
    return ActionResult(parts=(told,), after_commit=(context.deps.on_limits_changed,))


def _to_audit_record(rule: QuotaRule | None) -> dict[str, Any] | None:
    """A limit as the audit tells it."""
    if rule is None:
        return None
    return {"canvases a day": rule.canvases}


async def _load_name(context: ActionContext, person: int) -> str:
    if person == EVERYBODY:
        return "Every member"
    known = await people.find(context.tx, person)
    return f"{known.name if known else 'Person'} · {person}"


def _format_line(name: str, rule: QuotaRule) -> str:
    return f"{name}: {'no limit' if rule.canvases is None else f'{format_canvases(rule.canvases)} a day'}"


def format_canvases(count: int) -> str:
    """A count of canvases in words."""
    if count == 1:
        return "1 canvas"
    return f"{count} canvases"

"""/limits: shows a person's own quota, and lets admins set those of others."""

import re
from typing import Any

from bot.db.people import limits, people
from bot.db.people.limits import EVERYBODY, QuotaRule
from bot.errors import ChangeRefused
from bot.telegram.actions import ActionContext, ActionResult, build_pages, build_part, reply_text
from bot.telegram.quota import QuotaUsage, format_canvases, load_limit, load_quota_usage

HOW_TO = (
    "Use /limits NAME 200 (or a number) for one person, /limits all 200 for every member; "
    "none in place of 200 lifts a limit, default takes back what was set."
)

_VALUE = re.compile(r"none|default|[0-9]{1,9}", re.ASCII)


async def handle_limits(context: ActionContext) -> ActionResult:
    """/limits, and what may follow it."""
    if not context.args:
        return await _show_current(context)
    if context.role != "admin":
        return reply_text("Admins set limits; /limits alone shows yours.")
    target, _, value = " ".join(context.args.split()).rpartition(" ")
    value = value.lower()
    if not target or not _VALUE.fullmatch(value):
        return reply_text(HOW_TO)
    if target.lower() == "all":
        return await _set_limit(context, EVERYBODY, value)
    try:
        person = await people.find_id(context.tx, target)
    except ChangeRefused as refused:
        return reply_text(str(refused))
    return await _set_limit(context, person, value)


async def _show_current(context: ActionContext) -> ActionResult:
    limit = await load_limit(context.tx, context.person, context.role, context.deps.canvases_per_day)
    usage = await load_quota_usage(context.tx, context.person, limit, context.deps.time_zone, now=context.now)
    if context.role != "admin":
        return reply_text(_format_usage(usage))
    rules = await limits.list_rules(context.tx)
    everybody = next((rule for rule in rules if rule.person == EVERYBODY), None)
    if everybody is None:
        everybody = QuotaRule(EVERYBODY, context.deps.canvases_per_day)
    personal = [
        _format_rule(await _load_name(context, rule.person), rule)
        for rule in rules
        if rule.person != EVERYBODY
    ]
    entries = [(line, ()) for line in ("", _format_rule("Every member", everybody), *personal, "", HOW_TO)]
    return ActionResult(parts=build_pages(_format_usage(usage), entries, buttons_per_row=1))


def _format_usage(usage: QuotaUsage) -> str:
    at_least = "≥" if usage.unknown_calls else ""
    if usage.limit is None:
        used = f"{at_least}{format_canvases(usage.used)}"
        return f"You have used {used} today, estimated; you have no limit.{usage.unknown_text}"
    return (
        f"You have used {at_least}{usage.used} of your {format_canvases(usage.limit)} of today, estimated; "
        f"anew {usage.reset_text}.{usage.unknown_text}"
    )


async def _set_limit(context: ActionContext, person: int, value: str) -> ActionResult:
    """Set the limit of a person or of EVERYBODY: a number of canvases, `none`, or `default` to remove it."""
    before, _ = await limits.find_rules(context.tx, person)
    after: QuotaRule | None = None
    if value == "default":
        await limits.remove(context.tx, person)
        effective = await _find_default(context, person)
    else:
        canvases = None if value == "none" else int(value)
        after = QuotaRule(person, canvases)
        await limits.put(context.tx, person, canvases, set_by=context.person, now=context.now)
        effective = after
    subject = "every member" if person == EVERYBODY else f"person {person}"
    await context.record_audit("set a limit", subject, _to_audit_record(before), _to_audit_record(after))
    confirmation = build_part(f"{_format_rule(await _load_name(context, person), effective)}.")
    return ActionResult(parts=(confirmation,), after_commit=(context.deps.on_limits_changed,))


async def _find_default(context: ActionContext, person: int) -> QuotaRule:
    """Return what applies to a person without a limit of their own."""
    if person in context.deps.access.list_admins():
        return QuotaRule(person, None)
    _, everybody = await limits.find_rules(context.tx, person)
    return everybody or QuotaRule(person, context.deps.canvases_per_day)


def _to_audit_record(rule: QuotaRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    return {"canvases a day": rule.canvases}


async def _load_name(context: ActionContext, person: int) -> str:
    if person == EVERYBODY:
        return "Every member"
    row = await people.find(context.tx, person)
    if row is None:
        return f"Person · {person}"
    return f"{row.name} · {person}"


def _format_rule(name: str, rule: QuotaRule) -> str:
    if rule.canvases is None:
        return f"{name}: no limit"
    return f"{name}: {format_canvases(rule.canvases)} a day"

"""/limits: shows a person's own quota, and lets admins set those of others."""

from bot.chat.actions import ActionContext, ActionResult, build_pages, build_part, reply_hint, reply_text
from bot.chat.quota import QuotaUsage, format_used_share, load_limit, load_quota_usage
from bot.db.people import admin_changes, limits, people
from bot.db.people.admin_changes import LIMIT_VALUE
from bot.db.people.limits import EVERYBODY, QuotaRule
from bot.errors import ChangeRefused
from bot.translations.translator import Translator, translatable

HOW_TO = translatable(
    "`/limits NAME 200` sets a person's daily limit in canvases, `/limits all 200` every member's. Instead "
    "of 200, write `none` (no limit) or `default`."
)


async def handle_limits(context: ActionContext) -> ActionResult:
    """/limits, and what may follow it."""
    if not context.args:
        return await _show_current(context)
    if context.role != "admin":
        return reply_text(context.translate("Admins set limits. /limits shows yours."))
    target, _, value = " ".join(context.args.split()).rpartition(" ")
    value = value.lower()
    if not target or not LIMIT_VALUE.fullmatch(value):
        return reply_hint(context.translate(HOW_TO))
    if target.lower() == "all":
        return await set_limit(context, EVERYBODY, value)
    try:
        person = await people.find_id(context.tx, target)
    except ChangeRefused as refused:
        return reply_text(refused.explain(context.translate))
    return await set_limit(context, person, value)


async def _show_current(context: ActionContext) -> ActionResult:
    limit = await load_limit(context.tx, context.person, context.role, context.deps.settings.canvases_per_day)
    usage = await load_quota_usage(
        context.tx, context.person, limit, context.deps.settings.time_zone, now=context.now
    )
    if context.role != "admin":
        return reply_text(_format_usage(context.translate, usage))
    rules = await limits.list_rules(context.tx)
    everybody = next((rule for rule in rules if rule.person == EVERYBODY), None)
    if everybody is None:
        everybody = QuotaRule(EVERYBODY, context.deps.settings.canvases_per_day)
    personal = [
        _format_rule(context.translate, await _load_name(context, rule.person), rule)
        for rule in rules
        if rule.person != EVERYBODY
    ]
    translate = context.translate
    how_to = translate(HOW_TO).replace("`", "")
    rule = _format_rule(translate, translate("Every member"), everybody)
    entries = [(line, ()) for line in ("", rule, *personal, "", how_to)]
    return ActionResult(
        parts=build_pages(_format_used_canvases(translate, usage), entries, buttons_per_row=1)
    )


def _format_usage(translate: Translator, usage: QuotaUsage) -> str:
    """Format a member's usage, as a share of the day."""
    if usage.limit is None:
        return translate("You don't have a daily limit.")
    return f"{format_used_share(translate, usage)} {usage.format_reset(translate)}"


def _format_used_canvases(translate: Translator, usage: QuotaUsage) -> str:
    """Format an admin's usage, in canvases."""
    at_least = "≥" if usage.unknown_calls else ""
    used = f"{at_least}{usage.used}"
    if usage.limit is None:
        return translate("You've used {used} canvases today (estimated); you don't have a limit.", used=used)
    text = translate(
        "You've used {used} of today's {limit} canvases (estimated).", used=used, limit=usage.limit
    )
    return f"{text} {usage.format_reset(translate)}"


async def set_limit(context: ActionContext, person: int, value: str) -> ActionResult:
    """Set the limit of a person, a group (by its chat) or EVERYBODY.

    `value`: a number of canvases, `none`, or `default` to remove it.
    """
    try:
        after = await admin_changes.set_limit(context.tx, context.actor, person, value, now=context.now)
    except ChangeRefused as refused:
        return reply_text(refused.explain(context.translate))
    effective = after or await _find_default(context, person)
    confirmation = build_part(
        f"{_format_rule(context.translate, await _load_name(context, person), effective)}."
    )
    return ActionResult(parts=(confirmation,), after_commit=(context.deps.turns.quota_gate.clear_cache,))


async def _find_default(context: ActionContext, person: int) -> QuotaRule:
    """Return what applies to a person or a group without a limit of their own."""
    if person < 0 or person in context.deps.access.list_admins():
        return QuotaRule(person, None)
    _, everybody = await limits.find_rules(context.tx, person)
    return everybody or QuotaRule(person, context.deps.settings.canvases_per_day)


async def _load_name(context: ActionContext, person: int) -> str:
    if person == EVERYBODY:
        return context.translate("Every member")
    group = context.deps.groups.directory.find(person)
    if group is not None:
        return f"{group.title} · {group.number}"
    row = await people.find(context.tx, person)
    if row is None:
        return f"Person · {person}"
    return f"{row.name} · {person}"


def _format_rule(translate: Translator, name: str, rule: QuotaRule) -> str:
    if rule.canvases is None:
        return translate("{name}: no limit", name=name)
    return translate.plural(
        "{name}: {count} canvas a day", "{name}: {count} canvases a day", rule.canvases, name=name
    )

"""/limits: shows a person's own quota, and lets admins set those of others."""

from bot.canvases import OutputUnit
from bot.chat.actions import ActionContext, ActionResult, build_pages, build_part, reply_hint, reply_text
from bot.chat.quota import QuotaUsage, format_used_share, load_limit, load_quota_usage
from bot.db.people import admin_changes, limits, people
from bot.db.people.admin_changes import LIMIT_VALUE
from bot.db.people.limits import EVERYBODY, QuotaRule
from bot.errors import ChangeRefused
from bot.translations.formats import format_number
from bot.translations.translator import Translator, translatable

HOW_TO = translatable(
    "`/limits NAME 200` sets a person's daily limit in canvases, `/limits all 200` every member's. Instead "
    "of 200, write `none` (no limit) or `default`."
)
_HOW_TO_IN_TOKENS = translatable(
    "`/limits NAME 50000` sets a person's daily limit in tokens, `/limits all 50000` every member's. Instead "
    "of 50000, write `none` (no limit) or `default`."
)


async def handle_limits(context: ActionContext) -> ActionResult:
    """/limits, and what may follow it."""
    if not context.args:
        return await _show_current(context)
    if context.role != "admin":
        raise ChangeRefused("Admins set limits. /limits shows yours.")
    target, _, value = " ".join(context.args.split()).rpartition(" ")
    value = value.lower()
    if not target or not LIMIT_VALUE.fullmatch(value):
        return reply_hint(context.translate(_choose_how_to(await context.find_output_unit())))
    if target.lower() == "all":
        return await set_limit(context, EVERYBODY, value)
    return await set_limit(context, await people.find_id(context.tx, target), value)


def _choose_how_to(unit: OutputUnit) -> str:
    return HOW_TO if unit.has_canvases else _HOW_TO_IN_TOKENS


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
    unit = await context.find_output_unit()
    personal = [
        _format_rule(context.translate, await _load_name(context, rule.person), rule, unit)
        for rule in rules
        if rule.person != EVERYBODY
    ]
    translate = context.translate
    how_to = translate(_choose_how_to(unit)).replace("`", "")
    rule = _format_rule(translate, translate("Every member"), everybody, unit)
    entries = [(line, ()) for line in ("", rule, *personal, "", how_to)]
    used = _format_used(translate, usage, unit)
    return ActionResult(parts=build_pages(used, entries, buttons_per_row=1))


def _format_usage(translate: Translator, usage: QuotaUsage) -> str:
    """Format a member's usage, as a share of the day."""
    if usage.limit is None:
        return translate("You don't have a daily limit.")
    return f"{format_used_share(translate, usage)} {usage.format_reset(translate)}"


def _format_used(translate: Translator, usage: QuotaUsage, unit: OutputUnit) -> str:
    """Format an admin's usage, in canvases or in tokens."""
    at_least = "≥" if usage.unknown_calls else ""
    used = f"{at_least}{format_number(translate, unit.convert(usage.used))}"
    if usage.limit is None:
        text = translatable("You've used {used} canvases today (estimated); you don't have a limit.")
        if not unit.has_canvases:
            text = translatable("You've used {used} tokens today (estimated); you don't have a limit.")
        return translate(text, used=used)
    text = translatable("You've used {used} of today's {limit} canvases (estimated).")
    if not unit.has_canvases:
        text = translatable("You've used {used} of today's {limit} tokens (estimated).")
    line = translate(text, used=used, limit=format_number(translate, unit.convert(usage.limit)))
    return f"{line} {usage.format_reset(translate)}"


async def set_limit(context: ActionContext, person: int, value: str) -> ActionResult:
    """Set the limit of a person, a group (by its chat) or EVERYBODY.

    `value`: a number of canvases or tokens, `none`, or `default` to remove it.
    """
    after = await admin_changes.set_limit(context.tx, context.actor, person, value, now=context.now)
    effective = after or await _find_default(context, person)
    name = await _load_name(context, person)
    rule = _format_rule(context.translate, name, effective, await context.find_output_unit())
    return ActionResult(
        parts=(build_part(f"{rule}."),), after_commit=(context.deps.turns.quota_gate.clear_cache,)
    )


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


def _format_rule(translate: Translator, name: str, rule: QuotaRule, unit: OutputUnit) -> str:
    if rule.canvases is None:
        return translate("{name}: no limit", name=name)
    if not unit.has_canvases:
        tokens = unit.convert(rule.canvases)
        shown = format_number(translate, tokens)
        return translate.plural(
            "{name}: {shown} token a day", "{name}: {shown} tokens a day", tokens, name=name, shown=shown
        )
    return translate.plural(
        "{name}: {count} canvas a day", "{name}: {count} canvases a day", rule.canvases, name=name
    )

"""What /usage answers: figures, the details of a turn, the ranking of people and chats, and the chart."""

from dataclasses import replace
from datetime import datetime

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    build_part,
    reply_text,
)
from bot.chat.commands.usage_chart import build_usage_chart, draw_chart
from bot.chat.commands.usage_format import (
    format_answers,
    format_details,
    format_member_details,
    format_ranking,
    format_summary,
    format_thinking,
    format_verdicts,
)
from bot.chat.quota import load_limit, load_quota_usage
from bot.db.usage import spending
from bot.db.usage.spending import NewestTurn, SpendingSums
from bot.db.usage.thinking_sums import sum_by_thinking
from bot.db.usage.turn_steps import load_steps
from bot.db.usage.usage_sums import Scope
from bot.db.usage.verdict_sums import sum_verdicts
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_share
from bot.usage.local_times import start_of_day
from bot.usage.queries import load_report
from bot.usage.report import ReportQuery

MONTH_DAYS = 30  # today is the last of them; days begin at midnight where the person is
MAX_RANKED = 10  # people, and as many chats


async def build_figures(context: ActionContext, *, for_everybody: bool) -> Part:
    """The figures of the last turn, the day and 30 days, or the ranking."""
    if not for_everybody:
        return await build_summary(context)
    today = await spending.sum_turns(context.tx, Scope(since=await _find_day_start(context)))
    month = await spending.load_overview(context.tx, await _find_month_start(context), MAX_RANKED)
    unit = await context.find_output_unit()
    return build_part(format_ranking(context.translate, today, month, output_unit=unit))


async def build_summary(context: ActionContext) -> Part:
    """What the last turn, the day and 30 days took."""
    today = await _sum_spending(context, await _find_day_start(context))
    month = await _sum_spending(context, await _find_month_start(context))
    last = await spending.load_newest_turn(context.tx, context.lane)
    format_text = _format_admin_summary if _is_admins_own(context) else _format_member_summary
    text = await format_text(context, last, today, month)
    if last is None:
        return build_part(text)
    row = (Button(context.translate("Details"), f"details:{last.id}"), _chart_button(context))
    return build_part(text, row)


def _is_admins_own(context: ActionContext) -> bool:
    """Whether an admin asks, and nobody else reads the answer."""
    return context.role == "admin" and not context.is_group


async def _sum_spending(context: ActionContext, begin: float) -> SpendingSums:
    """What the person took, or in a group everybody there."""
    scope = Scope(since=begin, user=context.person)
    if context.is_group:
        scope = Scope(since=begin, chat=str(context.lane.chat))
    return await spending.sum_turns(context.tx, scope)


async def _format_admin_summary(
    context: ActionContext, last: NewestTurn | None, today: SpendingSums, month: SpendingSums
) -> str:
    """What admins read of their own: seconds, output of the model, what thinking cost, and verdicts."""
    translate = context.translate
    unit = await context.find_output_unit()
    text = format_summary(translate, last, today, month, output_unit=unit)
    if last is None:
        return text
    scope = Scope(since=await _find_month_start(context), user=context.person)
    thinking = await sum_by_thinking(context.tx, scope)
    verdicts = await sum_verdicts(context.tx, scope, None)
    lines = format_thinking(translate, thinking, output_unit=unit)
    return "\n".join([text, *lines, *format_verdicts(translate, verdicts)])


async def _format_member_summary(
    context: ActionContext, last: NewestTurn | None, today: SpendingSums, month: SpendingSums
) -> str:
    """What members read: answers, seconds, and the share of the day."""
    translate = context.translate
    lines = [format_answers(translate, last, today, month)]
    holder = context.lane.chat if context.is_group else context.person
    limit = await load_limit(context.tx, holder, context.role, context.deps.settings.canvases_per_day)
    if limit is not None:
        time_zone = context.deps.settings.time_zone
        usage = await load_quota_usage(context.tx, holder, limit, time_zone, now=context.now)
        lines.append(
            translate(
                "About {share} of today's allowance used", share=format_share(translate, usage.percent / 100)
            )
        )
    return "\n".join(lines)


async def build_chart(context: ActionContext, *, for_everybody: bool) -> ActionResult:
    """Answer with the figures and with the chart, or with a line if it cannot be drawn."""
    zone = await context.load_zone()
    scope = Scope(since=await _find_month_start(context), zone=str(zone))
    if context.is_group:
        scope = replace(scope, chat=str(context.lane.chat))
    elif not for_everybody:
        scope = replace(scope, user=context.person)
    report = await load_report(context.tx, ReportQuery(scope, "day"))
    if report.is_empty:
        return reply_text(context.translate("Nothing yet in the last 30 days."))
    last_day = datetime.fromtimestamp(context.now, zone).date()
    chart = build_usage_chart(report, last_day, context.translate, is_admin=_is_admins_own(context))
    figures = await build_figures(context, for_everybody=for_everybody)
    picture = await draw_chart(chart)
    if picture is None:
        return ActionResult(parts=(figures, build_part(context.translate("I couldn't draw the chart."))))
    return ActionResult(parts=(figures,), files=(picture,))


def _chart_button(context: ActionContext) -> Button:
    return Button(context.translate("Chart"), "picture")


async def _find_day_start(context: ActionContext, *, days_later: int = 0) -> float:
    return start_of_day(context.now, await context.load_zone(), days_later=days_later)


async def _find_month_start(context: ActionContext) -> float:
    return await _find_day_start(context, days_later=1 - MONTH_DAYS)


async def build_details(context: ActionContext, turn: int) -> ActionResult:
    """The details of a turn, in place of the figures."""
    details = await load_steps(context.tx, turn, with_texts=False)
    if details is None or details.chat != context.lane.key or details.ended_at is None:
        raise ChangeRefused("I don't have a record of this answer.")
    row = (Button(context.translate("Back"), "usage"), _chart_button(context))
    if _is_admins_own(context):
        text = format_details(context.translate, details, output_unit=await context.find_output_unit())
    else:
        text = format_member_details(context.translate, details)
    return ActionResult(replacement=build_part(text, row))

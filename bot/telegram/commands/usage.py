"""/usage: what the last turn, the day and 30 days took, with the turn's details and a picture behind buttons.

For admins `/usage all` ranks people and chats.
"""

from functools import partial

from bot.db.usage import spending as usage
from bot.db.usage.usage_sums import DAY_SECONDS, Scope
from bot.domain import Button, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, build_part, reply_text
from bot.telegram.commands import usage_chart as pictures
from bot.telegram.commands import usage_details as details
from bot.telegram.commands import usage_summary as spent
from bot.usage.queries import load_report_in
from bot.usage.report import ReportQuery

MONTH_SECONDS = 30 * DAY_SECONDS  # days of /usage begin at midnight UTC
MAX_RANKED = 10  # people, and chats, that are ranked
_HELP = "/usage shows yours, /usage chart draws it."
_ADMIN_HELP = "/usage shows yours, /usage all everybody's; /usage chart and /usage chart all draw it."


async def handle_usage(context: ActionContext) -> ActionResult:
    """/usage, with the words all or chart, or both."""
    words = set(context.args.lower().split())
    is_admin = context.role == "admin"
    if words - {"all", "chart"}:
        return reply_text(_ADMIN_HELP if is_admin else _HELP)
    if "all" in words and not is_admin:
        return reply_text("/usage all is for admins.")
    if "chart" in words:
        return await _build_chart(context, for_everybody="all" in words)
    return ActionResult(parts=(await (_build_ranking(context) if words else _build_summary(context)),))


async def handle_summary_button(context: ActionContext) -> ActionResult:
    """The button that goes back from the details; what is shown is as of now."""
    return ActionResult(replacement=await _build_summary(context))


async def handle_details_button(context: ActionContext, turn: int) -> ActionResult:
    """The button that shows the details of a turn."""
    found = await usage.load_details(context.tx, context.lane, turn)
    if found is None:
        return ActionResult(toast="This turn is not known here.")
    return ActionResult(
        replacement=build_part(
            details.format_details(found), (Button("Back", "usage"), Button("Picture", "picture"))
        )
    )


async def handle_chart_button(context: ActionContext) -> ActionResult:
    """The button that draws one's own 30 days, or under what admins are told everybody's."""
    everybody = context.args == "all"
    if everybody and context.role != "admin":
        return BUTTON_EXPIRED
    answer = await _build_chart(context, for_everybody=everybody)
    return ActionResult(
        toast="The picture comes." if answer.best_effort_calls else "Nothing yet.",
        best_effort_calls=answer.best_effort_calls,
    )


async def _build_summary(context: ActionContext) -> Part:
    newest = await usage.find_newest_turn(context.tx, context.lane)
    last = None if newest is None else await usage.sum_turn(context.tx, newest)
    today = await usage.sum_person(context.tx, context.person, _get_day_start(context))
    month = await usage.sum_person(context.tx, context.person, _get_month_start(context))
    rows: tuple[tuple[Button, ...], ...] = ()
    if newest is not None:
        rows = ((Button("Details", f"details:{newest}"), Button("Picture", "picture")),)
    return build_part(spent.format_summary(last, today, month), *rows)


async def _build_ranking(context: ActionContext) -> Part:
    today = await usage.load_overview(context.tx, _get_day_start(context), 0)
    month = await usage.load_overview(context.tx, _get_month_start(context), MAX_RANKED)
    return build_part(spent.format_ranking(today.total, month))


async def _build_chart(context: ActionContext, *, for_everybody: bool) -> ActionResult:
    """The figures as a message that is delivered like any other, and the picture as a gesture that may be
    lost.
    """
    scope = Scope(since=_get_month_start(context), user=None if for_everybody else context.person)
    found = await load_report_in(context.tx, ReportQuery(scope, "day"))
    if found.is_empty:
        return reply_text("Nothing yet in the last 30 days.")
    title = f"{'Everybody' if for_everybody else 'You'}, the last 30 days (UTC)"
    said = await (_build_ranking(context) if for_everybody else _build_summary(context))
    return ActionResult(
        parts=(said,),
        best_effort_calls=(
            partial(pictures.send_chart, context.deps.best_effort_calls, context.lane, found, title),
        ),
    )


def _get_day_start(context: ActionContext) -> float:
    return context.now - context.now % DAY_SECONDS


def _get_month_start(context: ActionContext) -> float:
    return _get_day_start(context) - MONTH_SECONDS + DAY_SECONDS

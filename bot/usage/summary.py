"""What everybody used in the last day or week, in a few lines that admins read on a phone. Pure.

Unknown is called unknown, and a sum with gaps "at least". No rate is shown without what it was measured at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Literal

from bot.db.usage.usage_sums import CallSums, Scope
from bot.translations.formats import format_date, format_number, format_share
from bot.translations.translator import Translator
from bot.usage.figures import UNKNOWN, format_at_least
from bot.usage.report import Percentiles, ReportGroup, UsageReport

SummaryFrequency = Literal["daily", "weekly"]


@dataclass(frozen=True, slots=True)
class SummaryPeriod:
    """Whole days of the gateway's time zone: `days` of them, from `first_day` on."""

    first_day: datetime
    days: int

    @property
    def scope(self) -> Scope:
        """The period as the scope of a report."""
        return Scope(since=self.first_day.timestamp(), until=_add_days(self.first_day, self.days).timestamp())

    @property
    def previous(self) -> "SummaryPeriod":
        """The same number of days just before."""
        return SummaryPeriod(_add_days(self.first_day, -self.days), self.days)

    def format_name(self, translate: Translator) -> str:
        """Format it, such as `Thu 19 Nov 2026`."""
        if self.days == 1:
            return format_date(translate, self.first_day, "yMMMEd")
        last_day = _add_days(self.first_day, self.days - 1)
        return translate(
            "{first_day} to {last_day}",
            first_day=format_date(translate, self.first_day),
            last_day=format_date(translate, last_day),
        )

    def compare(self, translate: Translator, count: str, previous_count: str) -> str:
        """Format a count beside that of the period before."""
        if self.days == 1:
            return translate("{count} (the day before: {previous})", count=count, previous=previous_count)
        return translate("{count} (the week before: {previous})", count=count, previous=previous_count)


def last_period(frequency: SummaryFrequency, now: float, zone: tzinfo) -> SummaryPeriod:
    """The last whole day before `now`, or the last seven."""
    days = 1 if frequency == "daily" else 7
    midnight = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return SummaryPeriod(_add_days(midnight, -days), days)


def render_summary(
    translate: Translator,
    period: SummaryPeriod,
    report: UsageReport,
    report_by_user: UsageReport,
    previous_report: UsageReport,
) -> str:
    """A few lines from the reports of the period, of the same by user, and of the period before."""
    title = translate(
        "Usage, {period} ({zone})", period=period.format_name(translate), zone=period.first_day.tzname()
    )
    lines = _render_lines(translate, period, report, report_by_user, previous_report)
    return "\n".join([title, *lines])


def _render_lines(
    translate: Translator,
    period: SummaryPeriod,
    report: UsageReport,
    report_by_user: UsageReport,
    previous_report: UsageReport,
) -> Iterator[str]:
    write = partial(format_number, translate)
    total = report.total
    calls = total.calls
    turns = period.compare(translate, write(_count_turns(report)), write(_count_turns(previous_report)))
    yield translate("Turns: {turns}", turns=turns)
    yield translate("People: {count}", count=len(_active_users(report_by_user)))
    if calls is None:
        yield translate("Model calls: none")
        return
    if report.output_unit.has_canvases:
        previous_canvases = _format_canvases(translate, previous_report.total.calls)
        canvases = period.compare(translate, _format_canvases(translate, calls), previous_canvases)
        yield translate("Canvases, estimated: {canvases}", canvases=canvases)
    yield translate(
        "Tokens in: {tokens}, cached {cached}",
        tokens=translate(format_at_least(calls.input, calls.input_known, calls.calls, write=write)),
        cached=_format_cached(translate, calls),
    )
    output = format_at_least(
        calls.output, calls.output_known, calls.calls, partial=calls.partial, write=write
    )
    yield translate("Tokens out: {tokens}", tokens=translate(output))
    yield from _render_times(translate, total.percentiles.get("whole"), total.percentiles.get("seat_wait"))
    yield translate(
        "Model calls: {calls}, failed {failed}, stopped {stopped}",
        calls=write(calls.calls),
        failed=write(calls.failed),
        stopped=write(calls.cancelled),
    )
    if total.tools and total.tools.calls:
        yield translate(
            "Tool calls: {calls}, failed {failed}",
            calls=write(total.tools.calls),
            failed=write(total.tools.failed),
        )


def _render_times(
    translate: Translator, answer_seconds: Percentiles | None, seat_wait_seconds: Percentiles | None
) -> Iterator[str]:
    if answer_seconds is not None:
        yield translate(
            "Answers: half within {half} s, 95 of 100 within {most} s",
            half=format_number(translate, answer_seconds.p50, decimals=1),
            most=format_number(translate, answer_seconds.p95, decimals=1),
        )
    if seat_wait_seconds is not None:
        half = format_number(translate, seat_wait_seconds.p50, decimals=1)
        yield translate.plural(
            "Waited for the model: {count} turn, {half} s",
            "Waited for the model: {count} turns, half of them under {half} s",
            seat_wait_seconds.count,
            half=half,
        )


def _active_users(report_by_user: UsageReport) -> list[ReportGroup]:
    return [
        group
        for group in report_by_user.groups
        if group.key is not None and group.turns and group.turns.turns
    ]


def _count_turns(report: UsageReport) -> int:
    if report.total.turns:
        return report.total.turns.turns
    return 0


def _format_canvases(translate: Translator, calls: CallSums | None) -> str:
    if calls is None:
        return "0"
    canvases = format_at_least(
        calls.canvases,
        calls.canvases_known,
        calls.costing,
        partial=calls.partial,
        write=partial(format_number, translate),
    )
    return translate(canvases)


def _format_cached(translate: Translator, calls: CallSums) -> str:
    if not calls.cached_of:
        return translate(UNKNOWN)
    return format_share(translate, calls.cached / calls.cached_of)


def _add_days(day: datetime, days: int) -> datetime:
    """Midnight `days` later, by the calendar."""
    return day + timedelta(days=days)

"""What everybody used in the last day or week, in a few lines that admins read on a phone. Pure.

Unknown is called unknown, and a sum with gaps "at least". No rate is shown without what it was measured at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from bot.db.usage.usage_sums import CallSums, Scope
from bot.usage.report import Percentiles, ReportGroup, UsageReport
from bot.usage.tables import format_at_least, format_share

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

    @property
    def name(self) -> str:
        """Its name, such as `Thursday, 19 November`."""
        if self.days == 1:
            return f"{self.first_day:%A, %-d %B}"
        return f"{self.first_day:%-d %B} to {_add_days(self.first_day, self.days - 1):%-d %B}"

    @property
    def previous_name(self) -> str:
        """What the period before is called."""
        if self.days == 1:
            return "the day before"
        return "the week before"


def last_period(frequency: SummaryFrequency, now: float, zone: tzinfo) -> SummaryPeriod:
    """The last whole day before `now`, or the last seven."""
    days = 1 if frequency == "daily" else 7
    midnight = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return SummaryPeriod(_add_days(midnight, -days), days)


def render_summary(
    period: SummaryPeriod, report: UsageReport, report_by_user: UsageReport, previous_report: UsageReport
) -> str:
    """A few lines from the reports of the period, of the same by user, and of the period before."""
    title = f"Usage, {period.name} ({period.first_day.tzname()})"
    return "\n".join([title, *_render_lines(period, report, report_by_user, previous_report)])


def _render_lines(
    period: SummaryPeriod, report: UsageReport, report_by_user: UsageReport, previous_report: UsageReport
) -> Iterator[str]:
    total = report.total
    calls = total.calls
    people = _format_count(len(_active_users(report_by_user)), "person", "people")
    previous_turns = f"{period.previous_name}: {_count_turns(previous_report):,}"
    yield f"Turns: {_count_turns(report):,} of {people} ({previous_turns})"
    if calls is None:
        yield "Model calls: none"
        return
    previous_canvases = f"{period.previous_name}: {_format_canvases(previous_report.total.calls)}"
    yield f"Canvases, estimated: {_format_canvases(calls)} ({previous_canvases})"
    cached = format_share(calls.cached, calls.cached_of)
    yield f"Tokens in: {format_at_least(calls.input, calls.input_known, calls.calls)}, cached {cached}"
    output = format_at_least(calls.output, calls.output_known, calls.calls, partial=calls.partial)
    yield f"Tokens out: {output}"
    yield from _render_times(total.percentiles.get("whole"), total.percentiles.get("seat_wait"))
    yield f"Model calls: {calls.calls:,}, failed {calls.failed:,}, stopped {calls.cancelled:,}"
    if total.tools and total.tools.calls:
        yield f"Tool calls: {total.tools.calls:,}, failed {total.tools.failed:,}"


def _render_times(answer_seconds: Percentiles | None, seat_wait_seconds: Percentiles | None) -> Iterator[str]:
    if answer_seconds is not None:
        half = f"half within {answer_seconds.p50:,.1f} s"
        yield f"Answers: {half}, 95 of 100 within {answer_seconds.p95:,.1f} s"
    if seat_wait_seconds is not None:
        turns = _format_count(seat_wait_seconds.count, "turn", "turns")
        yield f"Waited for a seat: {turns}, half of them under {seat_wait_seconds.p50:,.1f} s"


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


def _format_canvases(calls: CallSums | None) -> str:
    if calls is None:
        return "0"
    return format_at_least(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial)


def _format_count(number: int, singular: str, plural: str) -> str:
    if number == 1:
        return f"1 {singular}"
    return f"{number:,} {plural}"


def _add_days(day: datetime, days: int) -> datetime:
    """Midnight `days` later, by the calendar."""
    return day + timedelta(days=days)

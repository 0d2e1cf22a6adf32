"""What everybody used in the last day or week, in few lines that admins read on a phone. Pure.

Unknown is said to be unknown, a sum with gaps is "at least"; no rate is told without what it was made at.
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
    """Whole days of the house's zone: from the first, `days` of them."""

    first_day: datetime
    days: int

    @property
    def scope(self) -> Scope:
        """What of the ledger is meant."""
        return Scope(since=self.first_day.timestamp(), until=_add_days(self.first_day, self.days).timestamp())

    @property
    def previous(self) -> "SummaryPeriod":
        """As many days just before."""
        return SummaryPeriod(_add_days(self.first_day, -self.days), self.days)

    @property
    def name(self) -> str:
        """Its name, such as `Thursday, 19 November`."""
        if self.days == 1:
            return f"{self.first_day:%A, %-d %B}"
        return f"{self.first_day:%-d %B} to {_add_days(self.first_day, self.days - 1):%-d %B}"


def last_period(frequency: SummaryFrequency, now: float, zone: tzinfo) -> SummaryPeriod:
    """The last whole day before `now`, or the last seven."""
    days = 1 if frequency == "daily" else 7
    midnight = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return SummaryPeriod(_add_days(midnight, -days), days)


def render_summary(
    period: SummaryPeriod, report: UsageReport, report_by_user: UsageReport, previous_report: UsageReport
) -> str:
    """A few lines: the period's `report`, the same told apart by `people`, and the report of the days
    `before`.
    """
    return "\n".join(
        (
            f"Usage, {period.name} ({period.first_day.tzname()})",
            *_render_lines(period, report, report_by_user, previous_report),
        )
    )


def _render_lines(
    period: SummaryPeriod, report: UsageReport, report_by_user: UsageReport, previous_report: UsageReport
) -> Iterator[str]:
    whole, calls = report.total, report.total.calls
    turns = whole.turns.turns if whole.turns else 0
    earlier = "the day before" if period.days == 1 else "the week before"
    yield f"Turns: {turns:,} of {_format_count(len(_active_users(report_by_user)), 'person', 'people')} ({earlier}: {_count_turns(previous_report):,})"
    if calls is None:
        yield "Model calls: none"
        return
    yield f"Canvases, estimated: {_format_canvases(calls)} ({earlier}: {_format_canvases(previous_report.total.calls)})"
    cached = format_share(calls.cached, calls.cached_of)
    yield f"Tokens in: {format_at_least(calls.input, calls.input_known, calls.calls)}, cached {cached}"
    yield f"Tokens out: {format_at_least(calls.output, calls.output_known, calls.calls, partial=calls.partial)}"
    yield from _render_times(whole.percentiles.get("whole"), whole.percentiles.get("seat_wait"))
    yield f"Model calls: {calls.calls:,}, failed {calls.failed:,}, stopped {calls.cancelled:,}"
    if whole.tools and whole.tools.calls:
        yield f"Tool calls: {whole.tools.calls:,}, failed {whole.tools.failed:,}"


def _render_times(answer_seconds: Percentiles | None, seat_wait_seconds: Percentiles | None) -> Iterator[str]:
    if answer_seconds is not None:
        yield f"Answers: half within {answer_seconds.p50:,.1f} s, 95 of 100 within {answer_seconds.p95:,.1f} s"
    if seat_wait_seconds is not None:
        yield f"Waited for a seat: {_format_count(seat_wait_seconds.count, 'turn', 'turns')}, half of them under {seat_wait_seconds.p50:,.1f} s"


def _active_users(report_by_user: UsageReport) -> list[ReportGroup]:
    return [one for one in report_by_user.groups if one.key is not None and one.turns and one.turns.turns]


def _count_turns(report: UsageReport) -> int:
    if report.total.turns:
        return report.total.turns.turns
    return 0


def _format_canvases(calls: CallSums | None) -> str:
    if calls is None:
        return "0"
    return format_at_least(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial)


def _format_count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _add_days(day: datetime, days: int) -> datetime:
    """Midnight so many days later, by the calendar."""
    return day + timedelta(days=days)

"""What everybody used in the last day or week, in few lines that admins read on a phone. Pure.

Unknown is said to be unknown, a sum with gaps is "at least"; no rate is told without what it was made at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

from bot.db.usage.usage_sums import CallSums, Scope
from bot.usage.report import Entry, Report, Spread
from bot.usage.tables import at_least, share

Every = Literal["daily", "weekly"]


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days of the house's zone: from the first, `days` of them."""

    first: datetime
    days: int

    @property
    def scope(self) -> Scope:
        """What of the ledger is meant."""
        return Scope(since=self.first.timestamp(), until=_on(self.first, self.days).timestamp())

    @property
    def before(self) -> "Period":
        """As many days just before."""
        return Period(_on(self.first, -self.days), self.days)

    @property
    def called(self) -> str:
        """Its name, such as `Thursday, 19 November`."""
        if self.days == 1:
            return f"{self.first:%A, %-d %B}"
        return f"{self.first:%-d %B} to {_on(self.first, self.days - 1):%-d %B}"


def last(every: Every, now: float, zone: tzinfo) -> Period:
    """The last whole day before `now`, or the last seven."""
    days = 1 if every == "daily" else 7
    midnight = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return Period(_on(midnight, -days), days)


def text(period: Period, report: Report, people: Report, before: Report) -> str:
    """A few lines: the period's `report`, the same told apart by `people`, and the report of the days
    `before`.
    """
    return "\n".join(
        (f"Usage, {period.called} ({period.first.tzname()})", *_lines(period, report, people, before))
    )


def _lines(period: Period, report: Report, people: Report, before: Report) -> Iterator[str]:
    whole, calls = report.whole, report.whole.calls
    turns = whole.turns.turns if whole.turns else 0
    earlier = "the day before" if period.days == 1 else "the week before"
    yield f"Turns: {turns:,} of {_count(len(_askers(people)), 'person', 'people')} ({earlier}: {_turns(before):,})"
    if calls is None:
        yield "Model calls: none"
        return
    yield f"Canvases, estimated: {_canvases(calls)} ({earlier}: {_canvases(before.whole.calls)})"
    cached = share(calls.cached, calls.cached_of)
    yield f"Tokens in: {at_least(calls.input, calls.input_known, calls.calls)}, cached {cached}"
    yield f"Tokens out: {at_least(calls.output, calls.output_known, calls.calls, partial=calls.partial)}"
    yield from _times(whole.spreads.get("whole"), whole.spreads.get("seat_wait"))
    yield f"Model calls: {calls.calls:,}, failed {calls.failed:,}, stopped {calls.cancelled:,}"
    if whole.tools and whole.tools.calls:
        yield f"Tool calls: {whole.tools.calls:,}, failed {whole.tools.failed:,}"


def _times(answers: Spread | None, seats: Spread | None) -> Iterator[str]:
    if answers is not None:
        yield f"Answers: half within {answers.p50:,.1f} s, 95 of 100 within {answers.p95:,.1f} s"
    if seats is not None:
        yield f"Waited for a seat: {_count(seats.count, 'turn', 'turns')}, half of them under {seats.p50:,.1f} s"


def _askers(people: Report) -> list[Entry]:
    return [one for one in people.entries if one.key is not None and one.turns and one.turns.turns]


def _turns(report: Report) -> int:
    if report.whole.turns:
        return report.whole.turns.turns
    return 0


def _canvases(calls: CallSums | None) -> str:
    if calls is None:
        return "0"
    return at_least(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial)


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _on(day: datetime, days: int) -> datetime:
    """Midnight so many days later, by the calendar."""
    return day + timedelta(days=days)

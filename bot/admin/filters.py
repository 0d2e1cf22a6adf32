"""Periods and filters of a page, parsed from its query. Pure; raises QuestionRefused for what is none.

Periods mean what `canvasgram report --since` means by the same words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args
from zoneinfo import ZoneInfo

from bot.db.usage.usage_sums import Scope
from bot.domain import DAY_SECONDS, CallPurpose, EndpointRole
from bot.errors import QuestionRefused
from bot.usage.query_args import parse_choice, parse_scope, parse_time

PERIODS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
DEFAULT_PERIOD = "7d"
MAX_NAME_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` until `until` (epoch seconds, exclusive); `name` is one of PERIODS, empty for another."""

    since: float
    until: float
    name: str

    @property
    def before(self) -> "Period":
        """The period of the same length before it, from and to the same time of the day."""
        earlier = -(-(self.until - self.since) // DAY_SECONDS) * DAY_SECONDS
        return Period(self.since - earlier, self.until - earlier, "")


@dataclass(frozen=True, slots=True)
class Filters:
    """What a page shows: the scope of a report in a period. `query` is how its address says so."""

    period: Period
    query: Mapping[str, str]
    scope: Scope


def parse_period(query: Mapping[str, str], *, zone: ZoneInfo, now: float) -> Period:
    """The period that `period`, or else `from` and `to`, name; a date as `to` includes its whole day."""
    begin, end = query.get("from", ""), query.get("to", "")
    if not begin and not end:
        name = query.get("period") or DEFAULT_PERIOD
        if name not in PERIODS:
            raise QuestionRefused(f"The period must be one of {', '.join(PERIODS)}.")
        return Period(parse_time("The period", name, now, zone), now, name)
    if not begin:
        raise QuestionRefused("An own period needs a first day, such as 2026-11-03.")
    since = parse_time("From", begin, now, zone)
    until = min(parse_time("To", end, now, zone, whole_day=True), now) if end else now
    if since >= until:
        raise QuestionRefused("From must be before To, and in the past.")
    return Period(since, until, "")


def parse_filters(query: Mapping[str, str], *, zone: ZoneInfo, now: float) -> Filters:
    """All filters of a page; empty ones do not restrict it."""
    given = {name: value for name, value in query.items() if value and len(value) <= MAX_NAME_CHARACTERS}
    user = endpoint = purpose = thinking = None
    if "user" in given:
        if not _NUMBER.fullmatch(given["user"]):
            raise QuestionRefused("A person is named by a number, such as 12345678.")
        user = int(given["user"])
    scope = parse_scope(None, None, given.get("chat"), None, given.get("model"), zone=str(zone), now=now)
    period = parse_period(given, zone=zone, now=now)
    if "endpoint" in given:
        endpoint = parse_choice("The endpoint", given["endpoint"], get_args(EndpointRole))
    if "purpose" in given:
        purpose = parse_choice("The purpose", given["purpose"], get_args(CallPurpose))
    if "thinking" in given:
        thinking = parse_choice("Thinking", given["thinking"], ("yes", "no")) == "yes"
    scope = replace(
        scope,
        since=period.since,
        until=period.until,
        user=user,
        endpoint=endpoint,
        tool=given.get("tool"),
        purpose=purpose,
        thinking=thinking,
    )
    names = ("period", "from", "to", "user", "chat", "model", "tool", "endpoint", "purpose", "thinking")
    return Filters(period, {name: given[name] for name in names if name in given}, scope)

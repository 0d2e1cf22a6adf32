"""Periods of a page, and those that they are compared with."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.admin.filters import Period, parse_period

NOW = datetime(2026, 11, 23, 11, 0, 17, tzinfo=UTC)


def list_times(period: Period) -> tuple[str, str]:
    since, until = (datetime.fromtimestamp(seconds, UTC) for seconds in (period.since, period.until))
    return f"{since:%d %H:%M}", f"{until:%d %H:%M}"


@pytest.mark.parametrize(
    ("query", "times", "times_before"),
    [
        ({"period": "7d"}, ("16 00:00", "23 11:00"), ("08 00:00", "15 11:00")),
        ({"period": "24h"}, ("22 11:00", "23 11:00"), ("21 11:00", "22 11:00")),
        ({"from": "2026-11-18", "to": "2026-11-20"}, ("18 00:00", "21 00:00"), ("15 00:00", "18 00:00")),
    ],
)
def test_a_period_is_compared_with_the_same_times_of_earlier_days(
    query: dict[str, str], times: tuple[str, str], times_before: tuple[str, str]
) -> None:
    period = parse_period(query, zone=ZoneInfo("UTC"), now=NOW.timestamp())
    assert list_times(period) == times
    assert list_times(period.before) == times_before

"""The clock: zones, cities and offsets, in any spelling."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import check_arguments
from tools.base import ToolContext, ToolError, run_tool
from tools.builtin.clock import clock, find_zone


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (None, "Friday, 2026-11-20 10:30:05 in UTC (UTC+00:00)"),
        ("Asia/Tokyo", "Friday, 2026-11-20 19:30:05 in Asia/Tokyo (UTC+09:00)"),
        ("tokyo", "Friday, 2026-11-20 19:30:05 in Asia/Tokyo (UTC+09:00)"),
        ("New York", "Friday, 2026-11-20 05:30:05 in America/New_York (UTC-05:00)"),
        ("São Paulo", "Friday, 2026-11-20 07:30:05 in America/Sao_Paulo (UTC-03:00)"),
        ("Mumbai, India", "Friday, 2026-11-20 16:00:05 in Asia/Kolkata (UTC+05:30)"),
        ("St. John's", "did you mean America/St_Johns"),
        ("UTC-3:30", "Friday, 2026-11-20 07:00:05 in UTC-03:30 (UTC-03:30)"),
        ("GMT+2", "Friday, 2026-11-20 12:30:05 in UTC+02:00 (UTC+02:00)"),
        ("Kiritimati", "Saturday, 2026-11-21 00:30:05 in Pacific/Kiritimati (UTC+14:00)"),
        ("Toky", "No time zone is called 'Toky'; did you mean Asia/Tokyo"),
        ("UTC+99", "No place on Earth"),
        ("../../etc/passwd", "give an IANA zone such as Europe/Paris."),
    ],
)
async def test_the_clock_reads_zones_cities_and_offsets(context: ToolContext, zone, expected):
    arguments = {} if zone is None else {"zone": zone}
    try:
        answer = (await run_tool(clock, check_arguments(clock, arguments), context)).text
    except ToolError as refusal:
        answer = str(refusal)
    assert expected in answer


async def test_without_a_zone_the_clock_goes_by_the_person(context: ToolContext):
    async def find_time_in_berlin() -> datetime:
        return (await context.now()).astimezone(ZoneInfo("Europe/Berlin"))

    answer = (await run_tool(clock, {"zone": " "}, replace(context, now=find_time_in_berlin))).text
    assert answer == "Friday, 2026-11-20 11:30:05 in Europe/Berlin (UTC+01:00)"


@given(st.text())
def test_any_word_names_a_zone_or_is_refused(text):
    try:
        _, zone = find_zone(text)
    except ToolError:
        return
    assert datetime(2026, 1, 1, tzinfo=UTC).astimezone(zone).utcoffset() is not None

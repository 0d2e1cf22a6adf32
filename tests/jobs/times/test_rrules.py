"""Rules come to the right instants: ten years in several zones match an independent computation."""

import calendar
from datetime import date, datetime, time, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.jobs.times.rrules import (
    RecurrenceRule,
    find_latest,
    find_next,
    find_next_few,
    iterate_times,
    load_zone,
    to_local_time,
    to_timestamp,
)
from tests.support.recurrence_oracle import DayPredicate, find_instant, list_instants

BEGIN = date(2024, 1, 1)
END = date(2034, 1, 1)
# Berlin and New York have summer time, Lord Howe by half an hour, Santiago at midnight, Tehran not any more.
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Tehran", "UTC"]

RULES: list[tuple[str, time, DayPredicate]] = [
    ("FREQ=DAILY", time(2, 30), lambda day: True),
    ("FREQ=DAILY;INTERVAL=3", time(0, 0), lambda day: (day - BEGIN).days % 3 == 0),
    ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", time(8, 0), lambda day: day.weekday() < 5),
    ("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU", time(2, 15), lambda day: (day - BEGIN).days % 14 == 6),
    ("FREQ=MONTHLY;BYMONTHDAY=31", time(23, 45), lambda day: day.day == 31),
    ("FREQ=MONTHLY;BYMONTHDAY=-1", time(1, 30), lambda day: (day + timedelta(days=1)).day == 1),
    (
        "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=30",
        time(9, 0),
        lambda day: day.day == 30 and _months_since_begin(day) % 5 == 0,
    ),
    ("FREQ=MONTHLY;BYDAY=+1MO", time(9, 0), lambda day: day.weekday() == 0 and day.day <= 7),
    (
        "FREQ=MONTHLY;BYDAY=-1SU",
        time(2, 0),
        lambda day: day.weekday() == 6 and day.day > _month_length(day) - 7,
    ),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", time(12, 0), lambda day: (day.month, day.day) == (2, 29)),
    ("FREQ=YEARLY;BYMONTH=10;BYMONTHDAY=27", time(2, 30), lambda day: (day.month, day.day) == (10, 27)),
]


def _months_since_begin(day: date) -> int:
    return (day.year - BEGIN.year) * 12 + day.month - BEGIN.month


def _month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def build_rule(text: str, clock_time: time) -> RecurrenceRule:
    start = datetime.combine(BEGIN, clock_time)
    clock_parts = f"BYHOUR={clock_time.hour};BYMINUTE={clock_time.minute};BYSECOND=0"
    return RecurrenceRule.parse(f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{text};{clock_parts}")


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize(("text", "clock_time", "is_wanted"), RULES, ids=[text for text, _, _ in RULES])
def test_ten_years_of_instants_match_an_independent_computation(
    name: str, text: str, clock_time: time, is_wanted: DayPredicate
):
    tz = ZoneInfo(name)
    expected = sorted(set(list_instants(tz, BEGIN, END, clock_time, is_wanted)))
    since = to_timestamp(datetime.combine(BEGIN, time()), tz) - 1
    dues = iterate_times(build_rule(text, clock_time), tz, since)
    assert list(takewhile(lambda due: due <= expected[-1], dues)) == expected


def test_a_time_that_does_not_exist_moves_forward_and_one_that_exists_twice_comes_first():
    rule = build_rule("FREQ=DAILY", time(2, 30))
    berlin = load_zone("Europe/Berlin")
    spring = find_next_few(rule, berlin, to_timestamp(datetime(2027, 3, 27, 12), berlin), 2)
    assert [to_local_time(due, berlin) for due in spring] == [
        datetime(2027, 3, 28, 3, 30),
        datetime(2027, 3, 29, 2, 30),
    ]
    autumn = find_next_few(rule, berlin, to_timestamp(datetime(2027, 10, 30, 12), berlin), 2)
    assert autumn[0] == find_instant(ZoneInfo("Europe/Berlin"), date(2027, 10, 31), time(2, 30))
    assert autumn[1] - autumn[0] == 25 * 3600


def test_between_the_two_times_of_an_hour_that_exists_twice_the_next_one_is_tomorrows():
    rule = build_rule("FREQ=DAILY", time(2, 30))
    berlin = load_zone("Europe/Berlin")
    first = to_timestamp(datetime(2027, 10, 31, 2, 30), berlin)
    for minutes in (1, 29, 31, 60, 61, 90):
        due = find_next(rule, berlin, first + 60 * minutes)
        assert due is not None
        assert to_local_time(due, berlin) == datetime(2027, 11, 1, 2, 30)


def test_two_times_that_a_jump_brings_together_are_one():
    rule = build_rule("FREQ=DAILY", time(2, 30))
    berlin = load_zone("Europe/Berlin")
    twice_daily = RecurrenceRule(
        rule.start, (("FREQ", "DAILY"), ("BYHOUR", "2,3"), ("BYMINUTE", "30"), ("BYSECOND", "0"))
    )
    dues = find_next_few(twice_daily, berlin, to_timestamp(datetime(2027, 3, 28), berlin), 3)
    assert [to_local_time(due, berlin) for due in dues] == [
        datetime(2027, 3, 28, 3, 30),
        datetime(2027, 3, 29, 2, 30),
        datetime(2027, 3, 29, 3, 30),
    ]


def test_a_rule_by_elapsed_time_ignores_changes_of_clocks():
    rule = RecurrenceRule.parse("DTSTART:20270327T120000\nRRULE:FREQ=HOURLY;INTERVAL=6")
    berlin = load_zone("Europe/Berlin")
    dues = find_next_few(rule, berlin, to_timestamp(rule.start, berlin) - 1, 6)
    assert dues[0] == to_timestamp(rule.start, berlin)
    assert {later - earlier for earlier, later in pairwise(dues)} == {6 * 3600.0}
    assert to_local_time(dues[3], berlin) == datetime(2027, 3, 28, 7)


def test_a_rule_by_hand_takes_what_it_leaves_out_from_its_start():
    berlin = load_zone("Europe/Berlin")
    for text, expected in (
        ("FREQ=DAILY", datetime(2031, 5, 6, 4, 20)),
        ("FREQ=WEEKLY", datetime(2031, 5, 7, 4, 20)),
        ("FREQ=MONTHLY", datetime(2031, 5, 31, 4, 20)),
        ("FREQ=YEARLY", datetime(2031, 7, 31, 4, 20)),
        ("FREQ=YEARLY;BYDAY=+1MO", datetime(2032, 1, 5, 4, 20)),
    ):
        rule = RecurrenceRule.parse(f"DTSTART:20240731T042000\nRRULE:{text}")
        due = find_next(rule, berlin, to_timestamp(datetime(2031, 5, 6), berlin))
        assert due is not None
        assert to_local_time(due, berlin) == expected, text


def test_a_rule_ends_by_its_count_by_its_last_day_or_within_a_century():
    utc = load_zone("UTC")
    thrice = RecurrenceRule.parse("DTSTART:20260101T090000\nRRULE:FREQ=DAILY;COUNT=3")
    assert [to_local_time(due, utc).day for due in find_next_few(thrice, utc, 0.0, 9)] == [1, 2, 3]
    until = RecurrenceRule.parse("DTSTART:20260101T090000\nRRULE:FREQ=DAILY;UNTIL=20260104T235959")
    assert [to_local_time(due, utc).day for due in find_next_few(until, utc, 0.0, 9)] == [1, 2, 3, 4]
    for end in ("UNTIL=20260101T235959", "COUNT=4"):
        hourly = RecurrenceRule.parse(f"DTSTART:20260101T050000\nRRULE:FREQ=HOURLY;INTERVAL=5;{end}")
        assert [to_local_time(due, utc).hour for due in find_next_few(hourly, utc, 0.0, 9)] == [5, 10, 15, 20]
        first = find_next_few(hourly, utc, 0.0, 1)[0]
        assert to_local_time(find_latest(hourly, utc, first, first + 9 * 86_400), utc) == datetime(
            2026, 1, 1, 20
        )
    never = RecurrenceRule.parse("DTSTART:20260101T090000\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30")
    assert find_next(never, utc, 0.0) is None


def test_a_rule_is_stored_as_it_was_read():
    text = "DTSTART:20261123T080000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"
    assert RecurrenceRule.parse(text).text == text
    assert RecurrenceRule.parse(text).interval == 2


@settings(max_examples=150)
@given(
    text=st.sampled_from([*(text for text, _, _ in RULES), "HOURLY"]),
    name=st.sampled_from(ZONES),
    clock_time=st.times(min_value=time(0), max_value=time(23, 59)).map(
        lambda clock_time: clock_time.replace(second=0, microsecond=0)
    ),
    after=st.floats(
        to_timestamp(datetime(2024, 1, 1), load_zone("UTC")),
        to_timestamp(datetime(2064, 1, 1), load_zone("UTC")),
    ),
    span=st.floats(0, 3 * 366 * 86_400),
)
def test_the_next_time_is_later_none_is_left_out_and_the_latest_is_the_last(
    text: str, name: str, clock_time: time, after: float, span: float
):
    tz = load_zone(name)
    rule = RecurrenceRule.parse("DTSTART:20240101T000000\nRRULE:FREQ=HOURLY;INTERVAL=7")
    if text != "HOURLY":
        rule = build_rule(text, clock_time)
    first, second = find_next_few(rule, tz, after, 2)
    assert after < first < second
    for between in (first - 0.5, (after + first) / 2):
        if after <= between < first:  # half of a tiny interval is rounded to its end
            assert find_next(rule, tz, between) == first
    assert find_next(rule, tz, first) == second
    now = first + span
    last = find_latest(rule, tz, first, now)
    following = find_next(rule, tz, last)
    assert first <= last <= now
    assert following is not None
    assert following > now

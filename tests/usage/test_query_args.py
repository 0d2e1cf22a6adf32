"""Report options as people write them; what makes no sense is refused with an example."""

from zoneinfo import ZoneInfo

import pytest

from bot.db.usage.usage_sums import Scope
from bot.domain import DAY_SECONDS
from bot.errors import QuestionRefused
from bot.usage.query_args import GROUPINGS, parse_choice, parse_scope, parse_time, parse_turn_id

NOW = 1_728_043_200.0  # 2024-10-04 12:00 UTC
MIDNIGHT = 1_728_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-10-04", MIDNIGHT),
        ("20241004", MIDNIGHT),
        (" 2024-10-04T01:00 ", MIDNIGHT + 3600),
        ("2024-10-04 01:00:00+01:00", MIDNIGHT),
        ("today", MIDNIGHT),
        ("yesterday", MIDNIGHT - DAY_SECONDS),
        ("TODAY", MIDNIGHT),
        ("24h", NOW - DAY_SECONDS),
        ("1d", MIDNIGHT - DAY_SECONDS),
        ("2w", MIDNIGHT - 14 * DAY_SECONDS),
    ],
)
def test_moments(text: str, seconds: float):
    assert parse_time("--since", text, NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-10-03", MIDNIGHT),
        ("today", MIDNIGHT + DAY_SECONDS),
        ("yesterday", MIDNIGHT),
        ("2024-10-03T12:00", MIDNIGHT - DAY_SECONDS / 2),
    ],
)
def test_a_last_day_is_meant_whole(text: str, seconds: float):
    assert parse_time("--until", text, NOW, whole_day=True) == seconds


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2024-13-01", "30", "d", "-3d", "0x1d", "9999999d", "2024-10-04T99:00"]
)
def test_what_is_no_moment_is_refused_with_what_is(text: str):
    with pytest.raises(QuestionRefused, match="--since must be a date such as"):
        parse_time("--since", text, NOW)


def test_days_and_times_are_those_of_the_zone():
    """In Berlin the clocks go back on 27 October 2024, so that day has 25 hours."""
    berlin = ZoneInfo("Europe/Berlin")
    assert parse_time("--since", "2024-10-04", NOW, berlin) == MIDNIGHT - 7200
    assert parse_time("--since", "2024-10-04T12:00", NOW, berlin) == NOW - 7200
    assert parse_time("--since", "today", MIDNIGHT - 3600, berlin) == MIDNIGHT - 7200
    assert parse_time("--since", "1d", NOW, berlin) == MIDNIGHT - DAY_SECONDS - 7200
    begin = parse_time("--since", "2024-10-27", NOW, berlin)
    assert parse_time("--until", "2024-10-27", NOW, berlin, whole_day=True) == begin + 25 * 3600
    assert parse_scope(None, None, None, None, None, zone="Europe/Berlin", now=NOW) == Scope(
        zone="Europe/Berlin"
    )


@pytest.mark.parametrize("zone", ["Entenhausen", "", "../../etc/passwd", "Europe", "x" * 5000, "\x00"])
def test_what_is_no_zone_is_refused(zone: str):
    with pytest.raises(QuestionRefused, match="--zone must be a time zone such as Europe/Berlin"):
        parse_scope(None, None, None, None, None, zone=zone, now=NOW)


def test_so_long_ago_that_there_was_no_time():
    with pytest.raises(QuestionRefused, match="--since is before 1970"):
        parse_time("--since", "99999w", NOW)


@pytest.mark.parametrize("text", ["0001-01-01", "1969-12-31T23:59", "9999-12-31", "9999-01-01T00:00"])
def test_a_time_that_no_ledger_can_hold_is_refused(text: str):
    with pytest.raises(QuestionRefused, match="--until must be a time from 1970 to 9998"):
        parse_time("--until", text, NOW, whole_day=True)


def test_a_scope_of_everything_and_of_something():
    assert parse_scope(None, None, None, None, None, now=NOW) == Scope()
    scope = parse_scope("2024-10-01", "2024-10-03", "-100123:7", 5, "m", now=NOW)
    assert scope == Scope(MIDNIGHT - 3 * DAY_SECONDS, MIDNIGHT, "-100123:7", 5, "m")


@pytest.mark.parametrize(
    ("since", "until", "reason"),
    [
        ("2024-10-03", "2024-10-01", "--since 2024-10-03 is not before --until 2024-10-01."),
        ("2024-10-03T10:00", "2024-10-03T10:00", "is not before"),
        ("2024-10-05", None, "--since 2024-10-05 has not come yet."),
    ],
)
def test_a_span_that_holds_nothing_is_refused(since: str, until: str | None, reason: str):
    with pytest.raises(QuestionRefused, match=reason):
        parse_scope(since, until, None, None, None, now=NOW)


@pytest.mark.parametrize("chat", ["", "me", "5:", "5%", "5:7:9"])
def test_what_is_no_chat_is_refused(chat: str):
    with pytest.raises(QuestionRefused, match="--chat must be the number of a chat"):
        parse_scope(None, None, chat, None, None, now=NOW)


def test_names_are_known_or_refused():
    assert parse_choice("--by", "tool", GROUPINGS) == "tool"
    with pytest.raises(QuestionRefused, match=r"--by must be one of day, hour, chat, user, thinking, model"):
        parse_choice("--by", "week", GROUPINGS)


def test_ids_of_turns():
    assert (parse_turn_id("12"), parse_turn_id("#12 ")) == (12, 12)
    for text in ("", "x", "-1", "1.5", "9" * 30):
        with pytest.raises(QuestionRefused, match="no id of a turn"):
            parse_turn_id(text)

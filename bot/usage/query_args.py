"""Parses the options of a report as people write them: dates, periods, names. Pure.

Raises QuestionRefused, which says what is wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import TypeVar, get_args
from zoneinfo import ZoneInfo

from bot.db.usage.rankings import Sort
from bot.db.usage.usage_sums import Scope
from bot.domain import DAY_SECONDS, CallPurpose, EndpointRole
from bot.errors import QuestionRefused
from bot.usage.local_times import start_of_day
from bot.usage.report import Grouping

Choice = TypeVar("Choice", bound=str)

_RELATIVE_TIME = re.compile(r"([0-9]{1,6})([hdw])")
_UNIT_SECONDS = {"h": 3600, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS}
_NEW_YEAR_9999 = 253_370_764_800  # epoch seconds; later times cannot be shown as dates
_MAX_INTEGER = 2**63  # no database takes a larger number
CHAT_PATTERN = re.compile(r"-?[0-9]{1,20}(:-?[0-9]{1,20})?")
TIME_FORMATS = (
    "a date such as 2026-11-03, a date and time such as 2026-11-03T14:30, today, yesterday, "
    "or 24h, 30d, 4w ago"
)
SORTS: tuple[Sort, ...] = get_args(Sort)
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
ENDPOINTS: tuple[EndpointRole, ...] = get_args(EndpointRole)
PURPOSES: tuple[CallPurpose, ...] = get_args(CallPurpose)
THINKING_STATES = ("on", "off")


def parse_scope(  # noqa: PLR0913  # an option is an argument here
    since: str | None,
    until: str | None,
    chat: str | None,
    user: int | None,
    model: str | None,
    *,
    zone: str = "UTC",
    now: float,
) -> Scope:
    """The scope of a report, by times and days of the `zone`. A date as `until` includes its whole day."""
    begin = end = None
    times_zone = _parse_zone(zone)
    if since is not None:
        begin = parse_time("--since", since, now, times_zone)
    if until is not None:
        end = parse_time("--until", until, now, times_zone, whole_day=True)
    if begin is not None and end is not None and begin >= end:
        raise QuestionRefused(f"--since {since} is not before --until {until}.")
    if begin is not None and begin > now:
        raise QuestionRefused(f"--since {since} has not come yet.")
    if chat is not None and not CHAT_PATTERN.fullmatch(chat):
        raise QuestionRefused("--chat must be the number of a chat, or chat:topic. Example: --chat 12345678")
    if user is not None and not 0 < user < _MAX_INTEGER:
        raise QuestionRefused("--user must be the number of a person. Example: --user 12345678")
    return Scope(begin, end, chat, user, model, str(times_zone))


def _parse_zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, or no name of one
        raise QuestionRefused(
            f"--zone must be a time zone such as Europe/Berlin; {name!r} is none."
        ) from None


def parse_time(option: str, text: str, now: float, zone: tzinfo = UTC, *, whole_day: bool = False) -> float:
    """Epoch seconds of a date, a time or a period back from now; days are those of the zone.

    `whole_day`: of a date, the end of its day.
    """
    word = text.strip().lower()
    if word in {"today", "yesterday"}:
        days_later = int(whole_day) - int(word == "yesterday")
        return start_of_day(now, zone, days_later=days_later)
    if period := _RELATIVE_TIME.fullmatch(word):
        number, unit = period.groups()
        return _time_ago(option, int(number) * _UNIT_SECONDS[unit], now, zone, in_days=unit != "h")
    try:
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone)
        seconds = time.timestamp()
    except (ValueError, OverflowError):
        raise QuestionRefused(f"{option} must be {TIME_FORMATS}; {text!r} is none.") from None
    if not 0 <= seconds < _NEW_YEAR_9999:
        raise QuestionRefused(f"{option} must be a time from 1970 to 9998.")
    if whole_day and re.fullmatch(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}", text.strip()):
        return start_of_day(seconds, zone, days_later=1)
    return seconds


def parse_call_filters(
    scope: Scope, endpoint: str | None, tool: str | None, purpose: str | None, thinking: str | None
) -> Scope:
    """The scope, restricted to turns at an endpoint, with a tool or thinking, and to calls for a purpose."""
    return replace(
        scope,
        endpoint=None if endpoint is None else parse_choice("--endpoint", endpoint, ENDPOINTS),
        tool=tool,
        purpose=None if purpose is None else parse_choice("--purpose", purpose, PURPOSES),
        thinking=None if thinking is None else parse_choice("--thinking", thinking, THINKING_STATES) == "on",
    )


def parse_choice(option: str, text: str, choices: Sequence[Choice]) -> Choice:
    """The one of `choices` that `text` names."""
    for choice in choices:
        if choice == text:
            return choice
    raise QuestionRefused(f"{option} must be one of {', '.join(choices)}.")


def parse_turn_id(text: str) -> int:
    """The id of a turn as reports show it, with or without its #."""
    if not re.fullmatch(r"#?[0-9]{1,18}", text.strip()):
        raise QuestionRefused(
            f"{text!r} is no id of a turn; those are numbers. `canvasgram report --list turns` has some."
        )
    return int(text.strip().removeprefix("#"))


def _time_ago(option: str, seconds: int, now: float, zone: tzinfo, *, in_days: bool) -> float:
    """The time `seconds` ago; `in_days` back to its midnight, so that days and weeks are whole."""
    time = now - seconds
    if time < 0:
        raise QuestionRefused(f"{option} is before 1970.")
    if in_days:
        return start_of_day(time, zone)
    return time

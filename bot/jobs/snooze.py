"""The buttons of a reminder that was shown: when it comes again. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.domain import Button
from bot.jobs.times.rrules import load_zone, to_local_time, to_timestamp
from bot.translations.translator import Translator, translatable

TOMORROW = "tomorrow"
_SECONDS: Final[Mapping[str, int]] = {"10m": 600, "1h": 3600}
_LABELS: Final[Mapping[str, str]] = {
    "10m": translatable("10 min"),
    "1h": translatable("1 h"),
    TOMORROW: translatable("Tomorrow"),
}


def build_snooze_buttons(translate: Translator, item: int) -> tuple[Button, ...]:
    """Return the buttons below the reminder of this inbox item."""
    return tuple(Button(translate(label), f"snooze:{delay}:{item}") for delay, label in _LABELS.items())


def compute_snooze_due(delay: str, due_at: float, zone: str, now: float) -> float | None:
    """Return when a reminder that was due at `due_at` comes again; None: there is no such delay.

    Tomorrow it comes at the time of day at which it was due, in this zone (an IANA name).
    """
    if delay in _SECONDS:
        return now + _SECONDS[delay]
    if delay != TOMORROW:
        return None
    tz = load_zone(zone)
    day = to_local_time(now, tz).date() + timedelta(days=1)
    return to_timestamp(datetime.combine(day, to_local_time(due_at, tz).time()), tz)


def format_snooze(translate: Translator, next_due: float, zone: str, now: float) -> str:
    """Format the line that stands below the reminder until it comes again."""
    tz = load_zone(zone)
    local_due = to_local_time(next_due, tz)
    time = f"{local_due:%H:%M}"
    if local_due.date() > to_local_time(now, tz).date():
        return translate("Again tomorrow at {time}.", time=time)
    return translate("Again at {time}.", time=time)

"""Days and hours of a time zone in SQL: to which a stored moment belongs, summer time included."""

import time
from datetime import datetime
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, case, literal_column

from bot.db.portable_sql import WholePart
from bot.db.usage.usage_sums import HOUR_SECONDS, Scope
from bot.domain import DAY_SECONDS

FIRST_MOMENT = datetime.fromisoformat("2024-01-01T00:00:00+00:00").timestamp()  # nothing stored is older

_UNIT_SECONDS: Final = {"day": DAY_SECONDS, "hour": HOUR_SECONDS}


def build_time_column(
    moment: ColumnElement[float], scope: Scope, unit: Literal["day", "hour"]
) -> ColumnElement[int]:
    """The day or hour of `moment` (epoch seconds) by the scope's clock, counted since 1970.

    An hour that comes twice, when summer time ends, is one.
    """
    seconds = _UNIT_SECONDS[unit]
    if scope.zone == "UTC":
        return WholePart(moment / seconds)
    until = scope.until or time.time() + DAY_SECONDS
    *earlier, (_, last_offset) = list_offsets(ZoneInfo(scope.zone), scope.since or FIRST_MOMENT, until)
    shift: ColumnElement[int] = literal_column(str(last_offset))
    if earlier:
        whens: list[Any] = [
            (moment < literal_column(str(end)), literal_column(str(offset))) for end, offset in earlier
        ]
        shift = case(*whens, else_=shift)
    return WholePart((moment + shift) / seconds)


def list_offsets(zone: ZoneInfo, since: float, until: float) -> list[tuple[int, int]]:
    """The zone's seconds from UTC between two moments: each as (its end, seconds), the last to `until`."""
    offsets = []
    moment = int(since)
    end = max(int(until), moment)
    offset = _find_offset(zone, moment)
    while moment < end:
        following = min(moment + DAY_SECONDS, end)
        if _find_offset(zone, following) != offset:
            change = _find_change(zone, moment, following)
            offsets.append((change, offset))
            offset = _find_offset(zone, change)
        moment = following
    return [*offsets, (end, offset)]


def _find_change(zone: ZoneInfo, before: int, after: int) -> int:
    """The first moment of two, between which the zone's offset changes, that has the later offset."""
    offset = _find_offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _find_offset(zone, middle) == offset:
            before = middle
        else:
            after = middle
    return after


def _find_offset(zone: ZoneInfo, moment: int) -> int:
    shift = datetime.fromtimestamp(moment, zone).utcoffset()
    return 0 if shift is None else int(shift.total_seconds())

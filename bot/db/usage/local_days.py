"""Days of a time zone in SQL: which day a stored moment belongs to, summer time included."""

import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Integer, case, cast, literal_column

from bot.db.usage.usage_sums import DAY_SECONDS, Scope

FIRST_MOMENT = datetime.fromisoformat("2024-01-01T00:00:00+00:00").timestamp()  # nothing stored is older


def build_day_column(moment: ColumnElement[float], scope: Scope) -> ColumnElement[int]:
    """The day of `moment` (epoch seconds) in the scope's zone, as days since 1970."""
    if scope.zone == "UTC":
        return cast(moment / DAY_SECONDS, Integer)
    until = scope.until or time.time() + DAY_SECONDS
    *earlier, (_, last_offset) = list_offsets(ZoneInfo(scope.zone), scope.since or FIRST_MOMENT, until)
    shift: ColumnElement[int] = literal_column(str(last_offset))
    if earlier:
        whens: list[Any] = [
            (moment < literal_column(str(end)), literal_column(str(offset))) for end, offset in earlier
        ]
        shift = case(*whens, else_=shift)
    return cast((moment + shift) / DAY_SECONDS, Integer)


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

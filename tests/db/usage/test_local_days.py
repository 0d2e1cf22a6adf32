"""Days of a zone in SQL are the calendar's, over every change to and from summer time."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Float, column, select, values

from bot.db.engine import Database
from bot.db.usage.local_days import build_time_column, list_offsets
from bot.db.usage.usage_sums import Scope

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
END = datetime(2027, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Chatham"]
)
@pytest.mark.parametrize("is_bounded", [True, False])
async def test_a_moment_is_of_the_day_that_its_zone_has_then(database: Database, zone: str, is_bounded: bool):
    scope = Scope(BEGIN, END, zone=zone) if is_bounded else Scope(zone=zone)
    moments = [BEGIN + hours * 3600 + 59 for hours in range(0, 8760, 5)]
    one_by_one = [(moment,) for moment in moments]
    rows = values(column("value", Float)).data(one_by_one).cte("moments")
    async with database.read_transaction() as tx:
        result = await tx.execute(select(rows.c.value, build_time_column(rows.c.value, scope, "day")))
        days = {moment: date(1970, 1, 1) + timedelta(days=day) for moment, day in result}
    assert days == {moment: datetime.fromtimestamp(moment, ZoneInfo(zone)).date() for moment in moments}


def test_the_offsets_of_a_year_change_at_the_second_the_clocks_do():
    spring, autumn, winter = list_offsets(ZoneInfo("Europe/Berlin"), BEGIN, END)
    assert spring == (int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp()), 3600)
    assert autumn == (int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()), 7200)
    assert winter == (int(END), 3600)
    assert list_offsets(ZoneInfo("Asia/Tokyo"), END, BEGIN) == [(int(END), 32_400)]

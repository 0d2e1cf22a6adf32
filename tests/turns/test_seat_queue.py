"""How long somebody waits for a seat: what is estimated, from which calls, and how it reads."""

from typing import Any

import pytest
from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.db.usage.seat_calls import MAX_RECENT
from bot.llm.seats import SeatLimiter
from bot.translations.translator import ENGLISH
from bot.turns.seat_queue import MIN_CALLS, SeatTimes, estimate_wait, format_place

URL = "http://here/v1"
CALL = {
    "step": 1,
    "purpose": "turn",
    "endpoint": URL,
    "model": "m",
    "thinking": False,
    "tools_offered": 0,
    "created_at": 90.0,
    "seat_at": 100.0,
    "ended_at": 112.0,
    "outcome": "ok",
}


@pytest.mark.parametrize(
    ("seconds", "place", "seat_count", "wait"),
    [
        (12.0, 1, 1, 15),
        (12.0, 2, 1, 30),
        (12.0, 2, 4, 10),
        (0.1, 1, 8, 5),
        (20.0, 1, 1, 20),
        (41.0, 1, 1, 50),
        (51.0, 1, 1, 60),
        (60.0, 1, 1, 60),
        (61.0, 1, 1, 120),
        (12.0, 30, 1, 360),
        (0.0, 1, 1, 5),
    ],
)
def test_a_wait_is_the_median_times_the_place_by_seats_rounded_up(
    seconds: float, place: int, seat_count: int, wait: int
) -> None:
    assert estimate_wait([seconds] * MIN_CALLS, place, seat_count) == wait
    assert estimate_wait([seconds] * MIN_CALLS + [1e6] * (MIN_CALLS - 1), place, seat_count) == wait


def test_too_few_calls_tell_nothing() -> None:
    assert estimate_wait([12.0] * (MIN_CALLS - 1), 1, 1) is None
    assert estimate_wait([], 1, 1) is None


def test_a_place_is_shown_with_or_without_the_time() -> None:
    assert format_place(ENGLISH, 0, None) == "You're next in line."
    assert format_place(ENGLISH, 0, 20) == "You're next in line. It takes about 20 seconds."
    ahead = "2 requests are ahead of yours."
    assert format_place(ENGLISH, 2, 120) == f"{ahead} It takes about 2 minutes."


async def store_calls(database: Database, count: int, **fields: Any) -> None:
    async with database.transaction() as tx:
        await tx.execute(insert(model_calls), [CALL | fields] * count)


async def test_the_latest_calls_of_turns_at_the_endpoint_tell(database: Database) -> None:
    await store_calls(database, MAX_RECENT, ended_at=200.0)
    await store_calls(database, MAX_RECENT)
    for other in (
        {"purpose": "warmup"},
        {"endpoint": "http://there/v1"},
        {"outcome": "failed"},
        {"seat_at": None},
        {"outcome": None, "ended_at": None},
    ):
        await store_calls(database, MAX_RECENT, **{"ended_at": 900.0} | other)
    times = SeatTimes(database, URL, SeatLimiter(2))
    assert times.estimate_wait(1) is None
    await times.refresh()
    assert times.estimate_wait(1) == 15
    await store_calls(database, MAX_RECENT, ended_at=150.0)
    await times.refresh()  # not read again so soon
    assert times.estimate_wait(1) == 15

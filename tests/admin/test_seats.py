"""The picture of the seats has each call once, in lanes without overlap, and counts who waited."""

import random
import re
import time
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from bot.admin.screens.seats import LENGTHS
from bot.admin.seat_chart import assign_lanes, build_bars, count_waiting
from bot.db.engine import Database
from bot.db.usage.seat_calls import TimedCall
from tests.admin.test_turn import read_shapes
from tests.support.admin_page import open_admin_page
from tests.support.random_month import fill_month
from tests.support.usage_rows import UsageRows

UTC = ZoneInfo("UTC")


def build_calls(rng: random.Random, count: int) -> list[TimedCall]:
    calls = []
    for number in range(count):
        created_at = rng.uniform(900, 2_000)
        seat_at = None if rng.random() < 0.1 else created_at + rng.expovariate(0.5)
        ended_at = None if rng.random() < 0.05 else (seat_at or created_at) + rng.expovariate(0.2)
        calls.append(TimedCall(number, number, "turn", "main", created_at, seat_at, ended_at, None))
    return calls


def test_calls_of_a_lane_never_overlap_and_who_waits_is_counted():
    seed = 1
    print(f"seed {seed}")
    rng = random.Random(seed)
    calls = build_calls(rng, 300)
    spans = assign_lanes(calls, since=1_000, until=2_000)
    for lane in {span.lane for span in spans}:
        of_lane = sorted((span for span in spans if span.lane == lane), key=lambda span: span.begin)
        assert all(left.end <= right.begin for left, right in pairwise(of_lane))
    seated = [call for call in calls if call.seat_at is not None and call.seat_at < 2_000]
    expected = [call.id for call in seated if (call.ended_at or 2_000) > 1_000]
    assert sorted(span.call.id for span in spans) == sorted(expected)
    counts = count_waiting(calls, since=1_000, until=2_000)
    for moment, count in rng.sample(counts, 20):
        waiting = [
            call for call in calls if call.created_at <= moment < (call.seat_at or call.ended_at or 2_000)
        ]
        assert count == len(waiting)
    assert len(build_bars(spans, UTC)) <= 198
    for span in spans:
        bars = [bar for bar in build_bars(spans, UTC) if bar.row == span.lane]
        assert any(bar.begin <= span.begin and span.end <= bar.end for bar in bars)


async def test_the_seats_around_a_moment_are_shown(database: Database, database_url: str):
    month = await fill_month(database, 1, until=1_790_000_000.0)
    call = month.calls[len(month.calls) // 2]
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(call["seat_at"]))
    middle = int(call["seat_at"])
    rows = UsageRows(database)
    early: dict[str, Any] = {
        "created_at": middle - 20_000.0,  # it waited for hours
        "seat_at": middle - 200.0,
        "ended_at": middle + 30.0,
    }
    unwell = {**early, "purpose": "<script>", "outcome": "failed"}
    turnless = await rows.add_call(None, **unwell)
    async with open_admin_page(database, database_url) as page:
        for length, seconds in LENGTHS.items():
            since, until = middle - seconds / 2, middle + seconds / 2
            inside = [
                row
                for row in month.calls
                if row["created_at"] < until and (row["ended_at"] is None or row["ended_at"] > since)
                if row["created_at"] >= since - 86_400
            ]
            query = {"at": at, "length": length}
            exported = (await page.http.get("/admin/seats", params={**query, "export": "json"})).json()
            assert len(exported) == min(100, len(inside) + 1), turnless
            text = (await page.http.get("/admin/seats", params=query)).text
            (shapes,) = read_shapes(text)
            assert any(f"of turn {call['turn']}:" in title for title in shapes)
            assert f'href="/admin/turn/{call["turn"]}"' in text
            assert "<script>" not in text
            assert re.search(r"<dt>Calls</dt><dd>([0-9,]+)", text)[1] == str(len(inside) + 1)  # type: ignore[index]
        assert "unknown" in text.partition("Denoising steps a canvas")[2][:60]
        assert "The length must be one of" in await page.get_text("/admin/seats?length=9h", 400)
        for moment in ("noon", "25:00", "2026-02-30", "1960-01-01"):
            await page.get_text(f"/admin/seats?at={moment}", 400)
        await page.get_text("/admin/seats?at=2026-11-03T20:14&length=6h")

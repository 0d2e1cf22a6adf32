"""What the house's own jobs do: a damaged database is said, a cold endpoint warmed, counters read, usage
told.
"""

import sqlite3
from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest

from bot.db.engine import Database, file_of
from bot.errors import JobFailed
from bot.http_server import serve
from bot.maintenance.tasks import IDLE, PICTURE, Care, Counters, UsageSummary, WarmUp
from bot.sim.vllm.server import Endpoint
from bot.usage.reconcile import CountersAt, Reconciliation
from tests.support.usage_rows import NOON, Ledger


async def nobody(_subject: str, _text: str) -> None:
    raise AssertionError


async def test_a_damaged_database_fails_its_care_with_what_to_do(
    database: Database, database_url: str, tmp_path: Path
):
    file = file_of(database_url)
    await Care(database, file)()
    ruin = tmp_path / "ruin.db"
    with closing(sqlite3.connect(ruin)) as connection:
        connection.executescript("CREATE TABLE t (x); CREATE INDEX i ON t (x); INSERT INTO t VALUES (1)")
        connection.executescript(
            "PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage = 99 WHERE name = 'i'"
        )
    with pytest.raises(JobFailed, match=r"^The database is damaged \(.*canvasgram restore FILE$"):
        await Care(database, ruin)()


async def test_an_endpoint_is_warmed_only_after_idle_hours(database: Database):
    warmed: list[float] = []
    now = NOON + 1.0 + IDLE

    async def at(now: float) -> int:
        await WarmUp(database, "main", lambda: warmed.append(now), lambda: now)()
        return len(warmed)

    assert await at(now) == 1  # nobody has asked it yet
    await Ledger(database).call(None)
    assert await at(now - 1) == 1
    assert await at(now) == 2
    await Ledger(database).call(None, endpoint="fallback", created_at=now)
    assert await at(now + 1) == 3


async def test_counters_are_read_when_it_is_ordered(database: Database):
    endpoint = Endpoint()
    async with serve(endpoint.app) as url:
        await Counters(Reconciliation(database, CountersAt(f"{url}/v1"), nobody))()
    with pytest.raises(JobFailed, match="shows no counters"):
        await Counters(Reconciliation(database, CountersAt("http://127.0.0.1:9/v1"), nobody))()


async def test_the_summary_tells_of_yesterday_and_has_a_picture_if_there_is_anything_to_draw(
    database: Database,
):
    tells = UsageSummary(database, "daily", lambda: UTC, lambda: NOON + 86_400)
    assert (await tells()).buttons == ()
    ledger = Ledger(database)
    await ledger.call(await ledger.turn())
    await ledger.call(await ledger.turn(received_at=NOON + 86_400), created_at=NOON + 86_400)  # today's
    told = await tells()
    assert "Usage, Friday, 4 October (UTC)\nTurns: 1 of 1 person (the day before: 0)" in told.text
    assert (told.buttons, told.silent) == (((PICTURE,),), True)

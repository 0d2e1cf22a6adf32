"""What further system jobs do: warm a cold endpoint, look at the disk, read counters, summarise usage."""

from datetime import UTC
from pathlib import Path

import pytest

from bot.db.engine import Database
from bot.domain import Button
from bot.errors import JobFailed
from bot.http_server import serve
from bot.maintenance.system_jobs import (
    IDLE_SECONDS,
    MIN_FREE_BYTES,
    CacheWarmupTask,
    DiskCheck,
    ReadCountersTask,
    UsageSummaryTask,
)
from bot.translations.translator import ENGLISH, Translatable
from bot.usage.reconcile import CountersEndpoint, Reconciliation
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.usage_rows import NOON, UsageRows


async def refuse_notice(_subject: str, _text: Translatable) -> None:
    raise AssertionError


async def test_an_endpoint_is_warmed_only_after_idle_hours(database: Database):
    warmed: list[float] = []
    now = NOON + 1.0 + IDLE_SECONDS

    async def run_task_at(now: float) -> int:
        await CacheWarmupTask(database, "main", lambda: warmed.append(now), lambda: now)()
        return len(warmed)

    assert await run_task_at(now) == 1  # it was never called yet
    await UsageRows(database).add_call(None)
    assert await run_task_at(now - 1) == 1
    assert await run_task_at(now) == 2
    await UsageRows(database).add_call(None, endpoint="fallback", created_at=now)
    assert await run_task_at(now + 1) == 3


async def test_a_disk_with_less_than_a_gigabyte_free_is_reported():
    await DiskCheck(Path("/data"), lambda _: MIN_FREE_BYTES)()
    with pytest.raises(JobFailed, match="Less than 1 GB is free"):
        await DiskCheck(Path("/data"), lambda _: MIN_FREE_BYTES - 1)()


async def test_counters_are_read_on_request(database: Database):
    endpoint = ScriptedEndpoint()
    async with serve(endpoint.app) as url:
        await ReadCountersTask(Reconciliation(database, CountersEndpoint(f"{url}/v1"), refuse_notice))()
    unreachable = CountersEndpoint("http://127.0.0.1:9/v1")
    with pytest.raises(JobFailed, match="shows no counters"):
        await ReadCountersTask(Reconciliation(database, unreachable, refuse_notice))()


async def test_the_summary_tells_of_yesterday_and_has_a_picture_if_there_is_anything_to_draw(
    database: Database,
):
    summary_task = UsageSummaryTask(database, "daily", lambda: UTC, lambda: NOON + 86_400)
    assert (await summary_task())(ENGLISH).buttons == ()
    ledger = UsageRows(database)
    await ledger.add_call(await ledger.add_turn())
    await ledger.add_call(
        await ledger.add_turn(received_at=NOON + 86_400), created_at=NOON + 86_400
    )  # today's
    message = (await summary_task())(ENGLISH)
    assert "Usage, Fri 4 Oct 2024 (UTC)\nTurns: 1 (the day before: 0)\nPeople: 1" in message.text
    assert (message.buttons, message.silent) == (((Button("Chart", "picture:all"),),), True)

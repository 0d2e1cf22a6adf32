"""Unknown counts are in no sum, typed reads cost no canvas, and an interval of zero seconds is left out."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.maintenance.backup import BackupDirectory
from bot.db.tables import accounts, inbox, jobs, model_calls, outbox, turns
from bot.db.usage.ended import INTERVALS, EndedWatcher
from bot.monitoring.metrics import GatewayMetrics, GatewayState

NOT_READY = GatewayState(bool)
CALL = {"step": 1, "endpoint": "e", "model": "m", "thinking": False, "tools_offered": 0, "created_at": 1.0}
TURN = {"lane": "7", "person": 7, "conversation": 1, "tools": "[]", "thinking": False, "thinking_why": ""}


async def render_metrics(
    database: Database, *rows: tuple[Any, Mapping[str, Any]], state: GatewayState = NOT_READY
) -> dict[str, str]:
    """The series after these rows were written."""
    lookout = EndedWatcher(database)
    await lookout.begin()
    metrics = GatewayMetrics(lookout, {}, "clock".__eq__, "1.2.3", state)
    async with database.transaction() as tx:
        for table, row in rows:
            await tx.execute(insert(table).values(**row))
    page, _ = await metrics.render("")
    lines = [line.rpartition(" ") for line in page.decode().splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in lines}


async def test_what_a_call_did_not_tell_is_in_no_sum(database: Database):
    counted = {
        "purpose": "turn",
        "outcome": "ok",
        "prompt_tokens": 100,
        "completion_tokens": 257,
        "cached_tokens": 60,
    }
    series = await render_metrics(
        database,
        (model_calls, CALL | counted | {"seat_at": 2.0, "ended_at": 4.5, "reasoning_tokens": 7}),
        (model_calls, CALL | {"purpose": "turn", "outcome": "failed"}),
    )
    labels = 'gen_ai_operation_name="chat",gen_ai_request_model="m",gen_ai_token_type="%s"'
    tokens = f"gen_ai_client_token_usage_sum{{{labels}}}"
    assert (series[tokens % "input"], series[tokens % "output"]) == ("100.0", "257.0")
    assert series['canvasgram_canvases_estimated_total{purpose="turn"}'] == "2.0"
    assert series['canvasgram_model_calls_uncounted_total{purpose="turn"}'] == "1.0"
    assert series['canvasgram_cached_tokens_total{model="m"}'] == "60.0"
    assert series['canvasgram_reasoning_tokens_total{model="m"}'] == "7.0"
    assert series['canvasgram_model_calls_total{model="m",outcome="failed",purpose="turn"}'] == "1.0"
    seconds = 'gen_ai_client_operation_duration_seconds_sum{error_type="",gen_ai_operation_name="chat",%s}'
    assert series[seconds % 'gen_ai_request_model="m"'] == "2.5"


async def test_a_server_that_reports_no_cached_or_reasoning_tokens_has_no_series_of_zeros(database: Database):
    counted = {"purpose": "turn", "outcome": "ok", "prompt_tokens": 100, "completion_tokens": 257}
    series = await render_metrics(database, (model_calls, CALL | counted))
    assert not any(
        name.startswith(("canvasgram_cached_tokens", "canvasgram_reasoning_tokens")) for name in series
    )
    series = await render_metrics(database, (model_calls, CALL | counted | {"cached_tokens": 0}))
    assert series['canvasgram_cached_tokens_total{model="m"}'] == "0.0"


async def test_a_reading_costs_no_canvas(database: Database):
    series = await render_metrics(
        database, (model_calls, CALL | {"purpose": "decision", "outcome": "ok", "completion_tokens": 300})
    )
    assert not any(name.startswith("canvasgram_canvases_estimated_total") for name in series)


async def test_the_intervals_of_a_breakdown_are_observed_where_there_are_any(database: Database):
    turn = TURN | {"id": 1, "item": 1, "received_at": 1.0, "began_at": 1.0, "ended_at": 3.0}
    account = dict.fromkeys(INTERVALS, 0.0) | {
        "turn": 1,
        "settled_at": 4.0,
        "whole": 2.0,
        "first_canvas": 2.0,
    }
    series = await render_metrics(
        database, (turns, turn | {"state": "ended", "ending": "answered"}), (accounts, account)
    )
    counts = {name for name in series if name.startswith("canvasgram_turn_interval_seconds_count")}
    assert counts == {
        f'canvasgram_turn_interval_seconds_count{{interval="{interval}"}}'
        for interval in ("whole", "first_canvas")
    }
    assert series['canvasgram_turn_interval_seconds_sum{interval="whole"}'] == "2.0"
    assert series['canvasgram_build_info{version="1.2.3"}'] == "1.0"


async def test_what_an_owner_is_alerted_by_is_a_gauge(database: Database, tmp_path: Path):
    now = time.time()
    backup_directory = BackupDirectory(tmp_path / "gateway.db", tmp_path / "backups", 1)
    state = GatewayState(lambda: True, tmp_path, backup_directory)
    series = await render_metrics(database, state=state)
    assert (series["canvasgram_ready"], series["canvasgram_backup_age_seconds"]) == ("1.0", "+Inf")
    assert series["canvasgram_oldest_waiting_seconds"] == series["canvasgram_system_jobs_failed"] == "0.0"
    backup_directory.folder.mkdir()
    made_at = datetime.fromtimestamp(now - 7200, UTC)
    (backup_directory.folder / f"gateway-{made_at:%Y%m%dT%H%M%SZ}.db").touch()
    item = {"shape": "text", "lane": "7", "state": "new"}
    series = await render_metrics(
        database,
        (inbox, item | {"kind": "update", "received_at": now - 60}),
        (inbox, item | {"kind": "system", "received_at": now - 9000}),
        (outbox, {"lane": "7", "state": "new", "final": True, "made_at": now - 120, "body": "{}"}),
        (outbox, {"lane": "7", "state": "done", "final": True, "made_at": now - 9000, "body": "{}"}),
        (jobs, {"kind": "system", "name": "backup", "text": "", "made_at": 1.0, "failures": 2}),
        (jobs, {"kind": "system", "name": "sums", "text": "", "made_at": 1.0, "failures": 0}),
        state=state,
    )
    assert 7200 <= float(series["canvasgram_backup_age_seconds"]) < 7300
    assert 120 <= float(series["canvasgram_oldest_waiting_seconds"]) < 220
    assert series["canvasgram_system_jobs_failed"] == "1.0"
    assert float(series["canvasgram_disk_free_bytes"]) > 0
    assert not any("_created" in name for name in series)
    assert (await render_metrics(database))["canvasgram_ready"] == "0.0"

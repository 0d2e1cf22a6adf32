"""`bench postgresql` with real processes and a real server, in small.

Turns a second of several replicas are left to the command itself, for their start would take longest here.
"""

import asyncio
from pathlib import Path

import pytest

from bot.errors import QuestionRefused
from tests.bench.harness.figures import limit_to
from tests.bench.load.postgresql import PostgresOptions, provide_server, run_postgresql
from tests.support.postgresql import PostgresServer

KEYS = [
    *("sqlite_p50", "postgresql_p50", "slower_p50", "sqlite_p95", "postgresql_p95", "slower_p95"),
    *("sqlite_cpu", "postgresql_cpu", "cpu_factor", "server_cpu"),
    *("own_chat_p50", "foreign_p50", "extra_p50", "own_chat_p95", "foreign_p95", "extra_p95"),
]
LIMITS = {
    "slower_p50": limit_to(2.5),
    "cpu_factor": limit_to(1.3),
    "extra_p95": limit_to(15),
}


@pytest.mark.usefixtures("forked_bots")
async def test_both_databases_and_both_kinds_of_chats_are_measured(
    tmp_path: Path, postgresql_server: PostgresServer
):
    with postgresql_server.open_bare_database() as url:
        options = PostgresOptions(
            messages=2, only_sections=("pairs", "foreign"), database_url=url, folder=tmp_path
        )
        report = await run_postgresql(options, print, asyncio.Event())
        with pytest.raises(QuestionRefused, match="name an empty one"):
            await run_postgresql(options, print, asyncio.Event())
    rows = {figure.row.key: figure.row for figure in report.figures}
    assert list(rows) == KEYS
    assert {key: row.limit for key, row in rows.items() if row.limit} == LIMITS
    timed = [key for key in KEYS if "p50" in key or "p95" in key]
    assert all(rows[key].values["ours"] for key in timed)
    assert rows["server_cpu"].values["ours"] is None, "the process of a given server is not known"
    conditions = dict(report.conditions)
    assert conditions["server"].endswith(
        "fsync off, synchronous_commit on, shared_buffers 32MB, over a socket"
    )


async def test_a_server_of_its_own_syncs_and_tells_its_processor_time():
    async with provide_server(PostgresOptions()) as server:
        assert server.read_cpu_seconds() is not None
    assert server.process is not None
    assert not server.process.folder.exists()


async def test_an_unknown_section_is_named():
    with pytest.raises(QuestionRefused, match="There is no section speed; there are pairs, foreign"):
        await run_postgresql(PostgresOptions(only_sections=("speed",)), print, asyncio.Event())

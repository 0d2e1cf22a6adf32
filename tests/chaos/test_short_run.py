"""A short chaos run: kills, faults, and a database that fails break no promise."""

import asyncio
from pathlib import Path

from bot.terminal import write_output
from tests.chaos.journal import Journal
from tests.chaos.judge import judge
from tests.chaos.output import format_run
from tests.chaos.run import run_chaos
from tests.chaos.state import ChaosOptions
from tests.kill.gateway import ForkServer
from tests.support.postgresql import PostgresServer

SHORT = ChaosOptions(seed=1, messages=40, chats=8, kills=6)
SHORT_WITH_REPLICAS = ChaosOptions(seed=2, messages=36, chats=8, kills=4, replicas=2)


def test_a_short_run_breaks_no_promise(tmp_path: Path, fork_server: ForkServer) -> None:
    journal = make_run(SHORT, tmp_path, fork_server)
    assert {"database held", "disk full"} <= list_disturbances(journal)


def test_a_short_run_with_replicas_breaks_no_promise(
    tmp_path: Path, fork_server: ForkServer, postgresql_server: PostgresServer
) -> None:
    journal = make_run(SHORT_WITH_REPLICAS, tmp_path, fork_server, postgresql_server)
    assert "server restarted" in list_disturbances(journal)


def make_run(
    options: ChaosOptions, folder: Path, fork_server: ForkServer, server: PostgresServer | None = None
) -> Journal:
    """Make a run, and assert that it breaks no promise."""
    run, journal = asyncio.run(run_chaos(options, folder, fork_server, server))
    anomalies = judge(journal)
    write_output(format_run(run, journal, anomalies, ()))  # pytest shows it if the test fails
    assert [str(anomaly) for anomaly in anomalies if anomaly.is_breach] == []
    assert len(journal.requests) >= options.messages
    assert run.kills >= options.kills
    return journal


def list_disturbances(journal: Journal) -> set[str]:
    return {disturbance.name.split(" for ")[0] for disturbance in journal.disturbances}

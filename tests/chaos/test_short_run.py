"""A short chaos run: kills, faults, a held database and a full disk break no promise."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.chaos.judge import judge
from tests.chaos.output import format_run
from tests.chaos.run import run_chaos
from tests.chaos.state import ChaosOptions
from tests.kill.gateway import ForkServer

SHORT = ChaosOptions(seed=1, messages=70, chats=8, kills=8)


@pytest.mark.timeout(600)
def test_a_short_run_breaks_no_promise(tmp_path: Path) -> None:
    fork_server = ForkServer()
    try:
        run, journal = asyncio.run(run_chaos(SHORT, tmp_path, fork_server))
    finally:
        fork_server.close()
    anomalies = judge(journal)
    sys.stdout.write("\n".join(format_run(run, journal, anomalies, ())))  # pytest shows it if the test fails
    assert [str(anomaly) for anomaly in anomalies if anomaly.is_breach] == []
    assert len(journal.requests) >= SHORT.messages
    assert run.kills >= SHORT.kills
    assert {"database held", "disk full"} <= {
        disturbance.name.split(" for ")[0] for disturbance in journal.disturbances
    }

"""Makes a chaos run, prints what was odd in it, and fails if a promise was broken."""

import argparse
import asyncio
import contextlib
import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bot.terminal import write_output
from tests.bench.harness import disk
from tests.chaos.judge import judge
from tests.chaos.output import format_run
from tests.chaos.run import run_chaos
from tests.chaos.state import ChaosOptions, ChaosRun
from tests.kill.gateway import ROOT, ForkServer
from tests.support.machine import describe_machine
from tests.support.postgresql import run_server


def main() -> int:
    options = _parse_options()
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # calls that a kill cuts are no finding
    folder = Path(tempfile.mkdtemp(prefix="canvasgram-chaos-"))
    with contextlib.ExitStack() as stack:
        fork_server = ForkServer()
        stack.callback(fork_server.close)
        server = stack.enter_context(run_server(autovacuum=True)) if options.replicas else None
        run, journal = asyncio.run(run_chaos(options, folder, fork_server, server))
    anomalies = judge(journal)
    write_output(format_run(run, journal, anomalies, [*_describe_conditions(run, folder)]))
    if any(anomaly.is_breach for anomaly in anomalies):
        left = "tables and the logs" if options.replicas else "database and the log"
        (folder / "disturbances.txt").write_text("\n".join(map(str, journal.disturbances)))
        print(f"\nA promise was broken; the {left} are in {folder}.")
        return 1
    shutil.rmtree(folder)
    return 0


def _parse_options() -> ChaosOptions:
    defaults = ChaosOptions()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=defaults.seed, help="draws who writes what, and what fails"
    )
    parser.add_argument("--messages", type=int, default=defaults.messages)
    parser.add_argument("--chats", type=int, default=defaults.chats)
    parser.add_argument("--kills", type=int, default=defaults.kills, help="with kill -9, at least")
    parser.add_argument(
        "--minutes", type=float, default=defaults.minutes, help="after which nothing more is written"
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=defaults.replicas,
        help="gateways on one PostgreSQL database; 0: one gateway on a file of SQLite",
    )
    return ChaosOptions(**vars(parser.parse_args()))


def _describe_conditions(run: ChaosRun, folder: Path) -> Iterator[tuple[str, str]]:
    yield "seed", f"{run.options.seed} (what is written and done; when it happens differs from run to run)"
    yield "duration", f"{run.seconds / 60:.1f} min"
    yield "commit", _read_commit()
    yield from describe_machine()
    if run.options.replicas:
        yield "database", "PostgreSQL, which syncs nothing"
    else:
        yield from disk.describe_database(folder)


def _read_commit() -> str:
    command = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())

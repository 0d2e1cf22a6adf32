"""Times how fast replicas take over from one that is killed: `python -m tests.replicas.takeover`.

In each round one chat is being answered, and the replica that has it is killed with kill -9. Measured is the
time to the next model call; where that replica polled Telegram, also to the next poll.
"""

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bot.bench.harness import machine
from bot.bench.harness.statistics import percentile
from bot.domain import SHARE_COUNT
from bot.tables import Line, TextTable
from bot.terminal import write_output
from tests.kill.gateway import PATIENCE, ForkServer
from tests.support.machine import describe_machine
from tests.support.postgresql import run_server
from tests.support.replicas import CHATS, Replicas, run_replicas

REPLICA_COUNT = 2


@dataclass
class Takeovers:
    """What was measured, in seconds."""

    model_calls: list[float] = field(default_factory=list)
    polls: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.replicas.takeover", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    kills = parser.parse_args().kills
    with contextlib.ExitStack() as stack:
        fork_server = ForkServer()
        stack.callback(fork_server.close)
        server = stack.enter_context(run_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def measure() -> Takeovers:
            takeovers = Takeovers()
            async with run_replicas(folder, server, fork_server, REPLICA_COUNT) as replicas:
                replicas.send_to_all("hello")
                await replicas.wait_for_answers(1)
                for number in range(kills):
                    await _kill_once(replicas, CHATS[number % len(CHATS)], takeovers)
            return takeovers

        takeovers = asyncio.run(measure())
        conditions = [
            ("replicas", f"{REPLICA_COUNT} on one PostgreSQL server, which syncs nothing"),
            ("load", machine.describe_load()),
            *describe_machine(),
        ]
    write_output(_format_takeovers(takeovers))
    write_output([TextTable("", (), conditions, text_columns=2)])


async def _kill_once(replicas: Replicas, chat: int, takeovers: Takeovers) -> None:
    """Kill the replica that answers this chat, and let everything be as before."""
    killed = replicas.find_holder(chat)
    is_leader = killed == replicas.leader
    answer_count = len(replicas.texts(chat))
    await replicas.hold_answer(chat)
    request_count = len(replicas.endpoint.requests)
    call_count = len(replicas.calls)
    killed_at = time.monotonic()
    await replicas.processes[killed].kill()
    await replicas.endpoint.wait_until(lambda: len(replicas.endpoint.requests) > request_count)
    takeovers.model_calls.append(replicas.endpoint.requests[request_count].received_at - killed_at)
    if is_leader:
        await replicas.api.wait_until(lambda: replicas.list_polls(1 - killed, call_count), PATIENCE)
        takeovers.polls.append(replicas.list_polls(1 - killed, call_count)[0] - killed_at)
    replicas.endpoint.release()
    await replicas.api.wait_until(lambda: len(replicas.texts(chat)) > answer_count, PATIENCE)
    await replicas.wait_for_shares(1 - killed, SHARE_COUNT)
    await replicas.processes[killed].spawn()
    await replicas.wait_for_parts()


def _format_takeovers(takeovers: Takeovers) -> Iterator[Line]:
    rows = [
        (name, str(len(seconds)), *(_format_percentile(seconds, part) for part in (0.5, 0.95, 1.0)))
        for name, seconds in (("next model call", takeovers.model_calls), ("next poll", takeovers.polls))
        if seconds
    ]
    yield TextTable("", ("after kill -9", "kills", "p50", "p95", "max"), rows)
    yield ""


def _format_percentile(seconds: list[float], part: float) -> str:
    return f"{1000 * (percentile(seconds, part) or 0.0):.0f} ms"


if __name__ == "__main__":
    main()

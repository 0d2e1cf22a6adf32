"""Several gateways on one PostgreSQL database: chats of one that does not poll, and turns a second."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

from bot.bench.harness.statistics import percentile
from bot.db.shares import LiveReplica
from bot.domain import SHARE_COUNT, Lane
from bot.sim.vllm.server import Timing
from tests.bench.harness.figures import FigureRow, limit_to, require_at_least
from tests.bench.harness.stage import FIRST_CHAT_ID, AnswerTimes, Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load import throughput
from tests.bench.load.latency import CHATS, PAUSE_SECONDS, SLICE_MESSAGES
from tests.support.endpoint.server import ScriptedEndpoint

MAX_EXTRA_MILLISECONDS = 15.0
MIN_GAIN = 1.5
FIRST_QUESTION = 600_000
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1


async def measure_foreign(url: str, folder: Path, messages: int) -> list[FigureRow]:
    """Rows of own time in chats of the replica that polls, and in chats of the other one, in turns."""
    settings = {"DATABASE_URL": url}
    endpoint = ScriptedEndpoint(brain=ProseBrain())
    times: dict[bool, list[AnswerTimes]] = {True: [], False: []}
    async with open_stage("ours", folder / "foreign", endpoint, settings=settings) as stage:
        leader = await _start_replicas(stage, url, 2)
        chats = {
            is_own: itertools.cycle(_list_chats(leader, is_held=is_own)[:messages])
            for is_own in (True, False)
        }
        numbers = itertools.count(FIRST_QUESTION)
        for is_own in (True, False):
            for chat in itertools.islice(chats[is_own], min(CHATS, messages)):
                await stage.ask(next(numbers), chat)
        while len(times[True]) < messages:
            for is_own in (True, False):
                for chat in itertools.islice(chats[is_own], SLICE_MESSAGES):
                    times[is_own].append(await stage.ask(next(numbers), chat))
                    await asyncio.sleep(PAUSE_SECONDS)
    return build_rows(times[True], times[False])


def _list_chats(replica: LiveReplica, *, is_held: bool) -> list[int]:
    """The chats that this replica holds, or those that it does not."""
    return [chat for chat in range(CHATS) if (Lane(FIRST_CHAT_ID + chat).share in replica.shares) is is_held]


def build_rows(own: list[AnswerTimes], foreign: list[AnswerTimes]) -> list[FigureRow]:
    """The figures of both kinds of chats."""
    rows: list[FigureRow] = []
    for name, fraction, limit in (("p50", 0.5, None), ("p95", 0.95, limit_to(MAX_EXTRA_MILLISECONDS))):
        own_value = _find_percentile(own, fraction)
        foreign_value = _find_percentile(foreign, fraction)
        rows += [
            FigureRow(f"own_chat_{name}", f"chat of the polling replica: {name}", "ms", {"ours": own_value}),
            FigureRow(f"foreign_{name}", f"chat of the other replica: {name}", "ms", {"ours": foreign_value}),
            FigureRow(f"extra_{name}", "more than that", "ms", {"ours": foreign_value - own_value}, limit),
        ]
    return rows


def _find_percentile(times: list[AnswerTimes], fraction: float) -> float:
    return 1000 * (percentile([answer.own_seconds for answer in times], fraction) or 0.0)


async def measure_replicas(
    url: str, folder: Path, seconds: float, rounds: int, replica_count: int
) -> list[FigureRow]:
    """Rows of turns a second with one process and with several, one of each for each round."""
    rows: list[FigureRow] = []
    for round_number in range(rounds):
        turns: dict[int, float] = {}
        for count in (1, replica_count) if round_number % 2 == 0 else (replica_count, 1):
            async with _open_replicas(url, folder, count) as stage:
                turns[count] = (await throughput.count_turns(stage, seconds))[0] / seconds
        rows += [
            FigureRow("one_replica", f"{throughput.CHATS} chats: turns a second", "", {"ours": turns[1]}),
            FigureRow("several_replicas", f"{replica_count} replicas", "", {"ours": turns[replica_count]}),
            FigureRow(
                "replica_gain",
                "of one replica",
                "x",
                {"ours": turns[replica_count] / turns[1] if turns[1] else None},
                require_at_least(MIN_GAIN),
                digits=2,
            ),
        ]
    return rows


@contextlib.asynccontextmanager
async def _open_replicas(url: str, folder: Path, count: int) -> AsyncIterator[Stage]:
    timing = Timing.canvas(throughput.CANVAS_SECONDS)
    endpoint = ScriptedEndpoint(timing=timing, seats=throughput.CHATS, brain=ProseBrain())
    settings = {"DATABASE_URL": url, "MODEL_SEATS": str(throughput.CHATS)}
    async with open_stage(
        "ours", folder / "replicas", endpoint, settings=settings, has_rate_limits=False
    ) as stage:
        await _start_replicas(stage, url, count)
        yield stage


async def _start_replicas(stage: Stage, url: str, count: int) -> LiveReplica:
    """Start so many gateways; returns the one that leads, once each has its part of the chats."""
    from bot.db.postgresql.session_locks import open_session_locks  # its driver may not be installed

    await stage.start()
    for _ in range(count - 1):
        await stage.start_replica()
    async with asyncio.timeout(PATIENCE_SECONDS), open_session_locks(url) as locks:
        while True:
            live = (await locks.list_holders()).list_replicas()
            leaders = [replica for replica in live if replica.is_leader]
            if leaders and len(live) == count and _is_divided(live):
                return leaders[0]
            await asyncio.sleep(LOOK_SECONDS)


def _is_divided(live: tuple[LiveReplica, ...]) -> bool:
    return sum(len(replica.shares) for replica in live) == SHARE_COUNT and min(
        len(replica.shares) for replica in live
    ) >= SHARE_COUNT // len(live)

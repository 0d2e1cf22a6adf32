"""`bench routing`: eight chats on two simulated servers behind a real vllm-router, and one server that dies.

Owns the router's process and the servers. The router is a program of its own, which has to be installed.
"""

import asyncio
import contextlib
import logging
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.endpoint.direct import run_until_stopped
from bot.bench.harness import machine
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.statistics import median
from bot.http_server import serve
from bot.llm import server_api
from bot.sim.vllm.server import ChatRequest, Timing
from tests.bench.harness import disk, workload
from tests.bench.harness.figures import FigureRow, LoadReport, limit_to, merge_runs, require_answer
from tests.bench.harness.stage import FIRST_CHAT_ID, Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.machine import describe_machine

PrintLine = Callable[[str], None]

ROUTER_PROGRAM = "vllm-router"
ROUTER_FLAGS = (
    *("--disable-retries", "--log-level", "error"),
    *("--health-check-interval-secs", "2", "--health-failure-threshold", "1"),
)
STICKY_POLICY = "sticky_least_loaded"
DEFAULT_POLICY = "cache_aware"  # the router's
MAX_LOOKS_AT_START = 200  # a tenth of a second apart, until the router is ready

CHATS = 8
SEATS = 4  # of each server
CANVAS_SECONDS = 1.0
ROUNDS = 4  # in which every chat writes once
MAX_WALL_CANVASES = 1.3
REST_SECONDS = 1.0  # before a round: every rate budget of the gateway is full again
FIRST_LONG_NUMBER = 10**6  # questions from here on are answered in three canvases

_SHORT_ANSWER = ProseBrain(answer_tokens=150)
_LONG_ANSWER = ProseBrain(answer_tokens=650)

CONDITIONS = (
    ("servers", f"2, simulated, {SEATS} seats each, {CANVAS_SECONDS:g} s a canvas; the router is real"),
    ("router", f"{ROUTER_PROGRAM} {' '.join(ROUTER_FLAGS)}"),
    ("chats", f"{CHATS}, all write at the same moment, {ROUNDS} times: the median"),
    (
        "death",
        "each chat is sent three canvases; after the first a server takes no more connections, and cuts "
        "those it has within a second",
    ),
)


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """What to measure: the policies of the router, the first one with a server that dies at the end."""

    policies: tuple[str, ...] = (STICKY_POLICY, DEFAULT_POLICY)
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class RoutedServers:
    """Two servers behind a router; the second one dies when `second_server` is closed."""

    router_url: str
    servers: tuple[ScriptedEndpoint, ScriptedEndpoint]
    second_server: contextlib.AsyncExitStack


async def run_routing(options: RoutingOptions, print_line: PrintLine, stop: asyncio.Event) -> LoadReport:
    """Measure until `stop` is set. Raises BenchFailed, also where the router is not installed."""
    if shutil.which(ROUTER_PROGRAM) is None:
        raise BenchFailed(
            f"{ROUTER_PROGRAM} is not installed. With uv: "
            f"`uv run --with {ROUTER_PROGRAM} python -m tests.bench routing`."
        )
    rows: list[FigureRow] = []
    with tempfile.TemporaryDirectory(prefix="canvasgram-routing-", dir=options.folder) as temporary_folder:
        folder = Path(temporary_folder)
        conditions = [*describe_machine(), *disk.describe_database(folder)]
        conditions.append(("load before", machine.describe_load()))
        is_complete = await run_until_stopped(stop, _measure_policies(options, folder, print_line, rows))
    conditions += [("load after", machine.describe_load()), *CONDITIONS]
    return LoadReport(merge_runs(rows), tuple(conditions), is_complete)


async def _measure_policies(
    options: RoutingOptions, folder: Path, print_line: PrintLine, rows: list[FigureRow]
) -> None:
    for policy in options.policies:
        print_line(f"measuring: {policy}")
        is_first = policy == options.policies[0]
        async with serve_routed(policy) as routed:
            settings = {"MODEL_URL": f"{routed.router_url}/v1", "MODEL_SEATS": str(2 * SEATS)}
            # The stage's own endpoint gets no calls.
            async with open_stage("ours", folder / policy, ScriptedEndpoint(), settings=settings) as stage:
                await stage.start()
                rows += await _measure_rounds(stage, routed, policy, has_limits=is_first)
                if is_first:
                    rows += await _measure_death(stage, routed)


@contextlib.asynccontextmanager
async def serve_routed(policy: str) -> AsyncIterator[RoutedServers]:
    """Two servers and a router that is ready."""
    timing = Timing.canvas(CANVAS_SECONDS)
    first = ScriptedEndpoint(timing=timing, seats=SEATS, brain=_answer)
    second = ScriptedEndpoint(timing=timing, seats=SEATS, brain=_answer)
    async with serve(first.app) as first_url, contextlib.AsyncExitStack() as second_server:
        second_url = await second_server.enter_async_context(serve(second.app))
        async with _run_router(policy, (first_url, second_url)) as router_url:
            yield RoutedServers(router_url, (first, second), second_server)


@contextlib.asynccontextmanager
async def _run_router(policy: str, server_urls: Sequence[str]) -> AsyncIterator[str]:
    port, metrics_port = _find_free_ports(2)
    command = (
        *(ROUTER_PROGRAM, "--worker-urls", *server_urls, "--policy", policy, *ROUTER_FLAGS),
        *("--port", str(port), "--prometheus-port", str(metrics_port)),
    )
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        await _wait_until_ready(url)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _wait_until_ready(url: str) -> None:
    for _ in range(MAX_LOOKS_AT_START):
        if await server_api.check_health(url):
            return
        await asyncio.sleep(0.1)
    raise BenchFailed(f"{ROUTER_PROGRAM} was started and does not answer")


def _find_free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


async def _measure_rounds(
    stage: Stage, routed: RoutedServers, policy: str, *, has_limits: bool
) -> list[FigureRow]:
    """All chats write at once, several times."""
    walls: list[float] = []
    for round_number in range(ROUNDS):
        await asyncio.sleep(REST_SECONDS)
        first_number = round_number * CHATS
        walls.append(await _ask_together(stage, range(first_number, first_number + CHATS)))
    sessions = [{record.headers["x-session-id"] for record in server.requests} for server in routed.servers]
    wall = median(walls) or 0.0
    fewer_calls = min(len(server.requests) for server in routed.servers)
    return [
        FigureRow(
            f"{policy}_wall",
            f"{policy}: {CHATS} chats at once, of one canvas",
            "x",
            {"ours": wall / CANVAS_SECONDS},
            limit_to(MAX_WALL_CANVASES) if has_limits else None,
            digits=2,
        ),
        FigureRow(
            f"{policy}_calls",
            f"calls of {CHATS * ROUNDS} at the server that got fewer",
            "",
            {"ours": fewer_calls},
            digits=0,
        ),
        FigureRow(
            f"{policy}_stays",
            f"all {ROUNDS} turns of a chat at one server",
            "",
            {"ours": sessions[0].isdisjoint(sessions[1])},
            require_answer(value=True) if has_limits else None,
        ),
    ]


async def _measure_death(stage: Stage, routed: RoutedServers) -> list[FigureRow]:
    """The second server ends in the middle of its answers; then all chats write once more."""
    second = routed.servers[1]
    calls_before = len(second.requests)
    numbers = range(FIRST_LONG_NUMBER, FIRST_LONG_NUMBER + CHATS)
    await asyncio.sleep(REST_SECONDS)
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(_ask_together(stage, numbers))
        await second.wait_until(
            lambda: any(record.first_canvas_at for record in second.requests[calls_before:])
        )
        logging.getLogger("uvicorn.error").disabled = True  # a traceback for each reply that is cut
        await routed.second_server.aclose()
    later_numbers = range(ROUNDS * CHATS, (ROUNDS + 1) * CHATS)
    later_wall = await _ask_together(stage, later_numbers)
    cut = sum(record.finish_reason is None for record in second.requests[calls_before:])
    copies = [_count_answers(stage, chat, number) for chat, number in enumerate(numbers)]
    return [
        FigureRow("death_cut", "a server dies: replies that it broke off", "", {"ours": cut}, digits=0),
        FigureRow(
            "death_answered",
            "every chat got its answer, once",
            "",
            {"ours": copies == [1] * CHATS},
            require_answer(value=True),
        ),
        FigureRow("death_wall", "until all had it, of three canvases each", "s", {"ours": asking.result()}),
        FigureRow("death_later", "the next round, on the server that is left", "s", {"ours": later_wall}),
    ]


async def _ask_together(stage: Stage, numbers: Sequence[int]) -> float:
    """Seconds from the first update leaving Telegram to the last whole answer arriving there."""
    updates = [stage.write_question(number, chat) for chat, number in enumerate(numbers)]
    for number in numbers:
        await stage.wait_for_answer(number)
    times = [
        stage.read_times(update, number, chat)
        for (chat, number), update in zip(enumerate(numbers), updates, strict=True)
    ]
    return max(time.answered_at for time in times) - min(time.fetched_at for time in times)


def _count_answers(stage: Stage, chat_index: int, number: int) -> int:
    messages = stage.api.chat(FIRST_CHAT_ID + chat_index).bot_messages
    return sum(message.text.endswith(workload.reply_ending(number)) for message in messages)


def _answer(request: ChatRequest) -> str:
    if workload.question_number(request) >= FIRST_LONG_NUMBER:
        return _LONG_ANSWER(request)
    return _SHORT_ANSWER(request)

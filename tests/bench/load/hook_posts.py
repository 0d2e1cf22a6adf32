"""Own time of a reply while one program posts to a hook 200 times a second, beside own time alone.

The program is a process of its own: `python -m tests.bench.load.hook_posts URL SECRET`. All but what the hook
takes a minute is refused.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from bot.bench.harness.gateway_process import ADMIN_ID, SOURCE_FOLDER
from bot.bench.harness.statistics import median, percentile
from bot.db.engine import open_database
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook
from bot.domain import Lane
from tests.bench.harness.figures import BotName, FigureRow, limit_to
from tests.bench.harness.stage import open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load.latency import SLICE_MESSAGES, ask_in_a_row
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.free_ports import find_free_port

POSTS_A_SECOND = 200
POSTS_A_MINUTE = 20  # that the hook takes
MAX_SLOWDOWN = 1.2
FIRST_NUMBER = 500_000  # of questions: none is asked twice


async def measure_posts(folder: Path, messages: int) -> list[FigureRow]:
    """Rows of own time with and without posts, by turns, over `messages` each."""
    port = find_free_port()
    endpoint = ScriptedEndpoint(brain=ProseBrain())
    async with open_stage("ours", folder, endpoint, settings={"HTTP_PORT": str(port)}) as stage:
        await stage.start()
        stage.api.person(ADMIN_ID).send("/id")  # a bot may not write first
        await ask_in_a_row(stage, range(FIRST_NUMBER, FIRST_NUMBER + SLICE_MESSAGES))
        secret = await _add_hook(f"sqlite+aiosqlite:///{folder / 'ours' / 'canvasgram.db'}")
        alone: list[float] = []
        beside: list[float] = []
        ratios: list[float] = []
        number = FIRST_NUMBER + SLICE_MESSAGES
        for _ in range(max(1, messages // SLICE_MESSAGES)):
            quiet = [times.own_seconds for times in await ask_in_a_row(stage, _take(number))]
            async with _post_all_the_time(f"http://127.0.0.1:{port}/hooks/bench", secret):
                busy = [
                    times.own_seconds for times in await ask_in_a_row(stage, _take(number + SLICE_MESSAGES))
                ]
            number += 2 * SLICE_MESSAGES
            alone += quiet
            beside += busy
            ratios.append(sum(busy) / sum(quiet))
    slowdown: dict[BotName, float | None] = {"ours": median(ratios)}
    limit = limit_to(MAX_SLOWDOWN)
    return [
        FigureRow("posts_alone", "own time a reply, p50, alone", "ms", {"ours": _to_p50(alone)}),
        FigureRow("posts_beside", f"beside {POSTS_A_SECOND} posts/s", "ms", {"ours": _to_p50(beside)}),
        FigureRow("posts_ratio", "of alone, the median pair", "×", slowdown, limit, digits=2),
    ]


def _take(first: int) -> range:
    return range(first, first + SLICE_MESSAGES)


def _to_p50(seconds: list[float]) -> float | None:
    value = percentile(seconds, 0.50)
    return None if value is None else 1000 * value


async def _add_hook(url: str) -> str:
    async with open_database(url) as database, database.transaction() as tx:
        new = Hook(0, "bench", ADMIN_ID, Lane(ADMIN_ID), None, POSTS_A_MINUTE, 4_096, time.time())
        return await hooks.add(tx, new) or ""


@contextlib.asynccontextmanager
async def _post_all_the_time(url: str, secret: str) -> AsyncIterator[None]:
    """Post from another process while the block runs, once that has begun."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.load.hook_posts", url, secret),
        cwd=SOURCE_FOLDER,
        env={"PATH": os.defpath, "PYTHONPATH": str(SOURCE_FOLDER)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    try:
        await program.stdout.readline()
        yield
    finally:
        program.terminate()
        await program.wait()


async def _post_at_pace(url: str, secret: str) -> None:
    """Post over one connection, at its pace whatever the answers are, until the process is ended."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    request = (
        f"POST {address.path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {secret}\r\n"
        "content-length: 5\r\n\r\nHello"
    ).encode()
    began_at = time.monotonic()
    count = 0
    while True:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(_read_length(head))
        count += 1
        if count == 1:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
        await asyncio.sleep(max(0.0, began_at + count / POSTS_A_SECOND - time.monotonic()))


def _read_length(head: bytes) -> int:
    lines = head.decode().lower().split("\r\n")
    return int(next(line for line in lines if line.startswith("content-length:")).partition(":")[2])


if __name__ == "__main__":
    asyncio.run(_post_at_pace(sys.argv[1], sys.argv[2]))

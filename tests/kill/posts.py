"""Posts to hooks while the gateway is killed: each accepted one is done once, and none twice.

`python -m tests.kill.posts --posts 10000 --kills 20` does what test_hooks.py does with fewer, and prints it.
"""

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from bot.db.engine import open_database
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook
from bot.domain import Lane
from tests.kill.environment import ANN, UNSURE, KillEnvironment, open_environment
from tests.kill.gateway import ForkServer
from tests.support.free_ports import find_free_port

CLIENTS = 4
TASK_EVERY = 20  # of so many posts one is a task
RETRY_SECONDS = 0.1
_DONE = re.compile(r"post (\d+)$")


@dataclass
class PostingProgram:
    """Posts numbers to two hooks of Ann, each until it is accepted; `answers` counts what it was told."""

    environment: KillEnvironment
    port: int
    secrets: dict[str, str]
    answers: Counter[int]
    accepted: int = 0

    async def post_all(self, count: int) -> None:
        """Post so many, several at a time."""
        numbers = iter(range(count))
        address = f"http://127.0.0.1:{self.port}"
        async with httpx.AsyncClient(base_url=address, timeout=30) as http, asyncio.TaskGroup() as tasks:
            for _ in range(CLIENTS):
                tasks.create_task(self._post_some(http, numbers))

    async def _post_some(self, http: httpx.AsyncClient, numbers: Iterator[int]) -> None:
        for number in numbers:
            while not await self._post(http, number):  # noqa: ASYNC110  # as programs do
                await asyncio.sleep(RETRY_SECONDS)
            self.accepted += 1

    async def _post(self, http: httpx.AsyncClient, number: int) -> bool:
        """Post a number once; whether it was accepted."""
        name = "task" if number % TASK_EVERY == 0 else "bell"
        body = f"@@say:post {number}@@" if name == "task" else f"post {number}"
        headers = {"authorization": f"Bearer {self.secrets[name]}", "idempotency-key": str(number)}
        try:
            answer = await http.post(f"/hooks/{name}", content=body, headers=headers)
        except httpx.TransportError:
            self.answers[0] += 1  # it is not known whether it was stored
            return False
        self.answers[answer.status_code] += 1
        return answer.status_code == 202


async def add_hooks(url: str) -> dict[str, str]:
    """Make the hooks; their secrets by name."""
    secrets = dict[str, str]()
    async with open_database(url) as database, database.transaction() as tx:
        for name, task in (("bell", None), ("task", "Do what it says.")):
            new = Hook(0, name, ANN, Lane(ANN), task, 1_000_000, 65_536, time.time())
            secrets[name] = await hooks.add(tx, new) or ""
    return secrets


async def post_under_kills(
    environment: KillEnvironment, port: int, *, posts: int, kills: int, seed: int = 1
) -> Counter[int]:
    """Post while the gateway is killed at random moments; assert what the chat shows, return the answers."""
    environment.gateway.lift_rate_limits()
    await environment.gateway.start()
    environment.ann.send("@@say:Hello.@@")  # a bot may not write first
    await environment.until(lambda: "Hello." in environment.texts())
    secrets = await add_hooks(str(environment.settings["database_url"]))
    program = PostingProgram(environment, port, secrets, Counter())
    moments = sorted(random.Random(seed).sample(range(1, posts), kills))
    async with asyncio.TaskGroup() as tasks:
        posting = tasks.create_task(program.post_all(posts))
        for moment in moments:
            while program.accepted < moment and not posting.done():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await environment.gateway.restart()
    await environment.wait_until_idle()
    assert_done_once(environment, posts)
    return program.answers


def assert_done_once(environment: KillEnvironment, posts: int) -> None:
    """Assert that each post is shown once, or asked about where it is not known whether it was shown."""
    shown = Counter(int(match[1]) for text in environment.texts() if (match := _DONE.search(text)))
    doubts = environment.texts().count(UNSURE)
    doubled = [number for number, count in shown.items() if count > 1]
    missing = [number for number in range(posts) if number not in shown]
    assert doubled == []
    assert len(missing) <= doubts, (missing, doubts)
    rows = environment.load_rows("select state, count(*) from inbox where kind = 'hook' group by state")
    assert rows == [("done", posts)]


async def _run(posts: int, kills: int, seed: int) -> None:
    fork_server = ForkServer()
    began_at = time.monotonic()
    port = find_free_port()
    with tempfile.TemporaryDirectory() as folder:
        async with open_environment(Path(folder), None, fork_server, http_port=port) as environment:
            answers = await post_under_kills(environment, port, posts=posts, kills=kills, seed=seed)
            doubts = environment.texts().count(UNSURE)
    fork_server.close()
    seconds = time.monotonic() - began_at
    told = ", ".join(f"{count:,} × {status or 'no answer'}" for status, count in sorted(answers.items()))
    sys.stdout.write(
        f"{posts:,} posts, {kills} kill -9, {seconds:.0f} s: each done once, {doubts} asked about. {told}\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    asyncio.run(_run(arguments.posts, arguments.kills, arguments.seed))

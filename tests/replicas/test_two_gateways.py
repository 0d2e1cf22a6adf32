"""Two whole gateways on one PostgreSQL server, in one event loop with both simulators."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Row, func, select

from bot.db.engine import Database, open_database
from bot.db.queues import hooks
from bot.db.queues.hooks import Hook
from bot.db.tables import accounts, model_calls
from bot.db.usage import breakdowns
from bot.domain import SHARE_COUNT, Lane
from bot.usage import recorder
from bot.usage.intervals import INTERVAL_ORDER, column_name
from tests.monitoring.test_health import read_metrics
from tests.support.free_ports import find_free_port
from tests.support.gateway import ADMIN, GatewayHarness, open_harness
from tests.support.postgresql import PostgresServer

CHATS = range(100, 112)
POSTS_OF_TASKS = 2  # one to each gateway

HealthCheck = Callable[[list[dict[str, Any]]], bool]


@dataclass
class GatewayPair:
    """Both gateways; `harness` has the simulators. `first_leaves`: set, it lets one leave in order."""

    harness: GatewayHarness
    url: str
    ports: tuple[int, int]
    first_leaves: asyncio.Event

    def send_to_all(self, text: str) -> None:
        for chat in CHATS:
            self.harness.api.person(chat, f"Person {chat}").send(text)

    async def wait_for_health(self, is_right: HealthCheck) -> list[dict[str, Any]]:
        """What both say of themselves once that is right."""
        async with httpx.AsyncClient(timeout=60) as http, asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx.TransportError):  # one of them has not begun to listen
                    pages = [await http.get(f"http://127.0.0.1:{port}/healthz") for port in self.ports]
                    answers = [page.json() for page in pages]
                    if is_right(answers):
                        return answers
                await asyncio.sleep(0.05)

    async def wait_for_answers(self, count: int) -> None:
        for chat in CHATS:
            await self.harness.wait_for_texts(count, chat)


async def load_exact_accounts(url: str) -> Sequence[Row[Any]]:
    """All accounts once every turn has one; each adds up to the millisecond, and no model call is open."""
    async with open_database(url) as database:
        async with asyncio.timeout(60):
            while not await _is_accounted(database):  # noqa: ASYNC110  # no event says so
                await asyncio.sleep(0.05)
        async with database.read_transaction() as tx:
            rows = (await tx.execute(select(accounts))).all()
            open_calls = select(func.count()).select_from(model_calls).where(model_calls.c.outcome.is_(None))
            assert (await tx.execute(open_calls)).scalar_one() == 0
    for row in rows:
        seconds = sum(row._mapping[column_name(kind)] for kind in INTERVAL_ORDER)
        assert seconds == pytest.approx(row.whole, abs=0.001)
    return rows


async def _is_accounted(database: Database) -> bool:
    async with database.read_transaction() as tx:
        return await breakdowns.is_idle(tx) and await breakdowns.is_all_accounted(tx)


def are_divided(answers: list[dict[str, Any]]) -> bool:
    """Whether both hold shares, and together all."""
    shares = [answer["replica"]["shares"] for answer in answers if "replica" in answer]
    if len(shares) < len(answers):  # one listens, and has not started yet
        return False
    return all(shares) and len({number for numbers in shares for number in numbers}) == SHARE_COUNT


@asynccontextmanager
async def run_pair(tmp_path: Path, server: PostgresServer) -> AsyncIterator[GatewayPair]:
    first_leaves = asyncio.Event()
    ports = find_free_port(), find_free_port()
    with server.open_database() as url:
        async with open_harness(tmp_path, database_url=url, access="open", http_port=ports[0]) as harness:
            other = replace(harness, settings=harness.settings.model_copy(update={"http_port": ports[1]}))
            async with other.run(), asyncio.TaskGroup() as tasks:
                tasks.create_task(run_until(harness, first_leaves))
                yield GatewayPair(harness, url, ports, first_leaves)
                first_leaves.set()


async def run_until(harness: GatewayHarness, leaves: asyncio.Event) -> None:
    async with harness.run():
        await leaves.wait()


async def post_to_both(pair: GatewayPair) -> None:
    """Post to each gateway, of which one does not hold the chat, and to the other under the same key."""
    harness = pair.harness
    harness.ann.send("/id")  # a bot may not write first
    await harness.wait_for_texts(1)
    async with open_database(pair.url) as database, database.transaction() as tx:
        secrets = {
            name: await hooks.add(tx, Hook(0, name, ADMIN, Lane(ADMIN), task, 60, 1000, 1.0))
            for name, task in (("bell", None), ("task", "Do what it says."))
        }
    repeated = list[bool]()
    async with httpx.AsyncClient(timeout=60) as http:
        for name, secret in secrets.items():
            for key, ports in (("a", pair.ports), ("b", pair.ports[::-1])):
                headers = {"authorization": f"Bearer {secret}", "idempotency-key": key}
                for port in ports:
                    url = f"http://127.0.0.1:{port}/hooks/{name}"
                    answer = await http.post(url, content=f"@@say:{key}@@", headers=headers)
                    assert answer.status_code == 202
                    repeated.append(answer.json()["repeated"])
    assert repeated == [False, True] * 4
    texts = (await harness.wait_for_texts(5))[1:]
    said = [f"🔔 bell\n\n@@say:{key}@@" for key in "ab"]
    assert sorted(texts) == [*said, "🔔 task\n\na", "🔔 task\n\nb"]


async def test_two_gateways_count_each_turn_once_also_beside_an_outage_and_a_leave(
    tmp_path: Path, postgresql_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recorder, "HEARTBEAT_SECONDS", 0.2)
    async with run_pair(tmp_path, postgresql_server) as pair:
        await pair.wait_for_health(are_divided)
        answers = await pair.wait_for_health(lambda answers: all(answer["ready"] for answer in answers))
        assert sorted(answer["replica"]["leads"] for answer in answers) == [False, True]
        pair.send_to_all("@@say:one@@")
        await pair.wait_for_answers(1)
        assert len(await load_exact_accounts(pair.url)) == len(CHATS)
        pages = [await read_metrics(port) for port in pair.ports]
        turns = [page.get('canvasgram_turns_total{ending="answered"}', 0) for page in pages]
        assert sorted(turns) == [0, len(CHATS)]
        assert sum(page["canvasgram_shares_held"] for page in pages) == SHARE_COUNT
        await post_to_both(pair)
        pair.harness.endpoint.hold()
        pair.send_to_all("@@say:two@@")
        await pair.harness.endpoint.wait_until(lambda: pair.harness.endpoint.running == 4)
        postgresql_server.stop()
        postgresql_server.start()
        pair.harness.endpoint.release()
        await pair.wait_for_answers(2)
        assert len(await load_exact_accounts(pair.url)) == 2 * len(CHATS) + POSTS_OF_TASKS
        pair.send_to_all("@@say:three@@@@slow:200@@")
        pair.first_leaves.set()  # in the middle of answers
        await pair.wait_for_answers(3)
        assert len(await load_exact_accounts(pair.url)) == 3 * len(CHATS) + POSTS_OF_TASKS

"""Several gateway processes on one PostgreSQL server, some of which are killed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.http_server import serve
from bot.sim.telegram.server import BotApi, FloodLimits
from bot.sim.vllm.server import SimulatedEndpoint
from tests.kill.environment import UNSURE
from tests.kill.gateway import PATIENCE, GatewayProcess
from tests.replicas.test_two_gateways import load_exact_accounts
from tests.support.postgresql import PostgresServer

CHATS = range(100, 112)


@dataclass
class Replicas:
    """Both simulators, and processes on one database."""

    api: BotApi
    endpoint: SimulatedEndpoint
    processes: list[GatewayProcess]

    def texts(self, chat: int) -> list[str]:
        return [message.text for message in self.api.chat(chat).bot_messages]

    def send_to_all(self, text: str) -> None:
        for chat in CHATS:
            self.api.person(chat, f"Person {chat}").send(text)

    async def wait_for_answers(self, count: int) -> None:
        """Wait until each chat has so many finished answers."""
        await self.api.wait_until(lambda: all(self._has_answers(chat, count) for chat in CHATS), PATIENCE)

    def _has_answers(self, chat: int, count: int) -> bool:
        messages = [message for message in self.api.chat(chat).bot_messages if message.text != UNSURE]
        return len(messages) >= count and not any(message.buttons for message in messages)


@pytest.fixture
def url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


@asynccontextmanager
async def run_replicas(tmp_path: Path, url: str, count: int) -> AsyncIterator[Replicas]:
    api = BotApi(limits=FloodLimits.unlimited())
    endpoint = SimulatedEndpoint()
    async with serve(api.app) as telegram_url, serve(endpoint.app) as model_url:
        settings = {
            "telegram_token": api.token,
            "telegram_api_url": telegram_url,
            "model_url": f"{model_url}/v1",
            "database_url": url,
            "admin_ids": "7",
            "access": "open",
            "warm_up": "off",
            "thinking_read": "off",
        }
        processes = [GatewayProcess(api, tmp_path / str(number), settings, None) for number in range(count)]
        for process in processes:
            await process.spawn()
        try:
            await api.wait_until(lambda: any(call.method == "getUpdates" for call in api.calls), PATIENCE)
            for process in processes:
                await process.wait_for_output("takes part")
            yield Replicas(api, endpoint, processes)
        finally:
            for process in processes:
                if process.is_running:
                    await process.kill()


async def test_a_killed_replica_s_chats_are_answered_by_the_other(tmp_path: Path, url: str):
    async with run_replicas(tmp_path, url, 2) as replicas:
        replicas.send_to_all("one")
        await replicas.wait_for_answers(1)
        replicas.endpoint.hold()
        replicas.send_to_all("two")
        await replicas.endpoint.wait_until(lambda: replicas.endpoint.running >= 2)
        [leader] = [process for process in replicas.processes if "leads" in process.output]
        await leader.kill()
        replicas.endpoint.release()
        await replicas.wait_for_answers(2)
        replicas.send_to_all("three")
        await replicas.wait_for_answers(3)
        for chat in CHATS:
            assert len(replicas.texts(chat)) == 3
        accounts = await load_exact_accounts(url)
        assert len(accounts) == 3 * len(CHATS)
        assert any(account.down for account in accounts)  # of turns of the one that was killed
        [survivor] = [process for process in replicas.processes if process.is_running]
        assert await survivor.terminate() is not None
        assert replicas.endpoint.peak_running <= 4  # MODEL_SEATS, whichever replica calls

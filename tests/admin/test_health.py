"""/healthz answers as shipped: through the whole house, on its own port."""

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from bot import app
from bot.errors import SettingsRefused
from tests.house import open_house, world


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_a_running_gateway_says_that_it_is_live_and_ready_and_nothing_else(tmp_path: Path):
    port = free_port()
    async with open_house(tmp_path, http_port=port) as house, httpx.AsyncClient() as http:
        await house.api.until(lambda: house.api.calls_of("getUpdates"))
        answer = await http.get(f"http://127.0.0.1:{port}/healthz")
        assert (answer.status_code, answer.json()) == (200, {"live": True, "ready": True})
        assert (await http.get(f"http://127.0.0.1:{port}/metrics")).status_code == 404


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with world(tmp_path, http_port=port) as house:
            with pytest.raises(SettingsRefused, match=f"HTTP_PORT {port} cannot be used"):
                await app.run(house.settings, asyncio.Event())

"""The start of `canvasgram run`: what its process has imported when the first poll goes out, and later."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

import bot
from bot.demo.environment import open_demo
from bot.http_server import serve
from tests.support.empty_database import place_empty_database
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import ScriptedBotApi

ROOT = Path(bot.__file__).parents[1]
ADMIN = 7

# Each is imported only when it is first needed, or behind the first poll.
LATE_LIBRARIES = frozenset(
    (
        *(
            "openai",
            "httpx2",
            "aiohttp",
            "mcp",
            "alembic",
            "sqlalchemy.ext.asyncio",
            "sqlalchemy.orm",
            "sqlalchemy.dialects.postgresql",
            "psycopg",
            "aiosqlite",
            "apscheduler",
            "PIL",
            "matplotlib",
            "tzfpy",
            "babel",
        ),
        *(
            "jsonschema",
            "referencing",
            "dateparser",
            "dateutil",
            "trafilatura",
            "lxml",
            "mammoth",
            "openpyxl",
            "pptx",
            "pypdfium2",
        ),
        *("openapi_pydantic", "yaml", "prometheus_client", "uvicorn", "starlette"),
        *("htpy", "bot.admin", "bot.app.admin_page", "bot.db.bounded_reader"),
        *("bot.usage.report", "bot.db.usage.turn_steps", "bot.replicas"),
    )
)
NEEDED_BY_ANSWERS = frozenset(("openai", "httpx2", "aiohttp", "jsonschema", "referencing"))
NEEDED_BY_JOBS = frozenset(("apscheduler", "dateutil"))

RUN_UNTIL_FIRST_POLL = """
import json, os, sys
from bot.cli.main import main
from bot.telegram.incoming.polling import UpdatePoller

async def print_modules(poller, offset):
    assert poller.has_begun.is_set()
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)

UpdatePoller._fetch = print_modules
main()
"""

RUN_UNTIL_STOPPED = """
import json, sys
from bot.cli.main import main

try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), flush=True)
"""


@dataclass
class GatewayProcess:
    """`canvasgram run` in a process of its own, by a program whose last line names what it has imported."""

    process: asyncio.subprocess.Process

    @classmethod
    async def start(cls, program: str, folder: Path, telegram: ScriptedBotApi, urls: tuple[str, str]) -> Self:
        telegram_url, model_url = urls
        environment = {
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "TELEGRAM_TOKEN": telegram.token,
            "TELEGRAM_API_URL": telegram_url,
            "MODEL_URL": model_url,
            "DATABASE_URL": place_empty_database(folder / "gateway.db"),
            "ADMIN_IDS": str(ADMIN),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, "run"),
            cwd=folder,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def read_modules(self) -> frozenset[str]:
        """Wait for its end; the modules that its last line names."""
        output, _ = await self.process.communicate()
        assert self.process.returncode == 0
        return frozenset(json.loads(output.splitlines()[-1]))


async def test_the_first_poll_goes_out_before_large_libraries_are_imported(tmp_path: Path):
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as telegram:
        urls = (telegram, "http://127.0.0.1:9/v1")
        gateway = await GatewayProcess.start(RUN_UNTIL_FIRST_POLL, tmp_path, api, urls)
        modules = await gateway.read_modules()
    assert "bot.turns.execution" in modules  # the gateway is complete
    assert LATE_LIBRARIES & modules == frozenset()


async def test_what_has_started_and_answered_a_message_has_imported_only_what_that_needs(tmp_path: Path):
    api = ScriptedBotApi()
    endpoint = ScriptedEndpoint()
    async with api.serve_on_loopback() as telegram, serve(endpoint.app) as model:
        gateway = await GatewayProcess.start(RUN_UNTIL_STOPPED, tmp_path, api, (telegram, f"{model}/v1"))
        api.person(ADMIN).send("Hello")
        await api.wait_until(lambda: len(api.chat(ADMIN).bot_messages) > 0)
        gateway.process.terminate()
        modules = await gateway.read_modules()
    assert "openai" in modules
    assert (LATE_LIBRARIES - NEEDED_BY_ANSWERS - NEEDED_BY_JOBS) & modules == frozenset()


async def test_the_menus_are_set_though_the_model_cannot_be_reached(tmp_path: Path):
    api = ScriptedBotApi()
    admin = api.person(ADMIN)
    admin.send("Hello")
    async with api.serve_on_loopback() as telegram:
        urls = (telegram, "http://127.0.0.1:9/v1")
        gateway = await GatewayProcess.start(RUN_UNTIL_STOPPED, tmp_path, api, urls)
        await api.wait_until(lambda: "tools" in {command["command"] for command in api.list_menu(admin)})
        gateway.process.terminate()
        await gateway.read_modules()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_demo_that_is_open_has_imported_the_client_of_the_model():
    async with open_demo() as demo:
        mapped = Path(f"/proc/{demo.gateway.pid}/maps").read_text()
    assert "/aiohttp/" in mapped  # which the client alone needs

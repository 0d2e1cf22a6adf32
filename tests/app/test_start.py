"""The start of `canvasgram run`: what its process has imported when the first poll goes out."""

import asyncio
import json
import os
import sys
from pathlib import Path

import bot
from bot.sim.telegram.server import BotApi
from tests.support.empty_database import place_empty_database

ROOT = Path(bot.__file__).parents[1]

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
            "pypdf",
        ),
        *("openapi_pydantic", "yaml", "prometheus_client", "uvicorn", "starlette"),
        *("htpy", "bot.admin", "bot.app.admin_page", "bot.db.bounded_reader"),
    )
)

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


async def test_the_first_poll_goes_out_before_large_libraries_are_imported(tmp_path: Path):
    api = BotApi()
    async with api.serve_on_loopback() as telegram:
        environment = {
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "TELEGRAM_TOKEN": api.token,
            "TELEGRAM_API_URL": telegram,
            "MODEL_URL": "http://127.0.0.1:9/v1",
            "DATABASE_URL": place_empty_database(tmp_path / "gateway.db"),
            "ADMIN_IDS": "7",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", RUN_UNTIL_FIRST_POLL, "run"),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    assert process.returncode == 0
    modules = frozenset(json.loads(output.splitlines()[-1]))
    assert "bot.turns.runner" in modules  # the gateway is complete
    assert LATE_LIBRARIES & modules == frozenset()

"""The gateway over loopback: both simulators and the real gateway, in one event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.app import process, tool_factory
from bot.app.factory import RunOptions
from bot.http_server import serve
from bot.settings import Settings, build_settings
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import MAX_WAIT_SECONDS, FloodLimits
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.incoming.edits import EDIT_HOLD_SECONDS
from bot.tool_registry import loader
from tests.support.delivery_harness import GENEROUS_LIMITS
from tests.support.empty_database import place_empty_database
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import ScriptedBotApi, ScriptedPerson
from tests.support.turn_harness import SHUTDOWN_SECONDS
from tools.base import Tool

ADMIN = 7
_WORDS = " ".join(f"word{n}" for n in range(200))  # more than a server searches for a repeated pattern


def long_story() -> str:
    """A message that makes the model write about 4,000 words."""
    return f"@@repeat:20 {_WORDS} @@"


def name_noon_zone() -> str:
    """A time zone in which it is about noon, so that no day ends meanwhile."""
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # whose signs are reversed


def build_patient_tools(settings: Settings) -> dict[str, Tool]:
    """The built-in tools, whose time does not end on a busy machine."""
    tools = loader.build_builtin_tools(settings)
    return {name: replace(tool, timeout=MAX_WAIT_SECONDS) for name, tool in tools.items()}


def is_being_written(message: ChatMessage) -> bool:
    """Whether a message has a Stop button, in any language."""
    return any(button["text"].startswith("⏹") for button in message.buttons)


@dataclass
class GatewayHarness:
    """Both simulators and the gateway's settings; `ann` is an admin."""

    api: ScriptedBotApi
    endpoint: ScriptedEndpoint
    settings: Settings
    options: RunOptions

    @property
    def ann(self) -> ScriptedPerson:
        return self.api.person(ADMIN, "Ann")

    def texts(self, chat: int = ADMIN) -> list[str]:
        """What the bot has in a chat now, oldest first."""
        return [message.text for message in self.api.chat(chat).bot_messages]

    async def wait_for_texts(
        self,
        count: int = 1,
        chat: int = ADMIN,
        timeout: float = MAX_WAIT_SECONDS,  # noqa: ASYNC109
    ) -> list[str]:
        """The bot's messages of a chat once there are `count` of them, and none is still being written."""
        await self.api.wait_until(lambda: len(self.texts(chat)) >= count and self.is_finished(chat), timeout)
        return self.texts(chat)

    async def wait_for_first_block(self) -> None:
        """Wait until a first block is shown, and hold the endpoint there until it is released."""
        await self.endpoint.wait_until(lambda: any(request.canvases for request in self.endpoint.requests))
        self.endpoint.hold()
        await self.api.wait_until(self.texts)

    def is_finished(self, chat: int = ADMIN) -> bool:
        """Whether there are messages of the bot, and none has a Stop button: what they answer has ended.

        It is also true before an answer is begun.
        """
        messages = self.api.chat(chat).bot_messages
        return bool(messages) and not any(map(is_being_written, messages))

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the gateway while the block runs; it is shut down in order at the end."""
        stop = asyncio.Event()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tool_factory, "build_builtin_tools", build_patient_tools)
            async with self._run_until(stop):
                yield

    @contextlib.asynccontextmanager
    async def _run_until(self, stop: asyncio.Event) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(
                process.run(
                    self.settings,
                    stop,
                    options=self.options,
                )
            )
            try:
                yield
            finally:
                stop.set()
            await running


def place_database(tmp_path: Path) -> str:
    """The database of the gateway in this folder: empty and migrated when it is opened first."""
    file = tmp_path / "gateway.db"
    if file.exists():
        return f"sqlite+aiosqlite:///{file}"
    return place_empty_database(file)


@contextlib.asynccontextmanager
async def open_harness(
    tmp_path: Path,
    endpoint: ScriptedEndpoint | None = None,
    rate_limits: RateLimits = GENEROUS_LIMITS,
    edit_hold_seconds: float = EDIT_HOLD_SECONDS,
    **settings: Any,
) -> AsyncIterator[GatewayHarness]:
    """Both simulators, served; `GatewayHarness.run` starts the gateway.

    The real rate limits would make most tests wait for seconds; where pace matters, they are passed.
    """
    database_url = settings.pop("database_url", None) or place_database(tmp_path)
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    endpoint = endpoint or ScriptedEndpoint()
    async with serve(api.app) as telegram_url, serve(endpoint.app) as model_url:
        values = {
            "telegram_token": api.token,
            "telegram_api_url": telegram_url,
            "model_url": f"{model_url}/v1",
            "database_url": database_url,
            "admin_ids": str(ADMIN),
            "warm_up": "off",
            "thinking_read": "off",  # else a ledger row would depend on whether words decide
            **settings,
        }
        # Fifteen calls a start, a third of what a short test takes of the processor.
        options = RunOptions(SHUTDOWN_SECONDS, rate_limits, edit_hold_seconds, sets_menus=False)
        yield GatewayHarness(api, endpoint, build_settings(**values), options)


@contextlib.asynccontextmanager
async def running_gateway(
    tmp_path: Path,
    endpoint: ScriptedEndpoint | None = None,
    rate_limits: RateLimits = GENEROUS_LIMITS,
    edit_hold_seconds: float = EDIT_HOLD_SECONDS,
    **settings: Any,
) -> AsyncIterator[GatewayHarness]:
    """Both simulators and the gateway, running."""
    opened = open_harness(tmp_path, endpoint, rate_limits, edit_hold_seconds, **settings)
    async with opened as harness, harness.run():
        yield harness

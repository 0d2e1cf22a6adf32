"""A house with two endpoints, for tests: what went where, and what its chat was asked."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from bot.db.engine import open_database
from bot.db.tables import model_calls
from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import Profile, SimulatedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway

MODEL = "gemma-4-31b-it"
SIGNATURE = f"— written by {MODEL}"
# How resolvers let one write 127.0.0.1, and no address of the own network to who judges by the letter
HOST = "127.1"
NOTICE = re.compile(
    r"About the |The (second )?model endpoint (is not answering:|refused a request:|answers again)"
)
YES, ALL, NO = "Yes, text only", "Also notes, files, images", "No"


@dataclass
class TwoEndpoints:
    """A house and its second endpoint."""

    gateway: GatewayHarness
    fallback: SimulatedEndpoint

    @property
    def main(self) -> SimulatedEndpoint:
        return self.gateway.endpoint

    def final_texts(self) -> list[str]:
        """What the bot has in Ann's chat for good, but for the admins' notices."""
        messages = self.gateway.api.chat(ADMIN).bot_messages
        return [
            one.text for one in messages if "⏹ Stop" not in button_labels(one) and not NOTICE.match(one.text)
        ]

    async def send(self, text: str, count: int = 1) -> str:
        """Send a text; the newest of the bot's messages once there are so many that stand."""
        self.gateway.ann.send(text)
        return await self.wait_for_answer(count)

    async def wait_for_answer(self, count: int) -> str:
        await self.gateway.api.wait_until(lambda: len(self.final_texts()) >= count)
        return self.final_texts()[-1]

    async def wait_for_question(self) -> ChatMessage:
        """The message that asks for consent, once it is there."""
        return await self.wait_for_button(NO)

    async def wait_for_button(self, label: str) -> ChatMessage:
        """The newest message that has this button, once it is there."""

        def found() -> list[ChatMessage]:
            return [one for one in self.gateway.api.chat(ADMIN).bot_messages if label in button_labels(one)]

        await self.gateway.api.wait_until(found)
        return found()[-1]

    def tap(self, message: ChatMessage, label: str) -> None:
        self.gateway.ann.tap(message, label)

    async def load_rows(self, table: Table, *column_names: str) -> list[tuple[Any, ...]]:
        async with (
            open_database(self.gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            query = select(*(table.c[name] for name in column_names)).order_by(
                table.primary_key.columns.values()[0]
            )
            return [tuple(row) for row in await tx.execute(query)]

    async def load_calls(self) -> list[tuple[str, str, str | None]]:
        """Of each model call: where it went, what came of it, why it was made again."""
        where = {self.gateway.settings.model_url: "main", self.gateway.settings.fallback_url: "fallback"}
        found = await self.load_rows(model_calls, "endpoint", "outcome", "again")
        return [(where[endpoint], outcome, again) for endpoint, outcome, again in found]

    def sent_to_fallback(self) -> str:
        """All that ever reached the second endpoint."""
        return json.dumps([request.body for request in self.fallback.requests], ensure_ascii=False)


def button_labels(message: ChatMessage) -> list[str]:
    return [button["text"] for button in message.buttons]


@contextlib.asynccontextmanager
async def open_two_endpoints(
    tmp_path: Path, main: SimulatedEndpoint | None = None, *, is_external: bool = False, **settings: Any
) -> AsyncIterator[TwoEndpoints]:
    second = SimulatedEndpoint(profile=Profile.hosted_api(), model=MODEL)
    async with serve(second.app) as url:
        address = url.replace("127.0.0.1", HOST) if is_external else url
        async with running_gateway(
            tmp_path, main, fallback_url=f"{address}/v1", warm_up="off", thinking_read="off", **settings
        ) as house:
            yield TwoEndpoints(house, second)

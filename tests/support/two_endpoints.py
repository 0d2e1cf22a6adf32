"""A gateway with two endpoints: what was sent to which, and what the chat was asked."""

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
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import ADMIN, GatewayHarness, is_being_written, running_gateway

MODEL = "gemma-4-31b-it"
SIGNATURE = f"— written by {MODEL}"
# Resolvers read this as 127.0.0.1; judged by its letters alone it is outside the own network.
HOST = "127.1"
NOTICE = re.compile(
    r"About the |The (model|second model's) server (is not answering:|refused a request:|answers again)"
)
YES = "Yes, text only"
ALL = "Yes, everything"
NO = "No"


@dataclass
class TwoEndpoints:
    """A gateway and its second endpoint."""

    gateway: GatewayHarness
    fallback: ScriptedEndpoint

    @property
    def main(self) -> ScriptedEndpoint:
        return self.gateway.endpoint

    def final_texts(self) -> list[str]:
        """The bot's final messages in Ann's chat, without the notices to admins."""
        messages = self.gateway.api.chat(ADMIN).bot_messages
        return [
            message.text
            for message in messages
            if not is_being_written(message) and not NOTICE.match(message.text)
        ]

    async def send(self, text: str, count: int = 1) -> str:
        """Send a text; returns the newest final message once there are `count` of them."""
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

        def messages_with_button() -> list[ChatMessage]:
            messages = self.gateway.api.chat(ADMIN).bot_messages
            return [message for message in messages if label in button_labels(message)]

        await self.gateway.api.wait_until(messages_with_button)
        return messages_with_button()[-1]

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
        """Of each model call: its endpoint, its outcome, and why it was made again."""
        settings = self.gateway.settings
        roles = {settings.model_url: "main", settings.fallback_url: "fallback"}
        rows = await self.load_rows(model_calls, "endpoint", "outcome", "again")
        return [(roles[endpoint], outcome, again) for endpoint, outcome, again in rows]

    def sent_to_fallback(self) -> str:
        """All that ever reached the second endpoint."""
        return json.dumps([request.body for request in self.fallback.requests], ensure_ascii=False)


def button_labels(message: ChatMessage) -> list[str]:
    return [button["text"] for button in message.buttons]


@contextlib.asynccontextmanager
async def open_two_endpoints(
    tmp_path: Path, main: ScriptedEndpoint | None = None, *, is_external: bool = False, **settings: Any
) -> AsyncIterator[TwoEndpoints]:
    fallback = ScriptedEndpoint(profile=ServerProfile.hosted_api(), model=MODEL)
    async with serve(fallback.app) as url:
        address = url.replace("127.0.0.1", HOST) if is_external else url
        async with running_gateway(
            tmp_path, main, fallback_url=f"{address}/v1", warm_up="off", thinking_read="off", **settings
        ) as gateway:
            yield TwoEndpoints(gateway, fallback)

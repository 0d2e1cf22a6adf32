"""A house with two endpoints, for tests: what went where, and what its chat was asked."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from bot.db.engine import connected
from bot.db.tables import model_calls
from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import Endpoint, Profile
from tests.support.gateway import ADMIN, World, open_house

MODEL = "gemma-4-31b-it"
SIGNED = f"— written by {MODEL}"
# How resolvers let one write 127.0.0.1, and no address of the own network to who judges by the letter
HOST = "127.1"
NOTICE = re.compile(
    r"About the |The (second )?model endpoint (is not answering:|refused a request:|answers again)"
)
YES, ALL, NO = "Yes, text only", "Also notes, files, images", "No"


@dataclass
class Two:
    """A house and its second endpoint."""

    house: World
    second: Endpoint

    @property
    def first(self) -> Endpoint:
        return self.house.endpoint

    def said(self) -> list[str]:
        """What the bot has in Ann's chat for good, but for the admins' notices."""
        messages = self.house.api.chat(ADMIN).from_bot
        return [one.text for one in messages if "⏹ Stop" not in labels(one) and not NOTICE.match(one.text)]

    async def ask(self, text: str, count: int = 1) -> str:
        """Send a text; the newest of the bot's messages once there are so many that stand."""
        self.house.ann.send(text)
        return await self.answered(count)

    async def answered(self, count: int) -> str:
        await self.house.api.until(lambda: len(self.said()) >= count)
        return self.said()[-1]

    async def question(self) -> ChatMessage:
        """The message that asks for consent, once it is there."""
        return await self.message_with(NO)

    async def message_with(self, label: str) -> ChatMessage:
        """The newest message that has this button, once it is there."""

        def found() -> list[ChatMessage]:
            return [one for one in self.house.api.chat(ADMIN).from_bot if label in labels(one)]

        await self.house.api.until(found)
        return found()[-1]

    def tap(self, message: ChatMessage, label: str) -> None:
        self.house.ann.tap(message, label)

    async def rows(self, table: Table, *names: str) -> list[tuple[Any, ...]]:
        async with connected(self.house.settings.database_url) as database, database.reading() as tx:
            query = select(*(table.c[name] for name in names)).order_by(table.primary_key.columns.values()[0])
            return [tuple(row) for row in await tx.execute(query)]

    async def calls(self) -> list[tuple[str, str, str | None]]:
        """Of each model call: where it went, what came of it, why it was made again."""
        where = {self.house.settings.model_url: "main", self.house.settings.fallback_url: "fallback"}
        found = await self.rows(model_calls, "endpoint", "outcome", "again")
        return [(where[endpoint], outcome, again) for endpoint, outcome, again in found]

    def sent(self) -> str:
        """All that ever reached the second endpoint."""
        return json.dumps([request.body for request in self.second.requests], ensure_ascii=False)


def labels(message: ChatMessage) -> list[str]:
    return [button["text"] for button in message.buttons]


@contextlib.asynccontextmanager
async def two(
    tmp_path: Path, first: Endpoint | None = None, *, outside: bool = False, **settings: Any
) -> AsyncIterator[Two]:
    second = Endpoint(profile=Profile.hosted_api(), model=MODEL)
    async with serve(second.app) as url:
        address = url.replace("127.0.0.1", HOST) if outside else url
        async with open_house(
            tmp_path, first, fallback_url=f"{address}/v1", warm_up="off", thinking_read="off", **settings
        ) as house:
            yield Two(house, second)

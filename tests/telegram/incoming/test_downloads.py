"""Files are fetched over HTTP from a simulated Telegram, persistently, and whatever goes wrong is a reason."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from bot.errors import AttachmentUnusable
from bot.http_server import serve
from bot.sim.telegram.server import BotApi, Fault, Limits
from bot.telegram.client import bot_for
from bot.telegram.incoming import downloads as files
from bot.telegram.incoming.downloads import Files


class Line:
    """Passes everything on to Telegram, but files only as it is told: it may lose some, and hold others."""

    def __init__(self, api: BotApi) -> None:
        self.losing = 0
        self.status = 502
        self.free = asyncio.Event()
        self.free.set()
        self.asked = asyncio.Event()
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/file/"):
            self.asked.set()
            await self.free.wait()
            if self.losing:
                self.losing -= 1
                head = [(b"content-length", b"0")]
                await send({"type": "http.response.start", "status": self.status, "headers": head})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._api.app(scope, receive, send)


@pytest.fixture
def api() -> BotApi:
    return BotApi(limits=Limits.none())


@pytest.fixture
def line(api: BotApi) -> Line:
    return Line(api)


@pytest.fixture
async def fetching(api: BotApi, line: Line, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Files]:
    monkeypatch.setattr(files, "_PAUSES", (0.0, 0.0))
    async with serve(line) as url, bot_for(api.token, url) as bot:
        yield Files(bot)


def sent(api: BotApi, content: bytes = b"content") -> str:
    return str(api.person(7).send_document("a", content=content).message["document"]["file_id"])


async def test_a_file_comes_whole(api: BotApi, fetching: Files):
    assert await fetching.fetch(sent(api, b"\x00\xff" * 50_000)) == b"\x00\xff" * 50_000


async def test_what_is_lost_on_the_way_is_fetched_again(api: BotApi, line: Line, fetching: Files):
    api.inject(Fault.drop(), "getFile")
    line.losing = 1
    assert await fetching.fetch(sent(api)) == b"content"
    assert len(api.calls_of("getFile")) == 3


async def test_a_flood_is_waited_out(api: BotApi, fetching: Files):
    api.inject(Fault.flood(1), "getFile")
    assert await fetching.fetch(sent(api)) == b"content"


async def test_no_more_than_a_few_attempts_are_made(api: BotApi, fetching: Files):
    api.inject(Fault.server_error(), "getFile", times=None)
    with pytest.raises(AttachmentUnusable, match=files.AWAY):
        await fetching.fetch(sent(api))
    assert len(api.calls_of("getFile")) == 3


async def test_an_answer_that_nobody_understands_is_an_attempt(api: BotApi, fetching: Files):
    api.inject(Fault("error", takes_effect=False, page='{"ok": true, "result": 7}'), "getFile", times=None)
    with pytest.raises(AttachmentUnusable, match=files.AWAY):
        await fetching.fetch(sent(api))


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        ("Bad Request: file is too big", files.TOO_LARGE),
        ("Bad Request: invalid file_id", files.GONE),
        ("Bad Request: wrong file_id or the file is temporarily unavailable", files.GONE),
    ],
)
async def test_what_telegram_refuses_is_not_asked_for_again(
    api: BotApi, fetching: Files, refusal: str, why: str
):
    api.inject(Fault.refuse(refusal), "getFile")
    with pytest.raises(AttachmentUnusable, match=why):
        await fetching.fetch(sent(api))
    assert len(api.calls_of("getFile")) == 1


async def test_a_file_that_is_gone_after_it_was_named_is_gone(api: BotApi, line: Line, fetching: Files):
    line.losing, line.status = 9, 404
    with pytest.raises(AttachmentUnusable, match=files.GONE):
        await fetching.fetch(sent(api))
    assert len(api.calls_of("getFile")) == 1


async def test_a_file_too_large_is_not_fetched(
    api: BotApi, line: Line, fetching: Files, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "MOST_BYTES", 6)
    with pytest.raises(AttachmentUnusable, match=files.TOO_LARGE):
        await fetching.fetch(sent(api))
    assert not line.asked.is_set()


async def test_a_file_that_does_not_come_is_given_up(api: BotApi, line: Line, fetching: Files):
    line.free.clear()
    with pytest.raises(AttachmentUnusable, match=files.AWAY):
        await Files(fetching._bot, seconds=0.2).fetch(sent(api))
    line.free.set()


async def test_no_token_gets_into_the_log(
    api: BotApi, line: Line, fetching: Files, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "bot")
    line.losing = 3
    with pytest.raises(AttachmentUnusable) as unusable:
        await fetching.fetch(sent(api))
    assert "a file was not fetched" in caplog.text
    assert api.token not in caplog.text + str(unusable.value)

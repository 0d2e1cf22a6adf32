"""Files are downloaded over HTTP from a simulated Telegram, with retries; every failure is a reason."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from bot.errors import AttachmentUnusable
from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.telegram.client import TelegramBot, create_bot
from bot.telegram.incoming.downloads import FETCH_FAILED, FILE_GONE, FILE_TOO_LARGE, FileDownloader
from tests.support.telegram.server import BotApiFault, ScriptedBotApi


class FlakyTelegram:
    """Passes everything on to Telegram; it can lose the first files, or hold all of them back."""

    def __init__(self, api: ScriptedBotApi) -> None:
        self.drops_left = 0
        self.status = 502
        self.released = asyncio.Event()
        self.released.set()
        self.requested = asyncio.Event()
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/file/"):
            self.requested.set()
            await self.released.wait()
            if self.drops_left:
                self.drops_left -= 1
                head = [(b"content-length", b"0")]
                await send({"type": "http.response.start", "status": self.status, "headers": head})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._api.app(scope, receive, send)


@pytest.fixture
def api() -> ScriptedBotApi:
    return ScriptedBotApi(limits=FloodLimits.unlimited())


@pytest.fixture
def server(api: ScriptedBotApi) -> FlakyTelegram:
    return FlakyTelegram(api)


@pytest.fixture
async def bot(api: ScriptedBotApi, server: FlakyTelegram) -> AsyncIterator[TelegramBot]:
    async with serve(server) as url, create_bot(api.token, url) as bot:
        yield bot


@pytest.fixture
def downloader(bot: TelegramBot) -> FileDownloader:
    return FileDownloader(bot, backoff_seconds=(0.0, 0.0))


def send_file(api: ScriptedBotApi, content: bytes = b"content") -> str:
    return str(api.person(7).send_document("a", content=content).message["document"]["file_id"])


async def test_a_file_comes_whole(api: ScriptedBotApi, downloader: FileDownloader):
    assert await downloader.fetch(send_file(api, b"\x00\xff" * 50_000)) == b"\x00\xff" * 50_000


async def test_what_is_lost_on_the_way_is_fetched_again(
    api: ScriptedBotApi, server: FlakyTelegram, downloader: FileDownloader
):
    api.inject_fault(BotApiFault.drop(), "getFile")
    server.drops_left = 1
    assert await downloader.fetch(send_file(api)) == b"content"
    assert len(api.calls_of("getFile")) == 3


async def test_a_flood_is_waited_out(api: ScriptedBotApi, downloader: FileDownloader):
    api.inject_fault(BotApiFault.flood(1), "getFile")
    assert await downloader.fetch(send_file(api)) == b"content"


async def test_no_more_than_a_few_attempts_are_made(api: ScriptedBotApi, downloader: FileDownloader):
    api.inject_fault(BotApiFault.server_error(), "getFile", times=None)
    with pytest.raises(AttachmentUnusable, match=FETCH_FAILED):
        await downloader.fetch(send_file(api))
    assert len(api.calls_of("getFile")) == 3


async def test_an_answer_that_nobody_understands_is_an_attempt(
    api: ScriptedBotApi, downloader: FileDownloader
):
    api.inject_fault(
        BotApiFault("error", takes_effect=False, html_page='{"ok": true, "result": 7}'), "getFile", times=None
    )
    with pytest.raises(AttachmentUnusable, match=FETCH_FAILED):
        await downloader.fetch(send_file(api))


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ("Bad Request: file is too big", FILE_TOO_LARGE),
        ("Bad Request: invalid file_id", FILE_GONE),
        ("Bad Request: wrong file_id or the file is temporarily unavailable", FILE_GONE),
    ],
)
async def test_what_telegram_refuses_is_not_asked_for_again(
    api: ScriptedBotApi, downloader: FileDownloader, refusal: str, reason: str
):
    api.inject_fault(BotApiFault.refuse(refusal), "getFile")
    with pytest.raises(AttachmentUnusable, match=reason):
        await downloader.fetch(send_file(api))
    assert len(api.calls_of("getFile")) == 1


async def test_a_file_that_is_gone_after_it_was_named_is_gone(
    api: ScriptedBotApi, server: FlakyTelegram, downloader: FileDownloader
):
    server.drops_left = 9
    server.status = 404
    with pytest.raises(AttachmentUnusable, match=FILE_GONE):
        await downloader.fetch(send_file(api))
    assert len(api.calls_of("getFile")) == 1


async def test_a_file_too_large_is_not_fetched(api: ScriptedBotApi, server: FlakyTelegram, bot: TelegramBot):
    with pytest.raises(AttachmentUnusable, match=FILE_TOO_LARGE):
        await FileDownloader(bot, max_bytes=6).fetch(send_file(api))
    assert not server.requested.is_set()


async def test_a_file_that_does_not_come_is_given_up(
    api: ScriptedBotApi, server: FlakyTelegram, bot: TelegramBot
):
    server.released.clear()
    with pytest.raises(AttachmentUnusable, match=FETCH_FAILED):
        await FileDownloader(bot, timeout_seconds=0.2).fetch(send_file(api))
    server.released.set()


async def test_no_token_gets_into_the_log(
    api: ScriptedBotApi, server: FlakyTelegram, downloader: FileDownloader, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "bot")
    server.drops_left = 3
    with pytest.raises(AttachmentUnusable) as unusable:
        await downloader.fetch(send_file(api))
    assert "a file was not fetched" in caplog.text
    assert api.token not in caplog.text + str(unusable.value)

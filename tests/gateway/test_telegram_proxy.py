"""With TELEGRAM_PROXY all that concerns Telegram goes through the proxy, and nothing else does."""

import asyncio
import dataclasses
import logging
from pathlib import Path

import pytest

from bot.check.telegram_probe import PROXY_FIX, probe_telegram
from bot.errors import TelegramAway
from bot.telegram.bot_identity import check_token
from bot.telegram.client import create_bot, open_bot
from tests.support import attachment_files
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tests.support.gateway import open_harness
from tests.support.proxy import run_proxy
from tests.support.telegram.server import ScriptedBotApi

API_URL = "http://telegram.invalid"
CREDENTIALS = "ann:hush%40hush"


async def test_messages_and_files_go_through_the_proxy_and_the_model_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, "bot")
    endpoint = ScriptedEndpoint(brain=reply_with("I see."))
    async with open_harness(tmp_path, endpoint) as gateway:
        with run_proxy(gateway.settings.telegram_api_url, "ann:hush") as proxy:
            changes = {"telegram_api_url": API_URL, "telegram_proxy": f"http://ann:hush@{proxy.address}"}
            proxied = dataclasses.replace(gateway, settings=gateway.settings.model_copy(update=changes))
            async with proxied.run():
                gateway.ann.send_photo("What is it?", content=attachment_files.make_image(40, 30))
                assert await gateway.wait_for_texts() == ["I see."]
        assert set(proxy.targets) == {"telegram.invalid"}
        assert len(proxy.targets) >= 5  # who it is, polls, the file and its bytes, the answer
        assert proxy.refused == 0
    assert endpoint.requests
    assert "hush" not in caplog.text


async def test_a_socks_proxy_is_asked_for_names_and_gets_its_password():
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url:
        with run_proxy(url, "ann:hush@hush") as proxy:
            proxy_url = f"socks5://{CREDENTIALS}@{proxy.address}"
            async with create_bot(api.token, API_URL, proxy_url) as bot:
                assert bot.username
            assert set(proxy.targets) == {"telegram.invalid:80"}
            identity = await check_token(api.token, API_URL, proxy_url)
            assert identity.username == bot.username
    with pytest.raises(TelegramAway) as caught:
        await check_token(api.token, API_URL, f"socks5://{CREDENTIALS}@127.0.0.1:9")
    assert str(caught.value) == (
        f"Telegram does not answer at {API_URL} through the proxy socks5://127.0.0.1:9: Connection refused."
    )


async def test_what_is_wrong_with_a_proxy_is_said_without_its_password(caplog: pytest.LogCaptureFixture):
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url:
        with run_proxy(url, "ann:other") as proxy:
            bot_url = f"https://telegram.invalid/bot{api.token}"
            [finding] = await probe_telegram(bot_url, proxy=f"http://{CREDENTIALS}@{proxy.address}")
            assert finding.seen == (
                f"http://{proxy.address} does not lead to Telegram (407 Proxy Authentication Required)"
            )
            assert (finding.status, finding.mend) == ("fail", PROXY_FIX)
            bot_url = f"{API_URL}/bot{api.token}"
            *_, finding = await probe_telegram(bot_url, proxy=f"http://ann:other@{proxy.address}")
            assert (finding.name, finding.status) == ("proxy", "pass")
            assert f"go through http://{proxy.address}; models" in finding.seen
    [finding] = await probe_telegram(bot_url, proxy=f"http://{CREDENTIALS}@127.0.0.1:9")
    assert finding.seen == "http://127.0.0.1:9 does not lead to Telegram (ConnectError)"
    stop = asyncio.Event()

    async def stop_when_said() -> None:
        await wait_until(lambda: caplog.messages)
        stop.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stop_when_said())
        async with open_bot(api.token, API_URL, stop, f"http://{CREDENTIALS}@127.0.0.1:9") as bot:
            assert bot is None
    assert caplog.messages == [
        "Telegram at telegram.invalid, through http://127.0.0.1:9, does not answer: Connection refused"
    ]

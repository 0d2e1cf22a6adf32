"""`ready` means that a message sent now is stored and answered; what people must mend ends the gateway."""

import asyncio
import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.app import process
from bot.errors import SettingsRefused, StoreReplaced
from tests.support.empty_database import place_empty_database
from tests.support.free_ports import find_free_port
from tests.support.gateway import GatewayHarness, open_harness

pytestmark = pytest.mark.sqlite


def read_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        return bool(json.load(answer)["ready"])


async def wait_until_ready(port: int, *, expected: bool = True) -> None:
    is_ready = None
    async with asyncio.timeout(60):
        while is_ready is not expected:
            await asyncio.sleep(0.02)
            with contextlib.suppress(OSError):  # it does not listen yet
                is_ready = await asyncio.to_thread(read_ready, port)


async def test_a_gateway_that_can_store_nothing_is_not_ready(tmp_path: Path):
    port = find_free_port()
    async with open_harness(tmp_path, http_port=port) as harness, harness.run():
        await wait_until_ready(port)
        with contextlib.closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            harness.ann.send("Hello")
            await wait_until_ready(port, expected=False)
            writer.execute("ROLLBACK")
        await wait_until_ready(port)
        await harness.wait_for_texts()


def replace_file(file: Path) -> None:
    copy = file.with_suffix(".copy")
    copy.write_bytes(file.read_bytes())
    copy.rename(file)


@pytest.mark.parametrize("displace", [Path.unlink, replace_file])
async def test_a_database_that_is_another_file_by_now_ends_the_gateway(
    tmp_path: Path, displace: Callable[[Path], None]
):
    async def run_until_ended(harness: GatewayHarness) -> None:
        async with harness.run():
            harness.ann.send("Hello")
            await harness.wait_for_texts()
            displace(tmp_path / "gateway.db")
            harness.ann.send("lost")
            await asyncio.Event().wait()

    async with open_harness(tmp_path) as harness:
        with pytest.raises(ExceptionGroup) as failure:
            await run_until_ended(harness)
    assert failure.group_contains(StoreReplaced, match="removed or replaced")
    assert any("canvasgram restore" in text for text in harness.texts())
    assert not any("lost" in text for text in harness.texts()[1:-1])


async def test_a_second_gateway_with_a_new_database_ends_and_takes_no_messages(tmp_path: Path):
    other_url = place_empty_database(tmp_path / "other.db")
    async with open_harness(tmp_path) as harness, harness.run():
        harness.ann.send("Hello")
        await harness.wait_for_texts()
        settings = harness.settings.model_copy(update={"database_url": other_url})
        with pytest.raises(ExceptionGroup) as failure:
            await process.run(settings, asyncio.Event(), options=harness.options)
        assert failure.group_contains(SettingsRefused, match="this database is new")
        harness.ann.send("Hello again")
        await harness.wait_for_texts(2)
    assert not any("Another program" in text for text in harness.texts())


async def test_each_turn_is_a_line_of_the_log_without_words(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    async with open_harness(tmp_path) as harness, harness.run():
        harness.ann.send("Hello, lighthouse")
        await harness.wait_for_texts()
        await harness.api.wait_until(harness.is_finished)
    [line] = [vars(record) for record in caplog.records if vars(record).get("action") == "turn.ended"]
    assert (line["chat"], line["ending"]) == (harness.ann.chat.id, "answered")
    assert 0 <= line["seconds"] < 60
    assert "lighthouse" not in caplog.text

"""A whole gateway whose database is on a PostgreSQL server."""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.app import process
from bot.cli import system_jobs
from bot.db.maintenance.database_copy import copy_database
from bot.db.migrate import migrate
from bot.errors import GatewayRunning, QuestionRefused, RestoreRefused, SettingsRefused
from bot.maintenance.restore import restore_backup
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.usage.report_command import ReportOptions, render_report, render_turn
from tests.support.empty_database import place_empty_database
from tests.support.gateway import ADMIN, GatewayHarness, open_harness, running_gateway
from tests.support.postgresql import PostgresServer
from tests.support.terminal_text import lay_out
from tools.threads import run_in_thread


@pytest.fixture
def url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


async def test_commands_work_beside_a_gateway(tmp_path: Path, url: str):
    async with running_gateway(tmp_path, database_url=url) as gateway:
        gateway.ann.send("Hello")
        await gateway.wait_for_texts()
        await gateway.api.wait_until(gateway.is_finished)
        migrate(url)
        report = await render_report(url, ReportOptions(top=None), now=time.time())
        assert "Used: 1 answer" in lay_out(report)
        assert "Hello" in lay_out(
            await render_turn(url, "1", with_texts=True, as_json=False, now=time.time())
        )
        assert "ordered" in await order_retention(url)
        assert "pg_dump" not in lay_out(await system_jobs.list_system_jobs(url))
        with pytest.raises(RestoreRefused, match="pg_restore"):
            await restore_backup(url, tmp_path / "any.db", answer_waiting=False, now=time.time())
        gateway.ann.send("/forget")
        assert "its owner has decided" in (await gateway.wait_for_texts(2))[-1]
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Forget it all")
        await gateway.api.wait_until(lambda: is_told(gateway, FORGOTTEN_TEXT))
        assert "Hello" not in lay_out(
            await render_turn(url, "1", with_texts=True, as_json=False, now=time.time())
        )


async def test_a_bot_moves_to_a_server_and_is_at_work_there_alone(tmp_path: Path, url: str):
    async with open_harness(tmp_path, database_url=place_empty_database(tmp_path / "old.db")) as gateway:
        old_url = gateway.settings.database_url
        async with gateway.run():
            gateway.ann.send("@@say:before@@")
            await gateway.api.wait_until(gateway.is_finished)
            with pytest.raises(GatewayRunning):
                copy_database(old_url, url, show_nothing, now=time.time())
        copy_database(old_url, url, show_nothing, now=time.time())
        with pytest.raises(SettingsRefused, match="canvasgram run --here"):
            await process.run(gateway.settings, asyncio.Event())
        moved = dataclasses.replace(
            gateway, settings=gateway.settings.model_copy(update={"database_url": url})
        )
        async with moved.run():
            gateway.ann.send("@@say:after@@")
            await gateway.api.wait_until(lambda: gateway.texts() == ["before", "after"])
            with pytest.raises(GatewayRunning):
                await run_in_thread(
                    copy_database, url, f"sqlite+aiosqlite:///{tmp_path}/b.db", show_nothing, now=time.time()
                )


def show_nothing(_done: int, _total: int, _label: str) -> None:
    return None


async def test_messages_and_turns_wait_while_the_server_is_away_and_admins_hear_of_it_once(
    tmp_path: Path, url: str, postgresql_server: PostgresServer, caplog: pytest.LogCaptureFixture
):
    async with running_gateway(tmp_path, database_url=url) as gateway:
        gateway.ann.send("Before")
        await gateway.wait_for_first_block()
        postgresql_server.stop(abruptly=True)
        gateway.endpoint.release()
        gateway.ann.send("Meanwhile")
        await gateway.api.wait_until(lambda: is_told(gateway, "can't store new messages"))
        postgresql_server.start()
        await gateway.api.wait_until(lambda: is_told(gateway, "can be stored again"))
        await gateway.wait_for_texts(4)
        await gateway.api.wait_until(gateway.is_finished)
    actions = list_actions(caplog)
    assert actions.count("store.away") == actions.count("store.back") == 1
    assert len(gateway.texts()) == 4
    assert len(gateway.endpoint.requests) == 2


async def order_retention(url: str) -> str:
    """Order a system job as soon as there are any: a gateway adds them a while after its start."""
    while True:
        try:
            return await system_jobs.run_system_job(url, "retention", now=time.time())
        except QuestionRefused:
            await asyncio.sleep(0.05)


def is_told(gateway: GatewayHarness, words: str) -> bool:
    return any(words in text for text in gateway.texts())


def list_actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "action", "") for record in caplog.records if record.levelno >= logging.WARNING]

"""The whole gateway when things go wrong at the worst moment: killed, stopped, refused, out of disk."""

import asyncio
import contextlib
import errno
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, select

from bot.app import process
from bot.app.factory import RunOptions
from bot.db.database_url import parse_database_path
from bot.db.engine import open_database
from bot.db.people import people
from bot.db.queues import inbox as inbox_rows
from bot.db.tables import inbox, model_calls, notices, turns
from bot.domain import Lane
from bot.errors import TelegramRefused
from bot.queue.worker import Worker
from bot.sim.vllm.server import Timing
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway
from tests.support.held_database import refuse_opening
from tests.support.telegram.server import BotApiFault
from tests.support.turn_harness import SHUTDOWN_SECONDS

SLOW = Timing(canvas_seconds=0.25)


@contextlib.asynccontextmanager
async def run_without_grace(gateway: GatewayHarness) -> AsyncIterator[None]:
    """A gateway that gives nothing any grace at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Worker.__init__.__kwdefaults__ or {}, "grace_seconds", 0.0)
        async with gateway.run():
            yield


async def select_rows(gateway: GatewayHarness, query: Select[Any]) -> list[tuple[Any, ...]]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return [tuple(row) for row in await tx.execute(query)]


async def wait_for_row(gateway: GatewayHarness, query: Select[Any]) -> None:
    """Wait until the query finds something."""
    async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
        while True:
            async with database.read_transaction() as tx:
                if (await tx.execute(query)).first() is not None:
                    return
            await asyncio.sleep(0.02)


async def test_a_stop_sent_while_the_gateway_was_down_ends_the_turn_that_was_running(tmp_path: Path):
    async with open_harness(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        async with run_without_grace(gateway):
            gateway.ann.send(long_story())
            await gateway.wait_for_first_block()
        gateway.endpoint.release()
        gateway.ann.send("/stop")
        gateway.ann.send("@@say:wanted@@")
        async with gateway.run():
            await gateway.api.wait_until(lambda: "wanted" in gateway.texts() and gateway.is_finished())
        assert gateway.texts()[0].startswith("word0 word1")
        assert gateway.texts()[0].endswith("Stopped.")
        assert not gateway.api.chat(ADMIN).bot_messages[0].buttons
    assert await select_rows(gateway, select(turns.c.ending).order_by(turns.c.id)) == [
        ("stopped",),
        ("answered",),
    ]
    assert (None,) not in await select_rows(gateway, select(model_calls.c.outcome))


async def test_the_stop_button_works_after_a_restart(tmp_path: Path):
    async with open_harness(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        async with run_without_grace(gateway):
            gateway.ann.send(long_story())
            await gateway.wait_for_first_block()
        gateway.endpoint.release()
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[0], "⏹ Stop")
        async with gateway.run():
            await gateway.api.wait_until(gateway.is_finished)
    assert await select_rows(gateway, select(turns.c.ending)) == [("stopped",)]
    assert len(gateway.texts()) == 1


async def test_a_new_sent_while_the_gateway_was_down_ends_the_turn_that_was_running(tmp_path: Path):
    async with open_harness(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        async with run_without_grace(gateway):
            gateway.ann.send(long_story())
            await gateway.wait_for_first_block()
        gateway.endpoint.release()
        gateway.ann.send("/new")
        async with gateway.run():
            await gateway.api.wait_until(lambda: any("New conversation" in text for text in gateway.texts()))
            await gateway.api.wait_until(gateway.is_finished)
    assert await select_rows(gateway, select(turns.c.ending)) == [("stopped",)]


async def test_a_new_is_heard_by_a_turn_whose_cut_was_lost_with_the_process(tmp_path: Path):
    """Claimed, cut, and killed before the turn could say so: it stays cut."""
    async with open_harness(tmp_path) as gateway:
        async with run_without_grace(gateway):
            gateway.endpoint.hold()
            gateway.ann.send("@@say:unwanted@@")
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(inbox.update().values(stopped=True))
        gateway.endpoint.release()
        async with gateway.run():
            assert await gateway.wait_for_texts() == ["Stopped."]


async def test_a_question_from_before_a_new_that_waited_with_it_is_answered(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        gateway.ann.send("@@say:before@@")
        gateway.ann.send("/new")
        gateway.ann.send("@@say:after@@")
        async with gateway.run():
            texts = await gateway.wait_for_texts(3)
    assert [texts[0], texts[2]] == ["before", "after"]


async def test_a_message_no_library_can_read_stops_nobody(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("@@say:first@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        private = {"chat": {"id": ADMIN, "type": "private"}, "from": {"id": ADMIN}}
        gateway.api.push_update({"message": private | {"text": "waits, and has no number"}})
        gateway.api.push_update(
            {"message": private | {"text": "from the end of time", "date": 10**400, "message_id": 5}}
        )
        gateway.api.push_update(
            {"message": private | {"text": json.loads('"half \\ud800 a pair"'), "message_id": [7]}}
        )
        waiting = gateway.ann.send("/id")
        await gateway.api.wait_until(lambda: any(str(ADMIN) in text for text in gateway.texts()))
        gateway.endpoint.release()
        assert waiting.message_id
        await gateway.api.wait_until(lambda: "first" in gateway.texts())
        gateway.ann.send("@@say:and on@@")
        await gateway.api.wait_until(lambda: "and on" in gateway.texts())


async def test_what_telegram_refuses_at_last_does_not_cut_what_is_at_work(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:

        async def revoked() -> None:
            gateway.endpoint.hold()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(process.run(gateway.settings, asyncio.Event()))
                gateway.ann.send("@@say:still said@@")
                await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
                refusal = BotApiFault.refuse("Unauthorized", 401)
                fault = gateway.api.inject_fault(refusal, "getUpdates", times=None)
                gateway.ann.send("wakes the poll")
                await wait_until(lambda: fault.hit_count)
                gateway.endpoint.release()

        with pytest.raises(ExceptionGroup) as caught:
            await revoked()
        assert caught.group_contains(TelegramRefused)
        assert "still said" in gateway.texts()
    assert set(await select_rows(gateway, select(turns.c.ending))) == {("answered",)}


async def test_a_failure_after_the_answer_does_not_take_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from bot.telegram.delivery.channel import ChatChannel

    end = ChatChannel.end

    def stumble(channel: ChatChannel) -> None:
        end(channel)
        raise RuntimeError("a bug behind the answer")

    async with running_gateway(tmp_path) as gateway:
        monkeypatch.setattr(ChatChannel, "end", stumble)
        gateway.ann.send("@@say:stands@@")
        await gateway.wait_for_texts()
        gateway.ann.send("@@say:too@@")
        await gateway.api.wait_until(lambda: "too" in gateway.texts())
        assert gateway.texts() == ["stands", "too"]
    assert await select_rows(gateway, select(inbox.c.state)) == [("done",), ("done",)]


async def test_a_bug_in_a_turn_is_said_without_its_words_and_leaves_no_row_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from bot.llm.client import ModelClient

    async def stumble(*_: object) -> None:
        raise RuntimeError("https://api.telegram.org/bot1:SECRET")

    async with running_gateway(tmp_path) as gateway:

        def has_reply(text: str, count: int) -> bool:
            return len([sent for sent in gateway.texts() if text in sent]) == count

        monkeypatch.setattr(ModelClient, "call", stumble)
        for count in (1, 2, 3):
            gateway.ann.send("hello")
            await gateway.api.wait_until(partial(has_reply, "Something went wrong", count))
        await gateway.api.wait_until(partial(has_reply, "couldn't process", 1))
        texts = gateway.texts()
    assert not any("SECRET" in text or "Error" in text for text in texts)
    assert set(await select_rows(gateway, select(turns.c.state, turns.c.ending))) == {("failed", "failed")}
    assert set(await select_rows(gateway, select(model_calls.c.outcome, model_calls.c.error))) == {
        ("cancelled", "the turn was set aside")
    }
    assert await select_rows(gateway, select(notices.c.subject).where(notices.c.subject == "set aside")) == [
        ("set aside",)
    ]


async def test_going_down_with_a_turn_at_work_takes_its_grace_and_no_more(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        stop = asyncio.Event()
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(
                process.run(gateway.settings, stop, options=RunOptions(shutdown_seconds=SHUTDOWN_SECONDS))
            )
            gateway.endpoint.hold()
            gateway.ann.send("@@say:later@@")
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
            stop.set()
        gateway.endpoint.release()
        async with gateway.run():
            assert await gateway.wait_for_texts() == ["later"]
    assert await select_rows(gateway, select(model_calls.c.outcome).order_by(model_calls.c.id)) == [
        ("cancelled",),
        ("ok",),
    ]


@pytest.mark.sqlite
async def test_a_start_waits_for_room_for_the_files_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with open_harness(tmp_path) as gateway:
        lock_file = Path(f"{parse_database_path(gateway.settings.database_url)}.lock")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            with monkeypatch.context() as full_disk:
                refusals = refuse_opening(full_disk, lock_file, errno.ENOSPC)
                stopped = asyncio.Event()
                stopping = tasks.create_task(process.run(gateway.settings, stopped))
                tasks.create_task(process.run(gateway.settings, stop))
                await wait_until(lambda: len(refusals) > 2)
                stopped.set()
                assert await stopping == 0
            gateway.ann.send("@@say:hi@@")
            assert await gateway.wait_for_texts() == ["hi"]
            stop.set()


async def test_the_ledger_names_the_model_that_answered(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(model="the-model")) as gateway:
        gateway.ann.send("@@say:hi@@")
        await gateway.wait_for_texts()
    assert await select_rows(gateway, select(model_calls.c.model)) == [("the-model",)]


async def test_the_turn_of_somebody_who_lost_access_meanwhile_ends_with_all_its_rows(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as gateway:
        bob = gateway.api.person(8, "Bob")
        async with gateway.run():
            gateway.endpoint.hold()
            bob.send("hello")
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await people.put(tx, 8, "Bob", "blocked", now=0.0)
        gateway.endpoint.release()
        async with gateway.run():
            failed = select(turns.c.id).where(turns.c.person == 8, turns.c.state == "failed")
            await wait_for_row(gateway, failed)
    assert len(await select_rows(gateway, select(turns.c.id))) == 1
    assert await select_rows(gateway, select(model_calls.c.id).where(model_calls.c.outcome.is_(None))) == []
    assert not gateway.texts(8)


async def test_a_task_of_somebody_who_lost_access_is_done_without_an_answer(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        gateway.api.person(8, "Bob").send("hello")
        async with gateway.run():
            await gateway.wait_for_texts(1, chat=8)  # the line for strangers
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            body = {"person": 8, "name": "Bob", "texts": ["@@say:no@@"]}
            await inbox_rows.add(tx, kind="task", lane=Lane(8), sender=8, body=body, now=0.0)
        async with gateway.run():
            await wait_for_row(
                gateway, select(inbox.c.id).where(inbox.c.kind == "task", inbox.c.state == "done")
            )
    assert len(gateway.texts(8)) == 1

"""The whole house when things go wrong at the worst moment: killed, stopped, refused, out of disk."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, select

from bot.app import factory as app
from bot.db.engine import open_database
from bot.db.people import people
from bot.db.queues import inbox as inbox_room
from bot.db.tables import inbox, model_calls, notices, turns
from bot.domain import Lane
from bot.errors import TelegramRefused
from bot.queue.worker import Worker
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway

SLOW = Timing(canvas_seconds=0.25)


@contextlib.asynccontextmanager
async def run_without_grace(gateway: GatewayHarness) -> AsyncIterator[None]:
    """A gateway that gives nothing any grace at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Worker.__init__.__kwdefaults__ or {}, "grace", 0.0)
        async with gateway.run():
            yield


async def select_rows(gateway: GatewayHarness, query: Select[Any]) -> list[tuple[Any, ...]]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return [tuple(row) for row in await tx.execute(query)]


async def test_a_stop_sent_while_the_house_was_dead_ends_the_turn_that_was_at_work(tmp_path: Path):
    async with open_harness(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        async with run_without_grace(house):
            house.ann.send(long_story())
            await house.wait_for_texts()
        house.ann.send("/stop")
        house.ann.send("@@say:wanted@@")
        async with house.run():
            await house.api.wait_until(lambda: "wanted" in house.texts() and house.is_finished())
        assert house.texts()[0].startswith("word0 word1")
        assert house.texts()[0].endswith("Stopped.")
        assert not house.api.chat(ADMIN).bot_messages[0].buttons
    assert await select_rows(house, select(turns.c.ending).order_by(turns.c.id)) == [
        ("stopped",),
        ("answered",),
    ]
    assert (None,) not in await select_rows(house, select(model_calls.c.outcome))


async def test_the_stop_button_works_after_a_restart(tmp_path: Path):
    async with open_harness(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        async with run_without_grace(house):
            house.ann.send(long_story())
            await house.wait_for_texts()
        house.ann.tap(house.api.chat(ADMIN).bot_messages[0], "⏹ Stop")
        async with house.run():
            await house.api.wait_until(house.is_finished)
    assert await select_rows(house, select(turns.c.ending)) == [("stopped",)]
    assert len(house.texts()) == 1


async def test_a_new_that_came_while_the_house_was_dead_ends_the_turn_that_was_at_work(tmp_path: Path):
    async with open_harness(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        async with run_without_grace(house):
            house.ann.send(long_story())
            await house.wait_for_texts()
        house.ann.send("/new")
        async with house.run():
            await house.api.wait_until(lambda: any("new conversation" in text for text in house.texts()))
            await house.api.wait_until(house.is_finished)
    assert await select_rows(house, select(turns.c.ending)) == [("stopped",)]


async def test_a_new_is_heard_by_a_turn_whose_cut_was_lost_with_the_process(tmp_path: Path):
    """Claimed, cut, and killed before the turn could say so: it stays cut."""
    async with open_harness(tmp_path) as house:
        async with run_without_grace(house):
            house.endpoint.hold()
            house.ann.send("@@say:unwanted@@")
            await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(inbox.update().values(stopped=True))
        house.endpoint.release()
        async with house.run():
            assert await house.wait_for_texts() == ["Stopped."]


async def test_a_question_from_before_a_new_that_waited_with_it_is_answered(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        house.ann.send("@@say:before@@")
        house.ann.send("/new")
        house.ann.send("@@say:after@@")
        async with house.run():
            texts = await house.wait_for_texts(3)
    assert [texts[0], texts[2]] == ["before", "after"]


async def test_a_message_no_library_can_read_stops_nobody(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.endpoint.hold()
        house.ann.send("@@say:first@@")
        await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        private = {"chat": {"id": ADMIN, "type": "private"}, "from": {"id": ADMIN}}
        house.api.push_update({"message": private | {"text": "waits, and has no number"}})
        house.api.push_update(
            {"message": private | {"text": "from the end of time", "date": 10**400, "message_id": 5}}
        )
        house.api.push_update(
            {"message": private | {"text": json.loads('"half \\ud800 a pair"'), "message_id": [7]}}
        )
        waiting = house.ann.send("/id")
        await house.api.wait_until(lambda: any(str(ADMIN) in text for text in house.texts()))
        house.endpoint.release()
        assert waiting.message_id
        await house.api.wait_until(lambda: "first" in house.texts())
        house.ann.send("@@say:and on@@")
        await house.api.wait_until(lambda: "and on" in house.texts())


async def test_what_telegram_refuses_at_last_does_not_cut_what_is_at_work(tmp_path: Path):
    async with open_harness(tmp_path, SimulatedEndpoint(timing=Timing(canvas_seconds=0.6))) as house:

        async def revoked() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.run(house.settings, asyncio.Event()))
                house.ann.send("@@say:still said@@")
                await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
                house.api.inject_fault(BotApiFault.refuse("Unauthorized", 401), "getUpdates", times=None)
                house.ann.send("wakes the poll")

        with pytest.raises(ExceptionGroup) as caught:
            await revoked()
        assert caught.group_contains(TelegramRefused)
        assert "still said" in house.texts()
    assert await select_rows(house, select(turns.c.ending)) == [("answered",)]


async def test_a_failure_after_the_answer_does_not_take_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from bot.telegram.delivery.channel import ChatChannel

    end = ChatChannel.end

    def stumble(channel: ChatChannel) -> None:
        end(channel)
        raise RuntimeError("a bug behind the answer")

    async with running_gateway(tmp_path) as house:
        monkeypatch.setattr(ChatChannel, "end", stumble)
        house.ann.send("@@say:stands@@")
        await house.wait_for_texts()
        house.ann.send("@@say:too@@")
        await house.api.wait_until(lambda: "too" in house.texts())
        assert house.texts() == ["stands", "too"]
    assert await select_rows(house, select(inbox.c.state)) == [("done",), ("done",)]


async def test_a_bug_in_a_turn_is_said_without_its_words_and_leaves_no_row_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from bot.llm.client import ModelClient

    async def stumble(*_: object) -> None:
        raise RuntimeError("https://api.telegram.org/bot1:SECRET")

    async with running_gateway(tmp_path) as house:

        def told(words: str, count: int) -> bool:
            return len([text for text in house.texts() if words in text]) == count

        monkeypatch.setattr(ModelClient, "call", stumble)
        for count in (1, 2, 3):
            house.ann.send("hello")
            await house.api.wait_until(partial(told, "could not handle", count))
        texts = house.texts()
        assert told("set aside", 1)
    assert not any("SECRET" in text or "Error" in text for text in texts)
    assert set(await select_rows(house, select(turns.c.state, turns.c.ending))) == {("failed", "failed")}
    assert set(await select_rows(house, select(model_calls.c.outcome, model_calls.c.error))) == {
        ("failed", "the turn was set aside")
    }
    assert await select_rows(house, select(notices.c.subject).where(notices.c.subject == "set aside")) == [
        ("set aside",)
    ]


async def test_going_down_with_a_turn_at_work_takes_its_grace_and_no_more(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        stop = asyncio.Event()
        async with asyncio.timeout(25.0), asyncio.TaskGroup() as tasks:
            tasks.create_task(app.run(house.settings, stop))
            house.endpoint.hold()
            house.ann.send("@@say:later@@")
            await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
            stop.set()
        house.endpoint.release()
        async with house.run():
            assert await house.wait_for_texts() == ["later"]
    assert await select_rows(house, select(model_calls.c.outcome).order_by(model_calls.c.id)) == [
        ("cancelled",),
        ("ok",),
    ]


async def test_the_ledger_names_the_model_that_answered(tmp_path: Path):
    async with running_gateway(tmp_path, SimulatedEndpoint(model="the-model")) as house:
        house.ann.send("@@say:hi@@")
        await house.wait_for_texts()
    assert await select_rows(house, select(model_calls.c.model)) == [("the-model",)]


async def test_the_turn_of_somebody_who_lost_access_meanwhile_ends_with_all_its_rows(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as house:
        bob = house.api.person(8, "Bob")
        async with house.run():
            house.endpoint.hold()
            bob.send("hello")
            await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            await people.put(tx, 8, "Bob", "blocked", now=0.0)
        house.endpoint.release()
        async with house.run():
            house.ann.send("@@say:here@@")
            await house.wait_for_texts()
    assert await select_rows(house, select(turns.c.state).where(turns.c.person == 8)) == [("failed",)]
    assert await select_rows(house, select(model_calls.c.id).where(model_calls.c.outcome.is_(None))) == []
    assert not house.texts(8)


async def test_a_task_of_somebody_who_lost_access_is_done_without_an_answer(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        house.api.person(8, "Bob").send("hello")
        async with house.run():
            await house.wait_for_texts(1, chat=8)  # the line for strangers
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            body = {"person": 8, "name": "Bob", "texts": ["@@say:no@@"]}
            await inbox_room.add(tx, kind="task", lane=Lane(8), sender=8, body=body, now=0.0)
        async with house.run():
            house.ann.send("@@say:here@@")
            await house.wait_for_texts()
    assert await select_rows(house, select(inbox.c.state).where(inbox.c.kind == "task")) == [("done",)]
    assert len(house.texts(8)) == 1

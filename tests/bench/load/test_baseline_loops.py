"""The yardsticks do the work they are said to do; here in the test's own loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bot.bench.harness import workload as talk
from bot.bench.load import bare_loop, memory_loop
from bot.http_server import serve
from bot.sim.telegram.server import BotApi, Fault, Limits
from bot.sim.vllm.server import Endpoint, Timing

World = tuple[BotApi, Endpoint]


@contextlib.asynccontextmanager
async def polled(name: str, timing: Timing | None = None, answer: int = 150) -> AsyncIterator[World]:
    """A yardstick at work between the simulators."""
    api, endpoint = (
        BotApi(limits=Limits.none()),
        Endpoint(brain=talk.Model(answer), timing=timing or Timing.instant()),
    )
    async with api.served() as telegram, serve(endpoint.app) as model:
        run = bare if name == "bare" else memory
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run(api.token, telegram, f"{model}/v1"))
            yield api, endpoint
            running.cancel()


async def bare(token: str, telegram: str, model: str) -> None:
    await bare_loop.run(token, telegram, model)


async def memory(token: str, telegram: str, model: str) -> None:
    loop = memory_loop.MemoryLoop(model)
    application = memory_loop.build(token, telegram, loop)
    async with application:
        assert application.updater
        await application.start()
        await application.updater.start_polling()
        try:
            await asyncio.Event().wait()
        finally:
            await application.updater.stop()
            await application.stop()
            await loop.close()


async def answered(api: BotApi, number: int, chat: int = 5) -> None:
    await api.until(lambda: any(m.text.endswith(talk.ending(number)) for m in api.chat(chat).from_bot))


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_yardstick_answers(name: str):
    async with polled(name) as (api, _):
        api.person(5).send(talk.question(1))
        await answered(api, 1)


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_yardstick_answers_chats_side_by_side(name: str):
    async with polled(name) as (api, endpoint):
        endpoint.hold()
        for chat in (5, 6, 7):
            api.person(chat).send(talk.question(chat))
        await endpoint.until(lambda: endpoint.running == 3)
        endpoint.release()
        for chat in (5, 6, 7):
            await answered(api, chat, chat)


async def test_the_memory_loop_remembers_and_shows_that_it_types():
    async with polled("memory") as (api, endpoint):
        for number in (1, 2):
            api.person(5).send(talk.question(number))
            await answered(api, number)
        roles = [message["role"] for message in endpoint.requests[-1].body["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert len(api.calls_of("sendChatAction", 5)) == 2


async def test_the_memory_loop_streams_into_one_message_not_too_often():
    async with polled("memory", Timing.canvas(0.2), answer=650) as (api, _):
        api.person(5).send(talk.question(1))
        await answered(api, 1)
        (shown,) = api.chat(5).from_bot
        assert len(shown.edits) == 1
        assert len(api.calls_of("sendMessage", 5)) == 1


async def test_the_memory_loop_edits_what_grows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_loop, "EDIT_SECONDS", 0.1)
    async with polled("memory", Timing.canvas(0.2), answer=650) as (api, _):
        api.person(5).send(talk.question(1))
        await answered(api, 1)
        (shown,) = api.chat(5).from_bot
        assert len(shown.edits) == 2


async def test_the_memory_loop_sends_again_what_it_does_not_know_to_have_arrived():
    async with polled("memory") as (api, _):
        api.inject(Fault.accept_then_drop(), "sendMessage")
        api.person(5).send(talk.question(1))
        await api.until(lambda: len(api.chat(5).from_bot) == 2)


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_yardstick_lets_other_updates_be(name: str):
    async with polled(name) as (api, endpoint):
        api.person(5).send_sticker()
        api.person(5).send(talk.question(1))
        await answered(api, 1)
        assert len(endpoint.requests) == 1

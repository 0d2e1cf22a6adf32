"""The baseline bots do the work they are meant to do; here in the test's own loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.sim.vllm.server import Timing
from tests.bench.harness import workload
from tests.bench.load import bare_loop, memory_loop
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

Simulators = tuple[ScriptedBotApi, ScriptedEndpoint]


@contextlib.asynccontextmanager
async def running_loop(
    name: str, timing: Timing | None = None, answer_tokens: int = 150
) -> AsyncIterator[Simulators]:
    """A baseline bot at work between the simulators."""
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    brain = workload.ProseBrain(answer_tokens)
    endpoint = ScriptedEndpoint(brain=brain, timing=timing or Timing.instant())
    async with api.serve_on_loopback() as telegram, serve(endpoint.app) as model:
        run = run_bare if name == "bare" else run_memory
        async with asyncio.TaskGroup() as tasks:
            loop_task = tasks.create_task(run(api.token, telegram, f"{model}/v1"))
            yield api, endpoint
            loop_task.cancel()


async def run_bare(token: str, telegram: str, model: str) -> None:
    await bare_loop.run_bare_loop(token, telegram, model)


async def run_memory(token: str, telegram: str, model: str) -> None:
    loop = memory_loop.MemoryLoop(model)
    application = memory_loop.build_application(token, telegram, loop)
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


async def wait_for_answer(api: ScriptedBotApi, number: int, chat: int = 5) -> None:
    await api.wait_until(
        lambda: any(m.text.endswith(workload.reply_ending(number)) for m in api.chat(chat).bot_messages)
    )


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_baseline_bot_answers(name: str):
    async with running_loop(name) as (api, _):
        api.person(5).send(workload.write_question(1))
        await wait_for_answer(api, 1)


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_baseline_bot_answers_chats_concurrently(name: str):
    async with running_loop(name) as (api, endpoint):
        endpoint.hold()
        for chat in (5, 6, 7):
            api.person(chat).send(workload.write_question(chat))
        await endpoint.wait_until(lambda: endpoint.running == 3)
        endpoint.release()
        for chat in (5, 6, 7):
            await wait_for_answer(api, chat, chat)


async def test_the_memory_loop_remembers_and_shows_typing():
    async with running_loop("memory") as (api, endpoint):
        for number in (1, 2):
            api.person(5).send(workload.write_question(number))
            await wait_for_answer(api, number)
        roles = [message["role"] for message in endpoint.requests[-1].body["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert len(api.calls_of("sendChatAction", 5)) == 2


@pytest.mark.parametrize(("edit_seconds", "edits"), [(3600.0, 1), (0.0, 2)], ids=["at the end", "each block"])
async def test_the_memory_loop_streams_into_one_message_and_edits_it_at_its_pace(
    monkeypatch: pytest.MonkeyPatch, edit_seconds: float, edits: int
):
    monkeypatch.setattr(memory_loop, "EDIT_SECONDS", edit_seconds)
    async with running_loop("memory", Timing.canvas(0.02), answer_tokens=650) as (api, _):
        api.person(5).send(workload.write_question(1))
        await wait_for_answer(api, 1)
        (message,) = api.chat(5).bot_messages
        assert len(message.edits) == edits
        assert len(api.calls_of("sendMessage", 5)) == 1


async def test_the_memory_loop_sends_again_what_it_does_not_know_to_have_arrived():
    async with running_loop("memory") as (api, _):
        api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
        api.person(5).send(workload.write_question(1))
        await api.wait_until(lambda: len(api.chat(5).bot_messages) == 2)


@pytest.mark.parametrize("name", ["bare", "memory"])
async def test_a_baseline_bot_ignores_other_updates(name: str):
    async with running_loop(name) as (api, endpoint):
        api.person(5).send_sticker()
        api.person(5).send(workload.write_question(1))
        await wait_for_answer(api, 1)
        assert len(endpoint.requests) == 1

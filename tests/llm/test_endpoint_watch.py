"""The watch over the endpoint: what it knows, and what it logs when the endpoint comes and goes."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from bot.http_server import serve
from bot.llm.endpoint_watch import EndpointWatch, WatchedEndpoint
from bot.sim.vllm.server import SimulatedEndpoint


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[SimulatedEndpoint, str]]:
    simulated = SimulatedEndpoint()
    async with serve(simulated.app) as url:
        yield simulated, f"{url}/v1"


async def wait_until_up(watch: EndpointWatch, *, is_up: bool) -> None:
    async with asyncio.timeout(20):
        while watch.is_up != is_up:  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.005)


async def test_each_change_is_logged_once_and_an_answer_names_the_server(
    endpoint: tuple[SimulatedEndpoint, str], caplog: pytest.LogCaptureFixture
) -> None:
    simulated, url = endpoint
    caplog.set_level(logging.INFO)
    watched = WatchedEndpoint(url, None, None, seats=4)
    watch = EndpointWatch(watched, seconds_while_up=0.01, seconds_while_away=0.01)
    simulated.refuse_connections(1000)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        assert not watch.is_up
        async with asyncio.timeout(20):
            while "does not answer" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        simulated.heal()
        await wait_until_up(watch, is_up=True)
        simulated.refuse_connections(1000)
        await wait_until_up(watch, is_up=False)
        simulated.heal()
        await wait_until_up(watch, is_up=True)
        await asyncio.sleep(0.05)
        task.cancel()
    records = [record for record in caplog.records if record.name == "bot.llm.endpoint_watch"]
    actions = [vars(record)["action"] for record in records]
    assert actions == ["endpoint.away", "endpoint.answers", "endpoint.away", "endpoint.answers"]
    model = simulated.model
    assert records[1].getMessage().startswith(f"the model endpoint at {url} answers: {model}, vLLM ")


@pytest.mark.parametrize(
    ("model", "key", "words"),
    [("mine", "k", "answers: mine, vLLM"), (None, None, "wants a key"), (None, "other", "wants another key")],
)
async def test_a_key_that_is_refused_is_said(
    model: str | None, key: str | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serve(SimulatedEndpoint(api_key="k").app) as url:
        watch = EndpointWatch(WatchedEndpoint(f"{url}/v1", key, model, seats=4))
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
            task = tasks.create_task(watch.run())
            while words not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            task.cancel()

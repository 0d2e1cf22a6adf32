"""The watch over the endpoint: what it knows, and what it logs when the endpoint comes and goes."""

import asyncio
import logging

import pytest
from starlette.types import Receive, Scope, Send

from bot.http_server import serve
from bot.llm.endpoint_watch import EndpointWatch, WatchedEndpoint
from tests.support.endpoint.server import ScriptedEndpoint


class HealthChecks:
    """Serves an endpoint, and notes when it has been asked whether it is up."""

    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self._app = endpoint.app
        self._answered = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope.get("path") == "/health":
            self._answered.set()

    async def wait_for_next(self) -> None:
        async with asyncio.timeout(60):
            self._answered.clear()
            await self._answered.wait()


async def wait_until_up(watch: EndpointWatch, *, is_up: bool) -> None:
    async with asyncio.timeout(60):
        while watch.is_up != is_up:  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.005)


async def test_each_change_is_logged_once_and_an_answer_names_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    simulated = ScriptedEndpoint()
    health_checks = HealthChecks(simulated)
    simulated.refuse_connections(1000)
    async with serve(health_checks) as address, asyncio.TaskGroup() as tasks:
        url = f"{address}/v1"
        watched = WatchedEndpoint(url, None, None, seats=4)
        watch = EndpointWatch(watched, seconds_while_up=0.01, seconds_while_away=0.01)
        task = tasks.create_task(watch.run())
        assert not watch.is_up
        async with asyncio.timeout(60):
            while "does not answer" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        simulated.heal()
        await wait_until_up(watch, is_up=True)
        simulated.refuse_connections(1000)
        await wait_until_up(watch, is_up=False)
        simulated.heal()
        await wait_until_up(watch, is_up=True)
        for _ in range(3):  # further looks are no news
            await health_checks.wait_for_next()
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
    async with serve(ScriptedEndpoint(api_key="k").app) as url:
        watch = EndpointWatch(WatchedEndpoint(f"{url}/v1", key, model, seats=4))
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
            task = tasks.create_task(watch.run())
            while words not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            task.cancel()

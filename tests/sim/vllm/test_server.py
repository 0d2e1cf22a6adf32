import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream

from bot.http_server import serve
from bot.sim.vllm.server import ChatRequest, Timing, count_tokens
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import SimulatorClient, open_client

SLOW = Timing.canvas(600)


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@contextlib.asynccontextmanager
async def openai_client(endpoint: ScriptedEndpoint) -> AsyncIterator[AsyncOpenAI]:
    async with (
        serve(endpoint.app) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key=endpoint.api_key or "none", max_retries=0) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def send_concurrently(
    player: SimulatorClient, *bodies: dict[str, Any]
) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Requests on their way, cancelled in the end."""
    async with asyncio.TaskGroup() as tasks:
        tasks_sent = [tasks.create_task(player.send(body)) for body in bodies]
        yield tasks_sent
        for task in tasks_sent:
            task.cancel()


async def test_the_openai_client_reads_a_stream_with_calls_and_usage() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "F", "parameters": {"type": "object"}},
    }
    async with openai_client(ScriptedEndpoint()) as client:
        stream = await client.chat.completions.create(
            model="diffusiongemma",
            messages=[{"role": "user", "content": '@@think:hm@@@@tool:f {"a":"b"}@@'}],
            tools=[tool],  # type: ignore[list-item]
            stream=True,
        )
        assert isinstance(stream, AsyncStream)
        chunks = [chunk async for chunk in stream]
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert [(call.function.name, call.function.arguments) for call in calls if call.function] == [
        ("f", '{"a": "b"}')
    ]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens_details
    assert chunks[-1].usage.completion_tokens_details.reasoning_tokens


async def test_the_openai_client_reads_models_answers_and_refusals() -> None:
    async with openai_client(ScriptedEndpoint(api_key="k")) as client:
        models = [model.id async for model in client.models.list()]
        answer = await client.chat.completions.create(
            model=models[0], messages=[{"role": "user", "content": "hi"}]
        )
        with pytest.raises(APIStatusError, match="temperature") as refused:
            await client.chat.completions.create(
                model=models[0], messages=[{"role": "user", "content": "hi"}], temperature=0
            )
    assert answer.choices[0].message.content == "echo: hi"
    assert refused.value.status_code == 400


async def test_the_openai_client_notices_a_reset() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("reset")
    async with openai_client(endpoint) as client:
        with pytest.raises(APIConnectionError):
            await client.chat.completions.create(
                model="diffusiongemma", messages=[{"role": "user", "content": "hi"}]
            )


async def test_each_canvas_comes_as_one_chunk_and_the_role_with_the_first() -> None:
    endpoint = ScriptedEndpoint(ServerProfile.bare())
    async with open_client(endpoint) as player:
        got = await player.send_text("@@repeat:600 word @@", stream=True)
    assert len(got.lines) == 1 + 3 + 1
    assert endpoint.requests[0].canvases == 3
    assert endpoint.requests[0].completion_tokens == count_tokens("word " * 600) + 1


async def test_held_canvases_wait_for_release() -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        endpoint.hold()
        async with send_concurrently(player, user("a"), user("b")) as tasks_sent:
            await endpoint.wait_until(lambda: endpoint.running == 2)
            assert not any(task.done() for task in tasks_sent)
            endpoint.release()
            endpoint.release()
            answers = await asyncio.gather(*tasks_sent)
    assert {answer.message["content"] for answer in answers} == {"echo: a", "echo: b"}


async def test_a_canvas_that_is_under_way_is_held_as_well() -> None:
    def hold_soon(_: ChatRequest) -> str:
        asyncio.get_running_loop().call_soon(endpoint.hold)  # once the canvas has begun, and before any time
        return "a"

    endpoint = ScriptedEndpoint(timing=Timing.canvas(0.01), brain=hold_soon)
    async with open_client(endpoint) as player, send_concurrently(player, user("a")) as [sent]:
        await endpoint.wait_until(lambda: endpoint.running == 1)
        await asyncio.wait([sent], timeout=0.1)
        assert not sent.done()
        endpoint.release()
        await sent


async def test_no_more_run_at_once_than_there_are_seats() -> None:
    endpoint = ScriptedEndpoint(seats=2)
    async with open_client(endpoint) as player:
        endpoint.hold()
        async with send_concurrently(player, *(user(str(n)) for n in range(5))) as tasks_sent:
            await endpoint.wait_until(lambda: endpoint.running + endpoint.waiting == 5)
            assert (endpoint.running, endpoint.waiting) == (2, 3)
            endpoint.release()
            await asyncio.gather(*tasks_sent)
    assert endpoint.peak_running == 2
    assert (endpoint.running, endpoint.waiting) == (0, 0)


async def wait_for_arrivals(endpoint: ScriptedEndpoint, count: int) -> None:
    """Return once so many requests run or wait."""
    await endpoint.wait_until(lambda: endpoint.running + endpoint.waiting == count)


@pytest.mark.parametrize(
    ("profile", "order"),
    [(ServerProfile(), ["first", "header", "low", "none", "high"]), (ServerProfile.bare(), None)],
)
async def test_the_queue_follows_priority_only_when_the_server_is_told_to(
    profile: ServerProfile, order: Any
) -> None:
    answered_order: list[str] = []

    def brain(request: ChatRequest) -> str:
        answered_order.append(str(request.messages[0]["content"]))
        return "ok"

    endpoint = ScriptedEndpoint(profile, seats=1, brain=brain)
    arrivals = [("first", 0), ("high", 5), ("none", None), ("low", -5), ("header", -9)]
    async with open_client(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        for place, (name, priority) in enumerate(arrivals):
            fields = {} if priority is None or name == "header" else {"priority": priority}
            headers = {"x-vllm-priority": "-9"} if name == "header" else {}
            tasks.create_task(player.send({**user(name), **fields}, **headers))
            await wait_for_arrivals(endpoint, place + 1)
        endpoint.release()
    assert answered_order == (order or [name for name, _ in arrivals])


async def test_the_limit_of_the_queue_counts_those_that_run() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), max_queued=2))
    async with open_client(endpoint) as player:
        endpoint.hold()
        async with send_concurrently(player, user("a"), user("b")):
            await endpoint.wait_until(lambda: endpoint.running == 2)
            refused = await player.send_text("c")
            metrics = (await player.http.get("/metrics")).text
    assert refused.status == 503
    assert (
        'admission_rejections_total{engine="0",model_name="diffusiongemma",reason="max_num_queued_reqs"} 1.0'
        in metrics
    )


async def test_every_second_streamed_request_over_the_limit_is_refused_in_its_stream() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), max_queued=0))
    async with open_client(endpoint) as player:
        responses = [await player.send({**user("a"), "stream": True}) for _ in range(4)]
        whole = [await player.send(user("a")) for _ in range(2)]
    assert [response.status for response in responses] == [503, 200, 503, 200]
    assert [response.status for response in whole] == [503, 503]
    event, done = responses[1].lines
    assert json.loads(event.removeprefix("data: "))["error"]["code"] == 503
    assert done == "data: [DONE]"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_frees_its_seat_at_once(stream: bool) -> None:
    endpoint = ScriptedEndpoint(timing=SLOW, seats=1)
    async with (
        open_client(endpoint) as player,
        send_concurrently(player, {**user("a"), "stream": stream}) as tasks_sent,
    ):
        await endpoint.wait_until(lambda: endpoint.running == 1)
        tasks_sent[0].cancel()
        await endpoint.wait_until(lambda: endpoint.running == 0)
        await endpoint.wait_until(lambda: endpoint.requests[0].finished_at is not None)
    assert endpoint.requests[0].cancelled
    assert endpoint.requests[0].first_canvas_at is None


async def test_a_client_that_goes_while_it_waits_leaves_the_queue() -> None:
    endpoint = ScriptedEndpoint(seats=1)
    async with open_client(endpoint) as player:
        endpoint.hold()
        async with send_concurrently(player, user("a")) as [first]:
            await wait_for_arrivals(endpoint, 1)
            async with send_concurrently(player, user("b"), user("c")) as [second, third]:
                await wait_for_arrivals(endpoint, 3)
                second.cancel()
                await endpoint.wait_until(lambda: endpoint.waiting == 1)
                endpoint.release()
                await asyncio.gather(first, third)
    cancelled = {request.body["messages"][0]["content"]: request.cancelled for request in endpoint.requests}
    assert cancelled == {"a": False, "b": True, "c": False}


@dataclass(frozen=True)
class NotedTiming(Timing):
    """Notes of how many tokens it is asked for the time of a prefill."""

    prefills: list[int] = field(default_factory=list)

    def prefill_seconds(self, tokens: int) -> float:
        self.prefills.append(tokens)
        return super().prefill_seconds(tokens)


async def test_time_is_prefill_of_what_is_not_cached_and_canvases() -> None:
    timing = Timing(
        prefill_tokens_per_s=10_000, step_ms=2, steps_per_canvas=10, commit_ms=5, step_ms_per_1k=1
    )
    assert timing.prefill_seconds(500) == pytest.approx(0.05)
    assert timing.canvas_time(2000) == pytest.approx(0.045)
    assert timing.canvas_time(2000, limit=5) == pytest.approx(0.025)
    assert timing.canvas_time(2000, limit=99) == pytest.approx(0.045)
    assert Timing.canvas(1.6).canvas_time(9) == 1.6
    assert Timing.spark().canvas_time(1000) == pytest.approx(1.5, abs=0.1)
    noted = NotedTiming(step_ms=5, steps_per_canvas=10, prefill_tokens_per_s=10_000)
    endpoint = ScriptedEndpoint(timing=noted)
    async with open_client(endpoint) as player:
        await player.send_text("word " * 600)
        await player.send_text("word " * 600)
    cold, warm = endpoint.requests
    assert warm.seat_wait_seconds is not None
    assert noted.prefills == [cold.prompt_tokens, warm.prompt_tokens - warm.cached_tokens]
    assert warm.cached_tokens > 500
    for request, prefill_tokens in zip((cold, warm), noted.prefills, strict=True):
        assert request.first_canvas_at
        assert request.seated_at
        assert request.first_canvas_at - request.seated_at > 0.05 + prefill_tokens / 10_000


async def test_log_and_sums_say_what_was_asked() -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        await player.send_text("hi", chat_template_kwargs={"enable_thinking": True})
    [log] = endpoint.requests
    assert log.prompt.endswith("<|turn>model\n")
    assert log.prompt_tokens == count_tokens(log.prompt) == endpoint.prompt_tokens
    assert (log.thinking, log.status, log.finish_reason) == (True, 200, "stop")
    assert log.completion_tokens == endpoint.generated_tokens
    assert endpoint.cached_tokens == 0
    assert log.body["messages"][0]["content"] == "hi"


async def test_the_log_does_not_grow_for_ever() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("busy", times=None)
    async with open_client(endpoint) as player:
        await player.send_text("a")
        endpoint.requests.extend(endpoint.requests * 3999)
        await player.send_text("b")
    assert len(endpoint.requests) == 4000
    assert endpoint.requests[-1].body["messages"][0]["content"] == "b"


async def test_until_gives_up() -> None:
    with pytest.raises(TimeoutError):
        await ScriptedEndpoint().wait_until(lambda: False, timeout=0.01)


async def test_an_idle_server_answers_every_route() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        health = await player.send(None, "/health")
        wrong = await player.send(None, "/v1/chat/completions")
    assert health.status == 200
    assert (wrong.status, wrong.body) == (405, {"detail": "Method Not Allowed"})


async def test_metrics_count_requests_tokens_and_whole_canvases() -> None:
    endpoint = ScriptedEndpoint(timing=Timing(steps_per_canvas=12))
    async with open_client(endpoint) as player:
        await player.send_text("@@repeat:300 word @@", vllm_xargs={"diffusion_max_steps": 4})
        await player.send_text("hi")
        text = (await player.http.get("/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    labels = 'engine="0",model_name="diffusiongemma"'
    assert values[f"vllm:diffusion_num_committed_tokens_total{{{labels}}}"] == "768.0"
    assert values[f"vllm:diffusion_num_denoising_steps_total{{{labels}}}"] == "23.0"
    assert values[f"vllm:diffusion_num_canvas_positions_total{{{labels}}}"] == str(23.0 * 256)
    assert values[f"vllm:generation_tokens_total{{{labels}}}"] == f"{endpoint.generated_tokens}.0"
    assert (
        values['vllm:request_success_total{engine="0",finished_reason="stop",model_name="diffusiongemma"}']
        == "2.0"
    )
    assert values[f"vllm:e2e_request_latency_seconds_count{{{labels}}}"] == "2.0"


async def test_two_endpoints_know_nothing_of_each_other() -> None:
    first_endpoint, second_endpoint = ScriptedEndpoint(), ScriptedEndpoint()
    async with open_client(first_endpoint) as first, open_client(second_endpoint) as second:
        await first.send_text("word " * 100)
        await second.send_text("word " * 100)
    assert first_endpoint.cached_tokens == second_endpoint.cached_tokens == 0
    assert len(first_endpoint.requests) == len(second_endpoint.requests) == 1


async def test_a_port_without_its_server_refuses() -> None:
    # At an address of its own, where no other server can have the port by then.
    async with serve(ScriptedEndpoint().app, host="127.0.0.83") as url:
        pass
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)

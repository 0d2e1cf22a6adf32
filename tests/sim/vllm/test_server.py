import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream

from bot.http_server import serve
from bot.sim.vllm.server import ChatRequest, Endpoint, Profile, Timing, count_tokens
from tests.support.endpoint_client import Player, playing

SLOW = Timing.canvas(30)


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@contextlib.asynccontextmanager
async def openai(endpoint: Endpoint) -> AsyncIterator[AsyncOpenAI]:
    async with (
        serve(endpoint.app) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key=endpoint.api_key or "none", max_retries=0) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def asking(player: Player, *bodies: dict[str, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Requests on their way, cancelled in the end."""
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(player.play(body)) for body in bodies]
        yield asked
        for task in asked:
            task.cancel()


async def test_the_openai_client_reads_a_stream_with_calls_and_usage() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "F", "parameters": {"type": "object"}},
    }
    async with openai(Endpoint()) as client:
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
    async with openai(Endpoint(api_key="k")) as client:
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
    endpoint = Endpoint()
    endpoint.fault("reset")
    async with openai(endpoint) as client:
        with pytest.raises(APIConnectionError):
            await client.chat.completions.create(
                model="diffusiongemma", messages=[{"role": "user", "content": "hi"}]
            )


async def test_each_canvas_comes_as_one_chunk_and_the_role_with_the_first() -> None:
    endpoint = Endpoint(Profile.bare())
    async with playing(endpoint) as player:
        got = await player.say("@@repeat:600 word @@", stream=True)
    assert len(got.lines) == 1 + 3 + 1
    assert endpoint.requests[0].canvases == 3
    assert endpoint.requests[0].completion_tokens == count_tokens("word " * 600) + 1


async def test_held_canvases_wait_for_release() -> None:
    endpoint = Endpoint()
    async with playing(endpoint) as player:
        endpoint.hold()
        async with asking(player, user("a"), user("b")) as asked:
            await endpoint.until(lambda: endpoint.running == 2)
            assert not any(task.done() for task in asked)
            endpoint.release()
            endpoint.release()
            answers = await asyncio.gather(*asked)
    assert {answer.message["content"] for answer in answers} == {"echo: a", "echo: b"}


async def test_no_more_run_at_once_than_there_are_seats() -> None:
    endpoint = Endpoint(seats=2)
    async with playing(endpoint) as player:
        endpoint.hold()
        async with asking(player, *(user(str(n)) for n in range(5))) as asked:
            await endpoint.until(lambda: endpoint.running + endpoint.waiting == 5)
            assert (endpoint.running, endpoint.waiting) == (2, 3)
            endpoint.release()
            await asyncio.gather(*asked)
    assert endpoint.peak_running == 2
    assert (endpoint.running, endpoint.waiting) == (0, 0)


@pytest.mark.parametrize(
    ("profile", "order"),
    [(Profile.today(), ["first", "header", "low", "none", "high"]), (Profile.bare(), None)],
)
async def test_the_queue_follows_priority_only_when_the_server_is_told_to(
    profile: Profile, order: Any
) -> None:
    heard: list[str] = []

    def brain(request: ChatRequest) -> str:
        heard.append(str(request.messages[0]["content"]))
        return "ok"

    endpoint = Endpoint(profile, seats=1, brain=brain)
    arrivals = [("first", 0), ("high", 5), ("none", None), ("low", -5), ("header", -9)]
    async with playing(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        for place, (name, priority) in enumerate(arrivals):
            fields = {} if priority is None or name == "header" else {"priority": priority}
            headers = {"x-vllm-priority": "-9"} if name == "header" else {}
            tasks.create_task(player.play({**user(name), **fields}, **headers))
            await endpoint.until(lambda wanted=place + 1: endpoint.running + endpoint.waiting == wanted)  # type: ignore[misc]
        endpoint.release()
    assert heard == (order or [name for name, _ in arrivals])


async def test_the_limit_of_the_queue_counts_those_that_run() -> None:
    endpoint = Endpoint(replace(Profile.today(), max_queued=2))
    async with playing(endpoint) as player:
        endpoint.hold()
        async with asking(player, user("a"), user("b")):
            await endpoint.until(lambda: endpoint.running == 2)
            refused = await player.say("c")
            metrics = (await player.http.get("/metrics")).text
    assert refused.status == 503
    assert (
        'admission_rejections_total{engine="0",model_name="diffusiongemma",reason="max_num_queued_reqs"} 1.0'
        in metrics
    )


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_frees_its_seat_at_once(stream: bool) -> None:
    endpoint = Endpoint(timing=SLOW, seats=1)
    async with playing(endpoint) as player, asking(player, {**user("a"), "stream": stream}) as asked:
        await endpoint.until(lambda: endpoint.running == 1)
        asked[0].cancel()
        await endpoint.until(lambda: endpoint.running == 0)
        await endpoint.until(lambda: endpoint.requests[0].finished is not None)
    assert endpoint.requests[0].cancelled
    assert endpoint.requests[0].first is None


async def test_a_client_that_goes_while_it_waits_leaves_the_queue() -> None:
    endpoint = Endpoint(seats=1)
    async with playing(endpoint) as player:
        endpoint.hold()
        async with asking(player, user("a"), user("b"), user("c")) as asked:
            await endpoint.until(lambda: endpoint.waiting == 2)
            asked[1].cancel()
            await endpoint.until(lambda: endpoint.waiting == 1)
            endpoint.release()
            await asyncio.gather(asked[0], asked[2])
    assert [request.cancelled for request in endpoint.requests] == [False, True, False]


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
    endpoint = Endpoint(timing=Timing.canvas(0.05, prefill_tokens_per_s=2_000))
    async with playing(endpoint) as player:
        await player.say("word " * 600)
        await player.say("word " * 600)
    cold, warm = endpoint.requests
    assert warm.seat_wait is not None
    assert cold.first
    assert cold.seated
    assert warm.first
    assert warm.seated
    assert cold.first - cold.seated > 0.05 + cold.prompt_tokens / 2_000
    assert warm.first - warm.seated < cold.first - cold.seated


async def test_log_and_sums_say_what_was_asked() -> None:
    endpoint = Endpoint()
    async with playing(endpoint) as player:
        await player.say("hi", chat_template_kwargs={"enable_thinking": True})
    [log] = endpoint.requests
    assert log.prompt.endswith("<|turn>model\n")
    assert log.prompt_tokens == count_tokens(log.prompt) == endpoint.prompt_tokens
    assert (log.thinking, log.status, log.finish_reason) == (True, 200, "stop")
    assert log.completion_tokens == endpoint.generated_tokens
    assert endpoint.cached_tokens == 0
    assert log.body["messages"][0]["content"] == "hi"


async def test_the_log_does_not_grow_for_ever() -> None:
    endpoint = Endpoint()
    endpoint.fault("busy", times=None)
    async with playing(endpoint) as player:
        await player.say("a")
        endpoint.requests.extend(endpoint.requests * 3999)
        await player.say("b")
    assert len(endpoint.requests) == 2001
    assert endpoint.requests[-1].body["messages"][0]["content"] == "b"


async def test_until_gives_up() -> None:
    with pytest.raises(TimeoutError):
        await Endpoint().until(lambda: False, timeout=0.01)


async def test_an_idle_server_answers_every_route() -> None:
    async with playing(Endpoint()) as player:
        health = await player.play(None, "/health")
        ping = await player.http.post("/ping")
        load = await player.play(None, "/load")
        wrong = await player.play(None, "/v1/chat/completions")
    assert (health.status, ping.status_code, load.body) == (200, 200, {"server_load": 0})
    assert (wrong.status, wrong.body) == (405, {"detail": "Method Not Allowed"})


async def test_metrics_count_requests_tokens_and_whole_canvases() -> None:
    endpoint = Endpoint(timing=Timing(steps_per_canvas=12))
    async with playing(endpoint) as player:
        await player.say("@@repeat:300 word @@", vllm_xargs={"diffusion_max_steps": 4})
        await player.say("hi")
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


async def test_load_counts_running_requests_where_tracking_is_on() -> None:
    loads = []
    for profile in (Profile.today(), Profile.bare()):
        endpoint = Endpoint(profile)
        async with playing(endpoint) as player:
            endpoint.hold()
            async with asking(player, user("a")):
                await endpoint.until(lambda here=endpoint: here.running == 1)  # type: ignore[misc]
                loads.append((await player.play(None, "/load")).body["server_load"])
    assert loads == [1, 0]


async def test_two_endpoints_know_nothing_of_each_other() -> None:
    one, two = Endpoint(), Endpoint()
    async with playing(one) as first, playing(two) as second:
        await first.say("word " * 100)
        await second.say("word " * 100)
    assert one.cached_tokens == two.cached_tokens == 0
    assert len(one.requests) == len(two.requests) == 1


async def test_a_port_without_its_server_refuses() -> None:
    async with serve(Endpoint().app) as url:
        pass
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)

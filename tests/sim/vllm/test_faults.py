import asyncio
from dataclasses import replace

import httpx
import pytest

from tests.support.endpoint import gate as endpoint_http
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import load_fixture, merge_stream, open_client, parse_chunks

LONG = "@@repeat:600 word @@"
DEAD = {
    "message": "The server had an error while processing your request.",
    "type": "InternalServerError",
    "param": None,
    "code": 500,
}


async def test_a_busy_server_says_503_once() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("busy")
    async with open_client(endpoint) as player:
        busy, fine = await player.send_text("hi"), await player.send_text("hi")
    assert (busy.status, busy.body) == (503, load_fixture("07-overload-503")["body"])
    assert "retry-after" not in busy.headers
    assert fine.status == 200
    assert [request.fault_kind for request in endpoint.requests] == ["busy", None]
    assert [request.status for request in endpoint.requests] == [503, 200]


async def test_unauthorized_is_a_string() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("unauthorized", times=2)
    async with open_client(endpoint) as player:
        answers = [await player.send_text("hi") for _ in range(3)]
    assert [answer.status for answer in answers] == [401, 401, 200]
    assert answers[0].body == load_fixture("14-no-api-key")["body"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reset_cuts_the_connection(stream: bool) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("reset")
    async with open_client(endpoint) as player:
        with pytest.raises(httpx.ReadError):
            await player.send_text("hi", stream=stream)
    assert endpoint.running == 0


async def test_a_reset_in_mid_stream_comes_after_whole_canvases() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("reset", after_canvases=2)
    async with open_client(endpoint) as player:
        with pytest.raises(httpx.ReadError):
            await player.send_text(LONG, stream=True)
    assert endpoint.requests[0].canvases == 2
    assert endpoint.requests[0].finish_reason is None


async def test_an_error_in_mid_stream_is_a_line_and_then_the_end() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("error_line", after_canvases=1)
    async with open_client(endpoint) as player:
        got = await player.send_text(LONG, stream=True)
        again = await player.send_text("hi", stream=True)
    assert got.status == 200
    assert len([chunk for chunk in parse_chunks(got.lines) if chunk.get("choices")]) == 2
    assert got.streamed_reply.errors == [DEAD]
    assert (got.streamed_reply.finish_reason, got.streamed_reply.usage, got.streamed_reply.is_done) == (
        None,
        None,
        True,
    )
    assert again.streamed_reply.finish_reason == "stop"


async def test_the_same_error_without_a_stream_is_500() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("error_line")
    async with open_client(endpoint) as player:
        got = await player.send_text("hi")
    assert (got.status, got.body) == (500, {"error": DEAD})


async def test_a_silent_stream_stays_open_until_its_reader_goes() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), keep_alive_s=None))
    endpoint.inject_fault("silent", after_canvases=1)
    body = {"messages": [{"role": "user", "content": LONG}], "stream": True}
    async with (
        open_client(endpoint) as player,
        player.http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        pieces = answer.aiter_text()
        first = await anext(pieces)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(pieces)
        await answer.aclose()
        await endpoint.wait_until(lambda: endpoint.running == 0)
    assert '"content":"word word' in first
    assert endpoint.requests[0].cancelled
    assert endpoint.requests[0].canvases == 1


async def test_a_slow_first_canvas_is_kept_alive_by_comments() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), keep_alive_s=0.02))
    endpoint.inject_fault("slow", seconds=0.1)
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with open_client(endpoint) as player:
        endpoint.hold()  # for as long as the comments take
        async with player.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = (line async for line in answer.aiter_lines() if line)
            assert [await anext(lines) for _ in range(2)] == [": keep-alive", ": keep-alive"]
            endpoint.release()
            rest = [line async for line in lines]
    assert merge_stream(rest).content == "echo: hi"


async def test_comments_come_while_a_request_waits_for_its_seat() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), keep_alive_s=0.01), seats=1)
    body = {"messages": [{"role": "user", "content": "b"}], "stream": True}
    async with open_client(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        tasks.create_task(player.send_text("a"))
        await endpoint.wait_until(lambda: endpoint.running == 1)
        async with player.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.aiter_lines()
            first = await anext(lines)
            assert endpoint.waiting == 1
            endpoint.release()
            rest = [line async for line in lines if line]
    assert first == ": keep-alive"
    assert rest[-1] == "data: [DONE]"


async def test_a_stream_may_lose_its_usage() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("no_usage")
    async with open_client(endpoint) as player:
        got = await player.send_text("hi", stream=True)
    assert got.streamed_reply.usage is None
    assert got.streamed_reply.finish_reason == "stop"
    assert got.streamed_reply.is_done


async def test_a_dying_engine_ends_open_streams_and_then_the_server(lingering_server: None) -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        stream = tasks.create_task(player.send_text(LONG, stream=True))
        await endpoint.wait_until(lambda: endpoint.running == 1)
        crash = await player.send_text("@@crash@@")
        health = await player.send(None, "/health")
        late = await player.send_text("hi")
    assert (crash.status, crash.body) == (500, load_fixture("15-crash")["body"])
    assert health.status == load_fixture("15-health-after-crash-0")["status"] == 503
    assert late.status == 500
    assert (
        stream.result().streamed_reply.errors
        == merge_stream(load_fixture("15-stream-while-engine-crashes")["sse"]).errors
    )
    assert stream.result().streamed_reply.is_done


async def test_a_dead_server_is_gone_after_a_moment_and_comes_back_healed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("crash")
    async with open_client(endpoint) as player:
        assert (await player.send_text("hi")).status == 500
        monkeypatch.setattr(endpoint_http, "_DEAD_SECONDS", -1.0)
        with pytest.raises(httpx.ReadError):
            await player.send(None, "/health")
        endpoint.heal()
        assert (await player.send_text("hi")).status == 200
        endpoint.heal()
        assert (await player.send(None, "/health")).status == 200


async def test_a_loading_server_answers_503_and_a_closed_door_cuts() -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        endpoint.simulate_loading(600)
        loading = await player.send(None, "/v1/models")
        endpoint.refuse_connections(600)
        with pytest.raises(httpx.ReadError):
            await player.send_text("hi")
        endpoint.heal()
        fine = await player.send_text("hi")
    assert (loading.status, fine.status) == (503, 200)


async def test_a_rate_hits_its_share_and_the_same_ones_again() -> None:
    statuses = []
    for _ in range(2):
        endpoint = ScriptedEndpoint(seed=7)
        endpoint.inject_fault("busy", times=None, rate=0.3)
        async with open_client(endpoint) as player:
            statuses.append([(await player.send_text("hi")).status for _ in range(40)])
    assert statuses[0] == statuses[1]
    assert 4 < statuses[0].count(503) < 20


def test_an_unknown_fault_is_told_by_name() -> None:
    with pytest.raises(ValueError, match="unknown fault 'flood'; one of busy"):
        ScriptedEndpoint().inject_fault("flood")  # type: ignore[arg-type]

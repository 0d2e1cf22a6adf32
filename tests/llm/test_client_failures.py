"""Calls that are refused, cancelled, cut off or never answered: the error, and what is left of the reply."""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bot.domain import Reply, Usage
from bot.errors import REFUSING, CallFailed, EndpointAway, EndpointRefused, PromptTooLong
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from tests.support.recorded_endpoint import (
    RecordedResponse,
    ReplayServer,
    ignore,
    load_response,
    make_request,
    make_response,
    open_client,
)

BODY = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
FULL_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


async def call_and_fail(response: RecordedResponse, silence_seconds: float = 60.0) -> CallFailed:
    async with open_client(ReplayServer([response]), silence_seconds=silence_seconds) as client:
        with pytest.raises(CallFailed) as caught:
            await client.call(make_request(), ignore, ignore)
    return caught.value


@pytest.mark.parametrize(
    ("name", "error", "expected"),
    [
        ("14-no-api-key", EndpointRefused, "MODEL_API_KEY"),
        ("07-err-unknown-model", EndpointRefused, "does not serve the model gemma4"),
        ("00-notfound", EndpointRefused, "/v1"),
        ("16-dg-param-temperature", EndpointRefused, "not yet supported with diffusion models"),
        ("07-err-max-tokens-too-large", EndpointRefused, "cannot be greater than max_model_len"),
        ("07-err-empty-messages", EndpointRefused, "empty conversation"),
        ("14-small-context-too-long", PromptTooLong, "longer than the endpoint's context"),
        ("07-overload-503", EndpointAway, "currently busy and cannot accept new requests"),
        ("15-crash", EndpointAway, "not ready"),
    ],
)
async def test_a_refusal_says_in_one_sentence_what_to_do(name, error, expected):
    failed = await call_and_fail(load_response(name))
    assert type(failed) is error
    assert expected in str(failed)
    assert failed.partial.usage.partial
    assert failed.partial.text == ""


async def test_a_refusal_is_shown_without_the_key_and_the_request_it_repeats():
    message = "1 validation error: {'msg': 'bad key sk-secret', 'input': 'what the person wrote'}"
    error = {"message": message, "type": "Bad Request", "param": None, "code": 400}
    failed = await call_and_fail(RecordedResponse(400, {"error": error}))
    assert "bad key [hidden]" in str(failed)
    assert "person" not in str(failed)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("body", "description"),
    [
        (
            {"error": {"message": "Loading model", "code": 503}},
            "The endpoint is busy or not ready. The endpoint refused the request (HTTP {}): Loading model",
        ),
        (
            "upstream is starting",
            "busy or not ready. The endpoint refused the request (HTTP {}): upstream is",
        ),
        ("<html><title>Service Unavailable</title></html>", "busy or not ready (HTTP {})."),
        ({"error": {"message": None}}, "busy or not ready (HTTP {})."),
        ({"detail": 1}, "busy or not ready (HTTP {})."),
        ("", "busy or not ready (HTTP {})."),
    ],
)
async def test_a_busy_endpoint_keeps_its_words_where_it_says_something(status, body, description):
    failed = await call_and_fail(RecordedResponse(status, body))
    assert type(failed) is EndpointAway
    assert description.format(status) in str(failed)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("image input is not supported - hint: you may need to provide the mmproj", EndpointRefused),
        ("tools param requires --jinja flag", EndpointRefused),
        ("CUDA out of memory", EndpointAway),
    ],
)
async def test_a_server_error_keeps_its_words_and_one_about_images_or_tools_is_a_refusal(message, error):
    body = {"error": {"code": 500, "message": message, "type": "server_error"}}
    failed = await call_and_fail(RecordedResponse(500, body))
    assert type(failed) is error
    assert REFUSING.format(500, "") in str(failed)
    assert message in str(failed)


@pytest.mark.parametrize("status", [400, 500])
async def test_an_error_without_json_is_an_error_too(status):
    assert f"HTTP {status}" in str(await call_and_fail(RecordedResponse(status, "a proxy's page")))


@pytest.mark.parametrize(("code", "expected"), [(503, "(HTTP 503): currently busy"), (500, "in the middle")])
async def test_a_stream_that_begins_with_an_error_of_503_is_a_busy_endpoint(code, expected):
    error = {"error": {"message": "currently busy", "type": "x", "param": None, "code": code}}
    failed = await call_and_fail(RecordedResponse(lines=[f"data: {json.dumps(error)}", "data: [DONE]"]))
    assert isinstance(failed, EndpointAway)
    assert expected in str(failed)


async def test_an_engine_that_dies_while_streaming_leaves_its_text():
    failed = await call_and_fail(load_response("15-stream-while-engine-crashes"))
    assert isinstance(failed, EndpointAway)
    assert failed.partial.text == "tick tick tick t"


async def test_a_silent_stream_times_out_with_the_running_usage():
    failed = await call_and_fail(load_response("14-sigterm-mid-stream", keeps_open=True), silence_seconds=4)
    assert isinstance(failed, EndpointAway)
    assert "silent for 4 s" in str(failed)
    assert failed.partial.text == "tick tick tick "
    assert failed.partial.usage == Usage(33, None, 9, 0, partial=True)


@pytest.mark.parametrize(
    "lines",
    [
        ["data: {nonsense"],
        ['data: ["a list"]'],
        ['data: {"choices": 7}'],
        ['data: {"choices": [{"delta": {"content": 7}}]}'],
        ['data: {"choices": [{"delta": {"tool_calls": [7]}}]}'],
        ['data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "abort"}]}', "data: [DONE]"],
        ['data: {"choices": [{"delta": {"content": "a"}}]}', "data: [DONE]"],
        [],
    ],
)
async def test_a_malformed_stream_counts_as_away(lines):
    assert isinstance(await call_and_fail(RecordedResponse(lines=lines)), EndpointAway)


async def test_an_answer_that_is_no_stream_is_named_by_what_it_is():
    failed = await call_and_fail(RecordedResponse(body={"choices": [{"message": {"content": "Hi"}}]}))
    assert isinstance(failed, EndpointAway)
    assert str(failed) == "The endpoint's answer is no stream but application/json."


async def test_cancelling_closes_the_request_at_once_and_hands_over_the_partial_reply():
    replay = ReplayServer([load_response("14-sigterm-mid-stream", keeps_open=True), make_response("next")])
    cut: list[Reply] = []
    blocks = asyncio.Queue[str]()
    async with open_client(replay, seats=1) as client:
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(client.call(make_request(), blocks.put_nowait, ignore, cut.append))
            while await blocks.get() != "tick tick tick":
                pass
            call.cancel()
        assert call.cancelled()
        await replay.client_left.wait()
        assert cut[0].text == "tick tick tick "
        assert cut[0].usage.partial
        assert cut[0].usage.completion_tokens == 9
        assert (await client.call(make_request(), ignore, ignore)).text == "next"


async def test_a_call_cancelled_while_it_waits_for_a_seat_never_reaches_the_endpoint():
    replay = ReplayServer([load_response("14-sigterm-mid-stream", keeps_open=True)])
    cut: list[Reply] = []
    async with open_client(replay, seats=1) as client, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(client.call(make_request(), ignore, ignore))
        await replay.started.wait()
        second = tasks.create_task(client.call(make_request(lane="2"), ignore, ignore, cut.append))
        await asyncio.sleep(0)
        assert client.queue_position("2") == 0
        second.cancel()
        first.cancel()
    assert len(replay.requests) == 1
    assert cut[0].times.seat is None


@contextlib.asynccontextmanager
async def open_socket_client(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[ModelClient]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = ModelClient(f"http://127.0.0.1:{port}/v1", "gemma4", SeatLimiter(1))
        try:
            yield client
        finally:
            await client.close()


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length")
    )
    await reader.readexactly(length)


async def test_a_pooled_connection_that_is_gone_fails_no_call():
    connections = itertools.count(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(connections) == 1
        await read_request(reader)
        writer.write(FULL_RESPONSE)
        if first:
            await read_request(reader)
        writer.close()

    async with open_socket_client(answer) as client:
        assert (await client.call(make_request(), ignore, ignore)).text == "hi"
        assert (await client.call(make_request(), ignore, ignore)).text == "hi"
    assert next(connections) == 3


async def test_a_connection_that_is_reset_again_counts_as_away():
    connections = itertools.count(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        next(connections)
        await read_request(reader)
        writer.transport.abort()

    async with open_socket_client(answer) as client:
        with pytest.raises(EndpointAway, match="cut the connection"):
            await client.call(make_request(), ignore, ignore)
    assert next(connections) == 3


async def test_a_connection_cut_within_the_stream_is_not_tried_again():
    connections = itertools.count(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        next(connections)
        await read_request(reader)
        writer.write(FULL_RESPONSE.replace(b"stop", b"xxxx")[:-30])
        await writer.drain()
        writer.close()

    async with open_socket_client(answer) as client:
        with pytest.raises(EndpointAway, match="cut the connection"):
            await client.call(make_request(), ignore, ignore)
    assert next(connections) == 2


async def test_an_endpoint_that_is_not_there_counts_as_away():
    with socket.socket() as reserved:  # where nobody listens, and nobody else can
        reserved.bind(("127.0.0.1", 0))
        client = ModelClient(f"http://127.0.0.1:{reserved.getsockname()[1]}/v1", "gemma4", SeatLimiter(1))
        with pytest.raises(EndpointAway, match="cannot be reached"):
            await client.call(make_request(), ignore, ignore)
        await client.close()

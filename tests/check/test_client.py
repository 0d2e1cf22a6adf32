"""The client of a check against servers that answer rubbish: it counts, gives up in time, and never leaks a
key.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from bot.check import client
from bot.check.client import CallBudgetSpent, CallLost, CheckLimits, ProbeClient, parse_gauges
from bot.check.observations import Gauges
from bot.check.report import RULES
from bot.check.response import ResponseAccumulator, parse_error_message
from bot.http_server import serve
from tests.support.endpoint_check import check_url


class ConstantServer:
    """A server that gives the same answer to everything."""

    def __init__(self, body: str, status: int = 200) -> None:
        self.body = body
        self.status = status
        self.requests: list[tuple[str, str | None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.requests.append((request.url.path, request.headers.get("authorization")))
        answer: Response = PlainTextResponse(self.body, self.status)
        await answer(scope, receive, send)


async def call_server(server: ConstantServer, body: dict[str, Any], limits: CheckLimits | None = None) -> Any:
    """The response of the server, or how the call was lost."""
    async with serve(server) as url, httpx.AsyncClient() as http:
        try:
            return await ProbeClient(http, f"{url}/v1", "secret-key", limits or CheckLimits()).call_model(
                body
            )
        except CallLost as lost:  # serving would put it into a group
            return lost


def sse_event(**chunk: Any) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


@pytest.mark.parametrize(
    ("body", "streamed", "message"),
    [
        ("{", False, "cannot be read"),
        ("[]", False, "cannot be read"),
        ("data: {\n\n", True, "cannot be read"),
        ("data: 7\n\n", True, "cannot be read"),
        (sse_event(error={"message": "engine died"}), True, "in the middle of a reply: engine died"),
        (sse_event(choices=[{"delta": {"content": "half"}}]), True, "broke the reply off"),
        ("", True, "broke the reply off"),
        (f": {'x' * (client.MAX_RESPONSE_CHARACTERS + 1)}\n\n", True, "cannot be read"),
    ],
)
async def test_what_is_no_reply_is_lost(body: str, streamed: bool, message: str) -> None:
    lost = await call_server(ConstantServer(body), {"stream": streamed})
    assert isinstance(lost, CallLost)
    assert message in str(lost)


async def test_a_refusal_is_an_answer_without_the_key() -> None:
    answer = await call_server(
        ConstantServer('{"error": {"message": "no, not with secret-key\\u001b[2J"}}', 400), {}
    )
    assert (answer.status, answer.error_message) == (400, "no, not with [hidden][2J")


async def test_failures_of_the_server_are_lost_calls_and_a_busy_one_is_distinguished() -> None:
    failed = await call_server(ConstantServer('{"error": "oh"}', 500), {})
    busy = await call_server(ConstantServer("busy", 503), {})
    assert str(failed) == "it failed with HTTP 500: oh"
    assert isinstance(busy, client.EndpointBusy)
    assert not isinstance(failed, client.EndpointBusy)


async def test_no_request_leaves_once_all_calls_are_made() -> None:
    server = ConstantServer("{}")
    async with serve(server) as url, httpx.AsyncClient() as http:
        probe_client = ProbeClient(http, f"{url}/v1", None, CheckLimits(max_calls=2))
        await probe_client.request_route("GET", "/version")
        assert await probe_client.read_gauges() is None
        with pytest.raises(CallBudgetSpent):
            await probe_client.request_route("GET", "models")
        with pytest.raises(CallBudgetSpent):
            await probe_client.call_model({})
    assert server.requests == [("/version", None), ("/metrics", None)]
    assert probe_client.calls == 2


async def test_the_key_is_left_out_where_it_is_asked_for() -> None:
    server = ConstantServer("{}")
    async with serve(server) as url, httpx.AsyncClient() as http:
        probe_client = ProbeClient(http, f"{url}/v1", "k", CheckLimits())
        await probe_client.request_route("GET", "models")
        await probe_client.request_route("GET", "models", with_key=False)
    assert server.requests == [("/v1/models", "Bearer k"), ("/v1/models", None)]


async def test_an_address_that_is_none_is_lost() -> None:
    async with httpx.AsyncClient() as http:
        with pytest.raises(CallLost):
            await ProbeClient(http, "http://gpu:port/v1", None, CheckLimits()).request_route("GET", "models")
        assert await ProbeClient(http, "http://127.0.0.1:9/v1", None, CheckLimits()).read_gauges() is None


def test_pieces_of_a_call_are_joined_and_both_names_of_thoughts_are_known() -> None:
    clock = iter([10.0, *[11.0] * 3, *[12.0] * 3])
    accumulator = ResponseAccumulator(lambda: next(clock))
    part = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a"'}}
    accumulator.add_chunk({"choices": [{"delta": {"reasoning_content": "hm", "tool_calls": [part]}}]})
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    accumulator.add_chunk({"choices": [{"delta": {"tool_calls": [more]}, "finish_reason": "tool_calls"}]})
    answer = accumulator.build_response()
    assert [(call.id, call.name, call.arguments) for call in answer.reply.calls] == [("a", "f", '{"a": 1}')]
    assert (answer.reply.reasoning, answer.reply.finish_reason) == ("hm", "tool_calls")
    assert [block.after_seconds for block in answer.blocks] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"error": {"message": "a\nb"}}, "a b"),
        ({"detail": "x"}, "{'detail': 'x'}"),
        ("plain", "plain"),
        ({"error": {"message": "bad {'input': 'what a person wrote'}"}}, "bad {"),
    ],
)
def test_the_words_of_an_error_are_one_line(body: object, message: str) -> None:
    assert parse_error_message(body) == message


def test_gauges_are_summed_over_engines() -> None:
    page = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
    assert parse_gauges(page) is None
    assert parse_gauges(page + "vllm:num_requests_waiting 0.0") == Gauges(3, 0)


KEYS = """choices delta message content tool_calls function usage finish_reason index data id
    completion_tokens prompt_tokens_details metrics queue_time_ms version token_strs tokens prompt_text
    max_model_len error answers arguments name"""
keys = st.sampled_from(KEYS.split())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
KNOWN_BODY = {"data": [{"id": "m"}]}


@settings(max_examples=8)
@given(body=st.dictionaries(keys, values, max_size=6), status=st.sampled_from([200, 200, 200, 400, 404, 429]))
@example({"choices": [{"message": {"content": ["a"]}, "finish_reason": "stop"}]}, 200)
@example(
    {"choices": [{"message": {"tool_calls": [{"function": {"name": 7}}]}, "finish_reason": "stop"}]}, 200
)
@example({"choices": [{"message": {"content": "a"}, "finish_reason": ["stop"]}]}, 200)
@example(
    {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "metrics": {"queue_time_ms": "1"}},
    200,
)
def test_whatever_a_server_answers_a_report_comes_of_it(body: dict[str, Any], status: int) -> None:
    async def report() -> None:
        async with serve(ConstantServer(json.dumps({**KNOWN_BODY, **body}), status)) as url:
            check_report = await check_url(
                url, limits=CheckLimits(call_seconds=60, route_seconds=60, pause_seconds=(0.0,))
            )
        assert len(check_report.findings) == len(RULES)
        assert check_report.calls <= 40
        assert check_report.exit_code != 0

    asyncio.run(report())

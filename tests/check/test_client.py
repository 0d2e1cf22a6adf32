"""The wire of a check before servers that answer rubbish: it counts, gives up in time, and never lets go of a
key.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from bot.check import client as wire
from bot.check.client import Limits, Lost, Spent, Wire
from bot.check.gauges import gauges_of
from bot.check.observations import Gauges
from bot.check.report import RULES
from bot.check.response import Hearing, words_of
from bot.http_server import serve
from tests.support.endpoint_check import check_at


class Same:
    """A server that gives the same answer to everything."""

    def __init__(self, body: str, status: int = 200) -> None:
        self.body, self.status = body, status
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.asked.append((request.url.path, request.headers.get("authorization")))
        answer: Response = PlainTextResponse(self.body, self.status)
        await answer(scope, receive, send)


async def asked(server: Same, body: dict[str, Any], limits: Limits | None = None) -> Any:
    """The answer of the server, or how the call was lost."""
    async with serve(server) as url, httpx.AsyncClient() as http:
        try:
            return await Wire(http, f"{url}/v1", "secret-key", limits or Limits()).ask(body)
        except Lost as lost:  # here, because whoever serves would put it into a group
            return lost


def event(**chunk: Any) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


@pytest.mark.parametrize(
    ("body", "streamed", "words"),
    [
        ("{", False, "cannot be read"),
        ("[]", False, "cannot be read"),
        ("data: {\n\n", True, "cannot be read"),
        ("data: 7\n\n", True, "cannot be read"),
        (event(error={"message": "engine died"}), True, "in the middle of a reply: engine died"),
        (event(choices=[{"delta": {"content": "half"}}]), True, "broke the reply off"),
        ("", True, "broke the reply off"),
        (f": {'x' * (wire.LONGEST + 1)}\n\n", True, "cannot be read"),
    ],
)
async def test_what_is_no_reply_is_lost(body: str, streamed: bool, words: str) -> None:
    lost = await asked(Same(body), {"stream": streamed})
    assert isinstance(lost, Lost)
    assert words in str(lost)


async def test_a_refusal_is_an_answer_without_the_key() -> None:
    answer = await asked(Same('{"error": {"message": "no, not with secret-key\\u001b[2J"}}', 400), {})
    assert (answer.status, answer.words) == (400, "no, not with [hidden][2J")


async def test_failures_of_the_server_are_lost_and_its_business_is_told_apart() -> None:
    failed, busy = await asked(Same('{"error": "oh"}', 500), {}), await asked(Same("busy", 503), {})
    assert str(failed) == "it failed with HTTP 500: oh"
    assert isinstance(busy, wire.Busy)
    assert not isinstance(failed, wire.Busy)


async def test_no_request_leaves_once_all_calls_are_made() -> None:
    server = Same("{}")
    async with serve(server) as url, httpx.AsyncClient() as http:
        line = Wire(http, f"{url}/v1", None, Limits(calls=2))
        await line.route("GET", "/version")
        assert await line.gauges() is None
        with pytest.raises(Spent):
            await line.route("GET", "models")
        with pytest.raises(Spent):
            await line.ask({})
    assert server.asked == [("/version", None), ("/metrics", None)]
    assert line.calls == 2


async def test_the_key_is_left_out_where_it_is_asked_for() -> None:
    server = Same("{}")
    async with serve(server) as url, httpx.AsyncClient() as http:
        line = Wire(http, f"{url}/v1", "k", Limits())
        await line.route("GET", "models")
        await line.route("GET", "models", with_key=False)
    assert server.asked == [("/v1/models", "Bearer k"), ("/v1/models", None)]


async def test_an_address_that_is_none_is_lost() -> None:
    async with httpx.AsyncClient() as http:
        with pytest.raises(Lost):
            await Wire(http, "http://gpu:port/v1", None, Limits()).route("GET", "models")
        assert await Wire(http, "http://127.0.0.1:9/v1", None, Limits()).gauges() is None


def test_pieces_of_a_call_are_joined_and_both_names_of_thoughts_are_known() -> None:
    hearing = Hearing(10.0)
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a"'}}
    hearing.take({"choices": [{"delta": {"reasoning_content": "hm", "tool_calls": [piece]}}]}, 11.0)
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    hearing.take({"choices": [{"delta": {"tool_calls": [more]}, "finish_reason": "tool_calls"}]}, 12.0)
    answer = hearing.answer(200, 13.0)
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [("a", "f", '{"a": 1}')]
    assert (answer.reasoning, answer.finish, answer.seconds) == ("hm", "tool_calls", 3.0)
    assert [block.after for block in answer.blocks] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"error": {"message": "a\nb"}}, "a b"),
        ({"detail": "x"}, "{'detail': 'x'}"),
        ("plain", "plain"),
        ({"error": {"message": "bad {'input': 'what a person wrote'}"}}, "bad {"),
    ],
)
def test_the_words_of_an_error_are_one_line(body: object, words: str) -> None:
    assert words_of(body) == words


def test_gauges_are_summed_over_engines() -> None:
    page = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
    assert gauges_of(page) is None
    assert gauges_of(page + "vllm:num_requests_waiting 0.0") == Gauges(3, 0)


KEYS = """choices delta message content tool_calls function usage finish_reason index data id completion_tokens
    prompt_tokens_details metrics queue_time_ms version token_strs tokens prompt_text max_model_len error answers
    arguments name"""
words = st.sampled_from(KEYS.split())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
KNOWN = {"data": [{"id": "m"}]}


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=st.dictionaries(words, values, max_size=6), status=st.sampled_from([200, 200, 200, 400, 404, 429])
)
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
        async with serve(Same(json.dumps({**KNOWN, **body}), status)) as url:
            found = await check_at(url, limits=Limits(call_seconds=5, route_seconds=5, pauses=(0.0,)))
        assert len(found.findings) == len(RULES)
        assert found.calls <= 40
        assert found.exit_code != 0

    asyncio.run(report())

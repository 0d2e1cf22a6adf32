"""Other servers than vLLM, by the differences that their sources show: each is recognized and read."""

from dataclasses import replace
from typing import get_args

import pytest

from bot.domain import Message, ModelRequest, Reply
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.dialect import VLLM, find_dialect
from bot.llm.seats import SeatLimiter
from tests.support.endpoint.other_servers import OtherServer
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile, reply_with
from tests.support.recorded_endpoint import ignore, make_request

TOOL = {"name": "clock", "description": "Time", "parameters": {"type": "object"}}
CALLS = "<|tool_call>call:clock{}<tool_call|><|tool_call>call:clock{}<tool_call|>"
SERVERS = get_args(OtherServer)


async def call_server(
    server: OtherServer, text: str, request: ModelRequest, *, canvas: int = 256
) -> tuple[Reply, ScriptedEndpoint]:
    profile = replace(ServerProfile.of_server(server), canvas=canvas)
    endpoint = ScriptedEndpoint(profile, brain=reply_with(text))
    async with serve(endpoint.app) as url:
        client = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        try:
            await client.open_connection()
            assert client.dialect.server == server
            assert not client.dialect.continuation
            return await client.call(request, ignore, ignore), endpoint
        finally:
            await client.close()


@pytest.mark.parametrize("server", SERVERS)
async def test_thoughts_answers_and_their_usage_are_read(server: OtherServer):
    thought = "hm, a thought of more than eight tokens, so of three blocks"
    text = f"<|channel>thought\n{thought}\n<channel|>Noon."
    request = make_request(thinking=True, max_thinking_tokens=512)
    # Each of its blocks counted as 256 tokens would end the thought.
    reply, endpoint = await call_server(server, text, request, canvas=4)
    assert (reply.text, reply.reasoning, reply.finish_reason) == (
        "Noon.",
        "hm, a thought of more than eight tokens, so of three blocks",
        "stop",
    )
    assert reply.usage.completion_tokens == endpoint.generated_tokens
    assert not reply.usage.partial
    [record] = endpoint.requests
    assert record.thinking is True
    assert "priority" not in record.body


@pytest.mark.parametrize("server", SERVERS)
async def test_several_calls_stay_apart_and_thinking_can_be_off(server: OtherServer):
    messages = (Message("user", "time?"),)
    reply, endpoint = await call_server(server, CALLS, make_request(messages=messages, tools=(TOOL,)))
    assert [(call.name, call.arguments) for call in reply.calls] == [("clock", "{}")] * 2
    assert (reply.finish_reason, endpoint.requests[0].thinking) == ("tool_calls", False)


def test_an_unknown_owner_tells_nothing():
    assert find_dialect({"data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}) is VLLM
    for listed in (
        {"data": [{"id": "m", "owned_by": "openai"}]},
        {"data": [{"id": "m"}]},
        {},
        None,
        {"data": 5},
    ):
        assert find_dialect(listed) is None

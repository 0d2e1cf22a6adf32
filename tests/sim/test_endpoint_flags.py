"""Servers launched without a flag that matters: what a client sees of it."""

from dataclasses import replace
from typing import Any

import pytest

from bot.sim.endpoint import Endpoint, Profile, said
from tests.sim.endpoint_play import Said, merged, playing

TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": {"type": "object"}}}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


@pytest.mark.parametrize("fields", [{"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}])
async def test_without_a_tool_parser_the_model_may_not_choose(fields: dict[str, Any]) -> None:
    async with playing(Endpoint(replace(Profile.today(), tool_parser=False))) as player:
        played = await player.say("hi", **fields)
        allowed = await player.say("hi", tools=[TOOL], tool_choice="none")
        plain = await player.say("hi")
    assert played.status == 400
    assert played.body["error"]["message"] == NO_PARSER
    assert allowed.status == plain.status == 200


async def both(brain: str, **fields: Any) -> tuple[Said, Any]:
    """Streamed and not, from a server without a parser of thoughts."""
    async with playing(Endpoint(replace(Profile.today(), reasoning_parser=False), brain=said(brain))) as player:
        stream = await player.say("hi", stream=True, tools=[TOOL], **fields)
        whole = await player.say("hi", tools=[TOOL], **fields)
    return merged(stream.lines), whole


async def test_without_a_reasoning_parser_thoughts_are_content() -> None:
    stream, whole = await both("<|channel>thought\nhm\n<channel|>Hello", **THINKING)
    assert stream.content == whole.message["content"] == "<|channel>thought\nhm\n<channel|>Hello"
    assert stream.reasoning == ""
    assert whole.message["reasoning"] is None
    assert "completion_tokens_details" not in whole.body["usage"]
    assert stream.usage
    assert "completion_tokens_details" not in stream.usage


async def test_without_a_reasoning_parser_the_rest_is_as_ever() -> None:
    stream, whole = await both("Hello<|tool_call>call:f{}<tool_call|>")
    assert stream.content == whole.message["content"] == "Hello"
    assert stream.calls == {0: ["f", "{}"]}


async def test_an_open_channel_is_content_too() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "12"},
    ]
    endpoint = Endpoint(replace(Profile.today(), reasoning_parser=False), brain=said("It is 12.<channel|>So 12."))
    async with playing(endpoint) as player:
        stream = await player.play({"messages": messages, "stream": True, **THINKING})
    assert stream.said.content == "It is 12.<channel|>So 12."


async def test_a_server_wide_cap_ends_every_reply() -> None:
    async with playing(Endpoint(Profile.preview())) as player:
        played = await player.say("@@repeat:900 word @@", max_tokens=1024)
    assert played.body["choices"][0]["finish_reason"] == "length"
    assert played.body["usage"]["completion_tokens"] == 256

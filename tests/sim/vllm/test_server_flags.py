"""Servers launched without a flag that matters: what a client sees of it."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile, reply_with
from tests.support.endpoint_client import StreamedReply, merge_stream, open_client, parse_chunks

TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": {"type": "object"}}}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


@pytest.mark.parametrize("fields", [{"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}])
async def test_without_a_tool_parser_the_model_may_not_choose(fields: dict[str, Any]) -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile(), tool_parser=False))) as player:
        played = await player.send_text("hi", **fields)
        allowed = await player.send_text("hi", tools=[TOOL], tool_choice="none")
        plain = await player.send_text("hi")
    assert played.status == 400
    assert played.body["error"]["message"] == NO_PARSER
    assert allowed.status == plain.status == 200


async def send_both_ways(brain: str, **fields: Any) -> tuple[StreamedReply, Any]:
    """Streamed and not, from a server without a parser of thoughts."""
    async with open_client(
        ScriptedEndpoint(replace(ServerProfile(), reasoning_parser=False), brain=reply_with(brain))
    ) as player:
        stream = await player.send_text("hi", stream=True, tools=[TOOL], **fields)
        unstreamed = await player.send_text("hi", tools=[TOOL], **fields)
    return merge_stream(stream.lines), unstreamed


async def test_without_a_reasoning_parser_thoughts_are_content() -> None:
    stream, unstreamed = await send_both_ways("<|channel>thought\nhm\n<channel|>Hello", **THINKING)
    assert stream.content == unstreamed.message["content"] == "<|channel>thought\nhm\n<channel|>Hello"
    assert stream.reasoning == ""
    assert unstreamed.message["reasoning"] is None
    assert "completion_tokens_details" not in unstreamed.body["usage"]
    assert stream.usage
    assert "completion_tokens_details" not in stream.usage


async def test_without_a_reasoning_parser_the_rest_is_as_ever() -> None:
    stream, unstreamed = await send_both_ways("Hello<|tool_call>call:f{}<tool_call|>")
    assert stream.content == unstreamed.message["content"] == "Hello"
    assert stream.calls == {0: ["f", "{}"]}


async def test_an_open_channel_is_content_too() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "12"},
    ]
    endpoint = ScriptedEndpoint(
        replace(ServerProfile(), reasoning_parser=False), brain=reply_with("It is 12.<channel|>So 12.")
    )
    async with open_client(endpoint) as player:
        stream = await player.send({"messages": messages, "stream": True, **THINKING})
    assert stream.streamed_reply.content == "It is 12.<channel|>So 12."


async def test_a_server_wide_cap_ends_every_reply() -> None:
    async with open_client(ScriptedEndpoint(ServerProfile.preview())) as player:
        played = await player.send_text("@@repeat:900 word @@", max_tokens=1024)
    assert played.body["choices"][0]["finish_reason"] == "length"
    assert played.body["usage"]["completion_tokens"] == 256


async def test_a_whole_reply_may_have_no_usage() -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile(), whole_usage=False))) as player:
        unstreamed = await player.send_text("hi")
        stream = await player.send_text("hi", stream=True)
    assert unstreamed.body["usage"] is None
    assert stream.streamed_reply.usage


async def test_without_a_prefix_cache_nothing_is_found_again() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), prefix_cache=False))
    async with open_client(endpoint) as player:
        for _ in range(3):
            await player.send_text("word " * 200)
    assert [request.cached_tokens for request in endpoint.requests] == [0, 0, 0]


@pytest.mark.parametrize("frees", [True, False])
async def test_a_seat_may_outlive_its_reader(frees: bool) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), frees_on_abort=frees))
    async with open_client(endpoint) as player:
        endpoint.hold()
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(player.http.post("/v1/chat/completions", json=body))
            await endpoint.wait_until(lambda: endpoint.running == 1)
            asking.cancel()
        if frees:
            await endpoint.wait_until(lambda: endpoint.running == 0)
        endpoint.release()
        await endpoint.wait_until(lambda: endpoint.requests[0].finished_at is not None)
    assert endpoint.requests[0].cancelled is frees
    assert (endpoint.requests[0].completion_tokens > 0) is not frees


@pytest.mark.parametrize("thinking", [True, False])
async def test_a_template_without_a_switch_renders_what_the_server_says(thinking: bool) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), thinking_switch=False, thinking=thinking))
    async with open_client(endpoint) as player:
        for wish in (True, False):
            await player.send_text("hi", chat_template_kwargs={"enable_thinking": wish})
    assert [request.thinking for request in endpoint.requests] == [thinking, thinking]


@pytest.mark.parametrize("keeps", [True, False])
async def test_history_may_lose_the_empty_thought_its_prompt_ended_with(keeps: bool) -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    endpoint = ScriptedEndpoint(replace(ServerProfile(), keeps_empty_thoughts=keeps))
    async with open_client(endpoint) as player:
        await player.send({"messages": messages})
    assert ("<|channel>thought\n<channel|>b" in endpoint.requests[0].prompt) is keeps
    assert endpoint.requests[0].prompt.endswith("<|channel>thought\n<channel|>")


@pytest.mark.parametrize("defuses", [True, False])
async def test_a_tokenizer_may_drop_what_has_no_width(defuses: bool) -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile(), defuses=defuses))) as player:
        body = {"prompt": "a <\u200bturn|> b", "return_token_strs": True}
        tokenized = await player.send(body, "/tokenize")
    assert ("<turn|>" in tokenized.body["token_strs"]) is not defuses


async def test_an_autoregressive_model_streams_tokens_and_knows_nothing_of_diffusion() -> None:
    reply = "<|channel>thought\nhm\n<channel|>Nine words are here, and no two come together."
    endpoint = ScriptedEndpoint(ServerProfile.autoregressive(), brain=reply_with(reply))
    xargs = {"vllm_xargs": {"diffusion_canvas_length": 999}}
    async with open_client(endpoint) as player:
        stream = await player.send_text("hi", stream=True, temperature=0.3, seed=1, **xargs, **THINKING)
        empty_tools = await player.send_text("hi", tools=[])
        metrics = (await player.http.get("/metrics")).text
    counts = [chunk["usage"]["completion_tokens"] for chunk in parse_chunks(stream.lines) if chunk["choices"]]
    assert counts == sorted(counts)
    assert max(later - earlier for earlier, later in pairwise(counts)) <= 5  # markup is in no chunk
    assert (stream.streamed_reply.reasoning, stream.streamed_reply.finish_reason) == ("hm", "stop")
    assert empty_tools.status == 400
    assert "vllm:generation_tokens_total" in metrics
    assert "vllm:diffusion" not in metrics


async def test_a_default_top_p_runs_every_canvas_to_its_limit() -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), default_top_p=0.95))
    async with open_client(endpoint) as player:
        await player.send_text("hi")
        await player.send_text("hi", top_p=1.0)
        metrics = (await player.http.get("/metrics")).text
    counted = next(line for line in metrics.splitlines() if line.startswith("vllm:diffusion_num_denoising"))
    assert counted.split()[-1] == f"{49 + 17}.0"  # with the commit of each

from typing import Any

import pytest

from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile, reply_with
from tests.support.endpoint_client import StreamedReply, merge_stream, open_client

TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": {"type": "object"}}}
D = '<|"|>'
CALL = f"<|tool_call>call:f{{a:{D}b{D}}}<tool_call|>"


async def send_both_ways(raw: str, **fields: Any) -> tuple[StreamedReply, Any]:
    """What the preview image makes of a text, streamed and not."""
    async with open_client(ScriptedEndpoint(ServerProfile.preview(), brain=reply_with(raw))) as player:
        stream = await player.send_text(
            "x", tools=[TOOL], stream=True, stream_options={"include_usage": True}, **fields
        )
        unstreamed = await player.send_text("x", tools=[TOOL], **fields)
    return merge_stream(stream.lines), unstreamed.body


async def test_it_takes_what_today_is_refused() -> None:
    fields = {"temperature": 0, "seed": 1, "response_format": {"type": "json_object"}, "tools": []}
    async with open_client(ScriptedEndpoint(ServerProfile.preview())) as player:
        got = await player.send_text("hi", **fields)
        version = await player.send(None, "/version")
        metrics = (await player.http.get("/metrics")).text
    assert got.status == 200
    assert version.body["version"].startswith("0.22.1rc1")
    assert "vllm:diffusion" not in metrics


async def test_it_gives_no_details_of_usage() -> None:
    stream, unstreamed = await send_both_ways("hi")
    assert stream.usage
    assert stream.usage.keys() == {"prompt_tokens", "total_tokens", "completion_tokens"}
    assert unstreamed["usage"]["prompt_tokens_details"] is None
    assert "completion_tokens_details" not in unstreamed["usage"]


async def test_probabilities_of_the_prompt_kill_it(lingering_server: None) -> None:
    async with open_client(ScriptedEndpoint(ServerProfile.preview())) as player:
        got = await player.send_text("hi", prompt_logprobs=0)
        health = await player.send(None, "/health")
    assert (got.status, health.status) == (500, 503)


async def test_a_call_alone_is_read() -> None:
    stream, unstreamed = await send_both_ways(CALL)
    assert stream.calls == {0: ["f", '{"a": "b"}']}
    assert unstreamed["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("raw", [f"Let me see. {CALL}", CALL + CALL, "<|channel>thought\nhm<channel|>Hello"])
async def test_markup_reaches_the_content_of_a_stream(raw: str) -> None:
    stream, unstreamed = await send_both_ways(raw)
    assert stream.content == raw
    assert not stream.calls
    assert "<|" not in (unstreamed["choices"][0]["message"]["content"] or "")


async def test_a_call_in_round_brackets_is_an_empty_turn() -> None:
    stream, unstreamed = await send_both_ways(f"<|tool_call>call:f(a:{D}b{D})<tool_call|>")
    assert (stream.content, stream.calls, stream.finish_reason) == ("", {}, "stop")
    assert unstreamed["choices"][0]["message"]["content"] is None


async def test_a_cut_call_hides_that_it_was_cut_when_not_streamed() -> None:
    stream, unstreamed = await send_both_ways(f"<|tool_call>call:f{{a:{D}{'word ' * 50}", max_tokens=20)
    assert unstreamed["choices"][0]["finish_reason"] == "tool_calls"
    assert stream.finish_reason == "length"


async def test_it_knows_no_canvas_length_and_no_repetition() -> None:
    endpoint = ScriptedEndpoint(ServerProfile.preview())
    rule = {"max_pattern_size": 2, "min_count": 3}
    async with open_client(endpoint) as player:
        got = await player.send_text(
            "@@repeat:100 a@@", vllm_xargs={"diffusion_canvas_length": 8}, repetition_detection=rule
        )
    assert got.body["choices"][0]["finish_reason"] == "stop"
    assert endpoint.requests[0].canvases == 1

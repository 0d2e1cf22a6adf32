"""What a simulated reply says and where it ends: scripts, limits, stop strings, repetition, calls."""

from dataclasses import replace
from typing import Any

from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply, ServerProfile, reply_with
from tests.support.endpoint_client import open_client


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def test_a_test_may_bring_its_own_brain_and_change_it() -> None:
    endpoint = ScriptedEndpoint(brain=reply_with("one", ScriptedReply("two", canvas_delay=0.01)))
    async with open_client(endpoint) as player:
        contents = [(await player.send_text("x")).message["content"] for _ in range(3)]
        endpoint.brain = lambda request: f"{request.step} {len(request.tools)} {request.max_tokens}"
        contents.append((await player.send_text("x", max_tokens=7)).message["content"])
    assert contents == ["one", "two", "two", "0 0 7"]


async def test_the_script_is_read_from_the_newest_message_that_has_one() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    script = {"role": "user", "content": "[Fri 10:24] @@tool:f@@ and then @@slow:1@@@@say:done@@"}
    plain = {"role": "user", "content": [{"type": "text", "text": "and this"}]}
    rounds = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]
    old = {"role": "user", "content": "@@say:old@@"}
    async with open_client(ScriptedEndpoint()) as player:
        first = await player.send({"messages": [old, {"role": "assistant", "content": "x"}, script, plain]})
        second = await player.send({"messages": [script, plain, *rounds]})
        third = await player.send({"messages": [old, {"role": "assistant", "content": "x"}, plain]})
        fourth = await player.send({"messages": [plain, *rounds]})
    assert first.message["content"] is None
    assert second.message["content"] == "done"
    assert third.message["content"] == "echo: and this"
    assert fourth.message["content"] == 'tool said: response:f{value:<|"|>r<|"|>}'


async def test_an_endless_reply_ends_at_the_limit_or_the_context() -> None:
    async with open_client(ScriptedEndpoint(context=700)) as player:
        limited = await player.send_text("@@loop:a b@@", max_tokens=300, stream=True)
        clamped = await player.send_text("@@loop:a b@@", max_tokens=690)
    assert (limited.streamed_reply.finish_reason, player.endpoint.requests[0].completion_tokens) == (
        "length",
        300,
    )
    log = player.endpoint.requests[1]
    assert clamped.body["choices"][0]["finish_reason"] == "length"
    assert log.prompt_tokens + log.completion_tokens == 700


async def test_stop_strings_and_token_ids_end_a_reply_and_leave_no_trace() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        word = await player.send_text("@@repeat:300 word @@", stop=["never", "d w"], stream=True)
        late = await player.send_text("@@say:one STOP two@@", stop="TOP", stream=True)
        missing = await player.send_text("hi", stop=["nowhere"])
        token = await player.send_text(
            "@@b64:PHxjaGFubmVsPnRob3VnaHQKYTxjaGFubmVsfD5i@@", stop_token_ids=[101, 7]
        )
    assert (word.streamed_reply.content, word.streamed_reply.stop_reason) == ("wor", "d w")
    assert (late.streamed_reply.content, late.streamed_reply.stop_reason) == ("one S", "TOP")
    assert missing.body["choices"][0]["stop_reason"] == 106
    assert (token.message["reasoning"], token.body["choices"][0]["stop_reason"]) == ("a", 101)


async def test_a_stop_string_across_canvases_is_taken_out_of_the_last_one() -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile.bare(), canvas=2))) as player:
        got = await player.send_text("@@say:aa bb cc dd@@", stop=["b cc"], stream=True)
    assert got.streamed_reply.content == "aa b"


async def test_repetition_is_found_only_where_it_is() -> None:
    rule = {"max_pattern_size": 4, "min_count": 3}
    async with open_client(ScriptedEndpoint()) as player:
        reply = await player.send_text("@@say:start a b a b a b a b@@", repetition_detection=rule)
        clean = await player.send_text("@@say:a b c d@@", repetition_detection=rule)
    assert reply.message["content"] == "start a b a b a b"
    assert clean.body["choices"][0]["finish_reason"] == "stop"


async def test_parallel_calls_reasoning_and_choice_can_be_switched_off_in_a_stream_too() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "F", "parameters": {"type": "object"}},
    }
    text = '@@think:hm@@@@tools:[{"name":"f"},{"name":"f"}]@@'
    async with open_client(ScriptedEndpoint()) as player:
        one = await player.send_text(
            text, tools=[tool], parallel_tool_calls=False, include_reasoning=False, stream=True
        )
        none = await player.send_text(text, tools=[tool], tool_choice="none", stream=True)
        required = await player.send_text(text, tools=[tool], tool_choice="required")
        named = {"type": "function", "function": {"name": "f"}}
        chosen = await player.send_text(text, tools=[tool], tool_choice=named, stream=True)
    assert (one.streamed_reply.calls, one.streamed_reply.reasoning) == ({0: ["f", "{}"]}, "")
    assert (
        none.streamed_reply.calls,
        none.streamed_reply.finish_reason,
        none.streamed_reply.stop_reason,
    ) == ({}, "stop", 50)
    assert required.message["content"] == ""
    assert required.body["choices"][0]["finish_reason"] == "tool_calls"
    assert (len(chosen.streamed_reply.calls), chosen.streamed_reply.finish_reason) == (2, "stop")


async def test_a_call_over_two_canvases_comes_in_two_pieces() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "F", "parameters": {"type": "object"}},
    }
    async with open_client(ScriptedEndpoint()) as player:
        got = await player.send_text(f'@@tool:f {{"text":"{"word " * 300}"}}@@', tools=[tool], stream=True)
    assert got.streamed_reply.calls == {0: ["f", f'{{"text": "{"word " * 300}"}}']}
    assert player.endpoint.requests[0].canvases == 2

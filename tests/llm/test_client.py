import asyncio
from collections.abc import Sequence

import pytest

from bot.domain import Message, ModelRequest, Reply, ToolCall, Usage
from bot.llm.client import MAX_CHARS_PER_TOKEN
from bot.llm.connection import SHOW_SECONDS
from tests.support.recorded_endpoint import (
    RecordedResponse,
    ReplayServer,
    format_stream,
    ignore,
    load_response,
    make_request,
    make_response,
    open_client,
)

TOOL = {"name": "clock", "description": "Time", "parameters": {"type": "object"}}


async def call_client(response: RecordedResponse, silence_seconds: float = 60.0) -> Reply:
    async with open_client(ReplayServer([response]), silence_seconds=silence_seconds) as client:
        return await client.call(make_request(), ignore, ignore)


async def test_a_recorded_answer_becomes_a_reply_with_its_usage():
    reply = await call_client(load_response("01-chat-stream"))
    assert reply.text == "echo: Say hi"
    assert reply.finish_reason == "stop"
    assert reply.usage == Usage(prompt_tokens=17, cached_tokens=0, completion_tokens=7, reasoning_tokens=0)
    assert reply.fingerprint is not None
    assert reply.request_id is not None


async def test_running_usage_gives_way_to_the_final_one():
    reply = await call_client(load_response("14-force-include-usage-stream"))
    assert not reply.usage.partial
    assert reply.usage.cached_tokens is not None


async def test_without_usage_the_reply_says_so_instead_of_guessing():
    reply = await call_client(load_response("01-chat-stream-no-usage"))
    assert reply.usage.completion_tokens is None
    assert reply.usage.missing_reason == "the server sent no usage"


async def test_keep_alive_comments_are_ignored():
    assert (await call_client(load_response("01-stream-keep-alive"))).text == "a b"


async def test_the_servers_own_timings_are_kept():
    reply = await call_client(load_response("13-request-id-echoed"))
    assert reply.server_timings is not None
    assert reply.server_timings["queue_time_ms"] >= 0
    assert reply.request_id == "chatcmpl-turn-42-step-1"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("02-tool-stream", '{"city": "Paris"}'),
        ("03-tool-cut-max-tokens-14-stream", '{"text": "Hello dear"}'),
        ("03-tool-unclosed-then-turn-end-stream", '{"city": "Paris"}'),
        ("17-burst-tool-cut", '{"text": "Hello dear"}'),
    ],
)
async def test_pieces_of_a_call_are_joined_by_index(name, arguments):
    reply = await call_client(load_response(name))
    assert [call.arguments for call in reply.calls] == [arguments]


async def test_parallel_calls_stay_apart_and_in_order():
    reply = await call_client(load_response("02-tool-parallel-stream"))
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("get_weather", '{"city": "Paris", "days": 1}'),
        ("get_weather", '{"city": "Rome"}'),
        ("noargs", "{}"),
    ]
    assert len({call.id for call in reply.calls}) == 3


async def test_every_character_of_a_streamed_string_survives():
    reply = await call_client(load_response("02-tool-strings-stream"))
    assert "Привет 🎉 日本 <b>x</b> }" in reply.calls[0].arguments


async def test_reasoning_and_text_stay_apart():
    reply = await call_client(load_response("17-burst-think"))
    assert (reply.reasoning, reply.text) == ("Simple.", "Hello!")


async def collect_blocks(
    lines: Sequence[str], *, first_shown: int, count: int, request: ModelRequest | None = None
) -> tuple[list[str], Reply]:
    """The blocks that are shown, and the reply.

    The lines up to `first_shown` are sent at once, and each other one when the block before it was shown;
    after `count` blocks all are sent.
    """
    blocks: list[str] = []
    permits = asyncio.Semaphore(first_shown + 1)

    def add_block(text: str) -> None:
        blocks.append(text)
        for _ in range(len(lines) if len(blocks) == count else 1):
            permits.release()

    async with open_client(ReplayServer([RecordedResponse(lines=lines)], permits=permits)) as client:
        reply = await client.call(request or make_request(), add_block, ignore)
    return blocks, reply


async def test_all_blocks_but_the_last_are_shown_with_all_text_so_far():
    lines = format_stream(
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": "one "}}]},
        {"choices": [{"delta": {"content": "two "}}]},
        {"choices": [{"delta": {"content": "three"}, "finish_reason": "stop"}]},
    )
    blocks, reply = await collect_blocks(lines, first_shown=1, count=2)
    assert blocks == ["one", "one two"]
    assert reply.text == "one two three"
    assert reply.blocks == 3


async def test_an_answer_of_one_canvas_is_not_shown_before_its_end_where_that_comes_apart():
    lines = format_stream(
        {"choices": [{"delta": {"content": "All of"}}]},
        {"choices": [{"delta": {"content": " it."}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    )
    blocks: list[str] = []
    response = RecordedResponse(lines=["\n\n".join(lines)])  # one write is one read: no time passes
    async with open_client(ReplayServer([response])) as client:
        reply = await client.call(make_request(), blocks.append, ignore)
    assert (blocks, reply.text) == ([], "All of it.")


async def test_what_has_its_end_is_not_shown_though_the_usage_is_late():
    lines = format_stream(
        {"choices": [{"delta": {"content": "All."}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    )
    blocks: list[str] = []
    response = RecordedResponse(lines=["\n\n".join(lines[:2])], keeps_open=True)
    replay = ReplayServer([response])
    async with open_client(replay) as client, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.call(make_request(), blocks.append, ignore))
        await replay.started.wait()
        await asyncio.sleep(3 * SHOW_SECONDS)
        call.cancel()
    assert blocks == []


@pytest.mark.parametrize("chunk_chars", [100, 3_000_000])
async def test_a_reply_is_cut_where_its_tokens_must_have_ended(chunk_chars: int):
    chunk = {"choices": [{"delta": {"content": "x" * chunk_chars}}]}
    count = 3_000_000 // chunk_chars
    response = RecordedResponse(lines=[*format_stream(chunk)[:1] * count], keeps_open=True)
    replay = ReplayServer([response])
    async with open_client(replay) as client:
        reply = await client.call(make_request(max_tokens=1024), ignore, ignore)
        await replay.client_left.wait()
    assert (reply.finish_reason, reply.text) == ("length", "x" * 1024 * MAX_CHARS_PER_TOKEN)
    assert reply.usage.partial


async def test_calls_and_thoughts_count_into_the_size_of_a_reply():
    call = {"index": 0, "id": "1", "function": {"name": "clock", "arguments": "y" * 200}}
    delta = {"content": "x" * 100, "reasoning": "z" * 100, "tool_calls": [call]}
    response = RecordedResponse(lines=format_stream({"choices": [{"delta": delta}]}))
    async with open_client(ReplayServer([response])) as client:
        reply = await client.call(make_request(max_tokens=20), ignore, ignore)
    sizes = (len(reply.text), len(reply.reasoning), len(reply.calls[0].name + reply.calls[0].arguments))
    assert (sizes, reply.finish_reason) == ((100, 100, 120), "length")


async def test_a_block_is_shown_without_markup_or_not_at_all():
    lines = format_stream(
        {"choices": [{"delta": {"content": "<|channel>thought\n"}}]},
        {"choices": [{"delta": {"content": "hm<channel|>Let me see.\n"}}]},
        {"choices": [{"delta": {"content": "call:clock{"}}]},
        {"choices": [{"delta": {"content": "}"}, "finish_reason": "stop"}]},
    )
    blocks, _ = await collect_blocks(lines, first_shown=1, count=2)
    assert blocks == ["Let me see.", "Let me see."]


def make_thought_chunk(text: str, tokens: int | None = None, **delta: object) -> dict[str, object]:
    """A chunk of thought, with the running token count if the server sends one."""
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
    return {"choices": [{"delta": {"reasoning": text, **delta}}], **usage}


@pytest.mark.parametrize("counts", [(256, 512), (None, None)])
async def test_an_endless_thought_closes_the_stream(counts):
    lines = format_stream(*(make_thought_chunk("hm, what. " * 105, number) for number in counts))[:-1]
    replay = ReplayServer([RecordedResponse(lines=lines, keeps_open=True), make_response("next")])
    async with open_client(replay, seats=1) as client:
        reply = await client.call(make_request(max_thinking_tokens=512), ignore, ignore)
        await replay.client_left.wait()
        assert (await client.call(make_request(), ignore, ignore)).text == "next"
    assert (reply.finish_reason, reply.text, reply.blocks) == ("brake", "", 2)
    assert reply.reasoning.startswith("hm,")
    assert reply.usage.partial
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
        None if counts[1] is None else 9,
        counts[1],
    )


@pytest.mark.parametrize(
    "chunks",
    [
        [make_thought_chunk("hm", 511)],
        [
            make_thought_chunk("hm", 256),
            {"choices": [{"delta": {"content": "It is"}}]},
            make_thought_chunk("hm", 1024),
        ],
        [
            make_thought_chunk(
                "hm",
                512,
                tool_calls=[{"index": 0, "id": "a", "function": {"name": "clock", "arguments": "{}"}}],
            )
        ],
        [{"choices": [], "usage": {"completion_tokens": 900}}],
    ],
)
async def test_a_thought_that_is_short_or_led_to_something_is_not_closed(chunks):
    last = {
        "choices": [{"delta": {"reasoning": "so"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2000},
    }
    async with open_client(ReplayServer([RecordedResponse(lines=format_stream(*chunks, last))])) as client:
        reply = await client.call(make_request(max_thinking_tokens=512), ignore, ignore)
    assert reply.finish_reason == "stop"
    assert not reply.usage.partial


async def test_a_call_without_a_thinking_limit_may_think_on():
    last = {"choices": [{"delta": {"content": "So."}, "finish_reason": "stop"}]}
    async with open_client(
        ReplayServer([RecordedResponse(lines=format_stream(*[make_thought_chunk("hm", 9999)] * 9, last))])
    ) as client:
        assert (await client.call(make_request(), ignore, ignore)).text == "So."


async def test_blocks_of_a_continued_answer_are_shown_after_its_text_so_far():
    lines = format_stream(
        {"choices": [{"delta": {"content": "ther is "}}]},
        {"choices": [{"delta": {"content": "fine. call:clo"}}]},
        {"choices": [{"delta": {"content": "ck"}, "finish_reason": "stop"}]},
    )
    messages = (Message("user", "weather?"), Message("assistant", "The wea"))
    request = make_request(messages=messages, continue_final_message=True)
    blocks, reply = await collect_blocks(lines, first_shown=0, count=2, request=request)
    assert blocks == ["The weather is", "The weather is fine."]
    assert reply.text == "ther is fine. call:clock"


async def test_times_follow_one_another():
    times = (await call_client(load_response("01-chat-stream"))).times
    assert times.seat is not None
    assert times.first_block is not None
    assert times.last_block is not None
    assert times.ended is not None
    assert times.created <= times.seat <= times.first_block <= times.last_block <= times.ended


async def test_the_request_has_fields_that_a_diffusion_model_takes_and_none_it_refuses():
    replay = ReplayServer([make_response("a"), make_response("b")])
    async with open_client(replay) as client:
        await client.call(make_request("hi"), ignore, ignore)
        await client.call(make_request("hi", tools=(TOOL,), priority=3, thinking=True), ignore, ignore)
    plain, full = replay.requests
    assert plain == {
        "model": "gemma4",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1024,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "chat_template_kwargs": {"enable_thinking": False},
        "repetition_detection": {"min_pattern_size": 64, "max_pattern_size": 128, "min_count": 4},
    }
    assert full["chat_template_kwargs"] == {"enable_thinking": True}
    assert (full["tools"], full["tool_choice"], full["priority"]) == (
        [{"type": "function", "function": TOOL}],
        "auto",
        3,
    )


async def test_a_conversation_is_named_by_a_hash_and_the_key_is_sent():
    replay = ReplayServer([make_response("a"), make_response("b"), make_response("c")])
    async with open_client(replay) as client:
        await client.call(make_request(), ignore, ignore)
        await client.call(make_request(), ignore, ignore)
        await client.call(make_request(session="conversation 8"), ignore, ignore)
    first, second, third = [headers["x-session-id"] for headers in replay.headers]
    assert first == second != third
    assert "conversation" not in first
    assert replay.headers[0]["authorization"] == "Bearer sk-secret"


async def test_openai_settings_of_the_environment_are_not_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    replay = ReplayServer([make_response("a")])
    async with open_client(replay) as client:
        await client.call(make_request(), ignore, ignore)
    assert not [name for name in replay.headers[0] if name.startswith("openai-")]


async def test_calls_and_results_are_sent_as_two_messages():
    call = ToolCall("call-1", "clock", "{}")
    messages = (
        Message("user", "time?"),
        Message("assistant", "Let me look.", reasoning="need it"),
        Message("assistant", calls=(call,)),
        Message("tool", "noon", call_id="call-1"),
    )
    replay = ReplayServer([make_response("a")])
    async with open_client(replay) as client:
        await client.call(make_request(messages=messages), ignore, ignore)
    assert replay.requests[0]["messages"] == [
        {"role": "user", "content": "time?"},
        {"role": "assistant", "content": "Let me look.", "reasoning": "need it"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "call-1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call-1", "content": "noon"},
    ]


async def test_lone_surrogates_never_leave_the_client():
    chunk = '{"choices": [{"delta": {"content": "a\\ud83d\\ude00\\udfff\\u0000b"}, "finish_reason": "stop"}]}'
    reply = await call_client(RecordedResponse(lines=[f"data: {chunk}", "data: [DONE]"]))
    assert reply.text.encode() == "a😀�b".encode()

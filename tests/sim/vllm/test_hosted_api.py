"""The profile of somebody else's API: what it refuses, how it streams, and what it does not have."""

from typing import Any

import pytest
from openai import AsyncOpenAI, AsyncStream, AuthenticationError, BadRequestError, NotFoundError

from bot.http_server import serve
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import open_client, parse_chunks

HI: Any = [{"role": "user", "content": "@@say:Hello there, this is a longer answer.@@"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "f", "description": "F", "parameters": {"type": "object"}},
}


def hosted_endpoint(**fields: Any) -> ScriptedEndpoint:
    return ScriptedEndpoint(ServerProfile.hosted_api(), model="big", **fields)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs"),
        ({"repetition_detection": {"max_pattern_size": 8}}, "repetition_detection"),
        ({"priority": 1}, "priority"),
        ({"vllm_xargs": {}}, "vllm_xargs"),
        ({"continue_final_message": True, "add_generation_prompt": False}, "continue_final_message"),
        (
            {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats",
        ),
        (
            {"messages": [*HI, {"role": "assistant", "content": "a", "reasoning": "r"}]},
            "messages[1].reasoning",
        ),
    ],
)
async def test_a_field_of_vllm_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    endpoint = hosted_endpoint()
    async with open_client(endpoint) as player:
        played = await player.send({"model": "big", "messages": HI, **fields})
    error = {"type": "invalid_request_error", "param": name, "code": "unknown_parameter"}
    assert played.status == 400
    assert played.body == {"error": {"message": f"Unknown parameter: '{name}'.", **error}}
    assert endpoint.generated_tokens == 0


async def test_it_takes_what_such_an_api_takes() -> None:
    fields = {
        "max_completion_tokens": 64,
        "temperature": 0.2,
        "seed": 1,
        "reasoning_effort": "low",
        "user": "u",
    }
    async with open_client(hosted_endpoint()) as player:
        played = await player.send({"model": "big", "messages": HI, **fields})
    assert played.status == 200
    assert played.message["content"] == "Hello there, this is a longer answer."
    assert "reasoning" not in played.message
    assert played.body["usage"].keys() >= {"prompt_tokens", "completion_tokens", "total_tokens"}


async def test_the_openai_client_reads_many_small_chunks_and_one_of_usage() -> None:
    async with (
        serve(hosted_endpoint(api_key="k").app) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client,
    ):
        stream = await client.chat.completions.create(
            model="big", messages=HI, tools=[TOOL], stream=True, stream_options={"include_usage": True}
        )
        assert isinstance(stream, AsyncStream)
        got = [chunk async for chunk in stream]
    contents = [choice.delta.content for chunk in got for choice in chunk.choices if choice.delta.content]
    assert len(contents) > 5
    assert "".join(contents) == "Hello there, this is a longer answer."
    assert got[-2].choices[0].finish_reason == "stop"
    assert got[-2].choices[0].delta.content is None
    assert got[-1].usage
    assert got[-1].usage.completion_tokens > 5
    assert [chunk.usage for chunk in got[:-1]] == [None] * (len(got) - 1)


async def test_a_stream_has_nothing_of_vllm() -> None:
    async with open_client(hosted_endpoint()) as player:
        messages = [{"role": "user", "content": '@@tool:f {"a": "b"}@@'}]
        options = {"stream": True, "stream_options": {"include_usage": True}}
        played = await player.send({"model": "big", "messages": messages, "tools": [TOOL], **options})
    got = list(parse_chunks(played.lines))
    outside = {"id", "object", "created", "model", "service_tier", "system_fingerprint", "choices", "usage"}
    assert {key for chunk in got for key in chunk} == outside
    choices = [choice for chunk in got for choice in chunk["choices"]]
    assert {key for choice in choices for key in choice} == {"index", "delta", "logprobs", "finish_reason"}
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert played.streamed_reply.calls == {0: ["f", '{"a": "b"}']}
    assert got[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_wrong_key_and_a_wrong_model_are_told_as_there() -> None:
    endpoint = hosted_endpoint(api_key="k")
    async with serve(endpoint.app) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as client:
            with pytest.raises(AuthenticationError, match="Incorrect API key") as caught:
                await client.models.list()
            assert caught.value.code == "invalid_api_key"
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["big"]
            with pytest.raises(NotFoundError) as missing:
                await client.chat.completions.create(model="small", messages=HI)
            assert missing.value.code == "model_not_found"
            with pytest.raises(BadRequestError, match="Unknown parameter: 'priority'"):
                await client.chat.completions.create(model="big", messages=HI, extra_body={"priority": 1})
            endpoint.inject_fault("unauthorized")
            with pytest.raises(AuthenticationError):
                await client.chat.completions.create(model="big", messages=HI)


@pytest.mark.parametrize("path", ["/version", "/health", "/metrics", "/load", "/ping"])
async def test_it_has_no_routes_of_vllm(path: str) -> None:
    async with open_client(hosted_endpoint()) as player:
        assert (await player.send(None, path)).status == 404
        for route in ("/tokenize", "/v1/decisions", "/v1/systemone"):
            assert (await player.send({}, route)).status == 404


async def test_the_end_of_a_cut_answer_is_a_chunk_of_its_own() -> None:
    async with open_client(hosted_endpoint()) as player:
        played = await player.send({"model": "big", "messages": HI, "stream": True, "max_tokens": 2})
    *_, contents, end = [choice for chunk in parse_chunks(played.lines) for choice in chunk["choices"]]
    assert (bool(contents["delta"]), contents["finish_reason"]) == (True, None)
    assert (end["delta"], end["finish_reason"]) == ({}, "length")

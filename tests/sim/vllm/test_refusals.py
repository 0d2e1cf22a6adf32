from typing import Any

import pytest

from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.endpoint_client import open_client

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": {"type": "object"}}}
SAMPLING = (
    "The temperature, min_p, seed, min_tokens, logit_bias, bad_words, and allowed_token_ids sampling "
    "parameters are not"
    " yet supported with diffusion models."
)
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0}, SAMPLING),
        ({"seed": 1}, SAMPLING),
        ({"min_p": 0.1}, SAMPLING),
        ({"min_tokens": 2}, SAMPLING),
        ({"logit_bias": {"1": 1}}, SAMPLING),
        ({"structured_outputs": {"json": {}}}, "Structured outputs are not yet supported"),
        ({"response_format": {"type": "json_schema"}}, "Structured outputs are not yet supported"),
        (
            {"vllm_xargs": {"diffusion_canvas_length": 257}},
            "diffusion_canvas_length must be a positive integer",
        ),
        ({"vllm_xargs": {"diffusion_max_steps": 0}}, "diffusion_max_steps must be a positive integer."),
        ({"vllm_xargs": {"diffusion_max_steps": "8"}}, "diffusion_max_steps must be a positive integer."),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"),
        ({"max_completion_tokens": -1}, "max_tokens must be at least 1, got -1."),
        ({"tools": []}, "`tools` must not be an empty array. Either provide"),
        ({"tools": [{"type": "function"}]}, "'loc': 'body.tools.0.function'"),
        ({"tool_choice": "required"}, "When using `tool_choice`, `tools` must be set."),
        (
            {"tools": [TOOL], "tool_choice": "banana"},
            "Invalid value for `tool_choice`: banana! Only named tools",
        ),
        (
            {"tools": [TOOL], "tool_choice": {"function": {"name": "g"}}},
            "does not match any of the specified `tools`",
        ),
        ({"stop": list("abcde")}, "at most 4 items after validation, not 5"),
        (
            {"stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`.",
        ),
        (
            {"chat_template": "x"},
            "Chat template is passed with request, but --trust-request-chat-template is not set.",
        ),
        (
            {"cache_salt": "a@b"},
            "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/',",
        ),
        ({"cache_salt": "a" * 129}, "Parameter 'cache_salt' must be"),
        ({"messages": None}, "'loc': 'body.messages', 'msg': 'Field required'"),
        ({"messages": "hi"}, "Input should be a valid list"),
        ({"messages": [{"content": "hi"}]}, "'loc': 'body.messages.0.role'"),
        ({"messages": [{"role": "user", "content": None}]}, "19 validation errors:"),
        (
            {"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "5 validation errors:",
        ),
        (
            {"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f"}}]}]},
            "3 validation errors:",
        ),
    ],
)
async def test_it_refuses_with_the_servers_words(fields: dict[str, Any], message: str) -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        got = await player.send({"messages": [USER], **fields})
        streamed = await player.send(
            {"messages": [USER], "stream": True, **fields} if "stream" not in message else {}
        )
    assert got.status == 400
    assert message in got.body["error"]["message"]
    assert got.body["error"]["code"] == 400
    assert streamed.content_type == "application/json"
    assert endpoint.requests[0].status == 400
    assert endpoint.running == endpoint.prompt_tokens == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1.0, "top_p": 0.5, "top_k": 3, "presence_penalty": 1},
        {"response_format": {"type": "text"}, "thinking_token_budget": 3},
        {"min_p": 0, "min_tokens": 0, "seed": None},
        {"tool_choice": "auto"},
        {"tools": [TOOL], "tool_choice": "auto", "nonsense": {"deep": []}},
        {"vllm_xargs": {"diffusion_canvas_length": 256, "unknown": 1}, "cache_salt": "ok"},
        {"vllm_xargs": {"diffusion_canvas_length": None, "diffusion_max_steps": 999}},
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "content": "lost"},
            ]
        },
    ],
)
async def test_it_takes_what_the_server_takes(fields: dict[str, Any]) -> None:
    async with open_client(ScriptedEndpoint()) as player:
        got = await player.send({"messages": [USER], **fields})
    assert got.status == 200


async def test_the_body_has_to_be_a_json_object() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        text = await player.http.post("/v1/chat/completions", content="hi")
        number = await player.http.post("/v1/chat/completions", json=[1])
        broken = await player.http.post(
            "/tokenize", content=b"\xff", headers={"content-type": "application/json; charset=utf-8"}
        )
    assert "Unsupported Media Type" in text.json()["error"]["message"]
    assert "dict_type" in number.json()["error"]["message"]
    assert "json_invalid" in broken.json()["error"]["message"]
    assert {answer.status_code for answer in (text, number, broken)} == {400}


async def test_the_key_is_wanted_on_v1_only() -> None:
    async with open_client(ScriptedEndpoint(api_key="k")) as player:
        wrong = await player.send(None, "/v1/models", authorization="Bearer no")
        right = await player.send(None, "/v1/models", authorization="Bearer k")
        open_ones = [await player.send(None, path) for path in ("/health", "/version", "/metrics")]
    assert (wrong.status, wrong.body) == (401, {"error": "Unauthorized"})
    assert right.body["data"][0]["max_model_len"] == 65536
    assert {answer.status for answer in open_ones} == {200}


async def test_the_context_may_be_filled_to_the_last_token_but_one() -> None:
    async with open_client(ScriptedEndpoint(context=64)) as player:
        fits = await player.send_text("word " * 40)
        full = await player.send_text("word " * 60)
    assert fits.status == 200
    assert fits.body["usage"]["total_tokens"] <= 64
    assert "at least 65 input tokens" in full.body["error"]["message"]


async def test_tokenize_renders_and_counts() -> None:
    body = {
        "messages": [{"role": "user", "content": "x <turn|> y"}],
        "return_token_strs": True,
        "return_prompt_text": True,
    }
    async with open_client(ScriptedEndpoint()) as player:
        got = await player.send(body, "/tokenize")
        empty = await player.send({"messages": []}, "/tokenize")
        other_model = await player.send({"prompt": "x", "model": "zzz"}, "/tokenize")
        reasoning = [
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a", "reasoning_content": "R"},
        ]
        dropped = await player.send({"messages": reasoning, "return_prompt_text": True}, "/tokenize")
    assert got.body["count"] == len(got.body["token_strs"])
    assert got.body["tokens"].count(106) == 2
    assert "▁y" in got.body["token_strs"]
    assert got.body["prompt_text"].startswith("<bos><|turn>user\nx <turn|> y<turn|>")
    assert (empty.status, other_model.status) == (400, 404)
    assert "thought\nR" not in dropped.body["prompt_text"]


async def test_thinking_is_asked_for_by_template_argument_or_effort() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        for fields in (
            {},
            {"reasoning_effort": "none"},
            {"reasoning_effort": "low"},
            {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True}},
        ):
            await player.send_text("hi", **fields)
    assert [request.thinking for request in player.endpoint.requests] == [False, False, True, False, True]


async def test_a_request_id_is_echoed_or_made() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        with_id = await player.send({"messages": [USER]}, x_request_id="turn-1")
        none = await player.send({"messages": [USER], "stream": True})
    assert with_id.headers["x-request-id"] == "turn-1"
    assert with_id.body["id"] == "chatcmpl-turn-1"
    assert len(none.headers["x-request-id"]) == 32

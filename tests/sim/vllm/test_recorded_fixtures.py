import re
from dataclasses import replace
from typing import Any

import pytest

from bot.sim.vllm.server import Timing
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile, reply_with
from tests.support.endpoint_client import (
    FIXTURES,
    ClientResponse,
    load_fixture,
    merge_stream,
    open_client,
    parse_chunks,
    read_response,
)

SERVED = replace(ServerProfile.bare(), keep_alive_s=None)
METERED = replace(SERVED, request_metrics=True)
SPECIAL = {
    "01-repetition-stop": ScriptedEndpoint(METERED),
    "04-open-channel-answer": ScriptedEndpoint(METERED),
    "04-open-channel-answer-stream": ScriptedEndpoint(METERED),
    "04-open-channel-tool-burst": ScriptedEndpoint(METERED),
    "07-overload-503": ScriptedEndpoint(replace(SERVED, max_queued=0)),
    "13-request-id-echoed": ScriptedEndpoint(replace(METERED, request_ids=True)),
    "14-force-include-usage-stream": ScriptedEndpoint(
        replace(SERVED, force_usage=True), context=512, api_key="k"
    ),
    "14-no-api-key": ScriptedEndpoint(SERVED, context=512, api_key="k"),
    "14-no-api-key-tokenize": ScriptedEndpoint(SERVED, context=512, api_key="k"),
    "14-small-context-too-long": ScriptedEndpoint(SERVED, context=512, api_key="k"),
}
PLAYED_APART = {
    "01-stream-keep-alive",  # other milliseconds
    "14-sigterm-mid-stream",  # ends in silence
    "15-health-after-crash-0",
    "15-stream-while-engine-crashes",
}
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json") if path.stem not in PLAYED_APART)
VOLATILE = {"id", "created", "root", "system_fingerprint", "tokens", "token_strs", "count"}
NOISE = ("16-dg-param-temperature_one", "16-dg-stream", "16-dg-canvas-length-stream")


def endpoint_for(name: str) -> ScriptedEndpoint:
    if name in SPECIAL:
        return replace(SPECIAL[name], model="gemma4")
    if name.startswith("16"):
        noise = reply_with("noise " * 100)
        return ScriptedEndpoint(replace(SERVED, canvas=32), context=4096, model="gemma4", brain=noise)
    return ScriptedEndpoint(SERVED, context=32768, model="gemma4")


async def replay(name: str) -> tuple[dict[str, Any], ClientResponse]:
    recorded = load_fixture(name)
    _, path = re.match(r"^(GET|POST) ([^ ,:]+)", recorded["about"]).groups()  # type: ignore[union-attr]
    headers = {}
    if recorded["status"] != 401 and "/v1/" in path:
        headers["authorization"] = "Bearer k"
    if "x-request-id" in recorded["headers"]:
        headers["x-request-id"] = recorded["headers"]["x-request-id"]
    async with open_client(endpoint_for(name)) as player:
        if name == "07-err-bad-json":
            raw = b'{"model": "gemma4", "messages": ['
            answer = await player.http.post(path, content=raw, headers={"content-type": "application/json"})
            return recorded, read_response(answer)
        if name.startswith("12-"):  # recorded by way of /detokenize
            got = await player.send({**recorded["request"], "return_prompt_text": True}, path)
            return recorded, replace(got, body={"prompt": got.body["prompt_text"]})
        return recorded, await player.send(recorded["request"], path, **headers)


def mask_volatile(value: Any) -> Any:
    """Values as they are, but for what may differ: there only the kind counts."""
    if isinstance(value, dict):
        return {
            key: _mask_value(key, item) if key in VOLATILE else mask_volatile(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [mask_volatile(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0.0
    return value


def _mask_value(key: str, value: Any) -> Any:
    if key == "id" and isinstance(value, str):
        return re.sub(r"[0-9a-f]{16}$", "<hex>", value)
    return type(value).__name__


def mask_texts(body: Any) -> Any:
    """A completion without what its model said."""
    body = mask_volatile(body)
    for choice in body.get("choices", ()):
        message = choice["message"]
        for key in ("content", "reasoning"):
            message[key] = message[key] and "<text>"
        for call in message.get("tool_calls", ()):
            call["function"] = sorted(call["function"])
    return body


def assert_same_text(name: str, got: str, want: str, finish: str | None) -> None:
    if name in NOISE:
        return
    if finish in ("length", "repetition") and want:
        assert got[:5] == want[:5]
    else:
        assert got == want


@pytest.mark.parametrize("name", [name for name in NAMES if load_fixture(name)["sse"] is None])
async def test_it_answers_like_the_recorded_server(name: str) -> None:
    recorded, got = await replay(name)
    assert got.status == recorded["status"]
    assert got.content_type == recorded["headers"].get("content-type")
    want = recorded["body"]
    if not isinstance(want, dict) or "choices" not in want:
        assert mask_volatile(got.body) == mask_volatile(want)
        return
    assert mask_texts(got.body) == mask_texts(want)
    choice, message = want["choices"][0], want["choices"][0]["message"]
    for key in ("content", "reasoning"):
        assert_same_text(name, got.message[key] or "", message[key] or "", choice["finish_reason"])
    calls = [call["function"] for call in got.message.get("tool_calls", ())]
    for simulated, real in zip(calls, message.get("tool_calls", ()), strict=True):
        assert simulated["name"] == real["function"]["name"]
        assert_same_text(name, simulated["arguments"], real["function"]["arguments"], choice["finish_reason"])
    assert got.body["choices"][0]["stop_reason"] == choice["stop_reason"]


@pytest.mark.parametrize("name", [name for name in NAMES if load_fixture(name)["sse"] is not None])
async def test_it_streams_like_the_recorded_server(name: str) -> None:
    recorded, got = await replay(name)
    assert got.content_type == recorded["headers"]["content-type"]
    simulated, real = got.streamed_reply, merge_stream(recorded["sse"])
    assert_same_text(name, simulated.content, real.content, real.finish_reason)
    assert_same_text(name, simulated.reasoning, real.reasoning, real.finish_reason)
    assert simulated.calls.keys() == real.calls.keys()
    for index, (tool, arguments) in real.calls.items():
        assert simulated.calls[index][0] == tool
        assert_same_text(name, simulated.calls[index][1], arguments, real.finish_reason)
    assert (simulated.finish_reason, simulated.stop_reason, simulated.is_done) == (
        real.finish_reason,
        real.stop_reason,
        real.is_done,
    )
    assert _stream_outline(got.lines) == _stream_outline(recorded["sse"])


def _stream_outline(lines: list[str]) -> list[Any]:
    """What the first, the last and the usage chunk look like; those between come in other numbers here."""
    chunks = [mask_volatile(chunk) for chunk in parse_chunks(lines)]
    last = next(chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"])
    last["choices"][0]["delta"] = "<words>"
    return [chunks[0], last, *(chunk for chunk in chunks if not chunk["choices"])]


@pytest.mark.parametrize("name", ["17-burst-parallel", "17-burst-think", "17-burst-tool-cut", "16-dg-stream"])
async def test_a_canvas_is_one_chunk_that_holds_what_the_recorded_burst_held(name: str) -> None:
    recorded, got = await replay(name)
    simulated, real = (
        [_delta_kinds(chunk) for chunk in parse_chunks(lines)] for lines in (got.lines, recorded["sse"])
    )
    assert simulated == real


def _delta_kinds(chunk: dict[str, Any]) -> list[Any]:
    deltas = [choice["delta"] for choice in chunk["choices"]]
    return [
        [*sorted(delta), [(call["index"], sorted(call["function"])) for call in delta.get("tool_calls", ())]]
        for delta in deltas
    ]


async def test_comments_keep_a_slow_stream_alive() -> None:
    recorded = load_fixture("01-stream-keep-alive")
    request = recorded["request"]
    request["messages"][0]["content"] = "@@say:a b@@"
    endpoint = ScriptedEndpoint(replace(SERVED, keep_alive_s=0.01), Timing.instant(), model="gemma4")
    async with open_client(endpoint) as player:
        endpoint.hold()
        async with player.http.stream("POST", "/v1/chat/completions", json=request) as answer:
            stream = (line async for line in answer.aiter_lines() if line)
            assert await anext(stream) == recorded["sse"][0] == ": keep-alive"
            endpoint.release()
            lines = [line async for line in stream]
    assert merge_stream(lines).content == merge_stream(recorded["sse"]).content
    assert _stream_outline(lines) == _stream_outline(recorded["sse"])

"""Recorded responses of a real vLLM, parsed and judged as in a check."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from bot.check.client import parse_gauges
from bot.check.judges import counts, engine, replies, template
from bot.check.observations import CallKind, Gauges, Observations, ProbeResponse, RouteResponse
from bot.check.response import ResponseAccumulator, parse_error_message
from bot.domain import Usage

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "endpoint"
NOTHING_OBSERVED = Observations("http://gpu:8000/v1")


def load_recording(name: str) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return recording


def replay_recording(name: str) -> ProbeResponse:
    """The answer of a recording, a second between its chunks."""
    exchange = load_recording(name)
    if exchange["status"] != 200:
        return ProbeResponse(exchange["status"], parse_error_message(exchange["body"]))
    clock = count()
    accumulator = ResponseAccumulator(lambda: float(next(clock)))
    lines = [line.removeprefix("data: ") for line in exchange["sse"] or () if line.startswith("data: {")]
    for chunk in map(json.loads, lines) if exchange["sse"] else [exchange["body"]]:
        accumulator.add_chunk(chunk)
    return accumulator.build_response()


def observe_recording(kind: CallKind, name: str) -> Observations:
    return replace(NOTHING_OBSERVED, answers={kind: replay_recording(name)})


def test_a_whole_answer_is_heard_with_its_counts() -> None:
    answer = replay_recording("01-chat")
    assert (answer.reply.text, answer.reply.finish_reason) == ("echo: Say hi", "stop")
    assert answer.usage == Usage(17, 0, 7, 0)
    assert counts.judge_whole_usage(observe_recording("plain", "01-chat")).status == "pass"


def test_a_stream_is_counted_with_each_block() -> None:
    answer = replay_recording("14-force-include-usage-stream")
    assert [block.tokens for block in answer.blocks[:2]] == [1, 2]
    assert (answer.blocks[-1].tokens, answer.usage.completion_tokens) == (4, 5)
    assert (
        counts.judge_stream_usage(observe_recording("counting", "14-force-include-usage-stream")).status
        == "pass"
    )
    assert (
        counts.judge_stream_usage(observe_recording("counting", "01-chat-stream-no-usage")).status == "fail"
    )


def test_a_diffusion_stream_shows_the_length_of_its_canvas() -> None:
    verdict = engine.judge_output(observe_recording("counting", "16-dg-stream"))
    assert verdict.status == "warn"
    assert "70 tokens came in 3 blocks" in verdict.seen
    assert "a canvas is 24 to 34 tokens, and is counted as 256" in verdict.seen


def test_the_refusal_of_a_temperature_is_known() -> None:
    assert (
        engine.judge_temperature(observe_recording("temperature", "16-dg-param-temperature")).status == "pass"
    )
    assert (
        engine.judge_temperature(observe_recording("temperature", "16-dg-param-temperature_one")).status
        == "warn"
    )


def test_an_answer_that_is_all_thought_is_seen() -> None:
    verdict = replies.judge_answers_apart(observe_recording("results", "04-open-channel-answer-stream"))
    assert verdict.status == "warn"
    assert "results" in verdict.seen
    assert (
        replies.judge_answers_apart(observe_recording("results", "04-open-channel-answer")).status == "pass"
    )


def test_several_calls_stay_apart() -> None:
    assert [call.name for call in replay_recording("02-tool-parallel-stream").reply.calls] == [
        "get_weather",
        "get_weather",
        "noargs",
    ]
    assert [call.name for call in replay_recording("02-tool-parallel").reply.calls] == [
        "get_weather",
        "get_weather",
        "noargs",
    ]


def test_a_leaked_call_is_seen() -> None:
    assert replies.judge_tool_calls(observe_recording("tools", "05-leak-string-delim")).status == "fail"


def test_a_control_token_of_a_person_is_real() -> None:
    body = load_recording("06-tokenize-user-special-tokens")["body"]
    assert (
        template.judge_control_tokens(
            replace(NOTHING_OBSERVED, templates={"history": RouteResponse(200, body)})
        ).status
        == "pass"
    )


def test_gauges_are_read_from_a_page_of_vllm() -> None:
    gauges = parse_gauges((RECORDINGS / "11-metrics-queue.txt").read_text())
    assert gauges is not None
    assert (gauges.running, gauges.waiting) == (8, 4)
    page = (RECORDINGS / "11-metrics-diffusion.txt").read_text() + "\nvllm:num_requests_waiting 0.0\n"
    assert parse_gauges(page) == Gauges(0, 0, steps=17, committed=128)

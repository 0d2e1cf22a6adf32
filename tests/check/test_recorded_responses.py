"""What a real vLLM was recorded to send, heard and judged as in a check."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from bot.check.gauges import gauges_of
from bot.check.judges import counts, engine, replies, template
from bot.check.observations import Answer, Gauges, Part, Route, Seen
from bot.check.response import Hearing, words_of

RECORDED = Path(__file__).parent.parent / "fixtures" / "endpoint"
NOBODY = Seen("http://gpu:8000/v1")


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def heard(name: str) -> Answer:
    """The answer of a recording, a second between its chunks."""
    exchange = recorded(name)
    if exchange["status"] != 200:
        return Answer(exchange["status"], words_of(exchange["body"]))
    clock, hearing = count(1.0), Hearing(0.0)
    lines = [line.removeprefix("data: ") for line in exchange["sse"] or () if line.startswith("data: {")]
    for chunk in map(json.loads, lines) if exchange["sse"] else [exchange["body"]]:
        hearing.take(chunk, next(clock))
    return hearing.answer(200, next(clock))


def seeing(part: Part, name: str) -> Seen:
    return replace(NOBODY, answers={part: heard(name)})


def test_a_whole_answer_is_heard_with_its_counts() -> None:
    answer = heard("01-chat")
    assert (answer.text, answer.finish, answer.tokens, answer.prompt, answer.cached) == (
        "echo: Say hi",
        "stop",
        7,
        17,
        0,
    )
    assert counts.in_whole(seeing("plain", "01-chat")).status == "pass"


def test_a_stream_is_counted_with_each_block() -> None:
    answer = heard("14-force-include-usage-stream")
    assert [block.tokens for block in answer.blocks[:2]] == [1, 2]
    assert (answer.blocks[-1].tokens, answer.tokens) == (4, 5)
    assert counts.in_streams(seeing("counting", "14-force-include-usage-stream")).status == "pass"
    assert counts.in_streams(seeing("counting", "01-chat-stream-no-usage")).status == "fail"


def test_a_diffusion_stream_shows_the_length_of_its_canvas() -> None:
    verdict = engine.canvas(seeing("counting", "16-dg-stream"))
    assert verdict.status == "warn"
    assert "70 tokens came in 3 blocks" in verdict.seen
    assert "a canvas is 24 to 34 tokens, and is counted as 256" in verdict.seen


def test_the_refusal_of_a_temperature_is_known() -> None:
    assert engine.temperature(seeing("temperature", "16-dg-param-temperature")).status == "pass"
    assert engine.temperature(seeing("temperature", "16-dg-param-temperature_one")).status == "warn"


def test_an_answer_that_is_all_thought_is_seen() -> None:
    verdict = replies.answers_apart(seeing("results", "04-open-channel-answer-stream"))
    assert verdict.status == "warn"
    assert "results" in verdict.seen
    assert replies.answers_apart(seeing("results", "04-open-channel-answer")).status == "pass"


def test_several_calls_stay_apart() -> None:
    assert [call.name for call in heard("02-tool-parallel-stream").calls] == [
        "get_weather",
        "get_weather",
        "noargs",
    ]
    assert [call.name for call in heard("02-tool-parallel").calls] == ["get_weather", "get_weather", "noargs"]


def test_a_leaked_call_is_seen() -> None:
    assert replies.tool_calls(seeing("tools", "05-leak-string-delim")).status == "fail"


def test_a_control_token_of_a_person_is_real() -> None:
    body = recorded("06-tokenize-user-special-tokens")["body"]
    assert template.controls(replace(NOBODY, templates={"history": Route(200, body)})).status == "pass"


def test_gauges_are_read_from_a_page_of_vllm() -> None:
    seen = gauges_of((RECORDED / "11-metrics-queue.txt").read_text())
    assert seen is not None
    assert (seen.running, seen.waiting) == (8, 4)
    page = (RECORDED / "11-metrics-diffusion.txt").read_text() + "\nvllm:num_requests_waiting 0.0\n"
    assert gauges_of(page) == Gauges(0, 0, steps=17, committed=128)

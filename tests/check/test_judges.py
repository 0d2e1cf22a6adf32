"""Judges on hand-made observations, for what the simulator does not show."""

from dataclasses import replace
from typing import Any

import pytest

from bot.check.findings import Verdict
from bot.check.judges import counts, engine, replies, seats, server, template
from bot.check.observations import (
    NO_REPLY,
    AbortProbeResult,
    Gauges,
    LoadProbeResult,
    Observations,
    ProbeResponse,
    RouteResponse,
    StreamBlock,
)
from bot.domain import ToolCall, Usage

REMOTE = Observations("http://gpu.example:8000/v1")
IDLE = Gauges(0, 0)
USAGE = Usage(prompt_tokens=900, completion_tokens=372, cached_tokens=0)


def make_response(
    *, blocks: tuple[StreamBlock, ...] = (), sent_at: float = 0.0, **fields: Any
) -> ProbeResponse:
    said = {"text": "ready", "finish_reason": "stop", "usage": USAGE}
    return ProbeResponse(200, reply=replace(NO_REPLY, **{**said, **fields}), blocks=blocks, sent_at=sent_at)


def models_response(**row: Any) -> RouteResponse:
    return RouteResponse(200, {"data": [{"id": "diffusiongemma", **row}]})


def assert_verdict(status: str, verdict: Verdict, text: str = "") -> None:
    """Hold a verdict against what is expected of it."""
    assert verdict.status == status, verdict
    assert text in f"{verdict.seen} {verdict.mend}"


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("0.33.0", "pass"),
        ("0.40.1rc2", "pass"),
        ("1.0.0", "pass"),
        ("0.32.9", "warn"),
        ("0.24.0", "warn"),
        ("0.23.5", "fail"),
        ("0.22.1rc1.dev357+g74b5964f0", "fail"),
        ("0.1.dev1+gabc", "unknown"),
        ("latest", "unknown"),
        (33, "unknown"),
        (None, "unknown"),
    ],
)
def test_releases_are_read_by_their_first_two_numbers(version: Any, status: str) -> None:
    assert (
        server.judge_version(replace(REMOTE, version=RouteResponse(200, {"version": version}))).status
        == status
    )


def test_an_endpoint_without_a_key_beyond_this_machine_is_warned_of() -> None:
    assert_verdict("warn", server.judge_key(replace(REMOTE, models=models_response())), "--api-key")
    assert_verdict(
        "warn",
        server.judge_key(replace(REMOTE, models=models_response(), has_key=True, keyless=models_response())),
        "over a network",
    )
    assert_verdict(
        "pass",
        server.judge_key(replace(REMOTE, models=models_response(), has_key=True, keyless=RouteResponse(401))),
    )
    assert_verdict(
        "unknown",
        server.judge_key(replace(REMOTE, models=models_response(), has_key=True, lost={"key": "cut"})),
        "cut",
    )


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8000/v1"])
def test_an_endpoint_without_a_key_on_this_machine_passes(url: str) -> None:
    assert_verdict("pass", server.judge_key(Observations(url, models=models_response())))


def test_a_context_that_is_not_reported_is_unknown() -> None:
    assert_verdict(
        "unknown", server.judge_context(replace(REMOTE, models=models_response())), "max_model_len"
    )
    assert_verdict("pass", server.judge_context(replace(REMOTE, models=models_response(max_model_len=4096))))


@pytest.mark.parametrize("body", [{}, {"data": 7}, {"data": []}, {"data": [7, {"id": None}]}])
def test_an_endpoint_that_names_no_model_fails(body: dict[str, Any]) -> None:
    assert_verdict("fail", server.judge_model(replace(REMOTE, models=RouteResponse(200, body))), "/v1")


def test_a_first_call_that_is_refused_fails_with_its_words() -> None:
    observations = replace(
        REMOTE,
        answers={"plain": ProbeResponse(404, "no such route")},
        stopped="the first model call was refused",
    )
    assert_verdict("fail", server.judge_protocol(observations), "HTTP 404): no such route")


def test_a_count_at_the_end_only_is_warned_of() -> None:
    assert_verdict(
        "warn",
        counts.judge_stream_usage(
            replace(REMOTE, answers={"counting": make_response(blocks=(StreamBlock(1.0),))})
        ),
        "at the end",
    )


@pytest.mark.parametrize(
    ("version", "text"), [("0.27.0", "before vLLM 0.28"), ("0.33.0", "--reasoning-parser")]
)
def test_uncounted_reasoning_is_explained_by_the_release(version: str, text: str) -> None:
    observations = replace(
        REMOTE,
        version=RouteResponse(200, {"version": version}),
        answers={"thought": make_response(reasoning="hm")},
    )
    assert_verdict("warn", counts.judge_reasoning_tokens(observations), text)


@pytest.mark.parametrize(
    ("prompt_tokens", "wanted", "status", "text"),
    [
        (None, None, "pass", "Accepted."),
        (120, 1120, "pass", "Accepted."),
        (290, None, "pass", "each takes 280 tokens"),
        (560, None, "pass", "each takes 560 tokens"),
        (1118, 1120, "pass", "each takes 1,120 tokens"),
        (290, 1120, "warn", 'IMAGE_TOKENS=auto, or --mm-processor-kwargs={"max_soft_tokens":1120}'),
    ],
)
def test_the_tokens_of_a_picture_are_told_by_the_count_of_its_prompt(
    prompt_tokens: int | None, wanted: int | None, status: str, text: str
) -> None:
    response = make_response(usage=Usage(prompt_tokens=prompt_tokens))
    observations = replace(REMOTE, answers={"picture": response}, image_tokens=wanted)
    assert_verdict(status, engine.judge_pictures(observations), text)


@pytest.mark.parametrize(
    ("arguments", "text"), [("{", "no JSON"), ("[]", "declared"), ('{"place": 1}', "declared")]
)
def test_arguments_are_looked_into(arguments: str, text: str) -> None:
    call = ToolCall("1", "check_weather", arguments)
    assert_verdict(
        "fail",
        replies.judge_tool_calls(replace(REMOTE, answers={"tools": make_response(calls=(call,))})),
        text,
    )


def test_calls_that_were_cut_tell_nothing_of_the_parser() -> None:
    cut = make_response(text="", reasoning="so long a thought", finish_reason="length")
    assert_verdict(
        "unknown", replies.judge_tool_calls(replace(REMOTE, answers={"tools, thinking": cut})), "was cut"
    )
    assert_verdict("unknown", replies.judge_parallel_calls(replace(REMOTE, answers={"tools, thinking": cut})))
    call = ToolCall("1", "check_weather", '{"place": "Rome"}')
    both: dict[Any, ProbeResponse] = {
        "tools, thinking": cut,
        "tools": make_response(text="", calls=(call, call)),
    }
    assert_verdict(
        "pass", replies.judge_tool_calls(replace(REMOTE, answers=both)), "in 1 of 2 replies: tools"
    )
    only = make_response(text="", reasoning="so long a thought")
    assert_verdict(
        "warn", replies.judge_tool_calls(replace(REMOTE, answers={"tools": only})), "only a thought came"
    )


def test_a_refusal_of_tools_for_another_reason_is_quoted() -> None:
    assert_verdict(
        "fail",
        replies.judge_tool_calls(replace(REMOTE, answers={"tools": ProbeResponse(400, "no")})),
        "HTTP 400): no",
    )
    assert_verdict(
        "warn",
        replies.judge_tool_calls(replace(REMOTE, answers={"tools": make_response(text="")})),
        "nothing came",
    )


def test_a_model_that_never_thinks_fails() -> None:
    spoken = make_response(blocks=make_blocks(1))
    observations = replace(REMOTE, answers={"plain": make_response(), "thought": spoken, "results": spoken})
    assert_verdict(
        "fail",
        replies.judge_thinking_switch(observations),
        "does not think though it was told to, in 2 replies",
    )


def template_response(text: str, *tokens: int) -> RouteResponse:
    return RouteResponse(200, {"tokens": list(tokens), "prompt_text": text, "token_strs": [text]})


def with_templates(**texts: str) -> Observations:
    usual = {
        "off": "<|turn>user",
        "on": "<|think|>",
        "default": "<|turn>user",
        "history": "<|turn>model",
        "loop": "response:check_weather",
    }
    rows: dict[Any, RouteResponse] = {
        name: template_response(text, token) for token, (name, text) in enumerate({**usual, **texts}.items())
    }
    return replace(REMOTE, templates=rows)


def test_another_model_s_template_fails() -> None:
    assert_verdict(
        "fail",
        template.judge_template(with_templates(off="[INST] hello [/INST]")),
        "not the template of Gemma 4",
    )
    assert_verdict(
        "fail",
        template.judge_template(with_templates(loop="<|turn>tool")),
        "not rendered with their tool's name",
    )
    assert_verdict(
        "pass",
        template.judge_template(with_templates(history="<|channel>thought\n<channel|>first answer")),
        "none of the known traps",
    )


def test_a_template_is_read_by_its_tokens_where_the_text_is_missing() -> None:
    strings = ["<|turn>", "user", "▁raw", *["<turn|>"] * 4]
    observations = replace(REMOTE, templates={"history": RouteResponse(200, {"token_strs": strings})})
    assert_verdict("pass", template.judge_control_tokens(observations), "would be real control tokens")


@pytest.mark.parametrize(("real", "status"), [(2, "pass"), (5, "pass"), (6, "fail"), (3, "unknown")])
def test_control_tokens_are_counted_against_the_text(real: int, status: str) -> None:
    body = {"token_strs": ["<turn|>"] * real, "prompt_text": "<turn|>" * 5}
    assert (
        template.judge_control_tokens(replace(REMOTE, templates={"history": RouteResponse(200, body)})).status
        == status
    )


def test_a_template_that_is_not_shown_has_no_fingerprint() -> None:
    assert_verdict(
        "unknown",
        template.judge_template(replace(REMOTE, templates={"off": RouteResponse(404)})),
        "no /tokenize",
    )
    assert_verdict("unknown", template.judge_template(with_templates(off="")), "no /tokenize")
    assert_verdict("unknown", template.judge_control_tokens(REMOTE), "not asked")
    assert_verdict(
        "unknown",
        template.judge_control_tokens(
            replace(REMOTE, templates={"history": RouteResponse(200, {"prompt_text": "a"})})
        ),
    )
    assert template.template_fingerprint(REMOTE) is None


def test_a_canvas_is_reckoned_where_nothing_is_counted_on_the_way() -> None:
    def told(blocks: int) -> Verdict:
        return engine.judge_output(
            replace(
                REMOTE, answers={"counting": make_response(blocks=tuple(map(StreamBlock, range(blocks))))}
            )
        )

    assert_verdict("pass", told(2), "canvases of 256")
    assert_verdict("warn", told(6), "a canvas is 62 to 74 tokens")
    assert_verdict("unknown", told(1))
    assert_verdict("pass", told(371), "no diffusion model")
    counted = make_response(blocks=(StreamBlock(0, 1), StreamBlock(1, 28)), usage=USAGE)
    verdict = engine.judge_output(replace(REMOTE, answers={"counting": counted}))
    assert_verdict("pass", verdict, "Token by token")


def test_a_reply_that_is_not_what_was_asked_for_tells_nothing_of_a_cap() -> None:
    assert_verdict(
        "unknown",
        engine.judge_reply_length(replace(REMOTE, answers={"counting": make_response(text="No.")})),
        "372 tokens, ended by stop",
    )
    assert_verdict(
        "unknown",
        engine.judge_reply_length(
            replace(REMOTE, answers={"counting": make_response(text="No.", usage=Usage())})
        ),
        "unknown tokens",
    )


def test_a_temperature_refused_in_other_words_is_unknown() -> None:
    assert_verdict(
        "unknown",
        engine.judge_temperature(replace(REMOTE, answers={"temperature": ProbeResponse(422, "no")})),
        "HTTP 422): no",
    )


def with_cached_tokens(**tokens: int) -> Observations:
    """The four prompts that show the cache, each with what was found of it."""
    parts = {
        "tools": "tools",
        "same": "tools, whole",
        "toggled": "thought",
        "second": "counting",
        "again": "tools, thinking, whole",
    }
    answers: dict[Any, ProbeResponse] = {
        part: make_response(usage=replace(USAGE, cached_tokens=tokens.get(name, 800)))
        for name, part in parts.items()
    }
    return replace(REMOTE, answers=answers)


def test_lineages_that_push_each_other_out_are_seen() -> None:
    assert_verdict(
        "warn", engine.judge_prefix_cache(with_cached_tokens(again=0)), "One lineage pushes the other out"
    )
    assert_verdict(
        "warn", engine.judge_prefix_cache(with_cached_tokens(tools=0)), "--prefix-cache-retention-interval"
    )
    assert_verdict("pass", engine.judge_prefix_cache(with_cached_tokens(toggled=0)), "thinking toggled: 0")
    assert_verdict("warn", engine.judge_prefix_cache(with_cached_tokens(same=0)), "nothing of it")


def test_a_cache_of_ends_only_passes_and_names_the_flag_that_keeps_more() -> None:
    default = with_cached_tokens(second=0)
    assert_verdict("pass", engine.judge_prefix_cache(default), "--prefix-cache-retention-interval 1024")
    dense = engine.judge_prefix_cache(with_cached_tokens())
    assert "retention" not in dense.seen


@pytest.mark.parametrize(
    ("status", "version", "text"),
    [(404, "0.33.0", "HTTP 404"), (404, "0.31.0", "vLLM 0.32"), (501, "0.33.0", "--log")],
)
def test_typed_reads_that_are_not_offered_are_warned_of_with_the_reason(
    status: int, version: str, text: str
) -> None:
    assert_verdict(
        "warn",
        engine.judge_typed_reads(
            replace(REMOTE, version=RouteResponse(200, {"version": version}), read=RouteResponse(status))
        ),
        text,
    )


def test_the_route_of_typed_reads_is_named_with_what_a_read_costs() -> None:
    route = RouteResponse(200, {"answers": [], "usage": {"input_tokens": 61}})
    offered = replace(REMOTE, read=route, read_path="/v1/decisions", read_seconds=0.31)
    text = "Offered at /v1/decisions: 0.31 s and 61 tokens for a short question."
    assert_verdict("pass", engine.judge_typed_reads(offered), text)


def make_blocks(*seconds: float) -> tuple[StreamBlock, ...]:
    return tuple(map(StreamBlock, seconds))


def queued_response(seconds: float) -> ProbeResponse:
    return make_response(
        blocks=make_blocks(seconds + 1, seconds + 2), server_timings={"queue_time_ms": seconds * 1000}
    )


@pytest.mark.parametrize(
    ("running", "status", "text"),
    [
        ((3, 4, 4), "pass", "4 of 9"),
        ((8, 8), "pass", "The gateway uses 4 of these seats: see MODEL_SEATS."),
        ((3, 4), "pass", "4 of 9"),
        ((3, 3), "warn", "MODEL_SEATS=3"),
        ((2, 3, 3), "warn", "MODEL_SEATS=3"),
        ((3,), "unknown", "only once"),
        ((2, 3), "unknown", "only once"),
    ],
)
def test_too_few_seats_are_warned_of_only_if_two_looks_agree(
    running: tuple[int, ...], status: str, text: str
) -> None:
    crowd = LoadProbeResult(IDLE, (make_response(),) * 9, tuple(Gauges(count, 2) for count in running))
    assert_verdict(status, seats.judge_seats(replace(REMOTE, needs_seats=4, crowd=crowd)), text)


def test_queue_times_show_too_few_seats_and_never_enough() -> None:
    """A server with one seat ended quick calls before they had waited for long: 8 of 9 at once, by these."""
    calls = (queued_response(0), queued_response(0), queued_response(2))
    waiting = LoadProbeResult(None, calls)
    verdict = seats.judge_seats(replace(REMOTE, needs_seats=3, crowd=waiting))
    assert_verdict("warn", verdict, "At most 2 of 3 calls ran at once")
    for needs_seats, crowd in ((None, waiting), (2, waiting), (2, LoadProbeResult(None, calls[:2]))):
        verdict = seats.judge_seats(replace(REMOTE, needs_seats=needs_seats, crowd=crowd))
        assert_verdict("unknown", verdict, "over before")
    assert_verdict(
        "unknown",
        seats.judge_seats(
            replace(REMOTE, crowd=LoadProbeResult(None, (make_response(), queued_response(0))))
        ),
        "over before",
    )
    assert_verdict(
        "unknown",
        seats.judge_seats(
            replace(REMOTE, crowd=LoadProbeResult(IDLE, (ProbeResponse(0), queued_response(0))))
        ),
        "came to nothing",
    )
    assert_verdict(
        "pass",
        seats.judge_seats(
            replace(REMOTE, needs_seats=9, crowd=LoadProbeResult(IDLE, (make_response(),), (Gauges(1, 0),)))
        ),
        "At least 1",
    )


@pytest.mark.parametrize(
    ("urgent", "status"),
    [(3.0, "pass"), (7.0, "warn"), (4.9, "unknown")],
    ids=["before", "behind", "together"],
)
def test_the_order_of_calls_shows_in_their_first_blocks(urgent: float, status: str) -> None:
    """Two seats; the third and fourth call wait, and get theirs after the urgent one was sent at 1.5."""
    calls = tuple(make_response(blocks=make_blocks(first, first + 1)) for first in (1, 1, 5, 5))
    hurried = make_response(sent_at=1.5, blocks=make_blocks(urgent - 1.5))
    observations = replace(REMOTE, crowd=LoadProbeResult(IDLE, calls, (Gauges(2, 2),), hurried))
    assert seats.judge_priority(observations).status == status


def test_an_abort_that_shows_nothing_is_unknown() -> None:
    assert_verdict(
        "unknown", seats.judge_abort(replace(REMOTE, abort=AbortProbeResult(None))), "Without /metrics"
    )
    assert_verdict("unknown", seats.judge_abort(replace(REMOTE, abort=AbortProbeResult(IDLE))), "over before")
    assert_verdict(
        "fail",
        seats.judge_abort(replace(REMOTE, abort=AbortProbeResult(IDLE, (Gauges(1, 0), Gauges(1, 0))))),
        "still runs",
    )
    freed = AbortProbeResult(IDLE, (Gauges(1, 0), Gauges(0, 0)), first_block_seconds=1.5, watched_seconds=0.4)
    assert_verdict("pass", seats.judge_abort(replace(REMOTE, abort=freed)))
    assert_verdict(
        "unknown",
        seats.judge_abort(replace(REMOTE, abort=replace(freed, first_block_seconds=0.01))),
        "ended by itself",
    )


@pytest.mark.parametrize("lacking", ["steps", "committed"])
def test_uncounted_steps_are_unknown(lacking: str) -> None:
    before = Gauges(0, 0, steps=10, committed=256)
    assert Gauges(0, 0, steps=44, committed=768).steps_per_canvas_since(before) == 16
    assert Gauges(0, 0, steps=10, committed=256).steps_per_canvas_since(before) is None
    counted: dict[str, Any] = {"steps": 44, "committed": 768, lacking: None}
    assert Gauges(0, 0, **counted).steps_per_canvas_since(before) is None


def test_cached_tokens_are_shown_without_the_size_of_the_prompt() -> None:
    bare = make_response(usage=Usage(completion_tokens=1, cached_tokens=64))
    observations = replace(REMOTE, answers={"tools": bare, "tools, whole": bare})
    assert_verdict("pass", engine.judge_prefix_cache(observations), "the same prompt again: 64; a third: 64")

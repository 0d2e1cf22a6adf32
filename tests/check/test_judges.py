"""Judgements about what the simulator does not show, on values made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from bot.check.findings import Verdict
from bot.check.judges import counts, engine, replies, seats, server, template
from bot.check.observations import Abort, Answer, Block, Crowd, Gauges, Route, Seen
from bot.domain import ToolCall

FAR = Seen("http://gpu.example:8000/v1")
NOBODY = Gauges(0, 0)
COUNTED = {"prompt_tokens": 900, "completion_tokens": 372, "prompt_tokens_details": {"cached_tokens": 0}}


def answer(**more: Any) -> Answer:
    return Answer(200, **{"finish": "stop", "usage": COUNTED, "text": "ready", **more})


def served(**row: Any) -> Route:
    return Route(200, {"data": [{"id": "diffusiongemma", **row}]})


def of(status: str, verdict: Verdict, words: str = "") -> None:
    """Hold a verdict against what is expected of it."""
    assert verdict.status == status, verdict
    assert words in f"{verdict.seen} {verdict.mend}"


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
    assert server.version(replace(FAR, version=Route(200, {"version": version}))).status == status


def test_an_open_door_beyond_this_machine_is_warned_of() -> None:
    of("warn", server.key(replace(FAR, models=served())), "--api-key")
    of("warn", server.key(replace(FAR, models=served(), has_key=True, keyless=served())), "over a network")
    of("pass", server.key(replace(FAR, models=served(), has_key=True, keyless=Route(401))))
    of("unknown", server.key(replace(FAR, models=served(), has_key=True, lost={"key": "cut"})), "cut")


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8000/v1"])
def test_an_open_door_on_this_machine_is_none(url: str) -> None:
    of("pass", server.key(Seen(url, models=served())))


def test_a_context_nobody_tells_is_unknown() -> None:
    of("unknown", server.context(replace(FAR, models=served())), "max_model_len")
    of("pass", server.context(replace(FAR, models=served(max_model_len=4096))))


@pytest.mark.parametrize("body", [{}, {"data": 7}, {"data": []}, {"data": [7, {"id": None}]}])
def test_an_endpoint_that_names_no_model_fails(body: dict[str, Any]) -> None:
    of("fail", server.model(replace(FAR, models=Route(200, body))), "/v1")


def test_a_first_call_that_is_refused_fails_with_its_words() -> None:
    seen = replace(
        FAR, answers={"plain": Answer(404, "no such route")}, stopped="the first model call was refused"
    )
    of("fail", server.protocol(seen), "HTTP 404): no such route")


def test_a_count_at_the_end_only_is_warned_of() -> None:
    of(
        "warn",
        counts.in_streams(replace(FAR, answers={"counting": answer(blocks=(Block(1.0),))})),
        "at the end",
    )


@pytest.mark.parametrize(
    ("version", "words"), [("0.27.0", "before vLLM 0.28"), ("0.33.0", "--reasoning-parser")]
)
def test_reasoning_nobody_counts_is_told_by_release(version: str, words: str) -> None:
    seen = replace(FAR, version=Route(200, {"version": version}), answers={"thought": answer(reasoning="hm")})
    of("warn", counts.reasoning(seen), words)


@pytest.mark.parametrize(
    ("arguments", "words"), [("{", "no JSON"), ("[]", "declared"), ('{"place": 1}', "declared")]
)
def test_arguments_are_looked_into(arguments: str, words: str) -> None:
    call = ToolCall("1", "check_weather", arguments)
    of("fail", replies.tool_calls(replace(FAR, answers={"tools": answer(calls=(call,))})), words)


def test_calls_that_were_cut_tell_nothing_of_the_parser() -> None:
    cut = answer(text="", reasoning="so long a thought", finish="length")
    of("unknown", replies.tool_calls(replace(FAR, answers={"tools, thinking": cut})), "was cut")
    of("unknown", replies.parallel(replace(FAR, answers={"tools, thinking": cut})))
    call = ToolCall("1", "check_weather", '{"place": "Rome"}')
    both: dict[Any, Answer] = {"tools, thinking": cut, "tools": answer(text="", calls=(call, call))}
    of("pass", replies.tool_calls(replace(FAR, answers=both)), "in 1 of 2 replies: tools")
    only = replace(cut, finish="stop")
    of("warn", replies.tool_calls(replace(FAR, answers={"tools": only})), "only a thought came")


def test_tools_refused_for_another_reason_are_told_in_its_words() -> None:
    of("fail", replies.tool_calls(replace(FAR, answers={"tools": Answer(400, "no")})), "HTTP 400): no")
    of("warn", replies.tool_calls(replace(FAR, answers={"tools": answer(text="")})), "nothing came")


def test_a_model_that_never_thinks_is_told() -> None:
    spoken = answer(blocks=blocks(1))
    seen = replace(FAR, answers={"plain": answer(), "thought": spoken, "results": spoken})
    of("fail", replies.switch(seen), "does not think though it was told to, in 2 replies")


def rendered(text: str, *tokens: int) -> Route:
    return Route(200, {"tokens": list(tokens), "prompt_text": text, "token_strs": [text]})


def shown(**texts: str) -> Seen:
    usual = {
        "off": "<|turn>user",
        "on": "<|think|>",
        "default": "<|turn>user",
        "history": "<|turn>model",
        "loop": "response:check_weather",
    }
    rows: dict[Any, Route] = {
        name: rendered(text, place) for place, (name, text) in enumerate({**usual, **texts}.items())
    }
    return replace(FAR, templates=rows)


def test_another_model_s_template_fails() -> None:
    of("fail", template.template(shown(off="[INST] hello [/INST]")), "not the template of Gemma 4")
    of("fail", template.template(shown(loop="<|turn>tool")), "not rendered with their tool's name")
    of(
        "pass",
        template.template(shown(history="<|channel>thought\n<channel|>first answer")),
        "none of the known traps",
    )


def test_a_template_is_read_by_its_tokens_where_the_text_is_not_told() -> None:
    strings = ["<|turn>", "user", "▁raw", *["<turn|>"] * 4]
    seen = replace(FAR, templates={"history": Route(200, {"token_strs": strings})})
    of("pass", template.controls(seen), "would be real control tokens")


@pytest.mark.parametrize(("real", "status"), [(2, "pass"), (5, "pass"), (6, "fail"), (3, "unknown")])
def test_control_tokens_are_counted_against_the_text(real: int, status: str) -> None:
    body = {"token_strs": ["<turn|>"] * real, "prompt_text": "<turn|>" * 5}
    assert template.controls(replace(FAR, templates={"history": Route(200, body)})).status == status


def test_a_template_that_is_not_shown_has_no_fingerprint() -> None:
    of("unknown", template.template(replace(FAR, templates={"off": Route(404)})), "no /tokenize")
    of("unknown", template.template(shown(off="")), "no /tokenize")
    of("unknown", template.controls(FAR), "not asked")
    of("unknown", template.controls(replace(FAR, templates={"history": Route(200, {"prompt_text": "a"})})))
    assert template.fingerprint(FAR) is None


def test_a_canvas_is_reckoned_where_nothing_is_counted_on_the_way() -> None:
    def told(blocks: int) -> Verdict:
        return engine.canvas(
            replace(FAR, answers={"counting": answer(blocks=tuple(map(Block, range(blocks))))})
        )

    of("pass", told(2), "canvases of 256")
    of("warn", told(6), "a canvas is 62 to 74 tokens")
    of("unknown", told(1))
    of("warn", told(371), "No diffusion model")


def test_a_reply_that_is_not_what_was_asked_for_tells_nothing_of_a_cap() -> None:
    of(
        "unknown",
        engine.cap(replace(FAR, answers={"counting": answer(text="No.")})),
        "372 tokens, ended by stop",
    )
    of(
        "unknown",
        engine.cap(replace(FAR, answers={"counting": answer(text="No.", usage=None)})),
        "unknown tokens",
    )


def test_a_temperature_refused_in_other_words_is_unknown() -> None:
    of(
        "unknown",
        engine.temperature(replace(FAR, answers={"temperature": Answer(422, "no")})),
        "HTTP 422): no",
    )


def cached(**tokens: int) -> Seen:
    """The four prompts that show the cache, each with what was found of it."""
    parts = {
        "tools": "tools",
        "same": "tools, whole",
        "toggled": "thought",
        "again": "tools, thinking, whole",
    }
    answers: dict[Any, Answer] = {
        part: answer(usage={**COUNTED, "prompt_tokens_details": {"cached_tokens": tokens.get(name, 800)}})
        for name, part in parts.items()
    }
    return replace(FAR, answers=answers)


def test_lineages_that_push_each_other_out_are_seen() -> None:
    of("warn", engine.cache(cached(again=0)), "One lineage pushes the other out")
    of("warn", engine.cache(cached(tools=0)), "--prefix-cache-retention-interval")
    of("pass", engine.cache(cached(toggled=0)), "thinking toggled: 0")
    of("warn", engine.cache(cached(same=0)), "nothing of it")


@pytest.mark.parametrize(
    ("status", "version", "words"),
    [(404, "0.33.0", "HTTP 404"), (404, "0.31.0", "vLLM 0.32"), (501, "0.33.0", "--log")],
)
def test_typed_reads_that_are_not_offered_are_told_with_the_reason(
    status: int, version: str, words: str
) -> None:
    of(
        "warn",
        engine.typed_reads(replace(FAR, version=Route(200, {"version": version}), read=Route(status))),
        words,
    )


def blocks(*moments: float) -> tuple[Block, ...]:
    return tuple(map(Block, moments))


def queued(seconds: float) -> Answer:
    return answer(blocks=blocks(seconds + 1, seconds + 2), server={"queue_time_ms": seconds * 1000})


def test_seats_are_told_by_the_servers_queue_where_gauges_are_not() -> None:
    waiting = Crowd(None, (queued(0), queued(0), queued(2)))
    of("pass", seats.seats(replace(FAR, crowd=waiting)), "2 of 3 calls ran at once")
    of("pass", seats.seats(replace(FAR, crowd=Crowd(None, (queued(0), queued(0))))), "At least 2 of 2")
    of("unknown", seats.seats(replace(FAR, crowd=Crowd(None, (answer(), queued(0))))), "over before")
    of("unknown", seats.seats(replace(FAR, crowd=Crowd(NOBODY, (Answer(0), queued(0))))), "came to nothing")
    of(
        "pass",
        seats.seats(replace(FAR, needs_seats=9, crowd=Crowd(NOBODY, (answer(),), (Gauges(1, 0),)))),
        "At least 1",
    )


@pytest.mark.parametrize(
    ("urgent", "status"),
    [(3.0, "pass"), (7.0, "warn"), (4.9, "unknown")],
    ids=["before", "behind", "together"],
)
def test_who_went_first_is_told_by_first_blocks(urgent: float, status: str) -> None:
    """Two seats; the third and fourth call wait, and get theirs after the urgent one was sent at 1.5."""
    calls = tuple(answer(blocks=blocks(first, first + 1)) for first in (1, 1, 5, 5))
    hurried = answer(began=1.5, blocks=blocks(urgent - 1.5))
    seen = replace(FAR, crowd=Crowd(NOBODY, calls, (Gauges(2, 2),), hurried))
    assert seats.priority(seen).status == status


def test_an_abort_that_shows_nothing_is_unknown() -> None:
    of("unknown", seats.abort(replace(FAR, abort=Abort(None))), "Without /metrics")
    of("unknown", seats.abort(replace(FAR, abort=Abort(NOBODY))), "over before")
    of("fail", seats.abort(replace(FAR, abort=Abort(NOBODY, (Gauges(1, 0), Gauges(1, 0))))), "still runs")
    freed = Abort(NOBODY, (Gauges(1, 0), Gauges(0, 0)), pace=1.5, watched=0.4)
    of("pass", seats.abort(replace(FAR, abort=freed)))
    of("unknown", seats.abort(replace(FAR, abort=replace(freed, pace=0.01))), "ended by itself")


@pytest.mark.parametrize("lacking", ["steps", "committed"])
def test_steps_nobody_counts_are_not_told(lacking: str) -> None:
    before = Gauges(0, 0, steps=10, committed=256)
    assert Gauges(0, 0, steps=44, committed=768).steps_since(before) == 16
    assert Gauges(0, 0, steps=10, committed=256).steps_since(before) is None
    counted: dict[str, Any] = {"steps": 44, "committed": 768, lacking: None}
    assert Gauges(0, 0, **counted).steps_since(before) is None


def test_a_cache_is_told_without_the_size_of_the_prompt() -> None:
    bare = answer(usage={"completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}})
    seen = replace(FAR, answers={"tools": bare, "tools, whole": bare})
    of("pass", engine.cache(seen), "the same prompt again: 64; a third: 64")

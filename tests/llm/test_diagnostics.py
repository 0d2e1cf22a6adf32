"""Findings about a server: none for a good one, and for a bad one the flag that fixes it."""

from dataclasses import replace

import pytest

from bot.domain import CallTimes, Reply, Usage
from bot.llm.diagnostics import (
    MAX_VERSION_CHARS,
    OutputCapDetector,
    ServerSnapshot,
    can_answer,
    diagnose_calls,
    diagnose_server,
)
from bot.llm.server_api import ServedModel

GOOD = Usage(100, 64, 5, 0)
MODEL = ServedModel("gemma4", 65536)


def make_reply(text: str = "Yes.", reasoning: str = "", usage: Usage = GOOD) -> Reply:
    return Reply(text, reasoning, (), "stop", usage, CallTimes(0.0), server_timings={"queue_time_ms": 1.0})


def make_snapshot(
    version: str | None = "0.33.0", *replies: tuple[bool, Reply], refusal: str | None = None
) -> ServerSnapshot:
    return ServerSnapshot(
        version,
        (MODEL,),
        None,
        9000,
        None,
        replies or ((False, make_reply()), (True, make_reply(reasoning="hm"))),
        refusal,
    )


def diagnose_all(snapshot: ServerSnapshot) -> str:
    return "\n".join((*diagnose_server(snapshot), *diagnose_calls(snapshot)))


@pytest.mark.parametrize(
    "version",
    ["0.33.0", "0.33.1", "0.33.0rc2", "0.34.0.dev12+gabc", "1.0.0", "0.1.dev1+g74b5964f0", "nightly", ""],
)
def test_a_good_server_or_one_of_unknown_version_has_no_findings(version: str) -> None:
    assert diagnose_all(make_snapshot(version)) == ""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "0.22.1rc1.dev357+g74b5964f0",
            "the preview image vllm/vllm-openai:gemma: many of its turns come back empty",
        ),
        ("0.22.1rc1.dev357+g74b5964f0", "its replies end after 256 tokens"),
        ("0.23.1", "older than the first release that serves DiffusionGemma, 0.24.0"),
        ("0.24.0", "does not count reasoning"),
        ("0.27.9", "0.33.0 or newer is recommended"),
        ("0.31.0", "vLLM 0.31.0 cannot read in one step whether to think; 0.33.0"),
        ("0.32.0", "is older than what this was built for; 0.33.0 or newer is recommended"),
    ],
)
def test_an_older_release_is_named_with_the_update(version: str, expected: str) -> None:
    [line] = diagnose_server(make_snapshot(version))
    assert version in line
    assert expected in line
    assert "pip install -U 'vllm>=0.33.0'" in line
    assert "vllm/vllm-openai:v0.33.0" in line


def test_a_server_that_is_not_vllm_is_noticed() -> None:
    [line] = diagnose_server(make_snapshot(None))
    assert "does not say that it is vLLM" in line


def test_a_version_is_shown_cleaned_and_bounded() -> None:
    [line] = diagnose_server(make_snapshot("0.2.\x1b[31m" + "9" * 500))
    assert "\x1b" not in line
    assert "9" * MAX_VERSION_CHARS not in line


def test_a_missing_tool_parser_is_reported_with_its_flags() -> None:
    expected = (
        'The endpoint refused: "auto" tool choice requires --enable-auto-tool-choice and '
        "--tool-call-parser to be set"
    )
    assert diagnose_calls(ServerSnapshot("0.33.0", refusal=expected)) == (
        "The server refuses tools: start vLLM with --enable-auto-tool-choice --tool-call-parser gemma4.",
    )


def test_any_other_refusal_is_shown_as_it_is() -> None:
    assert diagnose_calls(ServerSnapshot("0.33.0", refusal="No such thing.")) == (
        "No such thing. Every message will be refused alike.",
    )


@pytest.mark.parametrize(
    ("version", "thinking", "reply"),
    [
        ("0.33.0", True, make_reply("<|channel>thought\nhm<channel|>Yes.", usage=GOOD)),
        ("0.24.0", True, make_reply("thought\nhm\nYes.")),
        ("0.33.0", False, make_reply(usage=Usage(100, 64, 5, None))),
    ],
)
def test_a_missing_reasoning_parser_is_noticed_by_its_leaks(
    version: str, thinking: bool, reply: Reply
) -> None:
    [line] = diagnose_calls(make_snapshot(version, (thinking, reply)))
    assert "--reasoning-parser gemma4" in line


@pytest.mark.parametrize(
    ("version", "thinking", "reply"),
    [
        ("0.24.0", False, make_reply(usage=Usage(100, 64, 5, None))),  # it does not count them yet
        ("0.33.0", False, make_reply("thought\nis what I call it")),
        ("0.33.0", True, make_reply("Yes.", reasoning="thought\n")),
        ("0.33.0", True, make_reply(usage=Usage(missing_reason="the call ended before the server counted"))),
    ],
)
def test_a_server_that_parses_is_not_suspected(version: str, thinking: bool, reply: Reply) -> None:
    assert diagnose_calls(make_snapshot(version, (thinking, reply))) == ()


def test_a_server_without_usage_is_reported_and_suspected_of_nothing_else() -> None:
    reply = make_reply(usage=Usage(missing_reason="the server sent no usage"))
    [line] = diagnose_calls(make_snapshot("0.33.0", (True, reply)))
    assert "no usage with its streams" in line


def test_missing_timings_are_reported_of_releases_that_have_them() -> None:
    reply = replace(make_reply(), server_timings=None)
    [line] = diagnose_calls(make_snapshot("0.33.0", (False, reply)))
    assert "start vLLM with --enable-per-request-metrics" in line
    assert diagnose_calls(make_snapshot("0.25.1", (False, reply))) == ()
    assert diagnose_calls(make_snapshot(None, (False, reply))) == ()


def test_unknown_cache_hits_are_reported() -> None:
    [line] = diagnose_calls(make_snapshot("0.33.0", (False, make_reply(usage=Usage(100, None, 5, 0)))))
    assert "--enable-prompt-tokens-details" in line


def test_a_server_that_is_not_vllm_is_named_no_flags_of_vllm() -> None:
    reply = make_reply("thought\nhm\nYes.", usage=Usage(100, None, 5, 0))
    assert diagnose_calls(make_snapshot(None, (True, reply))) == (
        "The server does not tell thoughts from answers.",
        "The server does not say what it had in its cache, so that the account cannot either.",
    )


def test_a_wrong_key_and_a_model_not_served_are_reported_with_their_settings() -> None:
    key = ServerSnapshot("0.33.0", key_refused="The endpoint at http://x/v1 wants a key.")
    model = ServerSnapshot(
        "0.33.0", (MODEL, ServedModel("other", None)), model="mine", longest_prompt_tokens=9000
    )
    assert diagnose_server(key) == ("The endpoint at http://x/v1 wants a key. Set MODEL_API_KEY.",)
    assert diagnose_server(model) == (
        "The endpoint does not serve mine, but gemma4, other. Set MODEL_NAME=gemma4.",
    )
    assert not can_answer(key)
    assert not can_answer(model)


@pytest.mark.parametrize(
    "snapshot",
    [
        ServerSnapshot("0.33.0"),
        ServerSnapshot(None),
        make_snapshot(),
        ServerSnapshot("0.33.0", (MODEL,), "gemma4"),
        ServerSnapshot("0.33.0", (), "gemma4"),
    ],
)
def test_any_other_server_can_answer(snapshot: ServerSnapshot) -> None:
    assert can_answer(snapshot)


def test_a_context_too_small_for_the_prompts_is_reported_with_both_numbers() -> None:
    [line] = diagnose_server(ServerSnapshot("0.33.0", (ServedModel("gemma4", 8192),), None, 9024))
    assert "8192" in line
    assert "--max-model-len 9024" in line
    assert diagnose_server(ServerSnapshot("0.33.0", (ServedModel("gemma4", None),), "gemma4", 9024)) == ()


def make_ended_reply(tokens: int | None, finish: str = "length") -> Reply:
    return replace(make_reply("text", usage=Usage(completion_tokens=tokens)), finish_reason=finish)


def detect_cap(*replies: Reply, max_tokens: int = 1024) -> list[bool]:
    detector = OutputCapDetector()
    return [detector.detect(reply, max_tokens) for reply in replies]


def test_three_replies_cut_after_one_canvas_confirm_a_cap_once():
    assert detect_cap(*[make_ended_reply(256)] * 5) == [False, False, True, False, False]


def test_shorter_replies_and_unknown_counts_neither_confirm_nor_reset():
    assert detect_cap(
        make_ended_reply(256),
        make_ended_reply(20, "stop"),
        make_ended_reply(None),
        make_ended_reply(256),
        make_ended_reply(256),
    ) == [False] * 4 + [True]


def test_a_longer_reply_resets_the_count():
    assert (
        detect_cap(
            make_ended_reply(256),
            make_ended_reply(256),
            make_ended_reply(257, "stop"),
            make_ended_reply(256),
            make_ended_reply(256),
        )
        == [False] * 5
    )


def test_a_reply_that_was_allowed_no_more_or_ended_by_itself_is_not_capped():
    assert detect_cap(*[make_ended_reply(256)] * 4, max_tokens=256) == [False] * 4
    assert detect_cap(*[make_ended_reply(256, "stop")] * 4) == [False] * 4

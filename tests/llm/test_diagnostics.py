"""What is said of a server: nothing of a good one, and of a bad one the flag that mends it."""

import pytest

from bot.domain import CallTimes, Reply, Usage
from bot.llm import diagnostics as complaints
from bot.llm.diagnostics import LONGEST, Seen
from bot.llm.server_api import ServedModel

GOOD = Usage(100, 64, 5, 0)
MODEL = ServedModel("gemma4", 65536)


def reply(text: str = "Yes.", reasoning: str = "", usage: Usage = GOOD) -> Reply:
    return Reply(text, reasoning, (), "stop", usage, CallTimes(0.0))


def seen(version: str | None = "0.33.0", *replies: tuple[bool, Reply], refusal: str | None = None) -> Seen:
    return Seen(
        version,
        (MODEL,),
        None,
        9000,
        None,
        replies or ((False, reply()), (True, reply(reasoning="hm"))),
        refusal,
    )


def all_of(what: Seen) -> str:
    return "\n".join((*complaints.of_server(what), *complaints.of_calls(what)))


@pytest.mark.parametrize(
    "version",
    ["0.33.0", "0.33.1", "0.33.0rc2", "0.34.0.dev12+gabc", "1.0.0", "0.1.dev1+g74b5964f0", "nightly", ""],
)
def test_nothing_is_said_of_a_good_server_or_of_one_that_cannot_be_told(version: str) -> None:
    assert all_of(seen(version)) == ""


@pytest.mark.parametrize(
    ("version", "words"),
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
def test_an_older_release_is_named_with_the_update(version: str, words: str) -> None:
    [line] = complaints.of_server(seen(version))
    assert version in line
    assert words in line
    assert "pip install -U 'vllm>=0.33.0'" in line
    assert "vllm/vllm-openai:v0.33.0" in line


def test_a_server_that_is_not_vllm_is_told_from_one_that_is() -> None:
    [line] = complaints.of_server(seen(None))
    assert "does not say that it is vLLM" in line


def test_a_version_is_shown_as_far_as_it_is_one() -> None:
    [line] = complaints.of_server(seen("0.2.\x1b[31m" + "9" * 500))
    assert "\x1b" not in line
    assert "9" * LONGEST not in line


def test_a_missing_tool_parser_is_named_by_its_flags() -> None:
    words = 'The endpoint refused: "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    assert complaints.of_calls(Seen("0.33.0", refusal=words)) == (
        "The server refuses tools: start vLLM with --enable-auto-tool-choice --tool-call-parser gemma4.",
    )


def test_any_other_refusal_is_told_as_it_is() -> None:
    assert complaints.of_calls(Seen("0.33.0", refusal="No such thing.")) == (
        "No such thing. Every message will be refused alike.",
    )


@pytest.mark.parametrize(
    ("version", "thinking", "said"),
    [
        ("0.33.0", True, reply("<|channel>thought\nhm<channel|>Yes.", usage=GOOD)),
        ("0.24.0", True, reply("thought\nhm\nYes.")),
        ("0.33.0", False, reply(usage=Usage(100, 64, 5, None))),
    ],
)
def test_a_missing_reasoning_parser_is_seen_by_its_leaks(version: str, thinking: bool, said: Reply) -> None:
    [line] = complaints.of_calls(seen(version, (thinking, said)))
    assert "--reasoning-parser gemma4" in line


@pytest.mark.parametrize(
    ("version", "thinking", "said"),
    [
        ("0.24.0", False, reply(usage=Usage(100, 64, 5, None))),  # it does not count them yet
        ("0.33.0", False, reply("thought\nis what I call it")),
        ("0.33.0", True, reply("Yes.", reasoning="thought\n")),
        ("0.33.0", True, reply(usage=Usage(missing="the server sent no usage"))),
    ],
)
def test_a_server_that_parses_is_not_suspected(version: str, thinking: bool, said: Reply) -> None:
    assert complaints.of_calls(seen(version, (thinking, said))) == ()


def test_unknown_cache_hits_are_a_hint() -> None:
    [line] = complaints.of_calls(seen("0.33.0", (False, reply(usage=Usage(100, None, 5, 0)))))
    assert "--enable-prompt-tokens-details" in line


def test_a_wrong_key_and_a_model_that_is_not_served_are_named_by_their_settings() -> None:
    key = Seen("0.33.0", key_refused="The endpoint at http://x/v1 wants a key.")
    model = Seen("0.33.0", (MODEL, ServedModel("other", None)), model="mine", longest=9000)
    assert complaints.of_server(key) == ("The endpoint at http://x/v1 wants a key. Set MODEL_API_KEY.",)
    assert complaints.of_server(model) == (
        "The endpoint does not serve mine, but gemma4, other. Set MODEL_NAME=gemma4.",
    )
    assert not complaints.answers(key)
    assert not complaints.answers(model)


@pytest.mark.parametrize(
    "what",
    [Seen("0.33.0"), Seen(None), seen(), Seen("0.33.0", (MODEL,), "gemma4"), Seen("0.33.0", (), "gemma4")],
)
def test_everything_else_may_answer(what: Seen) -> None:
    assert complaints.answers(what)


def test_a_context_too_small_for_the_prompts_is_told_with_both_numbers() -> None:
    [line] = complaints.of_server(Seen("0.33.0", (ServedModel("gemma4", 8192),), None, 9024))
    assert "8192" in line
    assert "--max-model-len 9024" in line
    assert complaints.of_server(Seen("0.33.0", (ServedModel("gemma4", None),), "gemma4", 9024)) == ()

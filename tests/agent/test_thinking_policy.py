"""The decision to think: what speaks for it, what against it, and the reason it gives."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.thinking_policy import (
    UNSURE_FROM,
    UNSURE_TO,
    ThinkingDecision,
    ThinkingEvidence,
    decide_thinking,
    settle_doubt,
)
from bot.agent.tool_matching.index import ThinkingNeed, ToolIndex, build_index
from bot.bench.harness.sample_tools import discover_with_samples
from bot.bench.policies.cases import read_cases
from tools.registry import discover
from tools.search.searxng import SearxngEngine
from tools.search.tool import make_search_tool

FIXTURES = Path(__file__).parent.parent / "fixtures" / "thinking"


@dataclass(frozen=True)
class FakeTool:
    name: str
    description: str
    thinking: ThinkingNeed = "may"
    input_schema: dict[str, Any] = field(default_factory=dict)
    source: str = ""


@pytest.fixture(scope="module")
def tool_index() -> ToolIndex:
    """The built-in tools, and samples of what a gateway might get."""
    return build_index(discover_with_samples())


PLAN = FakeTool("plan_trip", "Plan a journey of several days with trains and hotels.", "needs")


def test_one_call_is_not_heavy(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["What time is it in Tokyo?"], tool_index)
    assert (decision.thinking, decision.reason, decision.tools) == (False, "one step: clock", ("clock",))
    decision = decide_thinking(["Convert 100 EUR to JPY"], tool_index)
    assert (decision.thinking, decision.reason) == (False, "one step: convert_currency")


@pytest.mark.parametrize(
    "text",
    [
        "Good morning!",
        "Why is the sky blue?",
        "Tell me a joke",
        "explain recursion",
        "Danke!",
        "Merci beaucoup",
        "Ciao, come stai?",
        "你好",
        "おはよう",
        "Спасибо",
    ],
)
def test_small_talk_needs_no_tool(tool_index: ToolIndex, text: str) -> None:
    decision = decide_thinking([text], tool_index)
    assert (decision.thinking, decision.reason, decision.tools) == (False, "no tool fits", ())
    assert decision.is_unsure is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Search the web for papers on sleep and remind me tomorrow", "several steps: find out, remind"),
        (
            "Read https://a.example/x and https://b.example/y and compare them",
            "several links to read",
        ),
        ("find three papers, compare them and remind me", "several steps: find out, remind"),
        ("Such im Netz nach Zügen und erinnere mich morgen", "several steps: find out, remind"),
        ("Busca el precio y luego recuérdame mañana", "several steps: find out, remind"),
        (
            "What will the weather be like in Oslo, and what is 100 EUR in JPY?",
            "several things at once",
        ),
    ],
)
def test_several_steps_are_heavy(tool_index: ToolIndex, text: str, reason: str) -> None:
    decision = decide_thinking([text], tool_index)
    assert (decision.thinking, decision.reason) == (True, reason)


def test_several_calls_of_light_tools_are_heavy() -> None:
    light = build_index([tool for tool in discover() if tool.thinking == "never"])
    decision = decide_thinking(["Look up the fare to Porto, remember it and remind me on friday"], light)
    assert (decision.thinking, decision.reason) == (True, "several steps: find out, note, remind")


def test_the_threshold_is_given_or_the_shipped_one(tool_index: ToolIndex) -> None:
    texts = ["Search the web for papers on sleep and remind me tomorrow"]
    decision = decide_thinking(texts, tool_index)
    above = ThinkingEvidence(threshold=decision.heavy_chance + 0.01)
    assert decide_thinking(texts, tool_index, above).thinking is False
    below = ThinkingEvidence(threshold=decide_thinking(["hello"], tool_index).heavy_chance)
    assert decide_thinking(["hello"], tool_index, below).thinking is True


def test_all_messages_of_a_turn_are_judged_together(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["Search the web for papers on sleep", "and remind me tomorrow at nine"], tool_index
    )
    assert (decision.thinking, decision.tools) == (True, ("search_web", "remind_me"))


def test_a_tool_that_needs_thinking_gets_it() -> None:
    tools = build_index([PLAN, FakeTool("clock", "Tell the time.")])
    decision = decide_thinking(["A journey of several days to Rome with trains and hotels"], tools)
    assert (decision.thinking, decision.reason) == (True, "plan_trip works best with thinking")


@pytest.mark.parametrize(
    "text",
    [
        "What is new in Python 3.15?",
        "Search the web for the opening hours of the Louvre",
        "Who won the election in Norway?",
        "Suche im Internet nach dem Fahrplan der Fähre",
        "¿Qué hay de nuevo en Rust?",
        "Quelles sont les nouvelles de Mars ?",
        "Что нового в Python?",
        "Python 有什么新功能？",
    ],
)
def test_a_question_that_one_search_answers_is_not_heavy(text: str) -> None:
    tools = build_index([*discover(), make_search_tool(SearxngEngine("http://search.example"))])
    assert decide_thinking([text], tools).thinking is False


def test_a_link_is_for_the_tool_that_reads_pages(tool_index: ToolIndex) -> None:
    assert decide_thinking(["https://example.org/a"], tool_index).tools == ("fetch_page",)


def test_an_attachment_speaks_for_tools_that_take_files() -> None:
    tools = build_index(
        [FakeTool("read_document", "Read the text of a document or file."), FakeTool("ring", "Ring a bell.")]
    )
    assert decide_thinking(["what is this about?"], tools, ThinkingEvidence(attachment_count=1)).tools == (
        "read_document",
    )
    assert decide_thinking(["what is this about?"], tools).tools == ()


def test_arithmetic_is_for_the_calculator_in_any_language(tool_index: ToolIndex) -> None:
    assert decide_thinking(["What is 19 % of 84.50?"], tool_index).tools == ("calculate",)
    assert decide_thinking(["2^10 / 3 = ?"], tool_index).tools == ("calculate",)


@pytest.mark.parametrize("text", ["and tomorrow?", "und morgen?", "а завтра?", "那明天呢？", "in Lisbon?"])
@pytest.mark.parametrize("was_thinking", [True, False])
def test_a_continuation_needs_what_the_turn_before_needed(
    tool_index: ToolIndex, text: str, was_thinking: bool
) -> None:
    evidence = ThinkingEvidence(recent_tools=("weather",), was_thinking=was_thinking)
    decision = decide_thinking([text], tool_index, evidence)
    assert (decision.thinking, decision.reason) == (was_thinking, "it continues weather")
    assert decision.tools == ("weather",)


@pytest.mark.parametrize("text", ["Thanks, that helps.", "really?", "also, thanks!", "wirklich?", "ok, cool"])
def test_an_unrelated_message_ends_the_work_before_it(tool_index: ToolIndex, text: str) -> None:
    evidence = ThinkingEvidence(recent_tools=("weather",), was_thinking=True)
    assert decide_thinking([text], tool_index, evidence).thinking is False


def test_work_with_tools_no_longer_offered_is_not_continued(tool_index: ToolIndex) -> None:
    evidence = ThinkingEvidence(recent_tools=("gone",), was_thinking=True)
    assert decide_thinking(["and tomorrow?"], tool_index, evidence).reason == "no tool fits"


@pytest.mark.parametrize(("setting", "thinking"), [("on", True), ("off", False)])
def test_the_users_setting_goes_before_the_words(tool_index: ToolIndex, setting: Any, thinking: bool) -> None:
    decision = decide_thinking(["What time is it in Tokyo?"], tool_index, ThinkingEvidence(setting=setting))
    assert (decision.thinking, decision.reason, decision.tools) == (
        thinking,
        f"you asked for it: /think {setting}",
        ("clock",),
    )


def test_a_setting_of_the_gateway_is_not_what_the_person_asked_for(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["Good morning!"], tool_index, ThinkingEvidence("off", is_default=True))
    assert (decision.thinking, decision.reason) == (False, "it is set for all chats: THINKING=off")


def test_without_tools_there_is_no_reason_to_think() -> None:
    decision = decide_thinking(["Search the web for papers"], build_index([]))
    assert (decision.thinking, decision.reason) == (False, "no tools are offered")
    assert decide_thinking(["hello"], build_index([]), ThinkingEvidence(setting="on")).thinking is True


def test_an_unreadable_message_leaves_the_decision_to_the_endpoint(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["ⴰⵣⵓⵍ ⴼⵍⵍⴰⵡⵏ"], tool_index)
    assert (decision.thinking, decision.is_unsure) == (False, True)


def test_a_chance_between_two_bounds_is_unsure(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["What time is it in Tokyo, Rome and Lima?"], tool_index)
    assert UNSURE_FROM <= decision.heavy_chance <= UNSURE_TO
    assert decision.is_unsure is True


@given(st.lists(st.text(max_size=300), max_size=3), st.integers(0, 2))
def test_any_text_is_decided(texts: list[str], attachments: int) -> None:
    tool_index = build_index([PLAN, FakeTool("clock", "Tell the time.", "never")])
    decision = decide_thinking(texts, tool_index, ThinkingEvidence(attachment_count=attachments))
    assert 0 <= decision.tool_chance <= 1
    assert 0 <= decision.heavy_chance <= 1
    assert decision.reason
    assert set(decision.tools) <= {"plan_trip", "clock"}
    assert decision == decide_thinking(texts, tool_index, ThinkingEvidence(attachment_count=attachments))


ODD_FIELD = st.none() | st.integers() | st.dictionaries(st.sampled_from(["type", "enum", "items"]), st.none())


@given(st.dictionaries(st.text(), ODD_FIELD))
def test_any_schema_is_indexed(fields: dict[str, Any]) -> None:
    tool_index = build_index(
        [FakeTool("odd", "Odd.", input_schema={"properties": fields, "required": list(fields)})]
    )
    assert 0 <= decide_thinking(["an odd thing"], tool_index).tool_chance <= 1


def test_most_messages_in_each_of_ten_languages_match_their_tools() -> None:
    cases = read_cases(FIXTURES, "languages.jsonl")
    languages = {case.source for case in cases}
    assert len(languages) == 10
    assert len(cases) >= 200
    for language in languages:
        decisions = [
            decide_thinking([case.text], case.tool_index)
            for case in cases
            if case.source == language and case.needs_tools
        ]
        assert sum(bool(decision.tools) for decision in decisions) / len(decisions) >= 0.84, language


def test_small_talk_in_ten_languages_rarely_matches_a_tool() -> None:
    talk = [case for case in read_cases(FIXTURES, "languages.jsonl") if not case.needs_tools]
    assert sum(bool(decide_thinking([case.text], case.tool_index).tools) for case in talk) / len(talk) <= 0.1


@pytest.mark.parametrize("name", ["languages.jsonl", "english.jsonl"])
def test_no_case_is_written_twice(name: str) -> None:
    rows = [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]
    assert len({row["text"] for row in rows}) == len(rows)


def test_english_messages_that_need_tools_are_told_apart_from_others() -> None:
    cases = read_cases(FIXTURES, "english.jsonl")
    has_tools: dict[bool, list[bool]] = {True: [], False: []}
    for case in cases:
        has_tools[case.needs_tools].append(bool(decide_thinking([case.text], case.tool_index).tools))
    assert sum(has_tools[True]) / len(has_tools[True]) >= 0.75
    assert sum(has_tools[False]) / len(has_tools[False]) <= 0.1


@pytest.mark.parametrize(
    ("word_chance", "read_chance", "thinks"),
    [
        (0.5, 0.7, True),
        (0.5, 0.5, False),
        (0.75, 0.5, True),  # an unclear reading leaves it to the words
        (0.75, 0.1, False),  # and a clear one decides against them
        (0.25, 0.9, True),
        (0.25, 0.7, False),
        (0.02, 0.9, True),  # in a language without a known word
        (0.02, 0.7, False),
        (0.99, 0.1, False),
        (0.5, 0.0, False),
        (0.5, 1.0, True),
    ],
)
def test_in_doubt_the_clearer_of_words_and_endpoint_decides(
    word_chance: float, read_chance: float, thinks: bool
):
    doubt = ThinkingDecision(
        thinking=False, reason="", heavy_chance=word_chance, tool_chance=0.5, is_unsure=True
    )
    decision = settle_doubt(doubt, read_chance, threshold=0.6)
    assert decision.thinking is thinks
    assert not decision.is_unsure
    assert decision.reason == (
        f"in doubt: heavy by its words {word_chance:.0%}, by the endpoint {read_chance:.0%}"
    )

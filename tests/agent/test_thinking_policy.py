"""The decision to think: what speaks for it, what against it, and the reason it gives."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.thinking_policy import ThinkingEvidence, decide_thinking, estimate_tool_need
from bot.agent.tool_matching.classifier import load_weights
from bot.agent.tool_matching.index import ThinkingNeed, ToolIndex, build_index
from bot.bench.harness.sample_tools import discover_with_samples
from bot.bench.policies.cases import read_cases
from tools.registry import discover

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


def test_a_clock_is_a_light_tool(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["What time is it in Tokyo?"], tool_index)
    assert (decision.thinking, decision.reason, decision.tools) == (
        False,
        "one light tool: clock",
        ("clock",),
    )


@pytest.mark.parametrize(
    "text", ["Good morning!", "Why is the sky blue?", "Tell me a joke", "explain recursion"]
)
def test_small_talk_needs_no_tool(tool_index: ToolIndex, text: str) -> None:
    decision = decide_thinking([text], tool_index)
    assert (decision.thinking, decision.reason, decision.tools) == (False, "no tool fits", ())


def test_one_step_with_one_tool_is_not_heavy(tool_index: ToolIndex) -> None:
    decision = decide_thinking(["Convert 100 EUR to JPY"], tool_index)
    assert (decision.thinking, decision.reason) == (False, "one tool, one step: convert_currency")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Search the web for papers on sleep and remind me tomorrow",
            "two tools match: search_web, remind_me",
        ),
        ("1. search for cheap flights\n2. remind me on friday", "two tools match: search_web, remind_me"),
        ("Read https://a.example/x and https://b.example/y and compare them", "several steps for fetch_page"),
        ("find three papers, compare them and remind me", "several steps for remind_me"),
        ("Find out the exchange rate and remind me tomorrow", "something to find out, and remind_me"),
        ("Such im Netz nach Zügen und erinnere mich morgen", "two tools match: search_web, remind_me"),
        ("Busca en internet un hotel y luego recuérdame pagar", "two tools match: search_web, remind_me"),
    ],
)
def test_several_tools_or_steps_are_heavy(tool_index: ToolIndex, text: str, reason: str) -> None:
    decision = decide_thinking([text], tool_index)
    assert (decision.thinking, decision.reason) == (True, reason)


def test_a_search_beside_a_light_tool_is_heavy() -> None:
    light = build_index([tool for tool in discover() if tool.thinking == "never"])
    decision = decide_thinking(["Find out the fare to Porto and remember it for this chat"], light)
    assert (decision.thinking, decision.reason) == (True, "something to find out, and remember")


@pytest.mark.parametrize(
    "text",
    [
        "Remind me to buy eggs, milk, bread and butter tomorrow",
        "What will the weather be like in Rome, Paris, Oslo and Bonn?",
        "Convert 100 EUR, which I got from my aunt in Basel, to JPY, and quickly",
        "Tell me the weather for Lisbon, Portugal, with wind, sun and rain",
    ],
)
def test_a_list_is_one_step(tool_index: ToolIndex, text: str) -> None:
    decision = decide_thinking([text], tool_index)
    assert (decision.thinking, len(decision.tools)) == (False, 1)


@pytest.mark.parametrize("text", ["What's 3+4, 5*6 and 7/8?", "What time is it in Tokyo, Rome and Lima?"])
def test_many_questions_to_light_tools_stay_light(tool_index: ToolIndex, text: str) -> None:
    assert decide_thinking([text], tool_index).reason.startswith("one light tool: ")


def test_a_question_after_an_and_is_a_step_of_its_own(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["What will the weather be like in Oslo, and what is 100 EUR in JPY?"], tool_index
    )
    assert (decision.thinking, decision.reason) == (True, "two tools match: weather, convert_currency")


@pytest.mark.parametrize(
    "text", ["Danke!", "Merci beaucoup", "Ciao, come stai?", "你好", "おはよう", "Спасибо"]
)
def test_greetings_and_thanks_are_known_in_other_languages(tool_index: ToolIndex, text: str) -> None:
    assert decide_thinking([text], tool_index).reason == "no tool fits"


def test_all_messages_of_a_turn_are_judged_together(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["Search the web for papers on sleep", "and remind me tomorrow at nine"], tool_index
    )
    assert (decision.thinking, decision.tools) == (True, ("search_web", "remind_me"))


def test_a_tool_that_needs_thinking_gets_it(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["Plan a journey to Rome with trains and hotels"],
        build_index([PLAN, FakeTool("clock", "Tell the time.")]),
    )
    assert (decision.thinking, decision.reason) == (True, "plan_trip works best with thinking")


def test_light_tools_stay_light_together() -> None:
    light = build_index(
        [FakeTool("switch_lamp", "Switch a lamp.", "never"), FakeTool("play_song", "Play a song.", "never")]
    )
    decision = decide_thinking(["Switch the lamp off, and play a song"], light)
    assert (decision.thinking, decision.reason) == (False, "light tools: switch_lamp, play_song")


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


@pytest.mark.parametrize("thought", [True, False])
def test_a_short_question_continues_the_work_before_it(tool_index: ToolIndex, thought: bool) -> None:
    decision = decide_thinking(
        ["and tomorrow?"], tool_index, ThinkingEvidence(recent_tools=("weather",), was_thinking=thought)
    )
    assert (decision.thinking, decision.reason, decision.tools) == (
        thought,
        "goes on with weather",
        ("weather",),
    )


@pytest.mark.parametrize(
    "text", ["Thanks, that helps.", "And now for something else: how do you feel about jazz?"]
)
def test_an_unrelated_message_ends_the_work_before_it(tool_index: ToolIndex, text: str) -> None:
    assert (
        decide_thinking(
            [text], tool_index, ThinkingEvidence(recent_tools=("weather",), was_thinking=True)
        ).thinking
        is False
    )


def test_work_with_tools_no_longer_offered_is_not_continued(tool_index: ToolIndex) -> None:
    assert (
        decide_thinking(
            ["and tomorrow?"], tool_index, ThinkingEvidence(recent_tools=("gone",), was_thinking=True)
        ).reason
        == "no tool fits"
    )


@pytest.mark.parametrize(("setting", "thinking"), [("on", True), ("off", False)])
def test_the_users_setting_goes_before_the_words(tool_index: ToolIndex, setting: Any, thinking: bool) -> None:
    decision = decide_thinking(["What time is it in Tokyo?"], tool_index, ThinkingEvidence(setting=setting))
    assert (decision.thinking, decision.reason, decision.tools) == (
        thinking,
        f"you asked for it: /think {setting}",
        ("clock",),
    )


def test_the_jobs_setting_goes_before_the_users(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["Good morning!"], tool_index, ThinkingEvidence(setting="off", job_setting="on")
    )
    assert (decision.thinking, decision.reason) == (True, "the job asks for it: on")


def test_without_tools_there_is_no_reason_to_think() -> None:
    decision = decide_thinking(["Search the web for papers"], build_index([]))
    assert (decision.thinking, decision.reason) == (False, "no tools are offered")
    assert decide_thinking(["hello"], build_index([]), ThinkingEvidence(setting="on")).thinking is True


def test_an_unreadable_message_thinks_only_for_a_tool_that_needs_it(tool_index: ToolIndex) -> None:
    text = "ขอบคุณมากครับ"
    assert decide_thinking([text], tool_index).reason == "the words do not tell"
    decision = decide_thinking([text], build_index([PLAN]))
    assert (decision.thinking, decision.is_unsure) == (True, True)
    assert decision.reason == "the words do not tell, and plan_trip works best with thinking"


def test_a_decision_near_the_threshold_is_unsure(tool_index: ToolIndex) -> None:
    text = "Note that my car is a red Volvo"
    above = replace(load_weights(), threshold=estimate_tool_need(text, tool_index)[0] + 0.1)
    near = decide_thinking([text], tool_index, weights=above)
    far = decide_thinking(["Why is the sky blue?"], tool_index, weights=above)
    assert (near.is_unsure, far.is_unsure) == (True, False)


def test_many_commands_that_match_no_tool_are_unsure(tool_index: ToolIndex) -> None:
    decision = decide_thinking(
        ["Find the best e-bikes, compare their range, and save the winner"], tool_index
    )
    assert (decision.reason, decision.is_unsure) == ("no tool fits", True)


@given(st.lists(st.text(max_size=300), max_size=3), st.integers(0, 2))
def test_any_text_is_decided(texts: list[str], attachments: int) -> None:
    tool_index = build_index([PLAN, FakeTool("clock", "Tell the time.", "never")])
    decision = decide_thinking(texts, tool_index, ThinkingEvidence(attachment_count=attachments))
    assert 0 <= decision.tool_chance <= 1
    assert decision.reason
    assert set(decision.tools) <= {"plan_trip", "clock"}
    assert decision == decide_thinking(texts, tool_index, ThinkingEvidence(attachment_count=attachments))


ODD_FIELD = st.none() | st.integers() | st.dictionaries(st.sampled_from(["type", "enum", "items"]), st.none())


@given(st.dictionaries(st.text(), ODD_FIELD))
def test_any_schema_is_indexed(fields: dict[str, Any]) -> None:
    tool_index = build_index(
        [FakeTool("odd", "Odd.", input_schema={"properties": fields, "required": list(fields)})]
    )
    assert 0 <= estimate_tool_need("an odd thing", tool_index)[0] <= 1


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

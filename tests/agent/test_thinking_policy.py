"""The choice to think: what speaks for it, what against it, and the words it is told in."""

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


@pytest.fixture(scope="module")
def offer() -> ToolIndex:
    """The tools of the house, and those that stand in for what a gateway might be given."""
    return build_index(discover_with_samples())


PLAN = FakeTool("plan_trip", "Plan a journey of several days with trains and hotels.", "needs")


def test_a_clock_is_a_light_tool(offer: ToolIndex) -> None:
    found = decide_thinking(["What time is it in Tokyo?"], offer)
    assert (found.thinking, found.reason, found.tools) == (False, "one light tool: clock", ("clock",))


@pytest.mark.parametrize(
    "text", ["Good morning!", "Why is the sky blue?", "Tell me a joke", "explain recursion"]
)
def test_talk_needs_no_tool(offer: ToolIndex, text: str) -> None:
    found = decide_thinking([text], offer)
    assert (found.thinking, found.reason, found.tools) == (False, "no tool fits", ())


def test_one_step_with_one_tool_is_not_heavy(offer: ToolIndex) -> None:
    found = decide_thinking(["Convert 100 EUR to JPY"], offer)
    assert (found.thinking, found.reason) == (False, "one tool, one step: convert_currency")


@pytest.mark.parametrize(
    ("text", "why"),
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
def test_several_tools_or_steps_are_heavy(offer: ToolIndex, text: str, why: str) -> None:
    found = decide_thinking([text], offer)
    assert (found.thinking, found.reason) == (True, why)


def test_finding_something_out_is_more_than_the_light_tool_it_is_kept_with() -> None:
    light = build_index([tool for tool in discover() if tool.thinking == "never"])
    found = decide_thinking(["Find out the fare to Porto and remember it for this chat"], light)
    assert (found.thinking, found.reason) == (True, "something to find out, and remember")


@pytest.mark.parametrize(
    "text",
    [
        "Remind me to buy eggs, milk, bread and butter tomorrow",
        "What will the weather be like in Rome, Paris, Oslo and Bonn?",
        "Convert 100 EUR, which I got from my aunt in Basel, to JPY, and quickly",
        "Tell me the weather for Lisbon, Portugal, with wind, sun and rain",
    ],
)
def test_a_list_is_one_step(offer: ToolIndex, text: str) -> None:
    found = decide_thinking([text], offer)
    assert (found.thinking, len(found.tools)) == (False, 1)


@pytest.mark.parametrize("text", ["What's 3+4, 5*6 and 7/8?", "What time is it in Tokyo, Rome and Lima?"])
def test_many_questions_to_light_tools_stay_light(offer: ToolIndex, text: str) -> None:
    assert decide_thinking([text], offer).reason.startswith("one light tool: ")


def test_a_question_behind_an_and_is_a_step_of_its_own(offer: ToolIndex) -> None:
    found = decide_thinking(["What will the weather be like in Oslo, and what is 100 EUR in JPY?"], offer)
    assert (found.thinking, found.reason) == (True, "two tools match: weather, convert_currency")


@pytest.mark.parametrize(
    "text", ["Danke!", "Merci beaucoup", "Ciao, come stai?", "你好", "おはよう", "Спасибо"]
)
def test_greetings_and_thanks_are_known_in_other_languages(offer: ToolIndex, text: str) -> None:
    assert decide_thinking([text], offer).reason == "no tool fits"


def test_what_a_turn_answers_is_judged_together(offer: ToolIndex) -> None:
    found = decide_thinking(["Search the web for papers on sleep", "and remind me tomorrow at nine"], offer)
    assert (found.thinking, found.tools) == (True, ("search_web", "remind_me"))


def test_a_tool_that_needs_thinking_is_given_it(offer: ToolIndex) -> None:
    found = decide_thinking(
        ["Plan a journey to Rome with trains and hotels"],
        build_index([PLAN, FakeTool("clock", "Tell the time.")]),
    )
    assert (found.thinking, found.reason) == (True, "plan_trip works best with thinking")


def test_light_tools_stay_light_together() -> None:
    light = build_index(
        [FakeTool("switch_lamp", "Switch a lamp.", "never"), FakeTool("play_song", "Play a song.", "never")]
    )
    found = decide_thinking(["Switch the lamp off, and play a song"], light)
    assert (found.thinking, found.reason) == (False, "light tools: switch_lamp, play_song")


def test_a_link_is_for_the_tool_that_reads_pages(offer: ToolIndex) -> None:
    assert decide_thinking(["https://example.org/a"], offer).tools == ("fetch_page",)


def test_an_attachment_speaks_for_tools_that_take_files() -> None:
    tools = build_index(
        [FakeTool("read_document", "Read the text of a document or file."), FakeTool("ring", "Ring a bell.")]
    )
    assert decide_thinking(["what is this about?"], tools, ThinkingEvidence(attachment_count=1)).tools == (
        "read_document",
    )
    assert decide_thinking(["what is this about?"], tools).tools == ()


def test_arithmetic_is_for_the_calculator_in_any_language(offer: ToolIndex) -> None:
    assert decide_thinking(["What is 19 % of 84.50?"], offer).tools == ("calculate",)
    assert decide_thinking(["2^10 / 3 = ?"], offer).tools == ("calculate",)


@pytest.mark.parametrize("thought", [True, False])
def test_a_short_question_goes_on_with_the_work_before_it(offer: ToolIndex, thought: bool) -> None:
    found = decide_thinking(
        ["and tomorrow?"], offer, ThinkingEvidence(recent_tools=("weather",), was_thinking=thought)
    )
    assert (found.thinking, found.reason, found.tools) == (thought, "goes on with weather", ("weather",))


@pytest.mark.parametrize(
    "text", ["Thanks, that helps.", "And now for something else: how do you feel about jazz?"]
)
def test_other_words_end_the_work_before_them(offer: ToolIndex, text: str) -> None:
    assert (
        decide_thinking(
            [text], offer, ThinkingEvidence(recent_tools=("weather",), was_thinking=True)
        ).thinking
        is False
    )


def test_tools_that_are_no_longer_offered_are_not_gone_on_with(offer: ToolIndex) -> None:
    assert (
        decide_thinking(
            ["and tomorrow?"], offer, ThinkingEvidence(recent_tools=("gone",), was_thinking=True)
        ).reason
        == "no tool fits"
    )


@pytest.mark.parametrize(("setting", "thinking"), [("on", True), ("off", False)])
def test_a_person_decides_before_the_words_do(offer: ToolIndex, setting: Any, thinking: bool) -> None:
    found = decide_thinking(["What time is it in Tokyo?"], offer, ThinkingEvidence(setting=setting))
    assert (found.thinking, found.reason, found.tools) == (
        thinking,
        f"you asked for it: /think {setting}",
        ("clock",),
    )


def test_a_job_decides_before_the_person_does(offer: ToolIndex) -> None:
    found = decide_thinking(["Good morning!"], offer, ThinkingEvidence(setting="off", job_setting="on"))
    assert (found.thinking, found.reason) == (True, "the job asks for it: on")


def test_without_tools_there_is_nothing_to_think_for() -> None:
    found = decide_thinking(["Search the web for papers"], build_index([]))
    assert (found.thinking, found.reason) == (False, "no tools are offered")
    assert decide_thinking(["hello"], build_index([]), ThinkingEvidence(setting="on")).thinking is True


def test_words_that_do_not_tell_think_only_for_a_tool_that_needs_it(offer: ToolIndex) -> None:
    text = "ขอบคุณมากครับ"
    assert decide_thinking([text], offer).reason == "the words do not tell"
    found = decide_thinking([text], build_index([PLAN]))
    assert (found.thinking, found.is_unsure) == (True, True)
    assert found.reason == "the words do not tell, and plan_trip works best with thinking"


def test_doubt_is_told_so_that_the_endpoint_may_be_asked(offer: ToolIndex) -> None:
    text = "Note that my car is a red Volvo"
    above = replace(load_weights(), threshold=estimate_tool_need(text, offer)[0] + 0.1)
    near, far = (
        decide_thinking([text], offer, weights=above),
        decide_thinking(["Why is the sky blue?"], offer, weights=above),
    )
    assert (near.is_unsure, far.is_unsure) == (True, False)


def test_many_orders_that_no_tool_is_near_to_leave_a_doubt(offer: ToolIndex) -> None:
    found = decide_thinking(["Find the best e-bikes, compare their range, and save the winner"], offer)
    assert (found.reason, found.is_unsure) == ("no tool fits", True)


@given(st.lists(st.text(max_size=300), max_size=3), st.integers(0, 2))
def test_any_text_is_decided(texts: list[str], attachments: int) -> None:
    offer = build_index([PLAN, FakeTool("clock", "Tell the time.", "never")])
    found = decide_thinking(texts, offer, ThinkingEvidence(attachment_count=attachments))
    assert 0 <= found.tool_chance <= 1
    assert found.reason
    assert set(found.tools) <= {"plan_trip", "clock"}
    assert found == decide_thinking(texts, offer, ThinkingEvidence(attachment_count=attachments))


ODD_FIELD = st.none() | st.integers() | st.dictionaries(st.sampled_from(["type", "enum", "items"]), st.none())


@given(st.dictionaries(st.text(), ODD_FIELD))
def test_any_schema_is_indexed(fields: dict[str, Any]) -> None:
    made = build_index(
        [FakeTool("odd", "Odd.", input_schema={"properties": fields, "required": list(fields)})]
    )
    assert 0 <= estimate_tool_need("an odd thing", made)[0] <= 1


def test_nine_of_ten_messages_in_each_of_ten_languages_find_their_tools() -> None:
    cases = read_cases(FIXTURES, "languages.jsonl", "house-tools.json")
    languages = {case.source for case in cases}
    assert len(languages) == 10
    assert len(cases) >= 200
    for language in languages:
        own = [
            decide_thinking([case.text], case.tool_index)
            for case in cases
            if case.source == language and case.needs_tools
        ]
        assert sum(bool(found.tools) for found in own) / len(own) >= 0.84, language


def test_talk_in_ten_languages_rarely_finds_a_tool() -> None:
    talk = [
        case for case in read_cases(FIXTURES, "languages.jsonl", "house-tools.json") if not case.needs_tools
    ]
    assert sum(bool(decide_thinking([case.text], case.tool_index).tools) for case in talk) / len(talk) <= 0.1


@pytest.mark.parametrize("name", ["languages.jsonl", "english.jsonl"])
def test_no_case_is_written_twice(name: str) -> None:
    rows = [json.loads(line) for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()]
    assert len({row["text"] for row in rows}) == len(rows)


def test_what_people_write_to_the_house_is_told_apart() -> None:
    cases = read_cases(FIXTURES, "english.jsonl", "house-tools.json")
    found: dict[bool, list[bool]] = {True: [], False: []}
    for case in cases:
        found[case.needs_tools].append(bool(decide_thinking([case.text], case.tool_index).tools))
    assert sum(found[True]) / len(found[True]) >= 0.75
    assert sum(found[False]) / len(found[False]) <= 0.1

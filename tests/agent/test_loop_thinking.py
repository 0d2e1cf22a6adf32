"""When a turn's thinking is switched: only for three reasons, each once, and never back for the same one."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, LoopEvent, TurnLimits, TurnResult
from bot.domain import Reply
from tests.agent.test_loop import (
    PROMPT,
    STRICT_LIMITS,
    expect_model_call,
    expect_result,
    make_weather_reply,
    run_loop,
)
from tests.support.offered_tools import make_call, make_reply

BRAKED = make_reply("", finish="brake", reasoning="hm, hm, hm")


def make_unknown_tool_reply(number: int) -> Reply:
    """A reply that asks for what is not there."""
    return make_reply(
        "", make_call("rm_rf", "{}", f"id-{number}"), finish="tool_calls", reasoning=f"thought {number}"
    )


def list_model_calls(events: Sequence[LoopEvent]) -> list[tuple[str | None, bool]]:
    """Of every model call: why it would not have been needed, and whether it thinks."""
    return [(event.retry_reason, event.thinking) for event in events if isinstance(event, CallModel)]


def test_a_turn_thinks_as_was_decided_for_it_to_its_end():
    assert list_model_calls(run_loop([make_weather_reply(), make_reply("Done.")], thinking=True)) == [
        (None, True),
        (None, True),
    ]
    assert list_model_calls(run_loop([make_weather_reply(), make_reply("Done.")])) == [
        (None, False),
        (None, False),
    ]


def test_a_thinking_call_has_room_for_its_thought_and_a_brake():
    limits = TurnLimits(8, 1000, thinking_canvases=3)
    thinks = expect_model_call(run_loop([make_reply("Hi")], limits, thinking=True)[0])
    plain = expect_model_call(run_loop([make_reply("Hi")], limits)[0])
    assert (thinks.max_tokens, thinks.max_thinking_tokens) == (1024 + 768, 768)
    assert (plain.max_tokens, plain.max_thinking_tokens) == (1024, None)


@pytest.mark.parametrize(("wanted", "sent"), [(1, 256), (256, 256), (257, 512), (1024, 1024)])
def test_whole_canvases_are_asked_for(wanted, sent):
    assert expect_model_call(run_loop([make_reply("Hi")], TurnLimits(8, wanted))[0]).max_tokens == sent


def test_calls_that_fail_twice_switch_thinking_on_and_reasoning_given_back_stays():
    events = run_loop(
        [
            make_unknown_tool_reply(1),
            make_unknown_tool_reply(2),
            make_weather_reply(),
            make_reply("12 degrees."),
        ]
    )
    assert list_model_calls(events) == [(None, False), (None, False), ("failing", True), (None, True)]
    last = expect_model_call(events[-2])
    thoughts = [message.reasoning for message in last.messages if message.calls]
    assert thoughts == ["thought 1", "thought 2", None]
    assert last.messages[: len(PROMPT)] == PROMPT


def test_a_call_that_works_in_between_makes_the_count_begin_anew():
    replies = [
        make_unknown_tool_reply(1),
        make_weather_reply(),
        make_unknown_tool_reply(2),
        make_weather_reply(2, "Rome"),
        make_reply("Done."),
    ]
    assert {again for again, _ in list_model_calls(run_loop(replies))} == {None}


def test_calls_that_fail_with_thinking_too_lose_their_tools():
    events = run_loop(
        [
            make_unknown_tool_reply(1),
            make_unknown_tool_reply(2),
            make_unknown_tool_reply(3),
            make_reply("I cannot."),
        ]
    )
    calls = [event for event in events if isinstance(event, CallModel)]
    assert [event.tool_choice for event in calls] == ["auto", "auto", "auto", "none"]
    assert list_model_calls(events) == [(None, False), (None, False), ("failing", True), (None, True)]


def test_thinking_is_not_switched_on_for_a_step_that_offers_no_tools():
    events = run_loop(
        [make_unknown_tool_reply(1), make_unknown_tool_reply(2), make_reply("I cannot.")], TurnLimits(3, 1024)
    )
    assert list_model_calls(events) == [(None, False)] * 3


def test_an_empty_reply_that_comes_twice_is_asked_for_once_more_with_thinking():
    events = run_loop([make_reply(""), make_reply(""), make_reply("Hello!")])
    assert list_model_calls(events) == [(None, False), ("empty", False), ("silent", True)]
    assert expect_result(events[-1]).text == "Hello!"


@pytest.mark.parametrize("thinking", [True, False])
def test_an_empty_reply_ends_the_turn_where_there_is_nothing_left_to_try(thinking):
    events = run_loop([make_reply("")] * 3, thinking=thinking)
    assert len(list_model_calls(events)) == (2 if thinking else 3)
    assert expect_result(events[-1]).ending == "empty"


def test_a_chat_that_wants_no_thinking_gets_none():
    assert list_model_calls(run_loop([make_reply(""), make_reply("")], STRICT_LIMITS)) == [
        (None, False),
        ("empty", False),
    ]
    assert (
        list_model_calls(
            run_loop(
                [
                    make_unknown_tool_reply(1),
                    make_unknown_tool_reply(2),
                    make_weather_reply(),
                    make_reply("Done."),
                ],
                STRICT_LIMITS,
            )
        )
        == [(None, False)] * 4
    )


def test_the_brake_switches_thinking_off_for_the_rest_of_the_turn():
    events = run_loop(
        [
            make_weather_reply(),
            BRAKED,
            make_unknown_tool_reply(2),
            make_unknown_tool_reply(3),
            make_weather_reply(4, "Rome"),
            make_reply("Done."),
        ],
        thinking=True,
    )
    assert list_model_calls(events) == [(None, True), (None, True), ("brake", False), *[(None, False)] * 3]
    braked, again = (event for event in events if isinstance(event, CallModel) and event.step in {2, 3})
    assert (again.messages, again.max_thinking_tokens, again.new_messages) == (braked.messages, None, ())
    assert again.max_tokens == braked.max_tokens - 4 * 256


def test_a_braked_thought_is_not_given_back():
    events = run_loop([BRAKED, make_reply("Hello!")], thinking=True)
    assert expect_model_call(events[1]).messages == PROMPT
    assert expect_result(events[-1]).new_messages[-1].reasoning is None


def test_after_the_brake_an_empty_reply_does_not_bring_thinking_back():
    events = run_loop([BRAKED, make_reply(""), make_reply("")], thinking=True)
    assert list_model_calls(events) == [(None, True), ("brake", False), ("empty", False)]
    assert expect_result(events[-1]).ending == "empty"


def test_thinking_switched_on_within_the_turn_can_be_braked_too():
    events = run_loop([make_reply(""), make_reply(""), BRAKED, make_reply("Hello!")])
    assert list_model_calls(events) == [(None, False), ("empty", False), ("silent", True), ("brake", False)]


def test_a_thought_that_the_server_cut_is_a_thought_without_end_too():
    cut = make_reply("", finish="length", reasoning="hm")
    assert list_model_calls(run_loop([cut, make_reply("Hi")], thinking=True)) == [
        (None, True),
        ("brake", False),
    ]


def test_a_thought_that_comes_though_none_was_asked_for_gets_more_room_once():
    cut = make_reply("", finish="length", reasoning="hm")
    events = run_loop([cut, cut])
    assert list_model_calls(events) == [(None, False), ("cut", False)]
    assert expect_result(events[-1]).ending == "cut"


def test_the_last_call_of_a_turn_has_no_brake_and_a_thought_that_fills_it_is_said():
    events = run_loop(
        [make_weather_reply(), make_reply("", finish="length", reasoning="hm")],
        TurnLimits(2, 1024),
        thinking=True,
    )
    assert [event.max_thinking_tokens for event in events if isinstance(event, CallModel)] == [1024, None]
    assert expect_result(events[-1]).ending == "steps"
    assert "12 degrees" in expect_result(events[-1]).text


SLIPS = st.lists(
    st.one_of(
        st.builds(make_unknown_tool_reply, st.integers(0, 99)),
        st.builds(make_weather_reply, st.integers(100, 199), st.sampled_from(["Paris", "Rome", "Oslo"])),
        st.sampled_from(
            [
                make_reply(""),
                BRAKED,
                make_reply("", finish="length", reasoning="hm"),
                make_reply("Hi", finish="length"),
            ]
        ),
    ),
    min_size=20,
    max_size=20,
)


@settings(deadline=None)
@given(SLIPS, st.integers(1, 20), st.booleans(), st.booleans())
def test_each_exception_happens_once_a_turn_at_most_and_nothing_else_switches(replies, steps, thinking, may):
    limits = TurnLimits(steps, 1024, may_think=may)
    events = run_loop(replies, limits, thinking=thinking)
    calls = list_model_calls(events)
    count = Counter(again for again, _ in calls)
    assert max(count["failing"], count["silent"], count["brake"]) <= 1
    for (_, before), (again, now) in itertools.pairwise(calls):
        assert now is (before if again not in {"failing", "silent", "brake"} else again != "brake")
    assert may or not count["failing"] + count["silent"]
    braked = next((number for number, (again, _) in enumerate(calls) if again == "brake"), len(calls))
    assert not any(now for _, now in calls[braked:])
    assert isinstance(events[-1], TurnResult)

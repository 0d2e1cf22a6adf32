"""When a turn's thinking is switched: for three reasons only, each once at most."""

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
    """A reply that calls a tool that does not exist."""
    return make_reply(
        "", make_call("rm_rf", "{}", f"id-{number}"), finish="tool_calls", reasoning=f"thought {number}"
    )


def list_model_calls(events: Sequence[LoopEvent]) -> list[tuple[str | None, bool]]:
    """For every model call: its retry reason, and whether it thinks."""
    return [(event.retry_reason, event.thinking) for event in events if isinstance(event, CallModel)]


def test_a_turn_keeps_the_thinking_decided_for_it():
    assert list_model_calls(run_loop([make_weather_reply(), make_reply("Done.")], thinking=True)) == [
        (None, True),
        (None, True),
    ]
    assert list_model_calls(run_loop([make_weather_reply(), make_reply("Done.")])) == [
        (None, False),
        (None, False),
    ]


def test_a_thinking_call_gets_canvases_and_a_limit_for_its_thought():
    limits = TurnLimits(8, 1000)
    thinks = expect_model_call(run_loop([make_reply("Hi")], limits, thinking=True)[0])
    plain = expect_model_call(run_loop([make_reply("Hi")], limits)[0])
    assert (thinks.max_tokens, thinks.max_thinking_tokens) == (1024 + 1024, 1024)
    assert (plain.max_tokens, plain.max_thinking_tokens) == (1024, None)


@pytest.mark.parametrize(("limit", "max_tokens"), [(1, 256), (256, 256), (257, 512), (1024, 1024)])
def test_whole_canvases_are_requested(limit, max_tokens):
    assert expect_model_call(run_loop([make_reply("Hi")], TurnLimits(8, limit))[0]).max_tokens == max_tokens


def test_calls_that_fail_twice_switch_thinking_on_and_keep_the_reasoning():
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


def test_a_call_that_works_in_between_resets_the_count():
    replies = [
        make_unknown_tool_reply(1),
        make_weather_reply(),
        make_unknown_tool_reply(2),
        make_weather_reply(2, "Rome"),
        make_reply("Done."),
    ]
    assert {retry_reason for retry_reason, _ in list_model_calls(run_loop(replies))} == {None}


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


def test_a_closed_thought_switches_thinking_off_for_the_rest_of_the_turn():
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
    braked, retry = (event for event in events if isinstance(event, CallModel) and event.step in {2, 3})
    assert (retry.messages, retry.max_thinking_tokens, retry.new_messages) == (braked.messages, None, ())
    assert retry.max_tokens == braked.max_tokens - 4 * 256


def test_a_closed_thought_is_not_sent_back():
    events = run_loop([BRAKED, make_reply("Hello!")], thinking=True)
    assert expect_model_call(events[1]).messages == PROMPT
    assert expect_result(events[-1]).new_messages[-1].reasoning is None


def test_after_a_closed_thought_an_empty_reply_does_not_switch_thinking_on():
    events = run_loop([BRAKED, make_reply(""), make_reply("")], thinking=True)
    assert list_model_calls(events) == [(None, True), ("brake", False), ("empty", False)]
    assert expect_result(events[-1]).ending == "empty"


def test_a_thought_is_closed_too_if_thinking_was_switched_on_within_the_turn():
    events = run_loop([make_reply(""), make_reply(""), BRAKED, make_reply("Hello!")])
    assert list_model_calls(events) == [(None, False), ("empty", False), ("silent", True), ("brake", False)]


def test_a_thought_that_the_server_cut_switches_thinking_off_too():
    cut = make_reply("", finish="length", reasoning="hm")
    assert list_model_calls(run_loop([cut, make_reply("Hi")], thinking=True)) == [
        (None, True),
        ("brake", False),
    ]


def test_an_unrequested_thought_is_retried_once_with_a_higher_limit():
    cut = make_reply("", finish="length", reasoning="hm")
    events = run_loop([cut, cut])
    assert list_model_calls(events) == [(None, False), ("cut", False)]
    assert expect_result(events[-1]).ending == "cut"


def test_the_last_call_has_no_thinking_limit_and_the_answer_says_so_if_it_only_thinks():
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
def test_each_switch_happens_once_a_turn_at_most_and_nothing_else_switches(replies, steps, thinking, may):
    limits = TurnLimits(steps, 1024, may_think=may)
    events = run_loop(replies, limits, thinking=thinking)
    calls = list_model_calls(events)
    count = Counter(retry_reason for retry_reason, _ in calls)
    assert max(count["failing"], count["silent"], count["brake"]) <= 1
    for (_, before), (retry_reason, now) in itertools.pairwise(calls):
        if retry_reason in {"failing", "silent", "brake"}:
            assert now is (retry_reason != "brake")
        else:
            assert now is before
    assert may or not count["failing"] + count["silent"]
    braked = next(
        (number for number, (retry_reason, _) in enumerate(calls) if retry_reason == "brake"), len(calls)
    )
    assert not any(now for _, now in calls[braked:])
    assert isinstance(events[-1], TurnResult)

"""When a turn's thinking is switched: only for three reasons, each once, and never back for the same one."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, Event, Finished, Limits
from bot.domain import Reply
from tests.agent.test_loop import CALM, PROMPT, ask, called, finished, through
from tests.support.offered_tools import call, reply

BRAKED = reply("", finish="brake", reasoning="hm, hm, hm")


def wrong(number: int) -> Reply:
    """A reply that asks for what is not there."""
    return reply("", call("rm_rf", "{}", f"id-{number}"), finish="tool_calls", reasoning=f"thought {number}")


def asked(events: Sequence[Event]) -> list[tuple[str | None, bool]]:
    """Of every model call: why it would not have been needed, and whether it thinks."""
    return [(event.again, event.thinking) for event in events if isinstance(event, CallModel)]


def test_a_turn_thinks_as_was_decided_for_it_to_its_end():
    assert asked(through([ask(), reply("Done.")], thinking=True)) == [(None, True), (None, True)]
    assert asked(through([ask(), reply("Done.")])) == [(None, False), (None, False)]


def test_a_thinking_call_has_room_for_its_thought_and_a_brake():
    limits = Limits(8, 1000, thinking=3)
    thinks = called(through([reply("Hi")], limits, thinking=True)[0])
    plain = called(through([reply("Hi")], limits)[0])
    assert (thinks.max_tokens, thinks.brake) == (1024 + 768, 768)
    assert (plain.max_tokens, plain.brake) == (1024, None)


@pytest.mark.parametrize(("wanted", "sent"), [(1, 256), (256, 256), (257, 512), (1024, 1024)])
def test_whole_canvases_are_asked_for(wanted, sent):
    assert called(through([reply("Hi")], Limits(8, wanted))[0]).max_tokens == sent


def test_calls_that_fail_twice_switch_thinking_on_and_reasoning_given_back_stays():
    events = through([wrong(1), wrong(2), ask(), reply("12 degrees.")])
    assert asked(events) == [(None, False), (None, False), ("failing", True), (None, True)]
    last = called(events[-2])
    thoughts = [message.reasoning for message in last.messages if message.calls]
    assert thoughts == ["thought 1", "thought 2", None]
    assert last.messages[: len(PROMPT)] == PROMPT


def test_a_call_that_works_in_between_makes_the_count_begin_anew():
    replies = [wrong(1), ask(), wrong(2), ask(2, "Rome"), reply("Done.")]
    assert {again for again, _ in asked(through(replies))} == {None}


def test_calls_that_fail_with_thinking_too_lose_their_tools():
    events = through([wrong(1), wrong(2), wrong(3), reply("I cannot.")])
    calls = [event for event in events if isinstance(event, CallModel)]
    assert [event.tool_choice for event in calls] == ["auto", "auto", "auto", "none"]
    assert asked(events) == [(None, False), (None, False), ("failing", True), (None, True)]


def test_thinking_is_not_switched_on_for_a_step_that_offers_no_tools():
    events = through([wrong(1), wrong(2), reply("I cannot.")], Limits(3, 1024))
    assert asked(events) == [(None, False)] * 3


def test_an_empty_reply_that_comes_twice_is_asked_for_once_more_with_thinking():
    events = through([reply(""), reply(""), reply("Hello!")])
    assert asked(events) == [(None, False), ("empty", False), ("silent", True)]
    assert finished(events[-1]).text == "Hello!"


@pytest.mark.parametrize("thinking", [True, False])
def test_an_empty_reply_ends_the_turn_where_there_is_nothing_left_to_try(thinking):
    events = through([reply("")] * 3, thinking=thinking)
    assert len(asked(events)) == (2 if thinking else 3)
    assert finished(events[-1]).ending == "empty"


def test_a_chat_that_wants_no_thinking_gets_none():
    assert asked(through([reply(""), reply("")], CALM)) == [(None, False), ("empty", False)]
    assert asked(through([wrong(1), wrong(2), ask(), reply("Done.")], CALM)) == [(None, False)] * 4


def test_the_brake_switches_thinking_off_for_the_rest_of_the_turn():
    events = through([ask(), BRAKED, wrong(2), wrong(3), ask(4, "Rome"), reply("Done.")], thinking=True)
    assert asked(events) == [(None, True), (None, True), ("brake", False), *[(None, False)] * 3]
    braked, again = (event for event in events if isinstance(event, CallModel) and event.step in {2, 3})
    assert (again.messages, again.brake, again.said) == (braked.messages, None, ())
    assert again.max_tokens == braked.max_tokens - 4 * 256


def test_a_braked_thought_is_not_given_back():
    events = through([BRAKED, reply("Hello!")], thinking=True)
    assert called(events[1]).messages == PROMPT
    assert finished(events[-1]).said[-1].reasoning is None


def test_after_the_brake_an_empty_reply_does_not_bring_thinking_back():
    events = through([BRAKED, reply(""), reply("")], thinking=True)
    assert asked(events) == [(None, True), ("brake", False), ("empty", False)]
    assert finished(events[-1]).ending == "empty"


def test_thinking_switched_on_within_the_turn_can_be_braked_too():
    events = through([reply(""), reply(""), BRAKED, reply("Hello!")])
    assert asked(events) == [(None, False), ("empty", False), ("silent", True), ("brake", False)]


def test_a_thought_that_the_server_cut_is_a_thought_without_end_too():
    cut = reply("", finish="length", reasoning="hm")
    assert asked(through([cut, reply("Hi")], thinking=True)) == [(None, True), ("brake", False)]


def test_a_thought_that_comes_though_none_was_asked_for_gets_more_room_once():
    cut = reply("", finish="length", reasoning="hm")
    events = through([cut, cut])
    assert asked(events) == [(None, False), ("cut", False)]
    assert finished(events[-1]).ending == "cut"


def test_the_last_call_of_a_turn_has_no_brake_and_a_thought_that_fills_it_is_said():
    events = through([ask(), reply("", finish="length", reasoning="hm")], Limits(2, 1024), thinking=True)
    assert [event.brake for event in events if isinstance(event, CallModel)] == [1024, None]
    assert finished(events[-1]).ending == "steps"
    assert "12 degrees" in finished(events[-1]).text


SLIPS = st.lists(
    st.one_of(
        st.builds(wrong, st.integers(0, 99)),
        st.builds(ask, st.integers(100, 199), st.sampled_from(["Paris", "Rome", "Oslo"])),
        st.sampled_from(
            [reply(""), BRAKED, reply("", finish="length", reasoning="hm"), reply("Hi", finish="length")]
        ),
    ),
    min_size=20,
    max_size=20,
)


@settings(deadline=None)
@given(SLIPS, st.integers(1, 20), st.booleans(), st.booleans())
def test_each_exception_happens_once_a_turn_at_most_and_nothing_else_switches(replies, steps, thinking, may):
    limits = Limits(steps, 1024, may_think=may)
    events = through(replies, limits, thinking=thinking)
    calls = asked(events)
    count = Counter(again for again, _ in calls)
    assert max(count["failing"], count["silent"], count["brake"]) <= 1
    for (_, before), (again, now) in itertools.pairwise(calls):
        assert now is (before if again not in {"failing", "silent", "brake"} else again != "brake")
    assert may or not count["failing"] + count["silent"]
    braked = next((number for number, (again, _) in enumerate(calls) if again == "brake"), len(calls))
    assert not any(now for _, now in calls[braked:])
    assert isinstance(events[-1], Finished)

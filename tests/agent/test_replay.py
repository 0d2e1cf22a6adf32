from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, Event, Finished, Limits, RunTools
from bot.agent.loop import play
from bot.agent.replay import replay
from bot.domain import Message, Reply, ToolResult
from tests.agent.test_loop import LIMITS, PROMPT, ask, results
from tests.agent.test_loop_continuation import cut
from tests.agent.test_loop_thinking import BRAKED, wrong
from tests.support.offered_tools import TOOLS, call, reply

TWO = reply("", call("get_weather", '{"city": "Oslo"}', "a"), call("noargs", "{}", "b"), finish="tool_calls")
REPLIES = [ask(1), reply(""), TWO, reply("", call("rm_rf"), finish="tool_calls"), reply("It is 12 degrees.")]


def whole(
    replies: Sequence[Reply] = REPLIES, limits: Limits = LIMITS, *, thinking: bool = False
) -> tuple[list[Event], dict[tuple[int, str], ToolResult]]:
    """All events of the turn, and its results as they would be stored."""
    game, waiting = play(PROMPT, TOOLS, limits, thinking), iter(replies)
    events: list[Event] = [next(game)]
    found: dict[tuple[int, str], ToolResult] = {}
    while not isinstance(last := events[-1], Finished):
        if isinstance(last, RunTools):
            came = results(last, "12 degrees. " * 200)
            found |= {(last.step, result.call.id): result for result in came}
            events.append(game.send(came))
        else:
            events.append(game.send(next(waiting)))
    return events, found


@pytest.mark.parametrize("stored", range(len(REPLIES) + 1))
def test_a_turn_goes_on_where_its_stored_replies_and_results_end(stored):
    goes_on_after(stored, *whole(), REPLIES, LIMITS)


def goes_on_after(
    stored: int,
    events: Sequence[Event],
    found: Mapping[tuple[int, str], ToolResult],
    replies: Sequence[Reply],
    limits: Limits,
    *,
    thinking: bool = False,
) -> None:
    asked = [number for number, event in enumerate(events) if isinstance(event, CallModel)]
    upto = asked[stored] if stored < len(asked) else len(events) - 1
    event, said = replay(play(PROMPT, TOOLS, limits, thinking), replies[:stored], found)
    assert event == events[upto]
    assert said == tuple(message for one in events[: upto + 1] for message in one.said)


ANYTHING = st.lists(
    st.one_of(
        st.builds(wrong, st.integers(0, 99)),
        st.builds(
            ask,
            st.integers(100, 199),
            st.sampled_from(["Paris", "Rome", "Oslo"]),
            st.sampled_from(["", "So."]),
        ),
        st.builds(
            cut, st.sampled_from(["One", " two ", "call:no", "<|turn>"]), st.sampled_from([None, 256, 1024])
        ),
        st.sampled_from(
            [reply(""), BRAKED, reply("", finish="length", reasoning="hm"), reply("args{}"), TWO]
        ),
    ),
    min_size=20,
    max_size=20,
)


@settings(deadline=None)
@given(ANYTHING, st.integers(1, 20), st.booleans(), st.sampled_from([None, 0, 700]))
def test_a_turn_braked_cut_and_switched_goes_on_after_a_crash_at_any_point(replies, steps, thinking, room):
    limits = Limits(steps, 512, room=room)
    events, found = whole(replies, limits, thinking=thinking)
    asked = sum(isinstance(event, CallModel) for event in events)
    assert asked <= steps
    for stored in range(asked + 1):
        goes_on_after(stored, events, found, replies, limits, thinking=thinking)


def test_a_step_of_which_a_result_is_missing_is_handed_out_as_a_whole():
    _, found = whole()
    del found[3, "b"]
    event, said = replay(play(PROMPT, TOOLS, LIMITS, False), REPLIES[:3], found)
    assert isinstance(event, RunTools)
    assert [one.call.id for one in event.calls] == ["a", "b"]
    assert said[-1] == Message("assistant", calls=tuple(one.call for one in event.calls))


def test_a_turn_of_which_nothing_is_stored_begins():
    nothing: list[Reply] = []
    event, said = replay(play(PROMPT, TOOLS, Limits(8, 1024), False), nothing, {})
    assert isinstance(event, CallModel)
    assert (event.step, said) == (1, ())

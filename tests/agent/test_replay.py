from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, LoopEvent, RunTools, TurnLimits, TurnResult
from bot.agent.loop import run_turn
from bot.agent.replay import replay
from bot.domain import Message, Reply, ToolResult
from tests.agent.test_loop import LIMITS, PROMPT, make_results, make_weather_reply
from tests.agent.test_loop_continuation import make_cut_reply
from tests.agent.test_loop_thinking import BRAKED, make_unknown_tool_reply
from tests.support.offered_tools import TOOLS, make_call, make_reply

TWO = make_reply(
    "", make_call("get_weather", '{"city": "Oslo"}', "a"), make_call("noargs", "{}", "b"), finish="tool_calls"
)
REPLIES = [
    make_weather_reply(1),
    make_reply(""),
    TWO,
    make_reply("", make_call("rm_rf"), finish="tool_calls"),
    make_reply("It is 12 degrees."),
]


def run_whole_turn(
    replies: Sequence[Reply] = REPLIES, limits: TurnLimits = LIMITS, *, thinking: bool = False
) -> tuple[list[LoopEvent], dict[tuple[int, str], ToolResult]]:
    """All events of the turn, and its results as they would be stored."""
    game, waiting = run_turn(PROMPT, TOOLS, limits, thinking), iter(replies)
    events: list[LoopEvent] = [next(game)]
    found: dict[tuple[int, str], ToolResult] = {}
    while not isinstance(last := events[-1], TurnResult):
        if isinstance(last, RunTools):
            came = make_results(last, "12 degrees. " * 200)
            found |= {(last.step, result.call.id): result for result in came}
            events.append(game.send(came))
        else:
            events.append(game.send(next(waiting)))
    return events, found


@pytest.mark.parametrize("stored", range(len(REPLIES) + 1))
def test_a_turn_goes_on_where_its_stored_replies_and_results_end(stored):
    check_replay(stored, *run_whole_turn(), REPLIES, LIMITS)


def check_replay(
    stored_replies: int,
    events: Sequence[LoopEvent],
    stored_results: Mapping[tuple[int, str], ToolResult],
    replies: Sequence[Reply],
    limits: TurnLimits,
    *,
    thinking: bool = False,
) -> None:
    asked = [number for number, event in enumerate(events) if isinstance(event, CallModel)]
    upto = asked[stored_replies] if stored_replies < len(asked) else len(events) - 1
    event, said = replay(run_turn(PROMPT, TOOLS, limits, thinking), replies[:stored_replies], stored_results)
    assert event == events[upto]
    assert said == tuple(message for one in events[: upto + 1] for message in one.new_messages)


ANYTHING = st.lists(
    st.one_of(
        st.builds(make_unknown_tool_reply, st.integers(0, 99)),
        st.builds(
            make_weather_reply,
            st.integers(100, 199),
            st.sampled_from(["Paris", "Rome", "Oslo"]),
            st.sampled_from(["", "So."]),
        ),
        st.builds(
            make_cut_reply,
            st.sampled_from(["One", " two ", "call:no", "<|turn>"]),
            st.sampled_from([None, 256, 1024]),
        ),
        st.sampled_from(
            [
                make_reply(""),
                BRAKED,
                make_reply("", finish="length", reasoning="hm"),
                make_reply("args{}"),
                TWO,
            ]
        ),
    ),
    min_size=20,
    max_size=20,
)


@settings(deadline=None)
@given(ANYTHING, st.integers(1, 20), st.booleans(), st.sampled_from([None, 0, 700]))
def test_a_turn_braked_cut_and_switched_goes_on_after_a_crash_at_any_point(replies, steps, thinking, room):
    limits = TurnLimits(steps, 512, token_budget=room)
    events, found = run_whole_turn(replies, limits, thinking=thinking)
    asked = sum(isinstance(event, CallModel) for event in events)
    assert asked <= steps
    for stored in range(asked + 1):
        check_replay(stored, events, found, replies, limits, thinking=thinking)


def test_a_step_of_which_a_result_is_missing_is_handed_out_as_a_whole():
    _, found = run_whole_turn()
    del found[3, "b"]
    event, said = replay(run_turn(PROMPT, TOOLS, LIMITS, False), REPLIES[:3], found)
    assert isinstance(event, RunTools)
    assert [one.call.id for one in event.calls] == ["a", "b"]
    assert said[-1] == Message("assistant", calls=tuple(one.call for one in event.calls))


def test_a_turn_of_which_nothing_is_stored_begins():
    nothing: list[Reply] = []
    event, said = replay(run_turn(PROMPT, TOOLS, TurnLimits(8, 1024), False), nothing, {})
    assert isinstance(event, CallModel)
    assert (event.step, said) == (1, ())

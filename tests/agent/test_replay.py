import sys
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, LoopEvent, RunTools, TurnLimits, TurnResult
from bot.agent.loop import run_turn
from bot.domain import Message, Reply, ToolResult
from bot.turns.turn_loop import replay
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
    loop = run_turn(PROMPT, TOOLS, limits, thinking)
    next_replies = iter(replies)
    events: list[LoopEvent] = [next(loop)]
    results: dict[tuple[int, str], ToolResult] = {}
    while not isinstance(last := events[-1], TurnResult):
        if isinstance(last, RunTools):
            new_results = make_results(last, "12 degrees. " * 200)
            results |= {(last.step, result.call.id): result for result in new_results}
            events.append(loop.send(new_results))
        else:
            events.append(loop.send(next(next_replies)))
    return events, results


@pytest.mark.parametrize("stored", range(len(REPLIES) + 1))
def test_a_turn_continues_where_its_stored_replies_and_results_end(stored):
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
    model_calls = [number for number, event in enumerate(events) if isinstance(event, CallModel)]
    model_calls.append(len(events) - 1)
    last = model_calls[stored_replies]
    event, messages = replay(
        run_turn(PROMPT, TOOLS, limits, thinking), replies[:stored_replies], stored_results
    )
    assert event == events[last]
    assert messages == tuple(message for past in events[: last + 1] for message in past.new_messages)


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
@given(ANYTHING, st.integers(1, 20), st.booleans(), st.sampled_from([sys.maxsize, 0, 700]))
def test_a_turn_with_cuts_and_switches_continues_after_a_crash_at_any_point(
    replies, steps, thinking, token_budget
):
    limits = TurnLimits(steps, 512, token_budget=token_budget)
    events, results = run_whole_turn(replies, limits, thinking=thinking)
    model_call_count = sum(isinstance(event, CallModel) for event in events)
    assert model_call_count <= steps
    for stored in range(model_call_count + 1):
        check_replay(stored, events, results, replies, limits, thinking=thinking)


def test_a_step_that_lacks_a_result_is_returned_as_a_whole():
    _, results = run_whole_turn()
    del results[3, "b"]
    event, messages = replay(run_turn(PROMPT, TOOLS, LIMITS, False), REPLIES[:3], results)
    assert isinstance(event, RunTools)
    assert [checked.call.id for checked in event.calls] == ["a", "b"]
    assert messages[-1] == Message("assistant", calls=tuple(checked.call for checked in event.calls))


def test_a_turn_of_which_nothing_is_stored_begins():
    nothing: list[Reply] = []
    event, messages = replay(run_turn(PROMPT, TOOLS, TurnLimits(8, 1024), False), nothing, {})
    assert isinstance(event, CallModel)
    assert (event.step, messages) == (1, ())

"""A turn in its details: short lines, plain words, and unknown where nothing was told."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bot.db.usage.spending import CallSpending, TurnSpending
from bot.domain import EndpointRole
from bot.telegram.commands.usage_details import MAX_LISTED_CALLS, format_details
from bot.usage.report import INTERVAL_COLUMNS

CALL = CallSpending("turn", None, "diffusiongemma", False, 1204, 1100, 1, 1.42, 0.001, "ok")
UNKNOWN = CallSpending("turn", None, "", False, None, None, None, None, None, None)


def build_turn(
    thinking: bool,
    why: str,
    endpoint: EndpointRole,
    endpoint_why: str | None,
    seconds: float,
    calls: tuple[CallSpending, ...],
) -> TurnSpending:
    return TurnSpending(12, thinking, why, endpoint, endpoint_why, seconds, calls, {})


def test_a_plain_turn_is_told_in_a_few_lines():
    assert format_details(
        build_turn(False, "one light tool: clock", "main", None, 1.5, (CALL,))
    ).splitlines() == [
        "Turn 12: 1.5 s",
        "Thinking: off",
        "Why: one light tool: clock",
        "Model calls, canvases estimated:",
        "1. 1 canvas, 1.4 s",
        "    1.2k in, 1.1k cached",
        "Cached: 91 % of the input",
        "Model: diffusiongemma",
    ]


def test_it_is_told_where_the_seconds_went():
    account = {"whole": 8.0, "intake": 0.01, "seat_wait": 0.0, "first_canvas": 6.25, "telegram": 1.74}
    told = format_details(
        replace(build_turn(False, "no tool fits", "main", None, 6.5, (CALL,)), account=account)
    ).splitlines()
    assert told[-4:-1] == ["Where 8.0 s went:", "    6.2 s first canvas", "    1.7 s Telegram"]


def test_what_was_not_told_is_unknown():
    assert format_details(
        build_turn(True, "", "main", None, 1.5, (UNKNOWN, replace(CALL, cached_tokens=None)))
    ).splitlines()[1:] == [
        "Thinking: on",
        "Why: unknown",
        "Call 1: thinking off",
        "Model calls, canvases estimated:",
        "1. canvases unknown, time unknown, not ended",
        "    tokens unknown",
        "2. 1 canvas, 1.4 s",
        "    1.2k in, cached unknown",
        "Model: unknown, then diffusiongemma",
    ]


def test_a_turn_without_calls_says_so():
    assert format_details(build_turn(False, "thinking is off", "main", None, 0.1, ())).splitlines()[3:] == [
        "Model calls: none"
    ]


def test_switches_and_repeated_calls_are_told_with_their_reason():
    calls = (
        CALL,
        replace(CALL, again="empty"),
        replace(CALL, again="silent", thinking=True),
        replace(CALL, again="brake"),
        replace(CALL, again="more"),
        replace(CALL, again="something new"),
    )
    told = format_details(build_turn(False, "no tool fits", "main", None, 9.0, calls)).splitlines()
    assert told[3:8] == [
        "Call 2: the reply before was empty",
        "Call 3: thinking on, two replies were empty",
        "Call 4: thinking off, it thought too long",
        "Call 5: the answer goes on",
        "Call 6: something new",
    ]


def test_how_a_call_ended_and_how_long_it_waited_is_told():
    calls = (
        replace(CALL, outcome="failed", seconds=None),
        replace(CALL, again="away", waited=3.2, canvases=2),
        replace(CALL, outcome="cancelled"),
        replace(CALL, outcome="cut"),
    )
    told = format_details(build_turn(False, "no tool fits", "main", None, 9.0, calls)).splitlines()
    assert told[5] == "1. 1 canvas, time unknown, failed"
    assert told[7:9] == ["2. 2 canvases, 1.4 s", "    1.2k in, 1.1k cached, waited 3.2 s"]
    assert told[9].endswith(", stopped")
    assert told[11].endswith(", cut")


def test_a_decision_read_is_told_apart_from_the_calls():
    read = replace(
        UNKNOWN, purpose="decision", model="diffusiongemma", seconds=0.31, prompt_tokens=141, outcome="ok"
    )
    told = format_details(
        build_turn(True, "the endpoint reads 70%", "main", None, 2.0, (read, replace(CALL, thinking=True)))
    )
    assert "Decision read: 0.3 s\n    141 in\n" in told
    assert "1. 1 canvas" in told
    assert "Call 1" not in told
    lost = replace(read, seconds=None, prompt_tokens=None, outcome="failed")
    assert "Decision read: time unknown, failed\n    tokens unknown\n" in format_details(
        build_turn(True, "x", "main", None, 2.0, (lost,))
    )


def test_of_two_endpoints_it_is_told_which_answered_and_why():
    calls = (CALL, replace(CALL, model="gemma-4-31b"), replace(CALL, model="gemma-4-31b"))
    told = format_details(
        build_turn(False, "no tool fits", "fallback", "the first is down", 2.0, calls)
    ).splitlines()
    assert told[-2:] == ["Model: diffusiongemma, then gemma-4-31b", "Endpoint: the second, the first is down"]
    told = format_details(build_turn(False, "no tool fits", "main", "it answers", 2.0, ())).splitlines()
    assert told[-2:] == ["Model calls: none", "Endpoint: the first, it answers"]


def test_of_very_many_calls_the_first_are_told():
    told = format_details(
        build_turn(False, "no tool fits", "main", None, 99.0, (CALL,) * (MAX_LISTED_CALLS + 5))
    ).splitlines()
    assert f"{MAX_LISTED_CALLS}. 1 canvas, 1.4 s" in told
    assert told[-3] == "… and 5 more calls"


def as_decision(call: CallSpending) -> CallSpending:
    return replace(call, purpose="decision")


def join_calls(both: tuple[list[CallSpending], list[CallSpending]]) -> tuple[CallSpending, ...]:
    return (*both[0], *both[1])


counts = st.none() | st.integers(0, 10**10)
times = st.none() | st.floats(0, 10**6)
calls = st.builds(
    CallSpending,
    st.sampled_from(["turn", "task"]),
    st.sampled_from([None, "empty", "cut", "more", "failing", "silent", "brake", "away"]),
    st.just("diffusiongemma"),
    st.booleans(),
    counts,
    counts,
    st.none() | st.integers(0, 999),
    times,
    times,
    st.sampled_from([None, "ok", "cut", "cancelled", "failed"]),
)


@given(
    st.builds(
        TurnSpending,
        st.integers(1, 10**9),
        st.booleans(),
        st.just("no tool fits"),
        st.sampled_from(["main", "fallback"]),
        st.sampled_from([None, "you asked for /deep"]),
        st.floats(0, 10**6),
        st.tuples(st.lists(calls.map(as_decision), max_size=2), st.lists(calls, max_size=100)).map(
            join_calls
        ),
        st.just({}) | st.fixed_dictionaries({kind: st.floats(0, 10**6) for kind in INTERVAL_COLUMNS}),
    )
)
def test_the_details_fit_one_message_in_short_lines(spent: TurnSpending):
    text = format_details(spent)
    assert len(text) <= 4096
    assert max(map(len, text.splitlines())) <= 50

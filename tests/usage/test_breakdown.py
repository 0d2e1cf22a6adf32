"""A turn's breakdown comes from its rows and from measured spans; unknown tokens stay unknown, and nothing is
added to make the sum fit.
"""

from dataclasses import replace
from typing import Any

import pytest

from bot.canvases import CANVASES, TOKENS, OutputUnit
from bot.db.usage.breakdowns import (
    TurnTimestamps,
)
from bot.db.usage.turn_steps import CallStep
from bot.usage.breakdown import (
    build_stored_breakdown,
    build_turn_breakdown,
    format_breakdown,
    unmeasured_seconds,
)
from bot.usage.intervals import Span
from tests.support import turn_steps

TIMESTAMPS = TurnTimestamps(
    turn=1,
    item=5,
    received_at=100.0,
    seen_at=None,
    taken_at=100.5,
    asked_at=None,
    agreed_at=None,
    retaken_at=None,
    began_at=101.0,
    ended_at=104.5,
    settled_at=105.0,
    failed=False,
)
MEASURED_SPANS = (
    Span("own", 100.5, 101.0),
    Span("seat wait", 101.0, 101.5),
    Span("first canvas", 101.5, 104.0),
    Span("further canvases", 103.0, 104.0),
    Span("own", 104.0, 104.6),
    Span("Telegram", 104.6, 105.0),
)
CALL = replace(turn_steps.CALL, completion_tokens=257)
TURN = replace(turn_steps.TURN, calls=(CALL,))
ACCOUNT = {"whole": 5.0, **build_stored_breakdown(TIMESTAMPS, MEASURED_SPANS, ()).seconds}


def breakdown_seconds(
    timestamps: TurnTimestamps = TIMESTAMPS, *spans: Span, outages: tuple[tuple[float, float], ...] = ()
) -> dict[str, Any]:
    """What lasted."""
    breakdown = build_stored_breakdown(timestamps, spans or MEASURED_SPANS, outages)
    return {kind: pytest.approx(value) for kind, value in breakdown.seconds.items() if value}


@pytest.mark.parametrize(
    ("outages", "down", "starting"),
    [
        pytest.param(((40.0, 99.0),), 59.0 - 21.0, 1.0, id="sent while none ran"),
        pytest.param(((70.0, 99.0),), 29.0, 1.0, id="sent just before"),
        pytest.param(((50.0, 80.0), (82.0, 99.0)), 19.0 + 17.0, 3.0, id="a start that failed"),
        pytest.param(((20.0, 50.0),), 0.0, 0.0, id="one that was over"),
    ],
)
def test_what_a_message_waited_at_telegram_without_a_process_is_down(outages, down: float, starting: float):
    timestamps = replace(TIMESTAMPS, sent_at=60)
    breakdown = build_stored_breakdown(timestamps, MEASURED_SPANS, outages)
    assert breakdown.seconds["down"] == pytest.approx(down)
    assert breakdown.seconds["starting"] == pytest.approx(starting)
    assert breakdown.whole == pytest.approx(5.0 + down + starting)
    assert unmeasured_seconds(breakdown) == pytest.approx(0.0)


def test_a_process_that_was_killed_after_its_last_heartbeat_had_received_the_message():
    breakdown = build_stored_breakdown(replace(TIMESTAMPS, sent_at=60), MEASURED_SPANS, ((58.0, 100.2),))
    assert breakdown.whole == 5.0


def test_a_clock_behind_telegrams_is_no_wait():
    timestamps = replace(TIMESTAMPS, sent_at=130)
    assert build_stored_breakdown(timestamps, MEASURED_SPANS, ((90.0, 99.0),)).whole == 5.0


def test_while_a_person_is_asked_asking_and_answering_are_signs_of_life():
    waits = replace(
        TIMESTAMPS, asked_at=104.5, agreed_at=120.0, retaken_at=121.0, ended_at=130.0, settled_at=131.0
    )
    measured = (*MEASURED_SPANS, Span("own", 121.0, 125.0), Span("tools", 128.0, 131.0))
    seconds_by_interval = breakdown_seconds(waits, *measured, outages=((104.0, 128.0),))
    assert (
        seconds_by_interval["approval_wait"],
        seconds_by_interval["lane_wait"],
        seconds_by_interval["down"],
    ) == (15.1, 1.0, 7.0)
    assert sum(seconds.expected for seconds in seconds_by_interval.values()) == pytest.approx(31.0)


def test_a_plain_turn_has_the_seconds_of_each_interval():
    assert breakdown_seconds() == {
        "intake": 0.5,
        "seat_wait": 0.5,
        "first_canvas": 1.5,
        "further_canvases": 1.0,
        "telegram": 0.4,
        "own": 1.1,
    }
    stored = build_stored_breakdown(TIMESTAMPS, MEASURED_SPANS, ())
    assert (stored.turn, stored.settled_at, stored.whole) == (1, 105.0, 5.0)
    assert unmeasured_seconds(stored) == pytest.approx(0, abs=1e-9)


def test_a_reading_costs_tokens_and_no_canvas():
    reading = replace(CALL, purpose="decision", prompt_tokens=40, cached_tokens=0, completion_tokens=1)
    breakdown = build_turn_breakdown(replace(TURN, account=ACCOUNT, calls=(reading, CALL)))
    assert (breakdown.calls, breakdown.canvases, breakdown.input.tokens, breakdown.output.tokens) == (
        1,
        2,
        1040,
        258,
    )


def test_what_nothing_measured_is_missing_and_not_our_own_work():
    without_own = [span for span in MEASURED_SPANS if span.kind != "own"]
    stored = build_stored_breakdown(TIMESTAMPS, without_own, ())
    assert stored.seconds["own"] == 0.5  # from its taking to its opening, which rows tell
    assert unmeasured_seconds(stored) == pytest.approx(0.6)


def test_a_message_waits_for_its_lane_from_when_it_was_seen():
    breakdown = breakdown_seconds(replace(TIMESTAMPS, seen_at=100.1))
    assert (breakdown["intake"], breakdown["lane_wait"]) == (0.1, 0.4)


def test_a_message_seen_only_after_a_restart_was_taken_before():
    assert breakdown_seconds(replace(TIMESTAMPS, seen_at=102.0)) == breakdown_seconds()


def test_a_time_without_a_process_is_down_whatever_waited_meanwhile():
    breakdown = breakdown_seconds(
        replace(TIMESTAMPS, seen_at=100.1), outages=((99.0, 99.5), (100.2, 100.3), (104.1, 104.5))
    )
    assert (breakdown["down"], breakdown["lane_wait"], breakdown["own"]) == (0.5, 0.3, 0.7)


def test_what_a_killed_process_stored_after_its_last_heartbeat_was_not_down():
    assert "down" not in breakdown_seconds(outages=((103.5, 104.0),))


def test_what_a_killed_process_had_not_measured_by_its_last_heartbeat_was_down():
    measured = (Span("own", 100.5, 104.2), Span("own", 104.8, 105.0))
    breakdown = breakdown_seconds(TIMESTAMPS, *measured, outages=((104.5, 104.8),))
    assert breakdown == {"intake": 0.5, "own": 3.9, "down": 0.6}
    assert breakdown == breakdown_seconds(TIMESTAMPS, *measured, outages=((104.8, 104.8),))


def test_a_chat_that_is_asked_for_consent_waits_for_a_person():
    timestamps = replace(TIMESTAMPS, asked_at=100.6, agreed_at=102.0, retaken_at=102.5)
    breakdown = breakdown_seconds(timestamps, Span("own", 102.5, 105.0))
    assert breakdown == {"intake": 0.5, "own": 2.6, "approval_wait": 1.4, "lane_wait": 0.5}


def test_a_turn_that_was_set_aside_was_at_work_until_then():
    breakdown = breakdown_seconds(replace(TIMESTAMPS, failed=True), Span("own", 104.5, 105.0))
    assert breakdown == {"intake": 0.5, "own": 4.5}


def test_a_clock_that_was_set_back_makes_no_negative_seconds():
    stored = build_stored_breakdown(replace(TIMESTAMPS, received_at=200.0), MEASURED_SPANS, ())
    assert (stored.whole, set(stored.seconds.values())) == (0.0, {0.0})


def test_a_breakdown_shows_what_lasted():
    breakdown = build_turn_breakdown(replace(TURN, account=ACCOUNT))
    assert (breakdown.total_seconds, breakdown.calls) == (5.0, 1)
    assert [kind for kind, _ in breakdown.interval_seconds] == [
        *("intake", "seat wait", "first canvas", "further canvases", "Telegram", "own")
    ]


def format_calls(*calls: CallStep, unit: OutputUnit = CANVASES) -> str:
    return format_breakdown(build_turn_breakdown(replace(TURN, account=ACCOUNT, calls=calls)), unit)


def test_tokens_are_shown_in_one_line():
    assert (
        format_calls(CALL)
        == "1 model call · 1,000 tokens in (25 % cached) · 257 out · ~2 canvases (estimated)"
    )
    short = replace(CALL, completion_tokens=5)
    assert format_calls(short, CALL).endswith("· 262 out · ~3 canvases (estimated)")
    assert format_calls(short).endswith("· 5 out · ~1 canvas (estimated)")
    assert format_calls(CALL, unit=TOKENS).endswith("· 257 out")


def test_what_the_server_did_not_count_is_unknown():
    silent = replace(CALL, prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    assert (
        format_calls(silent)
        == "1 model call · unknown tokens in (cached share unknown) · unknown out · canvases unknown"
    )
    assert format_calls(silent, replace(CALL, usage_partial=True)) == (
        "2 model calls · at least 1,000 tokens in (cached share unknown)"
        " · at least 257 out · ~2 canvases (estimated)"
    )


def test_a_call_that_was_cut_read_its_whole_prompt_but_may_have_written_more():
    cut = format_calls(replace(CALL, usage_partial=True))
    assert cut == "1 model call · 1,000 tokens in (25 % cached) · at least 257 out · ~2 canvases (estimated)"


def test_a_turn_without_a_call_says_so():
    assert format_calls() == "no model call"

"""The account of a turn is made of its rows and of what was measured; unknown tokens stay unknown, and
nothing is added to make the sum come out.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bot.db.usage.breakdowns import CallRow, Course, Kept, PartRow, ToolRow, TurnRow
from bot.usage.breakdown import account, counted, gap, in_words, made
from bot.usage.histogram import bucket
from bot.usage.intervals import ORDER, Span, column

COURSE = Course(
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
MEASURED = (
    Span("own", 100.5, 101.0),
    Span("seat wait", 101.0, 101.5),
    Span("first canvas", 101.5, 104.0),
    Span("further canvases", 103.0, 104.0),
    Span("own", 104.0, 104.6),
    Span("Telegram", 104.6, 105.0),
)
CALL = CallRow("ok", None, input_tokens=1000, cached_tokens=250, output_tokens=257, partial=False)
TURN = TurnRow(1, "answered", 100.0, Kept(1, 105.0, 5.0, {}), (CALL,), (), (PartRow(9, 104.9),))


def seconds(
    course: Course = COURSE, *measured: Span, outages: tuple[tuple[float, float], ...] = ()
) -> dict[str, Any]:
    """What lasted."""
    kept = made(course, measured or MEASURED, outages)
    return {kind: pytest.approx(value) for kind, value in kept.seconds.items() if value}


def test_while_a_person_is_asked_asking_and_answering_are_signs_of_life():
    waits = replace(
        COURSE, asked_at=104.5, agreed_at=120.0, retaken_at=121.0, ended_at=130.0, settled_at=131.0
    )
    measured = (*MEASURED, Span("own", 121.0, 125.0), Span("tools", 128.0, 131.0))
    found = seconds(waits, *measured, outages=((104.0, 128.0),))
    assert (found["approval_wait"], found["lane_wait"], found["down"]) == (15.1, 1.0, 7.0)
    assert sum(one.expected for one in found.values()) == pytest.approx(31.0)


def test_a_plain_turn_is_told_kind_by_kind():
    assert seconds() == {
        "intake": 0.5,
        "seat_wait": 0.5,
        "first_canvas": 1.5,
        "further_canvases": 1.0,
        "telegram": 0.4,
        "own": 1.1,
    }
    kept = made(COURSE, MEASURED, ())
    assert (kept.turn, kept.settled_at, kept.whole) == (1, 105.0, 5.0)
    assert gap(kept) == pytest.approx(0, abs=1e-9)


def test_a_reading_costs_tokens_and_no_canvas():
    reading = CallRow(
        "ok", None, input_tokens=40, cached_tokens=0, output_tokens=1, partial=False, is_reading=True
    )
    seconds = dict.fromkeys(map(column, ORDER), 0.0)
    told = account(replace(TURN, account=Kept(1, 105.0, 5.0, seconds), calls=(reading, CALL)))
    assert (told.calls, told.canvases, told.input.tokens, told.output.tokens) == (1, 2, 1040, 258)


def test_what_nobody_measured_is_missing_and_not_our_own_work():
    without_own = [span for span in MEASURED if span.kind != "own"]
    kept = made(COURSE, without_own, ())
    assert kept.seconds["own"] == 0.5  # from its taking to its opening, which rows tell
    assert gap(kept) == pytest.approx(0.6)


def test_a_message_waits_for_its_lane_from_when_it_was_seen():
    told = seconds(replace(COURSE, seen_at=100.1))
    assert (told["intake"], told["lane_wait"]) == (0.1, 0.4)


def test_a_message_seen_only_after_a_restart_was_taken_before():
    assert seconds(replace(COURSE, seen_at=102.0)) == seconds()


def test_a_time_without_a_process_is_down_whatever_waited_meanwhile():
    told = seconds(replace(COURSE, seen_at=100.1), outages=((99.0, 99.5), (100.2, 100.3), (104.1, 104.5)))
    assert (told["down"], told["lane_wait"], told["own"]) == (0.5, 0.3, 0.7)


def test_what_a_killed_process_stored_after_its_last_heartbeat_was_not_down():
    assert "down" not in seconds(outages=((103.5, 104.0),))


def test_a_chat_that_is_asked_for_consent_waits_for_a_person():
    asked = replace(COURSE, asked_at=100.6, agreed_at=102.0, retaken_at=102.5)
    told = seconds(asked, Span("own", 102.5, 105.0))
    assert told == {"intake": 0.5, "own": 2.6, "approval_wait": 1.4, "lane_wait": 0.5}


def test_a_turn_that_was_set_aside_was_at_work_until_then():
    told = seconds(replace(COURSE, failed=True), Span("own", 104.5, 105.0))
    assert told == {"intake": 0.5, "own": 4.5}


def test_a_clock_that_was_set_back_makes_no_negative_seconds():
    kept = made(replace(COURSE, received_at=200.0), MEASURED, ())
    assert (kept.whole, set(kept.seconds.values())) == (0.0, {0.0})


def test_what_lasted_is_counted_once_by_the_day_of_the_message():
    kept = Kept(1, 0.0, 2.0, {"tools": 1.5, "own": 0.5, "down": 0.0})
    day = replace(COURSE, received_at=3 * 86_400 + 5.0)
    wanted = {(3, kind, bucket(value)): 1 for kind, value in (("whole", 2.0), ("tools", 1.5), ("own", 0.5))}
    assert counted(day, kept) == Counter(wanted)


def test_an_account_shows_what_lasted():
    kept = Kept(1, 105.0, 5.0, made(COURSE, MEASURED, ()).seconds)
    shown = account(replace(TURN, account=kept))
    assert (shown.whole, shown.calls) == (5.0, 1)
    assert [kind for kind, _ in shown.seconds] == [
        *("intake", "seat wait", "first canvas", "further canvases", "Telegram", "own")
    ]


def told(*calls: CallRow) -> str:
    kept = Kept(1, 105.0, 5.0, made(COURSE, MEASURED, ()).seconds)
    return in_words(
        account(replace(TURN, account=kept, calls=calls, tools=(ToolRow("clock", "{}", "ok", "…"),)))
    )


def test_tokens_are_told_in_one_line():
    assert told(CALL) == "1 model call · 1,000 tokens in (25 % cached) · 257 out · ~2 canvases (estimated)"
    short = replace(CALL, output_tokens=5)
    assert told(short, CALL).endswith("· 262 out · ~3 canvases (estimated)")
    assert told(short).endswith("· 5 out · ~1 canvas (estimated)")


def test_what_the_server_did_not_count_is_unknown():
    silent = replace(CALL, input_tokens=None, cached_tokens=None, output_tokens=None)
    assert (
        told(silent)
        == "1 model call · unknown tokens in (cached share unknown) · unknown out · canvases unknown"
    )
    assert told(silent, replace(CALL, partial=True)) == (
        "2 model calls · at least 1,000 tokens in (cached share unknown) · at least 257 out · ~2 canvases (estimated)"
    )


def test_a_call_that_was_cut_read_its_whole_prompt_but_may_have_written_more():
    cut = told(replace(CALL, partial=True))
    assert cut == "1 model call · 1,000 tokens in (25 % cached) · at least 257 out · ~2 canvases (estimated)"


def test_a_turn_without_a_call_says_so():
    assert told() == "no model call"

"""Turns and calls one by one: a rate is shown only for more than one canvas, and unknown stays unknown."""

from dataclasses import asdict, replace

from bot.db.usage.rankings import RankedCall, RankedTurn
from bot.usage.rankings import (
    build_call_records,
    build_call_section,
    build_turn_records,
    build_turn_section,
    tokens_per_second,
)
from tests.support import turn_steps
from tests.support.turn_steps import NOON

CALL = replace(
    RankedCall(**asdict(turn_steps.CALL), chat="5", user=5),
    turn=4,
    created_at=NOON,
    seat_at=NOON + 0.5,
    ended_at=NOON + 4.5,
    completion_tokens=600,
    reasoning_tokens=50,
)
TURN = RankedTurn(
    turn=4,
    chat="5",
    user=5,
    received_at=NOON,
    thinking=False,
    ending="answered",
    calls=2,
    input=2000,
    cached=None,
    output=900,
    reasoning=0,
    canvases=4,
    counted=True,
    cached_counted=True,
    tools=1,
    waited=0.25,
    seconds=12.0,
)


def call_cells(call: RankedCall) -> dict[str, str]:
    section = build_call_section([call], "input", {5: "Ann"}, "UTC")
    return dict(zip(section.columns, section.rows[0], strict=True))


def test_a_call_of_several_canvases_has_its_rate_beside_its_length():
    assert call_cells(CALL) == {
        "call": "9",
        "turn": "4",
        "when (UTC)": "2024-10-04 12:00:00",
        "user": "Ann (5)",
        "purpose": "turn",
        "again": "",
        "model": "m",
        "thinking": "yes",
        "input": "1,000",
        "cached": "250",
        "output": "600",
        "reasoning": "50",
        "canvases est.": "3",
        "waited s": "0.500",
        "seconds": "4.000",
        "tok/s": "150.0",
        "outcome": "ok",
    }


def test_no_rate_of_one_canvas_of_a_cut_call_or_of_what_is_unknown():
    for call in (
        replace(CALL, completion_tokens=256),
        replace(CALL, usage_partial=True),
        replace(CALL, completion_tokens=None),
        replace(CALL, ended_at=None),
        replace(CALL, ended_at=CALL.seat_at),
        replace(CALL, purpose="decision"),
    ):
        assert tokens_per_second(call) is None
        assert call_cells(call)["tok/s"] == "–"


def test_what_is_unknown_of_a_call_says_so():
    cells = call_cells(
        replace(
            CALL, turn=None, user=None, prompt_tokens=None, completion_tokens=None, seat_at=None, outcome=None
        )
    )
    assert (cells["turn"], cells["user"], cells["input"], cells["canvases est."]) == (
        "–",
        "–",
        "unknown",
        "unknown",
    )
    assert (cells["waited s"], cells["outcome"]) == ("unknown", "running")
    assert call_cells(replace(CALL, usage_partial=True))["output"] == "≥ 600"
    assert call_cells(replace(CALL, purpose="decision"))["canvases est."] == "–"


def test_turns_one_a_line():
    section = build_turn_section(
        [TURN, replace(TURN, counted=False, ending=None, seconds=None, thinking=True)], "seconds", {}, "UTC"
    )
    assert section.title == "Turns by seconds"
    first, second = (dict(zip(section.columns, row, strict=True)) for row in section.rows)
    assert (first["turn"], first["input"], first["cached"], first["ending"]) == (
        "4",
        "2,000",
        "unknown",
        "answered",
    )
    assert (second["output"], second["seconds"], second["ending"], second["thinking"]) == (
        *("≥ 900", "unknown", "running", "yes"),
    )


def test_a_turn_that_made_no_call_took_nothing_and_what_one_call_did_not_tell_makes_at_least():
    nothing = replace(TURN, calls=0, input=None, cached=None, output=None, canvases=None)
    some = replace(TURN, cached=300, cached_counted=False)
    section = build_turn_section([nothing, some], "seconds", {}, "UTC")
    first, second = (dict(zip(section.columns, row, strict=True)) for row in section.rows)
    assert [first[name] for name in ("input", "cached", "output", "canvases est.")] == ["0"] * 4
    assert (second["input"], second["cached"]) == ("2,000", "≥ 300")


def test_records_have_numbers_and_times_in_words():
    assert build_call_records([replace(CALL, outcome=None, completion_tokens=None)]) == [
        {
            "call": 9,
            "turn": 4,
            "step": 1,
            "chat": "5",
            "user": 5,
            "created_at": "2024-10-04 12:00:00",
            "purpose": "turn",
            "again": None,
            "model": "m",
            "thinking": True,
            "input": 1000,
            "cached": 250,
            "output": None,
            "reasoning": 50,
            "canvases": None,
            "partial": False,
            "waited": 0.5,
            "seconds": 4.0,
            "outcome": None,
            "tokens_per_second": None,
        }
    ]
    assert build_call_records([CALL])[0]["tokens_per_second"] == 150.0
    (turn,) = build_turn_records([TURN])
    assert (turn["received_at"], turn["cached"], turn["canvases"]) == ("2024-10-04 12:00:00", None, 4)

"""One turn step by step, in the order of events, with its texts hidden until they were requested."""

import json
from dataclasses import replace
from typing import Any

from bot.db.usage.turn_steps import PartStep, TurnMessage, TurnSteps, TurnTakeover
from bot.usage.plain_text import escape_lines
from bot.usage.turn_report import render_json, render_lines
from tests.support.terminal_text import lay_out
from tests.support.turn_steps import CALL, NOON, TOOL, TURN


def render(turn: TurnSteps) -> list[str]:
    return lay_out(escape_lines(render_lines(turn, {5: "Ann"}))).splitlines()


def test_an_approval_request_and_its_answer_are_shown():
    approved = replace(TOOL, asked_at=NOON + 5.1, answered_at=NOON + 5.4, answer="here")
    lines = render(replace(TURN, tools=(approved,)))
    assert "     5.100  tool clock: a person is asked" in lines
    assert "     5.400  tool clock: allowed for a while" in lines
    waiting = replace(approved, began_at=None, ended_at=None, outcome=None, answered_at=None, answer=None)
    lines = render(replace(TURN, state="parked", ending=None, ended_at=None, tools=(waiting,)))
    assert lines[0] == "Turn 12 in chat 5, of Ann (5): parked"
    assert [line for line in lines if "tool clock" in line] == ["     5.100  tool clock: a person is asked"]


def test_a_turn_is_shown_in_the_order_of_events():
    assert render(TURN) == [
        "Turn 12 in chat 5, of Ann (5): answered",
        "Thinking: on, for: two tools match: a, b",
        "",
        "2024-10-04 12:00:00 UTC, and seconds since:",
        "     0.000  received from Telegram",
        "     0.250  taken up, after 0.250 s of waiting",
        "     0.500  the turn begins",
        "     1.000  call 1: turn asked of m, thinking",
        "     1.000  call 1: its prompt is made of instructions 800 + tools 1,200 + history 400 characters"
        " + 2 images",
        "     2.000  call 1: has a seat, after 1.000 s of waiting",
        "     4.000  call 1: first block, 2.000 s after its seat",
        "     5.000  call 1: ok, finish reason stop; 1,000 in, 250 cached, 300 out, 90 of them thought,"
        " 2 canvases (estimated)",
        "     5.000  call 1: the server's own times: queue time 3.0 ms",
        "     5.500  tool clock begins",
        "     6.000  tool clock: ok after 0.500 s",
        "     8.000  the turn ends: answered",
        "     8.500  message 1 stands in the chat",
        "     9.000  message 1 has its final words",
        "",
        "Where the seconds went:",
        "     9.000  whole",
        "     2.000  first text",
    ]


def test_another_gateway_that_took_over_is_named():
    killed = TurnTakeover(life=9, taken_at=NOON + 3, previous_life=7, left_at=NOON + 2.5)
    given = TurnTakeover(life=11, taken_at=NOON + 6.5, previous_life=9, left_at=NOON + 6.5)
    lines = render(replace(TURN, takeovers=(killed, given)))
    assert "     3.000  another gateway took over: 9 from 7, after 0.500 s without one" in lines
    assert "     6.500  another gateway took over: 11 from 9" in lines
    assert json.loads(render_json(replace(TURN, takeovers=(given,))))["takeovers"][0]["life"] == 11


def test_what_failed_or_was_asked_again_says_why():
    failed = replace(
        CALL, again="away", outcome="failed", error="cut\x1b off", seat_at=None, first_block_at=None
    )
    nothing: dict[str, Any] = {
        "prompt_tokens": None,
        "completion_tokens": None,
        "finish_reason": None,
        "server_ms": None,
    }
    text = "\n".join(render(replace(TURN, calls=(replace(failed, **nothing, usage_missing="it was cut"),))))
    assert "turn asked of m, thinking, again: away" in text
    assert "failed (cut\\x1b off), finish reason unknown; tokens unknown: it was cut" in text
    assert "has a seat" not in text
    lost = replace(failed, **nothing, outcome=None)
    assert (
        "unknown (cut\\x1b off), finish reason unknown; tokens unknown: the server did not tell"
        in "\n".join(render(replace(TURN, calls=(lost,))))
    )


def test_what_is_not_known_of_a_call_is_said_to_be_unknown():
    half = replace(CALL, cached_tokens=None, completion_tokens=None, reasoning_tokens=None, thinking=False)
    text = "\n".join(render(replace(TURN, calls=(half,))))
    assert "1,000 in, unknown cached, unknown out, unknown of them thought, canvases unknown" in text
    cut = replace(CALL, usage_partial=True, completion_tokens=200, seat_at=None)
    assert "≥ 200 out, ≥ 90 of them thought, ≥ 1 canvas (estimated)" in "\n".join(
        render(replace(TURN, calls=(cut,)))
    )
    uncounted = replace(cut, reasoning_tokens=None)
    assert "≥ 200 out, unknown of them thought" in "\n".join(render(replace(TURN, calls=(uncounted,))))
    read = replace(CALL, purpose="decision", completion_tokens=4)
    assert "1,000 in, 250 cached, 4 out" in "\n".join(render(replace(TURN, calls=(read,))))


def test_the_blocks_of_a_call_are_shown_where_they_are_stored():
    timed = replace(CALL, blocks=3, block_ms="[3000, 3500, 4000]")
    lines = render(replace(TURN, calls=(timed,)))
    assert "     5.000  call 1: block 3 of 3; seconds between the blocks: 0.500, 0.500" in lines
    assert "seconds between the blocks" not in "\n".join(render(TURN))


def test_a_refused_tool_call_says_why_if_that_is_known():
    for refusal, words in (("arguments", "bad arguments"), (None, "reason unknown")):
        refused = replace(TOOL, outcome="refused", refusal=refusal)
        assert f"     6.000  tool clock: refused: {words} after 0.500 s" in render(
            replace(TURN, tools=(refused,))
        )


def test_a_turn_that_still_runs_is_shown_as_far_as_it_is():
    running = replace(
        TURN,
        state="running",
        ending=None,
        taken_at=None,
        ended_at=None,
        account={},
        calls=(replace(CALL, ended_at=None, outcome=None),),
        tools=(replace(TOOL, ended_at=None), replace(TOOL, began_at=None, outcome=None)),
        parts=(PartStep("sending", NOON + 3, None, None), PartStep("done", NOON + 3, None, None)),
        thinking=False,
        thinking_why="",
    )
    text = "\n".join(render(running))
    assert text.startswith("Turn 12 in chat 5, of Ann (5): running\nThinking: off, for: unknown")
    assert "call 1: has not ended" in text
    assert "tool clock: unknown" in text
    assert "message 1 is stored; its delivery: sending" in text
    assert "the turn ends" not in text
    assert text.endswith("Where the seconds went: unknown, for the turn has no account (yet).")


def test_the_endpoint_is_shown_where_there_are_two():
    second = replace(TURN, endpoint="fallback", endpoint_why="the first is down")
    assert render(second)[2] == "Endpoint: the second, for: the first is down"
    assert render(replace(second, endpoint="main"))[2] == "Endpoint: the first, for: the first is down"


def test_texts_stand_where_they_were_read_and_do_no_harm():
    open_turn = replace(
        TURN,
        tools=(replace(TOOL, arguments='{"a": 1}', result="noon\x1b[2J"),),
        said=(TurnMessage("user", "two\nlines\x1b]0;x\x07", NOON),),
    )
    text = render(open_turn)
    assert '     5.500  tool clock begins {"a": 1}' in text
    assert "     6.000  tool clock: ok after 0.500 s: noon\\x1b[2J" in text
    assert text[-4:] == ["", "user:", "    two", "    lines\\x1b]0;x\\x07"]


def test_json_holds_the_same():
    read = json.loads(render_json(TURN))
    assert (read["id"], read["calls"][0]["completion_tokens"], read["account"]["whole"]) == (12, 300, 9.0)
    assert render_json(replace(TURN, thinking_why="größer\x1b")).isascii()

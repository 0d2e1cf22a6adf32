"""What the page shows of a turn are the gateway's own spans, its stored tools, and the times without it."""

from dataclasses import replace
from typing import Any

from bot.canvases import CANVASES, TOKENS
from bot.db.usage.turn_steps import PartStep, ToolStep, TurnSteps
from bot.demo.gateway_process import Outage
from bot.demo.turn_progress import build_progress, describe_gateway

TURN = TurnSteps(
    *(1, "1001", 1001, "running", None, False, "", "main", None),
    received_at=100.0,
    taken_at=100.1,
    began_at=100.1,
    ended_at=None,
    account={},
    calls=(),
    tools=(),
    parts=(),
    said=(),
)
SPANS = [
    ("own", 100.1, 100.2),
    ("first canvas", 100.2, 101.0),
    ("further canvases", 101.0, 102.0),
    ("tools", 102.0, 102.5),
]


def report(spans: list[tuple[str, float, float]], block_times: tuple[float, ...] = ()) -> dict[str, Any]:
    return {"item": 5, "chat": 1001, "received_at": 100.0, "spans": spans, "block_times": block_times}


def list_steps(progress: dict[str, Any]) -> list[tuple[str, float, float]]:
    return [(name, round(begin, 3), round(end, 3)) for name, _, begin, end in progress["steps"]]


def test_a_running_turn_is_cut_where_text_came_and_names_its_tools():
    tool = ToolStep(1, "search_web", None, 102.0, None, None, None)
    turn = replace(TURN, tools=(tool, replace(tool, step=0, began_at=90.0, ended_at=91.0)))
    shown_late = 101.1
    spans = [*SPANS[:1], ("seat wait", 100.2, 100.2005), ("own", 100.2005, 100.201), *SPANS[1:]]
    progress = build_progress(report(spans, (shown_late, 101.6)), turn, [], now=110.0, unit=CANVASES)
    assert list_steps(progress) == [
        ("stored", 0.0, 0.1),
        ("the gateway", 0.1, 0.2),
        ("canvas 1", 0.2, 1.0),
        ("canvas 2", 1.0, 1.6),
        ("canvas 3", 1.6, 2.0),
        ("search_web", 2.0, 2.5),
    ]
    assert (progress["whole"], progress["is_over"]) == (2.5, False)


def test_where_the_model_writes_token_by_token_text_is_not_cut():
    progress = build_progress(report(SPANS, (101.1, 101.2)), None, [], now=110.0, unit=TOKENS)
    names = [name for name, _, _ in list_steps(progress)]
    assert names == ["stored", "the gateway", "first text", "further text", "tools"]


def test_of_a_turn_that_was_just_taken_there_is_nothing_to_show():
    assert build_progress(report([]), None, [], now=100.0, unit=CANVASES) == {
        "is_over": False,
        "whole": 0.0,
        "steps": [],
    }


def test_canvases_of_which_no_text_came_are_not_counted():
    names = [
        name for name, _, _ in list_steps(build_progress(report(SPANS), None, [], now=110.0, unit=CANVASES))
    ]
    assert names == ["stored", "the gateway", "canvas 1", "further text", "tools"]


def test_while_it_is_down_that_grows_and_ends_where_the_next_process_begins():
    outage = Outage(102.8)
    progress = build_progress(report(SPANS, (101.0,)), TURN, [outage], now=104.0, unit=CANVASES)
    assert list_steps(progress)[-1] == ("down", 2.5, 4.0)
    later = [*SPANS[:2], ("own", 104.5, 104.6)]
    progress = build_progress(report(later, (101.0,)), TURN, [outage], now=105.0, unit=CANVASES)
    assert list_steps(progress)[-2:] == [("down", 1.0, 4.5), ("the gateway", 4.5, 4.6)]


def test_a_turn_that_is_over_takes_what_its_account_says():
    turn = replace(TURN, ended_at=102.6, account={"whole": 3.6})
    outages = [Outage(99.2, 0.5), Outage(200.0, 1.0)]
    progress = build_progress(report(SPANS), turn, outages, now=300.0, unit=CANVASES)
    assert list_steps(progress)[:2] == [("down", 0.2, 1.0), ("stored", 1.0, 1.1)]
    assert (round(progress["whole"], 3), progress["is_over"]) == (3.6, True)


def test_a_person_who_is_asked_is_a_step():
    tool = ToolStep(1, "schedule", None, None, None, None, None, asked_at=102.5, answered_at=103.5)
    spans = [*SPANS, ("own", 103.5, 103.6)]
    steps = list_steps(
        build_progress(report(spans), replace(TURN, tools=(tool,)), [], now=110.0, unit=CANVASES)
    )
    assert ("a person is asked", 2.5, 3.5) in steps


def test_the_words_say_what_became_of_the_gateway_and_of_the_answer():
    killed = Outage(102.0)
    back = replace(killed, seconds=1.94)
    done = replace(
        TURN, ended_at=105.0, account={"whole": 5.0}, parts=(PartStep("done", 103.0, 103.0, 105.0),)
    )
    unsure = replace(done, parts=(PartStep("unknown", 103.0, 103.0, 105.0),))
    earlier = replace(TURN, ended_at=101.0, account={"whole": 1.0})
    assert "process 47" in describe_gateway(47, [], None)
    for outage, turn, words in (
        (killed, TURN, "The demo starts it again"),
        (back, TURN, "It came back after 1.9 s, and the answer goes on."),
        (back, done, "It came back after 1.9 s; nothing was lost."),
        (back, unsure, "It cannot know whether a message arrived"),
        (back, earlier, "no answer was under way"),
    ):
        text = describe_gateway(47, [outage], turn)
        assert text.startswith("Killed at ")
        assert words in text

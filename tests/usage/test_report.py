"""Sums become a report: groups with names in a good order, all of them added up, percentiles where they are
known.
"""

from typing import Any

from bot.db.usage.usage_sums import AgainSums, Scope, ToolSums
from bot.usage.report import NO_TURN, By, Found, Question, Report, Spread, Tools, label, moment, report, today
from tests.support.report_sums import SECONDS, calls, turns


def made(by: By | None, **found: Any) -> Report:
    plain: dict[str, Any] = {"calls": (), "again": (), "turns": (), "tools": ()}
    return report(Question(Scope(), by), Found(**(plain | found)))


def test_nothing_found_is_an_empty_report():
    assert made(None).is_empty
    assert not made(None, calls=[calls()]).is_empty
    assert not made(None, turns=[turns()]).is_empty
    assert not made(None, tools=[ToolSums(None, "ok", 1, 1, 0.5)]).is_empty


def test_without_groups_there_is_the_whole_alone():
    found = made(None, calls=[calls()], turns=[turns()])
    assert found.entries == ()
    assert found.shown == (found.whole,)
    assert found.whole.label == "all"


def test_the_whole_is_all_groups_added_up():
    found = made("user", calls=[calls(5), calls(6, calls=3), calls(None)], turns=[turns(5), turns(6)])
    assert found.whole.calls == calls(
        None,
        **{name: 3 * value for name, value in PLAIN_BUT_CALLS.items()},
        calls=7,
    )
    assert found.whole.turns is not None
    assert found.whole.turns.turns == 4
    assert found.whole.turns.seconds == tuple(2 * value for value in SECONDS)


PLAIN_BUT_CALLS = {name: getattr(calls(), name) for name in calls().__slots__ if name not in {"key", "calls"}}


class Lane(str):
    """A key that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Lane.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_of_many_groups_none_is_looked_for_among_all_others():
    keys = [Lane(number) for number in range(400)]
    some = {"calls": [calls(key) for key in keys], "turns": [turns(key) for key in keys]}
    some |= {
        "tools": [ToolSums(key, "ok", 1, 1, 0.5) for key in keys],
        "again": [AgainSums(keys[-1], "empty", 2)],
    }
    found = made("chat", **some)
    assert Lane.compared < 20 * len(keys)
    assert len(found.entries) == len(keys)
    assert sum(one.again.get("empty", 0) for one in found.entries) == 2


def test_days_stand_in_order_and_all_else_by_canvases():
    days = made("day", calls=[calls(20_001), calls(None), calls(20_000)])
    assert [one.label for one in days.entries] == ["2024-10-04", "2024-10-05", NO_TURN]
    users = made("user", calls=[calls(5), calls(6, canvases=9), calls(None, canvases=0)])
    assert [one.label for one in users.entries] == ["6", "5", NO_TURN]


def test_each_group_has_what_is_its_own():
    found = made(
        "user",
        calls=[calls(5), calls(6)],
        turns=[turns(5)],
        tools=[ToolSums(5, "ok", 3, 3, 1.5), ToolSums(5, "error", 1, 1, 0.5), ToolSums(6, None, 1, 0, 0.0)],
        again=[AgainSums(5, "empty", 2), AgainSums(6, "brake", 1), AgainSums(6, "silent", 1)],
        durations={(5, "whole"): [3.0, 1.0], (6, "whole"): []},
    )
    five, six = found.entries
    assert five.tools == Tools(4, {"ok": 3, "error": 1}, 4, 2.0)
    assert five.tools.failed == 1
    assert six.tools is not None
    assert six.tools.failed == 0
    assert (five.again, six.again) == ({"empty": 2}, {"brake": 1, "silent": 1})
    assert (five.empty, six.empty) == (2, 1)
    assert five.spreads == {"whole": Spread(2, 1.0, 3.0, 3.0)}
    assert (six.turns, six.spreads) == (None, {})
    assert found.whole.again == {"empty": 2, "brake": 1, "silent": 1}


def test_a_turn_that_ended_empty_counts_as_an_empty_reply():
    found = made(None, calls=[calls()], turns=[turns(empty=2)], again=[AgainSums(None, "empty", 1)])
    assert found.whole.empty == 3
    assert made("tool", tools=[ToolSums("clock", "ok", 1, 1, 0.5)]).entries[0].empty is None


def test_models_and_purposes_do_not_tell_turns_apart():
    found = made("model", calls=[calls("a")], turns=[turns()], tools=[ToolSums(None, "ok", 1, 1, 0.5)])
    (entry,) = found.entries
    assert (entry.label, entry.turns, entry.tools) == ("a", None, None)
    assert found.whole.turns == turns()


def test_tools_are_told_apart_by_name_with_the_most_called_first():
    found = made(
        "tool", calls=[calls()], tools=[ToolSums("a", "ok", 1, 1, 0.1), ToolSums("b", "ok", 2, 2, 0.1)]
    )
    assert [one.label for one in found.entries] == ["b", "a"]
    assert all(one.calls is None for one in found.entries)
    assert found.whole.calls == calls()


def test_percentiles_come_from_counts_as_well():
    found = made(None, turns=[turns()], whole_durations={(None, "own"): {0: 1, 100: 3}}, method="buckets")
    spread = found.whole.spreads["own"]
    assert spread.count == 4
    assert 0.13 < spread.p50 < 0.14
    assert spread.p50 == spread.p99


def test_names_of_groups_and_moments():
    assert label(None, None) == "all"
    assert label("chat", "5:7") == "5:7"
    assert moment(1_728_043_200.9) == "2024-10-04 12:00:00"
    assert today(1_728_043_200.9) == 1_728_000_000

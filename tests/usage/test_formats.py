"""Reports written out: what is unknown says so in each format, and no text does harm where it is opened."""

import csv
import io
import json
from typing import Any

from bot.db.usage.usage_sums import AgainSums, Scope, ServerSums, ToolSums
from bot.usage.formats import as_csv, as_json, as_markdown, as_table
from bot.usage.json_records import records, whole
from bot.usage.report import By, Found, Question, Report, report
from bot.usage.tables import Section
from tests.support.report_sums import UNKNOWN, calls, turns

EVIL = '=HYPERLINK("http://x")\x1b[31m|<b>'
SECTION = Section("Tokens", ("model", "calls"), ((EVIL, "2"), ("b", "10")))


def made(by: By | None, **found: Any) -> Report:
    plain: dict[str, Any] = {"calls": (), "again": (), "turns": (), "tools": ()}
    return report(Question(Scope(), by), Found(**(plain | found)))


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_table_lines_up_and_obeys_nothing():
    text = as_table([SECTION], ["a note\x1b[2J"])
    assert text.splitlines() == [
        "Tokens",
        "model                               calls",
        '=HYPERLINK("http://x")\\x1b[31m|<b>      2',
        "b                                      10",
        "",
        "a note\\x1b[2J",
    ]


def test_a_table_takes_no_text_for_markup():
    assert "[bold]x[/bold] :smile:" in as_table([Section("t", ("a",), (("[bold]x[/bold] :smile:",),))], [])


def test_markdown_is_a_table_whose_cells_mean_themselves():
    lines = as_markdown([SECTION], ["a *note*"]).splitlines()
    assert lines[:4] == ["### Tokens", "", "| model | calls |", "| --- | ---: |"]
    assert lines[4] == '| =HYPERLINK("http://x")\\\\x1b\\[31m\\|\\<b\\> | 2 |'
    assert lines[-1] == "- a \\*note\\*"


def test_csv_has_numbers_unknown_in_words_and_no_formula():
    text = as_csv(
        [{"model": EVIL, "calls": 2, "share": 0.5}, {"model": "-1", "calls": None, "again_empty": -3}]
    )
    first, second = read(text)
    assert first == {
        "model": '\'=HYPERLINK("http://x")\\x1b[31m|<b>',
        "calls": "2",
        "share": "0.5",
        "again_empty": "",
    }
    assert second == {"model": "'-1", "calls": "unknown", "share": "", "again_empty": "-3"}


def test_json_is_plain_ascii():
    assert as_json({"model": "\x1b\x9b größer"}).isascii()
    assert "\x1b" not in as_json({"model": "\x1b"})


def test_a_record_tells_everything_of_a_group():
    found = made(
        "user",
        calls=[calls(5)],
        turns=[turns(5)],
        tools=[ToolSums(5, "ok", 2, 2, 1.0), ToolSums(5, "error", 1, 1, 0.5), ToolSums(5, None, 1, 0, 0.0)],
        again=[AgainSums(5, "empty", 1)],
        durations={(5, "whole"): [1.0, 3.0]},
    )
    (record,) = records(found)
    assert record["user"] == "5"
    assert (record["input_tokens"], record["input_tokens_unknown_calls"], record["cached_share"]) == (
        2000,
        0,
        0.25,
    )
    assert (record["canvases_estimated"], record["thinking_turns"], record["whole_seconds"]) == (4, 1, 10.0)
    assert (record["tool_calls"], record["tool_failures"], record["tool_not_ended"]) == (4, 1, 1)
    assert (record["empty_replies"], record["again_empty"], record["whole_p50_seconds"]) == (1, 1, 1.0)


def test_what_is_unknown_is_none_in_a_record_and_counted():
    (record,) = records(made("model", calls=[calls("m", **UNKNOWN)]))
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "canvases_estimated"):
        assert record[name] is None
    assert (record["input_tokens_unknown_calls"], record["canvases_unknown_calls"]) == (2, 2)
    assert (record["cached_share"], record["reasoning_share"]) == (None, None)
    assert "turns" not in record
    (record,) = records(made(None, turns=[turns(settled=0, thinking_settled=0)]))
    assert (record["whole_seconds"], record["thinking_turns_seconds"]) == (None, None)
    assert record["turns_without_account"] == 2


def test_json_of_a_report_holds_the_question_the_groups_and_the_whole():
    found = made("day", calls=[calls(20_000), calls(20_001)], server=ServerSums(1, 49, 256, 0))
    told = json.loads(as_json(whole(found)))
    assert (told["by"], told["since"], told["percentiles"]) == ("day", None, "exact")
    assert [one["day"] for one in told["groups"]] == ["2024-10-04", "2024-10-05"]
    assert told["all"]["calls"] == 4
    assert told["server"]["steps"] == 49
    assert told["notes"][0].startswith("From the beginning to now (UTC).")
    assert whole(made(None, calls=[calls()]))["server"] is None
    assert (
        whole(report(Question(Scope(since=1_728_000_000.0, until=1_728_000_001.0)), Found((), (), (), ())))[
            "until"
        ]
        == "2024-10-04 00:00:01"
    )

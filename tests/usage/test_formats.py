"""Reports in every format: what is unknown says so, and no text does harm where it is opened."""

import csv
import io
import json
from typing import Any, get_args

from bot.db.tools.approvals import ApprovalAnswer
from bot.db.usage.usage_sums import ApprovalSums, RetrySums, Scope, ServerSums, ToolSums
from bot.db.usage.verdict_sums import VerdictSums
from bot.domain import RefusalReason, ResultOutcome
from bot.tables import TextTable
from bot.usage.formats import render_csv, render_json
from bot.usage.json_records import RETRY_REASONS, build_records, build_report_object, list_record_fields
from bot.usage.plain_text import escape_lines
from bot.usage.report import INTERVAL_COLUMNS, Grouping, ReportQuery, ReportSums, UsageReport, build_report
from tests.support.report_sums import UNKNOWN_SUMS, call_sums, turn_sums
from tests.support.terminal_text import lay_out

EVIL = '=HYPERLINK("http://x")\x1b[31m|<b>'
SECTION = TextTable("Tokens", ("model", "calls"), ((EVIL, "2"), ("b", "10")))


def make_report(by: Grouping | None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(Scope(), by), ReportSums(**(plain | sums)))


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_table_lines_up_and_obeys_nothing():
    text = lay_out(escape_lines([SECTION, "", "a note\x1b[2J"]))
    assert text.splitlines() == [
        "Tokens",
        "model                               calls",
        '=HYPERLINK("http://x")\\x1b[31m|<b>      2',
        "b                                      10",
        "",
        "a note\\x1b[2J",
    ]


def test_a_table_takes_no_text_for_markup():
    assert "[bold]x[/bold] :smile:" in lay_out([TextTable("t", ("a",), (("[bold]x[/bold] :smile:",),))])


def test_csv_has_numbers_unknown_in_words_and_no_formula():
    text = render_csv(
        [{"model": EVIL, "calls": 2, "share": 0.5}, {"model": "-1", "calls": None, "again_empty": -3}]
    )
    first, second = read_csv(text)
    assert first == {
        "model": '\'=HYPERLINK("http://x")\\x1b[31m|<b>',
        "calls": "2",
        "share": "0.5",
        "again_empty": "",
    }
    assert second == {"model": "'-1", "calls": "unknown", "share": "", "again_empty": "-3"}


def test_json_is_plain_ascii():
    assert render_json({"model": "\x1b\x9b größer"}).isascii()
    assert "\x1b" not in render_json({"model": "\x1b"})


def test_a_record_tells_everything_of_a_group():
    report = make_report(
        "user",
        calls=[call_sums(5)],
        turns=[turn_sums(5)],
        tools=[ToolSums(5, "ok", 2, 2, 1.0), ToolSums(5, "error", 1, 1, 0.5), ToolSums(5, None, 1, 0, 0.0)],
        retries=[RetrySums(5, "empty", 1)],
        durations={(5, "whole"): [1.0, 3.0]},
    )
    (record,) = build_records(report)
    assert record["user"] == "5"
    assert (record["input_tokens"], record["input_tokens_unknown_calls"], record["cached_share"]) == (
        2000,
        0,
        0.25,
    )
    assert (record["canvases_estimated"], record["thinking_turns"], record["whole_seconds"]) == (4, 1, 10.0)
    assert (record["tool_calls"], record["tool_failures"], record["tool_not_ended"]) == (4, 1, 1)
    assert (record["empty_replies"], record["again_empty"], record["whole_p50_seconds"]) == (1, 1, 1.0)


def test_the_fields_of_records_do_not_depend_on_what_happened():
    quiet = make_report("user", calls=[call_sums(5)], turns=[turn_sums(5)])
    busy = make_report(
        "user",
        calls=[call_sums(5)],
        turns=[turn_sums(5)],
        tools=[ToolSums(5, outcome, 1, 1, 1.0) for outcome in (*get_args(ResultOutcome), None)]
        + [ToolSums(5, "refused", 1, 1, 0.0, reason) for reason in get_args(RefusalReason)],
        retries=[RetrySums(5, reason, 1) for reason in RETRY_REASONS],
        durations={(5, interval): [1.0] for interval in INTERVAL_COLUMNS},
        approvals=[ApprovalSums(5, answer, 1, 1.0) for answer in (*get_args(ApprovalAnswer), None)],
        verdicts=[VerdictSums(5, 1, 0)],
    )
    names = list_record_fields("user")
    (full_record,) = build_records(busy)
    assert list(full_record) == names
    for report in (quiet, busy):
        header = render_csv(build_records(report), list_record_fields("user")).splitlines()[0]
        assert header == ",".join(names)


def test_what_is_unknown_is_none_in_a_record_and_counted():
    (record,) = build_records(make_report("model", calls=[call_sums("m", **UNKNOWN_SUMS)]))
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "canvases_estimated"):
        assert record[name] is None
    assert (record["input_tokens_unknown_calls"], record["canvases_unknown_calls"]) == (2, 2)
    assert (record["cached_share"], record["reasoning_share"]) == (None, None)
    assert "turns" not in record
    (record,) = build_records(make_report(None, turns=[turn_sums(settled=0, thinking_settled=0)]))
    assert (record["whole_seconds"], record["thinking_turns_seconds"]) == (None, None)
    assert record["turns_without_account"] == 2


def test_json_of_a_report_holds_the_question_the_groups_and_the_whole():
    report = make_report(
        "day", calls=[call_sums(20_000), call_sums(20_001)], server=ServerSums(1, 49, 256, 0)
    )
    content = json.loads(render_json(build_report_object(report)))
    assert (content["by"], content["since"], content["percentiles"]) == ("day", None, "exact")
    assert [group["day"] for group in content["groups"]] == ["2024-10-04", "2024-10-05"]
    assert content["all"]["calls"] == 4
    assert content["server"]["steps"] == 49
    assert content["notes"][0].startswith("From the beginning to now (UTC).")
    assert build_report_object(make_report(None, calls=[call_sums()]))["server"] is None
    assert (
        build_report_object(
            build_report(
                ReportQuery(Scope(since=1_728_000_000.0, until=1_728_000_001.0)), ReportSums((), (), (), ())
            )
        )["until"]
        == "2024-10-04 00:00:01"
    )

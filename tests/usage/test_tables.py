"""A report in tables: unknown is called so, sums with gaps are "at least", and no rate is shown."""

from typing import Any

from bot.db.usage.usage_sums import ApprovalSums, RetrySums, Scope, ServerSums, ToolSums
from bot.tables import TextTable
from bot.usage.figures import format_at_least, format_seconds, format_share
from bot.usage.json_records import build_record
from bot.usage.report import Grouping, ReportQuery, ReportSums, UsageReport, build_report
from bot.usage.tables import build_notes, build_sections
from tests.support.report_sums import UNKNOWN_SUMS, call_sums, turn_sums


def make_sections(by: Grouping | None = None, **sums: Any) -> dict[str, TextTable]:
    return {section.title: section for section in build_sections(make_report(by, **sums))}


def make_report(by: Grouping | None = None, scope: Scope | None = None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(scope or Scope(), by), ReportSums(**(plain | sums)))


def test_tokens_and_canvases():
    section = make_sections(calls=[call_sums()], turns=[turn_sums()])["Tokens"]
    assert section.columns[1:] == (
        *("turns", "calls", "input", "cached", "output", "reasoning", "canvases est."),
        *("s a canvas", "over calls"),
    )
    assert section.rows == (("all", "2", "2", "2,000", "25.0 %", "600", "10.0 %", "4", "1.50", "2"),)


def test_what_no_call_reported_is_unknown():
    section = make_sections(calls=[call_sums(**UNKNOWN_SUMS)])["Tokens"]
    unknown = "unknown"
    assert section.rows == (("all", "–", "2", *[unknown] * 6, "0"),)


def test_what_some_calls_did_not_tell_is_at_least():
    gaps = call_sums(
        input_known=1,
        output_known=1,
        canvases_known=1,
        reasoning_of=0,
        cached_of=0,
        timed=1,
        timed_canvases=3,
        timed_seconds=3.6,
    )
    record = build_record(make_report(calls=[gaps]).total, "group")
    assert (record["seconds_per_canvas"], record["seconds_per_canvas_calls"]) == (1.2, 1)
    (row,) = make_sections(calls=[gaps])["Tokens"].rows
    assert row == ("all", "–", "2", "≥ 2,000", "unknown", "≥ 600", "unknown", "≥ 4", "1.20", "1")
    (row,) = make_sections(calls=[call_sums(partial=1)])["Tokens"].rows
    assert (row[3], row[5], row[7]) == ("2,000", "≥ 600", "≥ 4")


def test_calls_that_cost_no_canvas_have_no_seconds_a_canvas():
    (row,) = make_sections(
        calls=[call_sums(canvases=0, canvases_known=0, costing=0, timed=0, timed_canvases=0)]
    )["Tokens"].rows
    assert row[-3:] == ("0", "–", "0")


def test_a_group_without_calls_or_turns_says_so():
    rows = make_sections("user", calls=[call_sums(5)], turns=[turn_sums(6)])["Tokens"].rows
    assert rows[0][:3] == ("5", "–", "2")
    assert rows[1] == ("6", "2", "0", *["–"] * 7)


def test_retries_cut_and_failed_calls_are_counted():
    again = [RetrySums(None, "empty", 2), RetrySums(None, "brake", 1)]
    section = make_sections(calls=[call_sums(cut=1, failed=3)], turns=[turn_sums()], retries=again)[
        "Retries, cut and failed calls"
    ]
    assert section.rows == (("all", "1", "3", "6.000", "2", "1", "0", "3", "brake 1, empty 2"),)
    no_calls = dict.fromkeys(("thinking_calls", "thinking_calls_known", "thinking_canvases"), 0)
    bare = make_sections("user", turns=[turn_sums(5, thinking=0, thinking_settled=0, **no_calls)])[
        "Retries, cut and failed calls"
    ]
    assert bare.rows == (("5", "0", "0", "0", "–", "–", "–", "–", "0"),)


def test_the_empty_replies_of_groups_add_up_to_those_of_all():
    calls = [call_sums("a"), call_sums("b")]
    again = [RetrySums("a", "empty", 2), RetrySums("b", "silent", 1)]
    for by in ("model", "purpose"):
        report = make_report(by, calls=calls, turns=[turn_sums(empty=3)], retries=again)
        assert report.total.empty_replies == 6
        section = next(item for item in build_sections(report) if item.title.startswith("Retries"))
        assert [row[4] for row in section.rows] == ["–", "–"]
        assert "empty_replies" not in build_record(report.groups[0], by)
    turns = [turn_sums(5, empty=3), turn_sums(6)]
    calls = [call_sums(5), call_sums(6), call_sums(None)]
    again = [RetrySums(5, "empty", 2), RetrySums(None, "empty", 1)]
    report = make_report("user", calls=calls, turns=turns, retries=again)
    assert report.total.empty_replies == 6
    assert sum(group.empty_replies or 0 for group in report.groups) == 6


def test_what_thinking_cost_is_unknown_without_a_breakdown():
    unsettled = turn_sums(thinking=2, thinking_settled=0, thinking_calls_partial=1)
    (row,) = make_sections(calls=[call_sums()], turns=[unsettled])["Retries, cut and failed calls"].rows
    assert row[1:4] == ("2", "≥ 3", "unknown")
    unknown = turn_sums(thinking_calls_known=0, thinking_canvases=0)
    (row,) = make_sections(calls=[call_sums()], turns=[unknown])["Retries, cut and failed calls"].rows
    assert row[2] == "unknown"
    record = build_record(make_report(turns=[unknown]).total, "group")
    assert record["thinking_turns_canvases_estimated"] is None
    assert record["thinking_turns_canvases_unknown_calls"] == 2
    (row,) = make_sections(calls=[call_sums()], turns=[turn_sums(thinking=2)])[
        "Retries, cut and failed calls"
    ].rows
    assert row[3] == "≥ 6.000"


def test_seconds_by_interval_with_percentiles_of_the_turns_that_had_it():
    sections = make_sections(turns=[turn_sums()], total_durations={(None, "telegram"): [0.5, 1.0]})
    rows = {row[0]: row[1:] for row in sections["Seconds by interval"].rows}
    assert rows["whole"] == ("10.000", "100.0 %", "–", "–", "–", "–")
    assert rows["Telegram"] == ("1.500", "15.0 %", "2", "0.500", "1.000", "1.000")
    assert len(rows) == 16
    assert "Seconds by interval" not in make_sections(turns=[turn_sums(settled=0)])


def test_a_breakdown_of_zero_seconds_has_no_shares():
    sections = make_sections(turns=[turn_sums(seconds=(0.0,) * 16)])
    assert sections["Seconds by interval"].rows[0][2] == "–"


def test_groups_have_their_seconds_beside_each_other():
    sections = make_sections("day", turns=[turn_sums(20_000)], durations={(20_000, "whole"): [4.0]})
    assert sections["Seconds by interval"].rows[0][:3] == ("2024-10-04", "10.000", "0.500")
    assert sections["Seconds a turn"].rows == (("2024-10-04", "1", "4.000", "4.000", "4.000"),)
    assert sections["Seconds of all turns by interval"].rows[0][0] == "whole"
    assert "Seconds a turn" not in make_sections("day", turns=[turn_sums(20_000)])


def test_tools_with_how_they_ended():
    tools = [
        ToolSums("clock", "ok", 2, 2, 1.0),
        ToolSums("clock", "timeout", 1, 1, 9.0),
        ToolSums("clock", "refused", 2, 2, 0.0, "arguments"),
        ToolSums("clock", "refused", 1, 1, 0.0, None),
        ToolSums("b", None, 1, 0, 0.0),
    ]
    how = "refused 3 (bad arguments 2, reason unknown 1), timeout 1"
    sections = make_sections("tool", tools=tools, durations={("clock", "tools"): [0.5, 0.5, 9.0]})
    assert sections["Tools"].rows == (
        ("clock", "6", "4", how, "10.000", "0.500", "9.000", "9.000"),
        ("b", "1", "0", "not ended 1", "≥ 0.000", "–", "–", "–"),
    )
    assert "Tokens" not in sections
    assert make_sections(tools=tools)["Tools"].rows == (("all", "7", "4", f"not ended 1, {how}", "≥ 10.000"),)
    assert "Tools" not in make_sections(calls=[call_sums()])


def test_calls_that_needed_an_approval_are_counted_by_answer():
    approvals = [
        ApprovalSums("clock", "once", 2, 10.0),
        ApprovalSums("clock", "denied", 1, 5.5),
        ApprovalSums("clock", None, 1, 0.0),
    ]
    tools = [ToolSums("clock", "ok", 2, 2, 1.0), ToolSums("b", "ok", 1, 1, 1.0)]
    sections = make_sections("tool", tools=tools, approvals=approvals)["Tool calls that asked a person first"]
    assert sections.columns == (
        "tool",
        "asked",
        "allowed or answered",
        "denied",
        "not answered",
        "stopped",
        "open",
        "waited s",
    )
    assert sections.rows == (("clock", "4", "2", "1", "0", "0", "1", "15.500"),)
    record = build_record(make_report(tools=tools, approvals=approvals).total, "group")
    assert (record["tool_calls_asked"], record["tool_answer_open"], record["tool_wait_seconds"]) == (
        4,
        1,
        15.5,
    )
    assert "Tool calls that asked a person first" not in make_sections("tool", tools=tools)


def test_no_table_shows_a_rate():
    report = make_report("day", calls=[call_sums(20_000)], turns=[turn_sums(20_000)])
    texts = " ".join(
        [*(word for section in build_sections(report) for word in section.columns), *build_notes(report)]
    )
    assert "tok/s" not in texts
    assert "per second" not in texts


def test_notes_say_what_is_asked_and_what_is_not_known():
    scope = Scope(since=1_728_000_000.0, until=1_728_086_400.0, user=5, model="m")
    notes = list(
        build_notes(
            make_report(
                scope=scope, calls=[call_sums(cached_known=1, partial=1)], turns=[turn_sums(settled=1)]
            )
        )
    )
    assert notes[0].startswith("From 2024-10-04 00:00:00 to 2024-10-05 00:00:00 (UTC), user 5, model m.")
    assert "Unknown, for the server did not tell: cached of 1 of 2 calls; sums leave them out." in notes
    assert "Of 1 call only a count from before the end is known; the sums are at least that." in notes
    assert "1 of 2 turns have no account: their seconds are unknown, in no sum." in notes
    assert "Seconds, tools and thinking turns are those of the turns in which such calls were made." in notes
    assert notes[-1] == "Percentiles are exact, over the turns in which the interval occurred."


def test_notes_say_what_percentiles_are_of():
    assert any(
        "a random sample of about 5,000 of these turns" in note
        for note in build_notes(make_report(turns=[turn_sums()], percentile_method="sample"))
    )
    assert any(
        "Percentiles are not shown" in note
        for note in build_notes(make_report(turns=[turn_sums()], percentile_method=None))
    )


def test_the_servers_own_counters_stand_beside_ours():
    notes = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(3, 98, 512, -7))))
    assert "The server itself counted 2 canvases, 48.0 denoising steps each, whoever asked." in notes
    assert any("It counted -7 tokens more than we did; below zero is fewer." in note for note in notes)
    notes = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(3, None, None, None))))
    assert notes[-1] == "The server's own step counters are unknown."
    notes = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(0, None, None, None))))
    assert "server" not in notes[-1]


def test_numbers_are_written_so_that_they_mean_what_is_known():
    assert format_at_least(0, 0, 0) == "0"
    assert format_at_least(5, 1, 1) == "5"
    assert format_at_least(5, 1, 2) == "≥ 5"
    assert format_at_least(0, 0, 2) == "unknown"
    assert format_at_least(1234, 2, 2, partial=1) == "≥ 1,234"
    assert (format_share(1, 3), format_share(0, 0)) == ("33.3 %", "unknown")
    assert (format_seconds(0.0123), format_seconds(123.45), format_seconds(12345.6)) == (
        "0.012",
        "123.5",
        "12,346",
    )

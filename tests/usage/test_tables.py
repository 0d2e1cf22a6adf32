"""A report in tables: unknown is called so, sums with gaps are "at least", and no rate stands anywhere."""

from typing import Any

from bot.db.usage.usage_sums import ApprovalSums, RetrySums, Scope, ServerSums, ToolSums
from bot.usage.json_records import build_record
from bot.usage.report import Grouping, ReportQuery, ReportSums, UsageReport, build_report
from bot.usage.tables import (
    ReportSection,
    build_notes,
    build_sections,
    format_at_least,
    format_seconds,
    format_share,
)
from tests.support.report_sums import UNKNOWN_SUMS, call_sums, turn_sums


def make_sections(by: Grouping | None = None, **sums: Any) -> dict[str, ReportSection]:
    return {one.title: one for one in build_sections(make_report(by, **sums))}


def make_report(by: Grouping | None = None, scope: Scope | None = None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "again": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(scope or Scope(), by), ReportSums(**(plain | sums)))


def test_tokens_and_canvases():
    section = make_sections(calls=[call_sums()], turns=[turn_sums()])["Tokens and canvases"]
    assert section.columns[1:] == (
        *("turns", "calls", "input", "cached", "output", "reasoning", "canvases est.", "s a canvas"),
    )
    assert section.rows == (("all", "2", "2", "2,000", "25.0 %", "600", "10.0 %", "4", "1.50"),)


def test_what_no_call_told_is_unknown():
    section = make_sections(calls=[call_sums(**UNKNOWN_SUMS)])["Tokens and canvases"]
    unknown = "unknown"
    assert section.rows == (("all", "–", "2", unknown, unknown, unknown, unknown, unknown, unknown),)


def test_what_some_calls_did_not_tell_is_at_least():
    gaps = call_sums(input_known=1, output_known=1, canvases_known=1, reasoning_of=0, cached_of=0)
    (line,) = make_sections(calls=[gaps])["Tokens and canvases"].rows
    assert line == ("all", "–", "2", "≥ 2,000", "unknown", "≥ 600", "unknown", "≥ 4", "unknown")
    (line,) = make_sections(calls=[call_sums(partial=1)])["Tokens and canvases"].rows
    assert (line[3], line[5], line[7]) == ("2,000", "≥ 600", "≥ 4")


def test_calls_that_cost_no_canvas_have_no_seconds_a_canvas():
    (line,) = make_sections(calls=[call_sums(canvases=0, canvases_known=0, costing=0)])[
        "Tokens and canvases"
    ].rows
    assert line[-2:] == ("0", "–")


def test_a_group_without_calls_or_turns_says_so():
    lines = make_sections("user", calls=[call_sums(5)], turns=[turn_sums(6)])["Tokens and canvases"].rows
    assert lines[0][:3] == ("5", "–", "2")
    assert lines[1] == ("6", "2", "0", *["–"] * 6)


def test_what_went_otherwise():
    again = [RetrySums(None, "empty", 2), RetrySums(None, "brake", 1)]
    section = make_sections(calls=[call_sums(cut=1, failed=3)], turns=[turn_sums()], again=again)[
        "What went otherwise"
    ]
    assert section.rows == (("all", "1", "2", "6.000", "2", "1", "0", "3", "brake 1, empty 2"),)
    bare = make_sections("user", turns=[turn_sums(5, thinking=0, thinking_settled=0)])["What went otherwise"]
    assert bare.rows == (("5", "0", "–", "0", "–", "–", "–", "–", "0"),)


def test_what_thinking_cost_is_unknown_without_an_account():
    unsettled = turn_sums(thinking=2, thinking_settled=0)
    (line,) = make_sections(calls=[call_sums(partial=1)], turns=[unsettled])["What went otherwise"].rows
    assert line[1:4] == ("2", "≥ 2", "unknown")
    (line,) = make_sections(calls=[call_sums()], turns=[turn_sums(thinking=2)])["What went otherwise"].rows
    assert line[3] == "≥ 6.000"


def test_seconds_by_interval_with_percentiles_of_the_turns_that_had_it():
    found = make_sections(turns=[turn_sums()], whole_durations={(None, "telegram"): [0.5, 1.0]})
    lines = {line[0]: line[1:] for line in found["Seconds by interval"].rows}
    assert lines["whole"] == ("10.000", "100.0 %", "–", "–", "–", "–")
    assert lines["Telegram"] == ("1.500", "15.0 %", "2", "0.500", "1.000", "1.000")
    assert len(lines) == 12
    assert "Seconds by interval" not in make_sections(turns=[turn_sums(settled=0)])


def test_an_account_of_no_time_has_no_shares():
    found = make_sections(turns=[turn_sums(seconds=(0.0,) * 12)])
    assert found["Seconds by interval"].rows[0][2] == "–"


def test_groups_have_their_seconds_beside_each_other():
    found = make_sections("day", turns=[turn_sums(20_000)], durations={(20_000, "whole"): [4.0]})
    assert found["Seconds by interval"].rows[0][:3] == ("2024-10-04", "10.000", "0.500")
    assert found["Seconds a turn"].rows == (("2024-10-04", "1", "4.000", "4.000", "4.000"),)
    assert found["Seconds of all turns by interval"].rows[0][0] == "whole"
    assert "Seconds a turn" not in make_sections("day", turns=[turn_sums(20_000)])


def test_tools_with_how_they_ended():
    tools = [
        ToolSums("clock", "ok", 2, 2, 1.0),
        ToolSums("clock", "timeout", 1, 1, 9.0),
        ToolSums("b", None, 1, 0, 0.0),
    ]
    found = make_sections("tool", tools=tools, durations={("clock", "tools"): [0.5, 0.5, 9.0]})
    assert found["Tools"].rows == (
        ("clock", "3", "1", "timeout 1", "10.000", "0.500", "9.000", "9.000"),
        ("b", "1", "0", "not ended 1", "≥ 0.000", "–", "–", "–"),
    )
    assert "Tokens and canvases" not in found
    assert make_sections(tools=tools)["Tools"].rows == (
        ("all", "4", "1", "not ended 1, timeout 1", "≥ 10.000"),
    )
    assert "Tools" not in make_sections(calls=[call_sums()])


def test_calls_that_asked_a_person_are_told_by_their_answers():
    asked = [
        ApprovalSums("clock", "once", 2, 10.0),
        ApprovalSums("clock", "denied", 1, 5.5),
        ApprovalSums("clock", None, 1, 0.0),
    ]
    tools = [ToolSums("clock", "ok", 2, 2, 1.0), ToolSums("b", "ok", 1, 1, 1.0)]
    found = make_sections("tool", tools=tools, asked=asked)["Tool calls that asked a person first"]
    assert found.columns == (
        "tool",
        "asked",
        "allowed",
        "denied",
        "not answered",
        "stopped",
        "open",
        "waited s",
    )
    assert found.rows == (("clock", "4", "2", "1", "0", "0", "1", "15.500"),)
    whole = build_record(make_report(tools=tools, asked=asked).total, "group")
    assert (whole["tool_calls_asked"], whole["tool_answer_open"], whole["tool_wait_seconds"]) == (4, 1, 15.5)
    assert "Tool calls that asked a person first" not in make_sections("tool", tools=tools)


def test_no_table_shows_a_rate():
    found = make_report("day", calls=[call_sums(20_000)], turns=[turn_sums(20_000)])
    told = " ".join([*(word for one in build_sections(found) for word in one.columns), *build_notes(found)])
    assert "tok/s" not in told
    assert "per second" not in told


def test_notes_say_what_is_asked_and_what_is_not_known():
    scope = Scope(since=1_728_000_000.0, until=1_728_086_400.0, user=5, model="m")
    told = list(
        build_notes(
            make_report(
                scope=scope, calls=[call_sums(cached_known=1, partial=1)], turns=[turn_sums(settled=1)]
            )
        )
    )
    assert told[0].startswith(
        "From 2024-10-04 00:00:00 to 2024-10-05 00:00:00 (UTC), user 5, model m. Canvases are"
    )
    assert "Unknown, for the server did not tell: cached of 1 of 2 calls; sums leave them out." in told
    assert "1 calls were cut; they count with what the server had told by then." in told
    assert "1 of 2 turns have no account: their seconds are unknown, in no sum." in told
    assert "Seconds and tools are those of the turns in which this model was asked." in told
    assert told[-1] == "Percentiles are exact, over the turns in which the interval occurred."


def test_notes_state_the_error_of_percentiles():
    assert any(
        "within 2.5 % of the true ones" in note
        for note in build_notes(make_report(turns=[turn_sums()], method="buckets"))
    )
    assert any(
        "Percentiles are not shown" in note
        for note in build_notes(make_report(turns=[turn_sums()], method=None))
    )


def test_the_servers_own_counters_stand_beside_ours():
    told = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(3, 98, 512, -7))))
    assert "The server itself counted 2 canvases, 48.0 denoising steps each, whoever asked." in told
    assert "It counted -7 tokens more than we did; below zero is fewer." in told
    told = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(3, None, None, None))))
    assert told[-1] == "The server's own step counters are unknown."
    told = list(build_notes(make_report(calls=[call_sums()], server=ServerSums(0, None, None, None))))
    assert "server" not in told[-1]


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

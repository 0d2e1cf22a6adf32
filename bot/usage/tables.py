"""A report as tables for people: sections of rows of texts. Pure.

Unknown is called unknown, and a sum with gaps "at least". No rate is shown: there is none without the output
length it was measured at.
"""

from collections.abc import Iterator

from bot.db.usage.usage_sums import CallSums, Scope, TurnSums
from bot.db.usage.verdict_sums import VerdictSums
from bot.tables import CanvasColumnName, TextTable
from bot.usage.figures import (
    EMPTY_CELL,
    UNKNOWN,
    format_at_least,
    format_known_seconds,
    format_seconds,
    format_share,
    format_steps,
)
from bot.usage.intervals import INTERVAL_ORDER, column_name, name_interval
from bot.usage.local_times import format_local
from bot.usage.refusals import describe_refusals
from bot.usage.report import INTERVAL_COLUMNS, SAMPLED_TURNS, ApprovalCounts, ReportGroup, UsageReport

INTERVAL_NAMES = {"whole": "whole"} | {column_name(kind): name_interval(kind) for kind in INTERVAL_ORDER}
_TOKEN_COLUMNS = (
    *("turns", "calls", "input", "cached", "output", "reasoning"),
    *map(CanvasColumnName, ("canvases est.", "s a canvas", "over calls")),
)
_OUTCOME_COLUMNS = (
    *("thinking turns", CanvasColumnName("their canvases"), "their seconds"),
    *("empty", "cut", "stopped", "failed", "asked again"),
)
_TOOL_COLUMNS = ("calls", "failed", "how", "seconds")
_VERDICT_COLUMNS = ("answers judged", "good", "bad", "bad share")
_PERCENTILE_COLUMNS = ("p50", "p95", "p99")
_APPROVAL_COLUMNS = ("asked", "allowed or answered", "denied", "not answered", "stopped", "open", "waited s")
_APPROVAL_ANSWERS: tuple[tuple[str | None, ...], ...] = (
    ("once", "here", "given"),
    ("denied",),
    ("expired",),
    ("stopped",),
    (None,),
)


def build_sections(report: UsageReport) -> Iterator[TextTable]:
    """The tables of a report that is not empty."""
    label_column = report.query.by or ""
    groups = report.shown_groups
    if report.query.by != "tool":
        token_rows = tuple(_token_row(group) for group in groups)
        yield TextTable("Tokens", (label_column, *_TOKEN_COLUMNS), token_rows)
        outcome_rows = tuple(_outcome_row(group) for group in groups)
        yield TextTable("Retries, cut and failed calls", (label_column, *_OUTCOME_COLUMNS), outcome_rows)
    yield from _build_seconds_sections(report, label_column)
    yield from _build_tool_sections(report, label_column)
    verdict_rows = tuple(
        _verdict_row(group.label, group.verdicts) for group in report.shown_groups if group.verdicts
    )
    if verdict_rows:
        yield TextTable("What people think of answers", (label_column, *_VERDICT_COLUMNS), verdict_rows)


def build_notes(report: UsageReport) -> Iterator[str]:
    """What readers must know about the figures."""
    yield _describe_scope(report.query.scope)
    if report.output_unit.has_canvases:
        yield "Canvases are estimates: output tokens / 256, rounded up call by call."
        yield "Seconds a canvas are over the calls that ended by themselves and whose output is known."
    total = report.total
    if total.calls:
        yield from _describe_unknown_counts(total.calls)
    if total.turns and total.turns.settled < total.turns.turns:
        missing = total.turns.turns - total.turns.settled
        turns = f"{missing:,} of {total.turns.turns:,} turns"
        yield f"{turns} have no account: their seconds are unknown, in no sum."
    if report.query.scope.model is not None or report.query.scope.purpose is not None:
        yield "Seconds, tools and thinking turns are those of the turns in which such calls were made."
    yield _describe_percentiles(report)
    yield from _describe_server(report)


def _token_row(group: ReportGroup) -> tuple[str, ...]:
    calls = group.calls
    turns = EMPTY_CELL
    if group.turns is not None:
        turns = f"{group.turns.turns:,}"
    if calls is None:
        return (group.label, turns, "0", *[EMPTY_CELL] * 7)
    return (
        group.label,
        turns,
        f"{calls.calls:,}",
        format_at_least(calls.input, calls.input_known, calls.calls),
        format_share(calls.cached, calls.cached_of),
        format_at_least(calls.output, calls.output_known, calls.calls, partial=calls.partial),
        format_share(calls.reasoning, calls.reasoning_of),
        format_at_least(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial),
        _format_seconds_per_canvas(calls),
        f"{calls.timed:,}",
    )


def _format_seconds_per_canvas(calls: CallSums) -> str:
    if calls.seconds_per_canvas is not None:
        return f"{calls.seconds_per_canvas:.2f}"
    if calls.costing:
        return UNKNOWN
    return EMPTY_CELL


def _outcome_row(group: ReportGroup) -> tuple[str, ...]:
    calls = group.calls
    turns = group.turn_sums
    retries = (f"{reason} {count:,}" for reason, count in sorted(group.retries_by_reason.items()))
    thinking = seconds = canvases = empty = cut = stopped = failed = EMPTY_CELL
    if turns is not None:
        thinking = f"{turns.thinking:,}"
        canvases = _format_thinking_canvases(turns)
        seconds = _format_thinking_seconds(turns)
    if calls is not None:
        if group.empty_replies is not None:
            empty = f"{group.empty_replies:,}"
        cut = f"{calls.cut:,}"
        stopped = f"{calls.cancelled:,}"
        failed = f"{calls.failed:,}"
    return (
        group.label,
        thinking,
        canvases,
        seconds,
        empty,
        cut,
        stopped,
        failed,
        ", ".join(retries) or "0",
    )


def _format_thinking_canvases(turns: TurnSums) -> str:
    known = turns.thinking_calls_known
    partial = turns.thinking_calls_partial
    return format_at_least(turns.thinking_canvases, known, turns.thinking_calls, partial=partial)


def _format_thinking_seconds(turns: TurnSums) -> str:
    if not turns.thinking:
        return "0"
    return format_known_seconds(turns.thinking_seconds, turns.thinking_settled, turns.thinking)


def _build_seconds_sections(report: UsageReport, label_column: str) -> Iterator[TextTable]:
    seconds_by_group = [
        (group, group.turn_sums.seconds)
        for group in report.shown_groups
        if group.turn_sums and group.turn_sums.settled
    ]
    if report.groups and seconds_by_group:
        names = tuple(INTERVAL_NAMES[interval] for interval in INTERVAL_COLUMNS)
        rows = tuple((group.label, *map(format_seconds, seconds)) for group, seconds in seconds_by_group)
        yield TextTable("Seconds by interval", (label_column, *names), rows)
        if any(group.percentiles for group, _ in seconds_by_group):
            rows = tuple((group.label, *_percentile_cells(group, "whole")) for group, _ in seconds_by_group)
            yield TextTable("Seconds a turn", (label_column, "turns", *_PERCENTILE_COLUMNS), rows)
    if report.total.turn_sums and report.total.turn_sums.settled:
        title = "Seconds of all turns by interval" if report.groups else "Seconds by interval"
        columns = ("", "sum", "share", "turns with it", *_PERCENTILE_COLUMNS)
        yield TextTable(title, columns, tuple(_interval_rows(report.total, report.total.turn_sums)))


def _interval_rows(total: ReportGroup, turns: TurnSums) -> Iterator[tuple[str, ...]]:
    total_seconds = turns.seconds[0]
    for interval, seconds in zip(INTERVAL_COLUMNS, turns.seconds, strict=True):
        share = format_share(seconds, total_seconds) if total_seconds else EMPTY_CELL
        cells = _percentile_cells(total, interval)
        yield (INTERVAL_NAMES[interval], format_seconds(seconds), share, *cells)


def _percentile_cells(group: ReportGroup, interval: str) -> tuple[str, str, str, str]:
    """The count, p50, p95 and p99."""
    percentiles = group.percentiles.get(interval)
    if percentiles is None:
        return (EMPTY_CELL,) * 4
    return (
        f"{percentiles.count:,}",
        format_seconds(percentiles.p50),
        format_seconds(percentiles.p95),
        format_seconds(percentiles.p99),
    )


def _build_tool_sections(report: UsageReport, label_column: str) -> Iterator[TextTable]:
    columns: tuple[str, ...] = (label_column, *_TOOL_COLUMNS)
    if report.query.by == "tool":
        columns += _PERCENTILE_COLUMNS
    groups = [group for group in report.shown_groups if group.tools]
    if any(group.tools and group.tools.calls for group in groups):
        yield TextTable("Tools", columns, tuple(_tool_row(group)[: len(columns)] for group in groups))
    approval_rows = tuple(
        _approval_row(group.label, group.approvals) for group in report.shown_groups if group.approvals
    )
    if approval_rows:
        columns = (label_column, *_APPROVAL_COLUMNS)
        yield TextTable("Tool calls that asked a person first", columns, approval_rows)


def _tool_row(group: ReportGroup) -> tuple[str, ...]:
    """The cells of _TOOL_COLUMNS, and those of _PERCENTILE_COLUMNS."""
    assert group.tools is not None
    tools = group.tools
    failures = {outcome or "not ended": f"{count:,}" for outcome, count in tools.outcomes.items()}
    failures.pop("ok", None)
    if tools.refused:
        failures["refused"] += f" ({describe_refusals(tools.refusals)})"
    failure_text = ", ".join(f"{outcome} {count}" for outcome, count in sorted(failures.items())) or "0"
    return (
        group.label,
        f"{tools.calls:,}",
        f"{tools.failed:,}",
        failure_text,
        format_seconds(tools.seconds, is_complete=tools.timed == tools.calls),
        *_percentile_cells(group, "tools")[1:],
    )


def _approval_row(label: str, approvals: ApprovalCounts) -> tuple[str, ...]:
    counts = [sum(approvals.answers.get(answer, 0) for answer in answers) for answers in _APPROVAL_ANSWERS]
    return (
        label,
        f"{approvals.calls:,}",
        *(f"{count:,}" for count in counts),
        format_seconds(approvals.waited_seconds),
    )


def _verdict_row(label: str, sums: VerdictSums) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (sums.judged, sums.judged - sums.bad, sums.bad))
    return label, *counts, format_share(sums.bad, sums.judged)


def _describe_scope(scope: Scope) -> str:
    since = "the beginning"
    until = "now"
    if scope.since is not None:
        since = format_local(scope.since, scope.zone)
    if scope.until is not None:
        until = format_local(scope.until, scope.zone)
    filters = {
        "chat": scope.chat,
        "user": scope.user,
        "model": scope.model,
        "endpoint": scope.endpoint,
        "tool": scope.tool,
        "purpose": scope.purpose,
        "thinking": {True: "on", False: "off", None: None}[scope.thinking],
    }
    filter_text = "".join(f", {name} {value}" for name, value in filters.items() if value is not None)
    return f"From {since} to {until} ({scope.zone}){filter_text}."


def _describe_unknown_counts(calls: CallSums) -> Iterator[str]:
    known_counts = {
        "input": calls.input_known,
        "cached": calls.cached_known,
        "output": calls.output_known,
        "reasoning": calls.reasoning_known,
    }
    unknown_counts = {name: calls.calls - known for name, known in known_counts.items()}
    unknown = ", ".join(f"{name} of {count:,}" for name, count in unknown_counts.items() if count > 0)
    if unknown:
        of_calls = f"{unknown} of {calls.calls:,} calls"
        yield f"Unknown, for the server did not tell: {of_calls}; sums leave them out."
    if calls.partial:
        subject = "1 call" if calls.partial == 1 else f"{calls.partial:,} calls"
        yield f"Of {subject} only a count from before the end is known; the sums are at least that."


def _describe_percentiles(report: UsageReport) -> str:
    match report.percentile_method:
        case "exact":
            return "Percentiles are exact, over the turns in which the interval occurred."
        case "sample":
            return (
                f"Percentiles are those of a random sample of about {SAMPLED_TURNS:,} of these turns, "
                "and so are the counts beside them."
            )
    return "Percentiles are not shown: there is too much to add up. Take a shorter time."


def _describe_server(report: UsageReport) -> Iterator[str]:
    server = report.server
    if server is None or not server.readings:
        return
    if report.output_unit.has_canvases and (server.canvases is None or server.steps_per_canvas is None):
        yield "The server's own step counters are unknown."
    elif server.canvases is not None:
        counted = (
            f"{server.canvases:,.0f} canvases, {format_steps(server.steps_per_canvas)} denoising steps each"
        )
        yield f"The server itself counted {counted}, whoever asked."
    if server.gap is not None:
        yield (
            f"It counted {server.gap:,} tokens more than we did; below zero is fewer. "
            "When, and why: canvasgram report --list readings."
        )

"""A report as tables for people: sections of lines of texts. Unknown is called so, a sum with gaps "at
least". Pure.

No rate is shown: there is none without the output length it was made at.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bot.db.usage.usage_sums import CallSums, Scope, TurnSums
from bot.usage.histogram import MAX_RELATIVE_ERROR
from bot.usage.intervals import INTERVAL_ORDER, column_name
from bot.usage.report import (
    INTERVAL_COLUMNS,
    MAX_EXACT_TURNS,
    ApprovalCounts,
    ReportGroup,
    UsageReport,
    format_utc,
)

INTERVAL_NAMES = {"whole": "whole"} | {column_name(kind): kind for kind in INTERVAL_ORDER}
UNKNOWN = "unknown"
EMPTY_CELL = "–"


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A table: the first column names its lines."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def build_sections(report: UsageReport) -> Iterator[ReportSection]:
    """The tables of a report that is not empty."""
    name = report.query.by or ""
    if report.query.by != "tool":
        yield ReportSection(
            "Tokens and canvases",
            (name, *_TOKEN_COLUMNS),
            tuple(_token_row(one) for one in report.shown_groups),
        )
        yield ReportSection(
            "What went otherwise",
            (name, *_OUTCOME_COLUMNS),
            tuple(_outcome_row(one) for one in report.shown_groups),
        )
    yield from _build_seconds_sections(report, name)
    tooled = [one for one in report.shown_groups if one.tools]
    if any(one.tools and one.tools.calls for one in tooled):
        spread = ("p50", "p95", "p99") if report.query.by == "tool" else ()
        yield ReportSection(
            "Tools",
            (name, *_TOOL_COLUMNS, *spread),
            tuple(_tool_row(one)[: 5 + len(spread)] for one in tooled),
        )
    if any(one.approvals for one in report.shown_groups):
        lines = tuple(_approval_row(one.label, one.approvals) for one in report.shown_groups if one.approvals)
        yield ReportSection("Tool calls that asked a person first", (name, *_APPROVAL_COLUMNS), lines)


def build_notes(report: UsageReport) -> Iterator[str]:
    """What is to be known about the figures."""
    yield _describe_scope(report.query.scope)
    whole = report.total
    if whole.calls:
        yield from _describe_unknown_counts(whole.calls)
    if whole.turns and whole.turns.settled < whole.turns.turns:
        missing = whole.turns.turns - whole.turns.settled
        yield f"{missing:,} of {whole.turns.turns:,} turns have no account: their seconds are unknown, in no sum."
    if report.query.scope.model is not None:
        yield "Seconds and tools are those of the turns in which this model was asked."
    yield _describe_percentiles(report)
    yield from _describe_server(report)


_TOKEN_COLUMNS = ("turns", "calls", "input", "cached", "output", "reasoning", "canvases est.", "s a canvas")
_OUTCOME_COLUMNS = (
    "thinking turns",
    "their canvases",
    "their seconds",
    "empty",
    "cut",
    "stopped",
    "failed",
    "asked again",
)
_TOOL_COLUMNS = ("calls", "failed", "how", "seconds")


_APPROVAL_COLUMNS = ("asked", "allowed", "denied", "not answered", "stopped", "open", "waited s")
_APPROVAL_ANSWERS: tuple[tuple[str | None, ...], ...] = (
    ("once", "here"),
    ("denied",),
    ("expired",),
    ("stopped",),
    (None,),
)


def format_at_least(number: int, known: int, total: int, *, partial: int = 0) -> str:
    """A sum over `known` of so many, some of them cut before their end."""
    if total and not known:
        return UNKNOWN
    return f"{'' if known == total and not partial else '≥ '}{number:,}"


def format_share(part: int, whole: int) -> str:
    """A share of what is known; unknown if nothing is."""
    if whole:
        return f"{100 * part / whole:.1f} %"
    return UNKNOWN


def format_seconds(value: float) -> str:
    """Seconds with as many places as matter."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3f}"


def _token_row(group: ReportGroup) -> tuple[str, ...]:
    calls = group.calls
    turns = EMPTY_CELL if group.turns is None else f"{group.turns.turns:,}"
    if calls is None:
        return (group.label, turns, "0", *[EMPTY_CELL] * 6)
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
    )


def _format_seconds_per_canvas(calls: CallSums) -> str:
    if not calls.canvases or calls.canvases_known < calls.costing:
        if calls.costing:
            return UNKNOWN
        return EMPTY_CELL
    return f"{calls.busy / calls.canvases:.2f}"


def _outcome_row(group: ReportGroup) -> tuple[str, ...]:
    calls = group.calls
    turns = group.turns
    asked = ", ".join(f"{why} {count:,}" for why, count in sorted(group.retries_by_reason.items())) or "0"
    return (
        group.label,
        EMPTY_CELL if turns is None else f"{turns.thinking:,}",
        EMPTY_CELL if calls is None else _format_thinking_canvases(calls),
        EMPTY_CELL if turns is None else _format_thinking_seconds(turns),
        EMPTY_CELL if group.empty_replies is None else f"{group.empty_replies:,}",
        *(
            (EMPTY_CELL,) * 3
            if calls is None
            else (f"{calls.cut:,}", f"{calls.cancelled:,}", f"{calls.failed:,}")
        ),
        asked,
    )


def _format_thinking_canvases(calls: CallSums) -> str:
    whole = not calls.thinking or (calls.canvases_known == calls.costing and not calls.partial)
    return f"{'' if whole else '≥ '}{calls.thinking_canvases:,}"


def _format_thinking_seconds(turns: TurnSums) -> str:
    if not turns.thinking:
        return "0"
    if not turns.thinking_settled:
        return UNKNOWN
    return (
        f"{'' if turns.thinking_settled == turns.thinking else '≥ '}{format_seconds(turns.thinking_seconds)}"
    )


def _build_seconds_sections(report: UsageReport, label_column: str) -> Iterator[ReportSection]:
    turned = [one for one in report.shown_groups if one.turns and one.turns.settled]
    if report.groups and turned:
        columns = tuple(INTERVAL_NAMES[kind] for kind in INTERVAL_COLUMNS)
        lines = tuple(
            (one.label, *(format_seconds(value) for value in one.turns.seconds))
            for one in turned
            if one.turns
        )
        yield ReportSection("Seconds by interval", (label_column, *columns), lines)
        if any(one.percentiles for one in turned):
            spread = tuple((one.label, *_percentile_cells(one, "whole")) for one in turned)
            yield ReportSection("Seconds a turn", (label_column, "turns", "p50", "p95", "p99"), spread)
    if report.total.turns and report.total.turns.settled:
        yield ReportSection(
            "Seconds of all turns by interval" if report.groups else "Seconds by interval",
            ("", "sum", "share", "turns with it", "p50", "p95", "p99"),
            tuple(_interval_rows(report.total)),
        )


def _interval_rows(group: ReportGroup) -> Iterator[tuple[str, ...]]:
    assert group.turns is not None
    whole = group.turns.seconds[0]
    for kind, value in zip(INTERVAL_COLUMNS, group.turns.seconds, strict=True):
        part = f"{100 * value / whole:.1f} %" if whole else EMPTY_CELL
        yield (INTERVAL_NAMES[kind], format_seconds(value), part, *_percentile_cells(group, kind))


def _percentile_cells(group: ReportGroup, interval: str) -> tuple[str, str, str, str]:
    found = group.percentiles.get(interval)
    if found is None:
        return (EMPTY_CELL,) * 4
    return f"{found.count:,}", format_seconds(found.p50), format_seconds(found.p95), format_seconds(found.p99)


def _tool_row(group: ReportGroup) -> tuple[str, ...]:
    assert group.tools is not None
    tools = group.tools
    ended = {outcome or "not ended": count for outcome, count in tools.outcomes.items() if outcome != "ok"}
    how = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(ended.items())) or "0"
    if tools.timed == tools.calls:
        took = format_seconds(tools.seconds)
    else:
        took = f"≥ {format_seconds(tools.seconds)}"
    return (
        group.label,
        f"{tools.calls:,}",
        f"{tools.failed:,}",
        how,
        took,
        *_percentile_cells(group, "tools")[1:],
    )


def _approval_row(label: str, approvals: ApprovalCounts) -> tuple[str, ...]:
    counts = (sum(approvals.answers.get(one, 0) for one in some) for some in _APPROVAL_ANSWERS)
    return (
        label,
        f"{approvals.calls:,}",
        *(f"{count:,}" for count in counts),
        format_seconds(approvals.waited_seconds),
    )


def _describe_scope(scope: Scope) -> str:
    since = "the beginning" if scope.since is None else format_utc(scope.since)
    until = "now" if scope.until is None else format_utc(scope.until)
    chosen = {"chat": scope.chat, "user": scope.user, "model": scope.model}
    only = "".join(f", {name} {value}" for name, value in chosen.items() if value is not None)
    return f"From {since} to {until} (UTC){only}. Canvases are estimates: output tokens / 256, rounded up call by call."


def _describe_unknown_counts(calls: CallSums) -> Iterator[str]:
    told = {"input": calls.input_known, "cached": calls.cached_known, "output": calls.output_known}
    told["reasoning"] = calls.reasoning_known
    unknown = ", ".join(
        f"{name} of {calls.calls - known:,}" for name, known in told.items() if known < calls.calls
    )
    if unknown:
        yield f"Unknown, for the server did not tell: {unknown} of {calls.calls:,} calls; sums leave them out."
    if calls.partial:
        yield f"{calls.partial:,} calls were cut; they count with what the server had told by then."


def _describe_percentiles(report: UsageReport) -> str:
    match report.percentile_method:
        case "exact":
            return "Percentiles are exact, over the turns in which the interval occurred."
        case "buckets":
            return f"Percentiles are from counts by size, within {100 * MAX_RELATIVE_ERROR:.1f} % of the true ones."
    return f"Percentiles are not shown: these are more than {MAX_EXACT_TURNS:,} turns. Take whole days of everybody, or fewer turns."


def _describe_server(report: UsageReport) -> Iterator[str]:
    server = report.server
    if server is None or not server.readings:
        return
    if server.steps is None or not server.committed:
        yield "The server's own step counters are unknown."
    else:
        canvases = server.committed / 256
        steps = server.steps / canvases - 1  # one of them commits the canvas
        yield f"The server itself counted {canvases:,.0f} canvases, {steps:.1f} denoising steps each, whoever asked."
    if server.gap is not None:
        yield f"It counted {server.gap:,} tokens more than we did; below zero is fewer."

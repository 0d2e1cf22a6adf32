"""A report as tables for people: sections of lines of texts. Unknown is called so, a sum with gaps "at
least". Pure.

No rate is shown: there is none without the output length it was made at.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bot.db.usage.usage_sums import CallSums, Scope, TurnSums
from bot.usage.histogram import ERROR
from bot.usage.intervals import ORDER, column
from bot.usage.report import EXACT, KINDS, Asked, Entry, Report, moment

NAMES = {"whole": "whole"} | {column(kind): kind for kind in ORDER}
UNKNOWN = "unknown"
NOT_TOLD = "–"


@dataclass(frozen=True, slots=True)
class Section:
    """A table: the first column names its lines."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def sections(report: Report) -> Iterator[Section]:
    """The tables of a report that is not empty."""
    name = report.question.by or ""
    if report.question.by != "tool":
        yield Section("Tokens and canvases", (name, *_TOKENS), tuple(_tokens(one) for one in report.shown))
        yield Section(
            "What went otherwise", (name, *_OTHERWISE), tuple(_otherwise(one) for one in report.shown)
        )
    yield from _seconds(report, name)
    tooled = [one for one in report.shown if one.tools]
    if any(one.tools and one.tools.calls for one in tooled):
        spread = ("p50", "p95", "p99") if report.question.by == "tool" else ()
        yield Section(
            "Tools", (name, *_TOOLS, *spread), tuple(_tools(one)[: 5 + len(spread)] for one in tooled)
        )
    if any(one.asked for one in report.shown):
        lines = tuple(_asked(one.label, one.asked) for one in report.shown if one.asked)
        yield Section("Tool calls that asked a person first", (name, *_ASKED), lines)


def notes(report: Report) -> Iterator[str]:
    """What is to be known about the figures."""
    yield _about(report.question.scope)
    whole = report.whole
    if whole.calls:
        yield from _gaps(whole.calls)
    if whole.turns and whole.turns.settled < whole.turns.turns:
        missing = whole.turns.turns - whole.turns.settled
        yield f"{missing:,} of {whole.turns.turns:,} turns have no account: their seconds are unknown, in no sum."
    if report.question.scope.model is not None:
        yield "Seconds and tools are those of the turns in which this model was asked."
    yield _method(report)
    yield from _server(report)


_TOKENS = ("turns", "calls", "input", "cached", "output", "reasoning", "canvases est.", "s a canvas")
_OTHERWISE = (
    "thinking turns",
    "their canvases",
    "their seconds",
    "empty",
    "cut",
    "stopped",
    "failed",
    "asked again",
)
_TOOLS = ("calls", "failed", "how", "seconds")


_ASKED = ("asked", "allowed", "denied", "not answered", "stopped", "open", "waited s")
_ANSWERS: tuple[tuple[str | None, ...], ...] = (
    ("once", "here"),
    ("denied",),
    ("expired",),
    ("stopped",),
    (None,),
)


def at_least(number: int, known: int, of: int, *, partial: int = 0) -> str:
    """A sum over `known` of so many, some of them cut before their end."""
    if of and not known:
        return UNKNOWN
    return f"{'' if known == of and not partial else '≥ '}{number:,}"


def share(part: int, whole: int) -> str:
    """A share of what is known; unknown if nothing is."""
    if whole:
        return f"{100 * part / whole:.1f} %"
    return UNKNOWN


def seconds(time: float) -> str:
    """Seconds with as many places as matter."""
    if abs(time) >= 1000:
        return f"{time:,.0f}"
    if abs(time) >= 100:
        return f"{time:.1f}"
    return f"{time:.3f}"


def _tokens(entry: Entry) -> tuple[str, ...]:
    calls = entry.calls
    turns = NOT_TOLD if entry.turns is None else f"{entry.turns.turns:,}"
    if calls is None:
        return (entry.label, turns, "0", *[NOT_TOLD] * 6)
    return (
        entry.label,
        turns,
        f"{calls.calls:,}",
        at_least(calls.input, calls.input_known, calls.calls),
        share(calls.cached, calls.cached_of),
        at_least(calls.output, calls.output_known, calls.calls, partial=calls.partial),
        share(calls.reasoning, calls.reasoning_of),
        at_least(calls.canvases, calls.canvases_known, calls.costing, partial=calls.partial),
        _a_canvas(calls),
    )


def _a_canvas(calls: CallSums) -> str:
    if not calls.canvases or calls.canvases_known < calls.costing:
        if calls.costing:
            return UNKNOWN
        return NOT_TOLD
    return f"{calls.busy / calls.canvases:.2f}"


def _otherwise(entry: Entry) -> tuple[str, ...]:
    calls = entry.calls
    turns = entry.turns
    asked = ", ".join(f"{why} {count:,}" for why, count in sorted(entry.again.items())) or "0"
    return (
        entry.label,
        NOT_TOLD if turns is None else f"{turns.thinking:,}",
        NOT_TOLD if calls is None else _thought_canvases(calls),
        NOT_TOLD if turns is None else _thought(turns),
        NOT_TOLD if entry.empty is None else f"{entry.empty:,}",
        *(
            (NOT_TOLD,) * 3
            if calls is None
            else (f"{calls.cut:,}", f"{calls.cancelled:,}", f"{calls.failed:,}")
        ),
        asked,
    )


def _thought_canvases(calls: CallSums) -> str:
    whole = not calls.thinking or (calls.canvases_known == calls.costing and not calls.partial)
    return f"{'' if whole else '≥ '}{calls.thinking_canvases:,}"


def _thought(turns: TurnSums) -> str:
    if not turns.thinking:
        return "0"
    if not turns.thinking_settled:
        return UNKNOWN
    return f"{'' if turns.thinking_settled == turns.thinking else '≥ '}{seconds(turns.thinking_seconds)}"


def _seconds(report: Report, name: str) -> Iterator[Section]:
    turned = [one for one in report.shown if one.turns and one.turns.settled]
    if report.entries and turned:
        columns = tuple(NAMES[kind] for kind in KINDS)
        lines = tuple(
            (one.label, *(seconds(value) for value in one.turns.seconds)) for one in turned if one.turns
        )
        yield Section("Seconds by interval", (name, *columns), lines)
        if any(one.spreads for one in turned):
            spread = tuple((one.label, *_spread(one, "whole")) for one in turned)
            yield Section("Seconds a turn", (name, "turns", "p50", "p95", "p99"), spread)
    if report.whole.turns and report.whole.turns.settled:
        yield Section(
            "Seconds of all turns by interval" if report.entries else "Seconds by interval",
            ("", "sum", "share", "turns with it", "p50", "p95", "p99"),
            tuple(_intervals(report.whole)),
        )


def _intervals(entry: Entry) -> Iterator[tuple[str, ...]]:
    assert entry.turns is not None
    whole = entry.turns.seconds[0]
    for kind, value in zip(KINDS, entry.turns.seconds, strict=True):
        part = f"{100 * value / whole:.1f} %" if whole else NOT_TOLD
        yield (NAMES[kind], seconds(value), part, *_spread(entry, kind))


def _spread(entry: Entry, kind: str) -> tuple[str, str, str, str]:
    found = entry.spreads.get(kind)
    if found is None:
        return (NOT_TOLD,) * 4
    return f"{found.count:,}", seconds(found.p50), seconds(found.p95), seconds(found.p99)


def _tools(entry: Entry) -> tuple[str, ...]:
    assert entry.tools is not None
    tools = entry.tools
    ended = {outcome or "not ended": count for outcome, count in tools.outcomes.items() if outcome != "ok"}
    how = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(ended.items())) or "0"
    if tools.timed == tools.calls:
        took = seconds(tools.seconds)
    else:
        took = f"≥ {seconds(tools.seconds)}"
    return (entry.label, f"{tools.calls:,}", f"{tools.failed:,}", how, took, *_spread(entry, "tools")[1:])


def _asked(label: str, asked: Asked) -> tuple[str, ...]:
    counts = (sum(asked.answers.get(one, 0) for one in some) for some in _ANSWERS)
    return (label, f"{asked.calls:,}", *(f"{count:,}" for count in counts), seconds(asked.waited))


def _about(scope: Scope) -> str:
    since = "the beginning" if scope.since is None else moment(scope.since)
    until = "now" if scope.until is None else moment(scope.until)
    chosen = {"chat": scope.chat, "user": scope.user, "model": scope.model}
    only = "".join(f", {name} {value}" for name, value in chosen.items() if value is not None)
    return f"From {since} to {until} (UTC){only}. Canvases are estimates: output tokens / 256, rounded up call by call."


def _gaps(calls: CallSums) -> Iterator[str]:
    told = {"input": calls.input_known, "cached": calls.cached_known, "output": calls.output_known}
    told["reasoning"] = calls.reasoning_known
    unknown = ", ".join(
        f"{name} of {calls.calls - known:,}" for name, known in told.items() if known < calls.calls
    )
    if unknown:
        yield f"Unknown, for the server did not tell: {unknown} of {calls.calls:,} calls; sums leave them out."
    if calls.partial:
        yield f"{calls.partial:,} calls were cut; they count with what the server had told by then."


def _method(report: Report) -> str:
    match report.method:
        case "exact":
            return "Percentiles are exact, over the turns in which the interval occurred."
        case "buckets":
            return f"Percentiles are from counts by size, within {100 * ERROR:.1f} % of the true ones."
    return f"Percentiles are not shown: these are more than {EXACT:,} turns. Take whole days of everybody, or fewer turns."


def _server(report: Report) -> Iterator[str]:
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

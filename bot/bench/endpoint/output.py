"""A result as lines of text for a terminal, as Markdown or as JSON. Pure.

A rate stands in one line with the lengths it was measured at; a table before it has the other conditions. A
dash, or null, is unknown, never 0.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bot.bench.endpoint.protocols import FIRST_REQUEST
from bot.bench.endpoint.published import PUBLISHED_FIGURES, READING_NOTES, PublishedFigure
from bot.bench.endpoint.result import BenchResult, GatewayDifference, MeasuredRow, ToolCallScore
from bot.tables import CanvasColumnName, Line, TextTable
from bot.usage.plain_text import escape_for_terminal

UNKNOWN_MARK = "-"
CANVAS_FOOTNOTES = (
    "Canvases are estimated, an answer: output tokens / 256, or the width that was asked for, rounded up.",
    "An answer of one canvas has no rate: a canvas costs the same however few tokens stand in it.",
    "Steps: denoising steps a canvas. S/canvas: all seconds over all canvases.",
)
NOTHING_PUBLISHED = "What others have published is of DiffusionGemma, and not shown beside another model."
FOOTNOTES = (
    "Tokens are the server's own counts.",
    "At once: how many were sent at a time; how many the server answers at a time, it does not tell.",
    "Median s: of the answers. First s: to the first block, the median.",
    "Next s: from block to block, the mean of streamed answers.",
    "Tok/s: of one answer, the mean. In all: the tokens of all that were sent at once, over all their time.",
)

Cells = Sequence[str]


def format_lines(result: BenchResult, *, compare: bool = False) -> Iterator[Line]:
    """The result for a terminal; `compare`: with what others have published."""
    yield from _format_conditions(result)
    for table in build_tables(result, compare=compare):
        yield ""
        yield table
    yield ""
    yield from _list_footnotes(result, compare=compare)


def format_markdown(result: BenchResult) -> Iterator[str]:
    """The whole result as a Markdown page."""
    yield "# Seconds, tokens and canvases" if result.has_canvases else "# Seconds and tokens"
    yield ""
    yield from (f"- {line}" for line in _format_conditions(result))
    for table in build_tables(result):
        yield from ("", f"## {table.title}", "")
        yield _format_markdown_row(table.columns)
        number_columns = len(table.columns) - table.text_columns
        yield _format_markdown_row(["---"] * table.text_columns + ["---:"] * number_columns)
        yield from (_format_markdown_row(line) for line in table.rows)
    yield ""
    yield from (f"- {line}" for line in _list_footnotes(result, compare=True))


def _list_footnotes(result: BenchResult, *, compare: bool) -> Iterator[str]:
    yield from FOOTNOTES
    if result.has_canvases:
        yield from CANVAS_FOOTNOTES
    yield from result.sentences
    if compare:
        yield from READING_NOTES if result.has_canvases else (NOTHING_PUBLISHED,)


def build_tables(result: BenchResult, *, compare: bool = True) -> Iterator[TextTable]:
    """The tables that have anything to show; with `compare` what others have published of it comes last."""
    if result.rows:
        conditions = tuple(_format_row_conditions(row) for row in result.rows)
        times = tuple(_format_row_times(row) for row in result.rows)
        asked = TextTable("What was asked", _CONDITION_TITLES, conditions, text_columns=2)
        taken = TextTable("How long it took", _TIME_TITLES, times, text_columns=2)
        for table in (asked, taken):
            yield table if result.has_canvases else table.leave_out_canvases()
    if result.differences:
        yield from (_build_difference_table(difference) for difference in result.differences)
    if result.tools:
        yield TextTable(
            "Single calls that want one tool",
            _TOOL_TITLES,
            tuple(_format_tool_case(tool) for tool in result.tools),
        )
    if not (compare and result.has_canvases):
        return
    comparisons = tuple(_format_comparisons(result))
    if comparisons:
        yield TextTable("Beside what others have published", _COMPARISON_TITLES, comparisons, text_columns=2)
    yield TextTable(
        "What others have published, under their own conditions",
        _PUBLISHED_TITLES,
        tuple(_format_published(figure) for figure in PUBLISHED_FIGURES),
        text_columns=4,
    )


_CONDITION_TITLES = (
    *("what", "way", "answers", "tokens", CanvasColumnName("canvases")),
    *("at once", "thinking", "warm", "steps"),
)
_TIME_TITLES = (
    *("what", "way", "tokens", "median s", "first s", CanvasColumnName("s/canvas")),
    *("next s", "tok/s", "in all"),
)
_TOOL_TITLES = (
    "thinking",
    "calls",
    "right as it came",
    "right once mended",
    "median s",
    "output tokens",
    "of it thought",
)
_COMPARISON_TITLES = ("what", "way of ours", "their tokens", "their s", "our tokens", "our s")
_PUBLISHED_TITLES = ("hardware", "precision", "how", "source", "tok/s", "tokens", "thinking", "at once", "s")


def format_span(counts: Iterable[int | None]) -> str:
    """The range of some counts, from the least to the most."""
    values = list(counts)
    if not values or None in values:
        return UNKNOWN_MARK
    numbers = sorted(count for count in values if count is not None)
    if numbers[0] == numbers[-1]:
        return f"{numbers[0]:,}"
    return f"{numbers[0]:,} to {numbers[-1]:,}"


def format_number(value: float | None, digits: int = 2) -> str:
    """A figure, or the dash."""
    if value is None:
        return UNKNOWN_MARK
    return f"{value:,.{digits}f}"


def _format_conditions(result: BenchResult) -> Iterator[str]:
    if result.ended is not None:
        yield escape_for_terminal(f"NOT WHOLE: {result.ended} What follows was measured before that.")
    yield from (escape_for_terminal(f"{name}: {text}") for name, text in result.conditions)


def _format_row_conditions(row: MeasuredRow) -> Cells:
    answers = str(row.wanted) if row.is_complete else f"{len(row.calls)} of {row.wanted}"
    steps = row.counted.steps if row.counted else None
    return (
        row.label,
        _format_way(row),
        answers,
        format_span(call.output for call in row.calls),
        _format_count(row.canvases),
        str(row.at_once),
        row.thinking,
        row.warm,
        format_number(steps, 1),
    )


def _format_row_times(row: MeasuredRow) -> Cells:
    return (
        row.label,
        _format_way(row),
        format_span(call.output for call in row.calls),
        _format_seconds(row),
        format_number(row.first_block_seconds),
        format_number(row.seconds_per_canvas, 3),
        format_number(row.seconds_per_further_canvas, 3),
        format_number(row.tokens_per_second, 1),
        format_number(row.total_tokens_per_second, 1),
    )


def _format_way(row: MeasuredRow) -> str:
    if row.way == "gateway":
        return "gateway"
    return "streamed" if row.streamed else "whole"


def _format_count(count: int | None) -> str:
    if count is None:
        return UNKNOWN_MARK
    return str(count)


def _format_seconds(row: MeasuredRow) -> str:
    """The median; of answers cut at many lengths, the shortest and the longest."""
    if row.key != "lengths":
        return format_number(row.median_seconds)
    seconds = [call.seconds for call in row.calls]
    return f"{format_number(min(seconds))} to {format_number(max(seconds))}"


def _format_tool_case(case: ToolCallScore) -> Cells:
    seconds = sorted(call.seconds for call in case.calls)
    return (
        case.thinking,
        str(case.tried),
        f"{case.right} of {case.tried}",
        f"{case.mended} of {case.tried}",
        format_number(seconds[len(seconds) // 2] if seconds else None),
        format_span(call.output for call in case.calls),
        format_span(call.reasoning for call in case.calls),
    )


def _build_difference_table(difference: GatewayDifference) -> TextTable:
    """Direct, then what was added, interval by interval, then the gateway.

    The last line is the sum of all others.
    """
    (prompt, output), (longer_prompt, longer_output) = difference.tokens
    model = (
        f"more for the model: {format_number(longer_prompt, 0)} tokens of prompt, "
        f"not {format_number(prompt, 0)}; "
        f"{format_number(longer_output, 0)} of answer, not {format_number(output, 0)}"
    )
    steps = [("direct", difference.direct), (model, difference.longer_model)]
    steps += [(interval.kind, interval.seconds) for interval in difference.intervals]
    steps.append(("through the gateway", difference.gateway))
    heading = f"Direct and through the gateway: {difference.label}, mean seconds an answer"
    return TextTable(
        heading, ("what", "s"), tuple((name, format_number(seconds, 3)) for name, seconds in steps)
    )


def _format_published(figure: PublishedFigure) -> Cells:
    return (
        figure.hardware,
        figure.precision,
        figure.how,
        figure.source,
        figure.rate,
        figure.output,
        figure.thinking,
        figure.at_once,
        format_number(figure.seconds),
    )


def _format_comparisons(result: BenchResult) -> Iterator[Cells]:
    """Our rows that were asked as a published figure was, each beside it."""
    for figure in PUBLISHED_FIGURES:
        row = _find_comparable_row(result, figure)
        if row is None:
            continue
        seconds = row.wall if row.at_once > 1 else row.wall / len(row.calls)
        yield (
            row.label,
            _format_way(row),
            figure.output,
            format_number(figure.seconds),
            f"{_format_count(row.output_tokens)} in {len(row.calls)}",
            format_number(seconds),
        )


def _find_comparable_row(result: BenchResult, figure: PublishedFigure) -> MeasuredRow | None:
    """The complete row of the same protocol, whole where the published answers were, if there is one."""
    row = None
    if not figure.streamed:
        row = result.find_row("direct", figure.beside, streamed=False)
    row = row or result.find_row("direct", figure.beside)
    if row is None or not row.is_complete:
        return None
    if figure.beside == FIRST_REQUEST.key and row.warm != "cold":
        return None  # the published first request was a cold one
    return row


def format_json(result: BenchResult) -> str:
    """Rows with their calls and sums, tools, differences, the published figures, and the conditions.

    For machines: every figure with its conditions; null is unknown.
    """
    fields = {
        "whole": result.ended is None,
        "ended": result.ended,
        "conditions": dict(result.conditions),
        "canvas_seconds": result.canvas_seconds,
        "rows": [_row_json(row) for row in result.rows],
        "tools": [asdict(case) for case in result.tools],
        "differences": [_difference_json(difference) for difference in result.differences],
        "sentences": result.sentences,
        "published": [asdict(figure) for figure in PUBLISHED_FIGURES],
    }
    return json.dumps(fields, indent=1)


def _row_json(row: MeasuredRow) -> dict[str, Any]:
    amounts = {
        "output_tokens": row.output_tokens,
        "canvases_estimated": row.canvases,
        "seconds_an_answer": row.median_seconds,
        "first_block_seconds": row.first_block_seconds,
        "seconds_a_canvas": row.seconds_per_canvas,
        "seconds_a_further_canvas": row.seconds_per_further_canvas,
        "tokens_a_second_each": row.tokens_per_second,
        "tokens_a_second_in_all": row.total_tokens_per_second,
    }
    return asdict(row) | amounts


def _difference_json(difference: GatewayDifference) -> dict[str, Any]:
    return asdict(difference) | {
        "beside_model": difference.beside_model,
        "longer_model": difference.longer_model,
    }


def _format_markdown_row(cells: Cells) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

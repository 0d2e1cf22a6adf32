"""A result as lines of text for a terminal, or as Markdown: tables of rows, with their conditions above.
Pure.

A rate stands in one line with the lengths, thinking, concurrency and warmth it was made at. A dash is
unknown, never 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bot.bench.endpoint.published import PUBLISHED_FIGURES, READING_NOTES, PublishedFigure
from bot.bench.endpoint.result import BenchResult, GatewayDifference, MeasuredRow, ToolCallScore
from bot.usage.plain_text import escape_for_terminal

UNKNOWN_MARK = "-"
FOOTNOTES = (
    "Tokens are the server's own counts. Canvases are estimated: output tokens / 256, rounded up, an answer.",
    "An answer of one canvas has no rate: a canvas costs the same however few tokens stand in it.",
    "Beside a published figure: seconds of one answer, or of all that came at once.",
    "s a canvas: all seconds over all canvases. A further one: from block to block, streamed answers alone.",
)

Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A heading, a line of titles, and lines of cells; the first `left` columns are texts."""

    heading: str
    titles: Cells
    rows: tuple[Cells, ...]
    text_columns: int = 1


def format_lines(result: BenchResult) -> Iterator[str]:
    """The whole result for a terminal."""
    yield from _format_conditions(result)
    for table in build_tables(result):
        yield ""
        yield table.heading
        yield from format_aligned(table)
    yield ""
    yield from FOOTNOTES
    yield from READING_NOTES


def format_markdown(result: BenchResult) -> Iterator[str]:
    """The whole result as a Markdown page."""
    yield "# Seconds, tokens and canvases"
    yield ""
    yield from (f"- {line}" for line in _format_conditions(result))
    for table in build_tables(result):
        yield from ("", f"## {table.heading}", "")
        yield _format_markdown_row(table.titles)
        yield _format_markdown_row(
            ["---" if place < table.text_columns else "---:" for place in range(len(table.titles))]
        )
        yield from (_format_markdown_row(line) for line in table.rows)
    yield ""
    yield from (f"- {line}" for line in (*FOOTNOTES, *READING_NOTES))


def build_tables(result: BenchResult) -> Iterator[TextTable]:
    """Those that have anything to show; the published figures come last."""
    if result.rows:
        yield TextTable(
            "What was measured", _ROW_TITLES, tuple(_format_row(row) for row in result.rows), text_columns=2
        )
    if result.differences:
        yield from (_build_difference_table(one) for one in result.differences)
    if result.tools:
        yield TextTable(
            "Single calls that want one tool",
            _TOOL_TITLES,
            tuple(_format_tool_case(one) for one in result.tools),
        )
    yield TextTable(
        "What others have published, under their own conditions",
        _PUBLISHED_TITLES,
        tuple(_format_published(result)),
        text_columns=4,
    )


_ROW_TITLES = (
    *("what", "way", "answers", "output tokens", "thinking", "at once", "warm", "canvases", "steps a canvas"),
    *("s an answer", "first block s", "s a canvas", "a further one", "tok/s each", "tok/s in all"),
)
_TOOL_TITLES = (
    "thinking",
    "calls",
    "right as it came",
    "right once mended",
    "s a call",
    "output tokens",
    "of it thought",
)
_PUBLISHED_TITLES = (
    *(
        "hardware",
        "precision",
        "how",
        "source",
        "tok/s",
        "output tokens",
        "thinking",
        "at once",
        "s",
        "ours, s",
    ),
)


def format_aligned(table: TextTable) -> Iterator[str]:
    """The table's lines in columns."""
    cells = [table.titles, *table.rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(table.titles))]
    for number, line in enumerate(cells):
        texts = [
            text.ljust(width) if place < table.text_columns else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))


def format_span(counts: Iterable[int | None]) -> str:
    """The lengths of some answers, from the least to the most."""
    known = list(counts)
    if not known or None in known:
        return UNKNOWN_MARK
    numbers = sorted(count for count in known if count is not None)
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


def _format_row(row: MeasuredRow) -> Cells:
    way: str = row.way
    if way != "gateway":
        way = "direct, streamed" if row.streamed else "direct, whole"
    return (
        row.label,
        way,
        str(row.wanted) if row.is_complete else f"{len(row.calls)} of {row.wanted}",
        format_span(call.output for call in row.calls),
        row.thinking,
        str(row.at_once),
        row.warm,
        UNKNOWN_MARK if row.canvases is None else str(row.canvases),
        format_number(row.counted.steps, 1) if row.counted else UNKNOWN_MARK,
        _format_seconds(row),
        format_number(row.first_block_seconds),
        format_number(row.seconds_per_canvas, 3),
        format_number(row.seconds_per_further_canvas, 3),
        format_number(row.tokens_per_second, 1),
        format_number(row.total_tokens_per_second, 1),
    )


def _format_seconds(row: MeasuredRow) -> str:
    """The middle one; of answers cut at many lengths, the shortest and the longest."""
    if row.key != "lengths":
        return format_number(row.median_seconds)
    return f"{format_number(min(call.seconds for call in row.calls))} to {format_number(max(call.seconds for call in row.calls))}"


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
    """Direct, then what came on top, interval by interval, then the gateway: the last line is the sum of all
    others.
    """
    (prompt, output), (longer_prompt, longer_output) = difference.tokens
    model = (
        f"more for the model: {format_number(longer_prompt, 0)} tokens of prompt, not {format_number(prompt, 0)}; "
        f"{format_number(longer_output, 0)} of answer, not {format_number(output, 0)}"
    )
    steps = [("direct", difference.direct), (model, difference.longer_model)]
    steps += [(interval.kind, interval.seconds) for interval in difference.intervals]
    steps.append(("through the gateway", difference.gateway))
    heading = f"Direct and through the gateway: {difference.label}, seconds an answer"
    return TextTable(
        heading, ("what", "s"), tuple((name, format_number(seconds, 3)) for name, seconds in steps)
    )


def _format_published(result: BenchResult) -> Iterator[Cells]:
    for one in PUBLISHED_FIGURES:
        yield (
            *(
                one.hardware,
                one.precision,
                one.how,
                one.source,
                one.rate,
                one.output,
                one.thinking,
                one.at_once,
            ),
            *(format_number(one.seconds), format_number(_own_seconds(result, one))),
        )


def _own_seconds(result: BenchResult, figure: PublishedFigure) -> float | None:
    """Seconds of ours that stand beside a published figure: of one answer, or of all that came at once."""
    ours = result.find_row("direct", figure.beside)
    if ours is None or not ours.is_complete:
        return None
    if ours.at_once > 1:
        return ours.wall
    return ours.wall / len(ours.calls)


def _format_markdown_row(cells: Cells) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

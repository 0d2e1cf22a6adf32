"""A result as lines of text for a terminal, or as Markdown: tables of rows, with their conditions above.
Pure.

A rate stands in one line with the lengths, thinking, concurrency and warmth it was made at. A dash is
unknown, never 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bot.bench.endpoint.published import FIGURES, READING, Published
from bot.bench.endpoint.result import Difference, Measured, Result, ToolCase
from bot.usage.plain_text import plain

UNKNOWN = "-"
NOTES = (
    "Tokens are the server's own counts. Canvases are estimated: output tokens / 256, rounded up, an answer.",
    "An answer of one canvas has no rate: a canvas costs the same however few tokens stand in it.",
    "Beside a published figure: seconds of one answer, or of all that came at once.",
    "s a canvas: all seconds over all canvases. A further one: from block to block, streamed answers alone.",
)

Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, a line of titles, and lines of cells; the first `left` columns are texts."""

    heading: str
    titles: Cells
    lines: tuple[Cells, ...]
    left: int = 1


def lines(result: Result) -> Iterator[str]:
    """The whole result for a terminal."""
    yield from _above(result)
    for table in tables(result):
        yield ""
        yield table.heading
        yield from aligned(table)
    yield ""
    yield from NOTES
    yield from READING


def markdown(result: Result) -> Iterator[str]:
    """The whole result as a Markdown page."""
    yield "# Seconds, tokens and canvases"
    yield ""
    yield from (f"- {line}" for line in _above(result))
    for table in tables(result):
        yield from ("", f"## {table.heading}", "")
        yield _piped(table.titles)
        yield _piped(["---" if place < table.left else "---:" for place in range(len(table.titles))])
        yield from (_piped(line) for line in table.lines)
    yield ""
    yield from (f"- {line}" for line in (*NOTES, *READING))


def tables(result: Result) -> Iterator[Table]:
    """Those that have anything to show; the published figures come last."""
    if result.rows:
        yield Table("What was measured", _TITLES, tuple(_row(row) for row in result.rows), left=2)
    if result.differences:
        yield from (_difference(one) for one in result.differences)
    if result.tools:
        yield Table(
            "Single calls that want one tool", _TOOL_TITLES, tuple(_tool(one) for one in result.tools)
        )
    yield Table(
        "What others have published, under their own conditions", _OTHERS, tuple(_published(result)), left=4
    )


_TITLES = (
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
_OTHERS = (
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


def aligned(table: Table) -> Iterator[str]:
    """The table's lines in columns."""
    cells = [table.titles, *table.lines]
    widths = [max(len(line[column]) for line in cells) for column in range(len(table.titles))]
    for number, line in enumerate(cells):
        texts = [
            text.ljust(width) if place < table.left else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()
        if number == 0:
            yield "-" * (sum(widths) + 2 * (len(widths) - 1))


def span(counts: Iterable[int | None]) -> str:
    """The lengths of some answers, from the least to the most."""
    known = list(counts)
    if not known or None in known:
        return UNKNOWN
    numbers = sorted(count for count in known if count is not None)
    if numbers[0] == numbers[-1]:
        return f"{numbers[0]:,}"
    return f"{numbers[0]:,} to {numbers[-1]:,}"


def number(value: float | None, digits: int = 2) -> str:
    """A figure, or the dash."""
    if value is None:
        return UNKNOWN
    return f"{value:,.{digits}f}"


def _above(result: Result) -> Iterator[str]:
    if result.ended is not None:
        yield plain(f"NOT WHOLE: {result.ended} What follows was measured before that.")
    yield from (plain(f"{name}: {text}") for name, text in result.conditions)


def _row(row: Measured) -> Cells:
    way: str = row.way
    if way != "gateway":
        way = "direct, streamed" if row.streamed else "direct, whole"
    return (
        row.label,
        way,
        str(row.wanted) if row.whole else f"{len(row.calls)} of {row.wanted}",
        span(call.output for call in row.calls),
        row.thinking,
        str(row.at_once),
        row.warm,
        UNKNOWN if row.canvases is None else str(row.canvases),
        number(row.counted.steps, 1) if row.counted else UNKNOWN,
        _seconds(row),
        number(row.first),
        number(row.per_canvas, 3),
        number(row.further, 3),
        number(row.rate, 1),
        number(row.rate_in_all, 1),
    )


def _seconds(row: Measured) -> str:
    """The middle one; of answers cut at many lengths, the shortest and the longest."""
    if row.key != "lengths":
        return number(row.seconds)
    return f"{number(min(call.seconds for call in row.calls))} to {number(max(call.seconds for call in row.calls))}"


def _tool(case: ToolCase) -> Cells:
    seconds = sorted(call.seconds for call in case.calls)
    return (
        case.thinking,
        str(case.tried),
        f"{case.right} of {case.tried}",
        f"{case.mended} of {case.tried}",
        number(seconds[len(seconds) // 2] if seconds else None),
        span(call.output for call in case.calls),
        span(call.reasoning for call in case.calls),
    )


def _difference(one: Difference) -> Table:
    """Direct, then what came on top, interval by interval, then the gateway: the last line is the sum of all
    others.
    """
    (prompt, output), (longer_prompt, longer_output) = one.tokens
    model = (
        f"more for the model: {number(longer_prompt, 0)} tokens of prompt, not {number(prompt, 0)}; "
        f"{number(longer_output, 0)} of answer, not {number(output, 0)}"
    )
    steps = [("direct", one.direct), (model, one.longer_model)]
    steps += [(interval.kind, interval.seconds) for interval in one.intervals]
    steps.append(("through the gateway", one.gateway))
    heading = f"Direct and through the gateway: {one.label}, seconds an answer"
    return Table(heading, ("what", "s"), tuple((name, number(seconds, 3)) for name, seconds in steps))


def _published(result: Result) -> Iterator[Cells]:
    for one in FIGURES:
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
            *(number(one.seconds), number(_beside(result, one))),
        )


def _beside(result: Result, one: Published) -> float | None:
    """Seconds of ours that stand beside a published figure: of one answer, or of all that came at once."""
    ours = result.of("direct", one.beside)
    if ours is None or not ours.whole:
        return None
    if ours.at_once > 1:
        return ours.wall
    return ours.wall / len(ours.calls)


def _piped(cells: Cells) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

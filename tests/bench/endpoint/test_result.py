"""Figures of calls, and how a result is shown: no rate without its length, no zero that means unknown."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from bot.bench.endpoint import chart, output
from bot.bench.endpoint.direct import THINKING_SERVER_DEFAULT
from bot.bench.endpoint.protocols import FIRST_REQUEST, PROTOCOLS
from bot.bench.endpoint.published import PUBLISHED_FIGURES
from bot.bench.endpoint.result import (
    STOPPED_BY_HAND,
    BenchResult,
    GatewayDifference,
    IntervalSeconds,
    MeasuredCall,
    MeasuredRow,
    ServerCounts,
    ToolCallScore,
    Warmth,
)
from bot.bench.endpoint.terminal import OutputOptions, run_and_print, write_files
from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.harness.progress import ProgressCallback
from bot.tables.layout import format_lines
from tests.support.terminal_text import lay_out

LONG = MeasuredCall(3.0, 337, first=1.5, last=3.0, blocks=2, prompt=40, cached=0, reasoning=0, finish="stop")
SHORT = MeasuredCall(1.5, 94, first=1.5, last=1.5, blocks=1, prompt=30)
ROW = MeasuredRow(
    "long", "long answers", "direct", True, "off", 1, "warm", 2, (LONG, LONG), 6.0, ServerCounts(4.0, 16.0)
)
AT_ONCE = replace(ROW, key="together", label="four at once", at_once=2, wall=3.0)
RESULT = BenchResult(
    (ROW, AT_ONCE, replace(ROW, key="short", label="short answers", calls=(SHORT, SHORT), wall=3.0)),
    (("date", "today"),),
    (ToolCallScore("off", 2, 1, 2, (SHORT, LONG)),),
    (
        GatewayDifference(
            "long answers",
            3.0,
            4.0,
            (IntervalSeconds("Telegram", 0.5), IntervalSeconds("own", 0.3)),
            3.2,
            ((40, 337), (600, 340)),
        ),
    ),
)


def cells_of(result: BenchResult, label: str) -> dict[str, str]:
    """The lines of the first two tables that begin so, by their titles."""
    cells: dict[str, str] = {}
    for table in list(output.build_tables(result))[:2]:
        line = next(line for line in table.rows if line[0] == label)
        cells |= dict(zip(table.columns, line, strict=True))
    return cells


def test_a_row_states_the_conditions_of_its_rate() -> None:
    line = cells_of(RESULT, "long answers")
    assert (line["way"], line["tokens"]) == ("streamed", "337")
    assert (line["thinking"], line["at once"], line["warm"]) == ("off", "1", "warm")
    assert (line["canvases"], line["steps"]) == ("4", "16.0")
    assert (line["s/canvas"], line["next s"]) == ("1.500", "1.500")
    assert line["tok/s"] == "112.3"
    assert line["in all"] == "-"
    assert cells_of(RESULT, "four at once")["in all"] == "224.7"


def test_tables_fit_a_terminal() -> None:
    row = replace(ROW, thinking=THINKING_SERVER_DEFAULT)
    rows = tuple(
        replace(row, key=protocol.key, label=protocol.label, streamed=streamed)
        for protocol in (FIRST_REQUEST, *PROTOCOLS)
        for streamed in (True, False)
    )
    lengths = replace(ROW, key="lengths", calls=(LONG, replace(LONG, output=1700, seconds=104.5)))
    result = replace(RESULT, rows=(*rows, lengths))
    tables = lay_out(output.build_tables(result, compare=False), width=110)
    assert tables == lay_out(output.build_tables(result, compare=False))


def test_a_sentence_in_a_table_is_not_shortened() -> None:
    table = next(table for table in output.build_tables(RESULT) if len(table.columns) == 2)
    text = " ".join(format_lines([table], Console(width=60, force_terminal=True, color_system=None)))
    assert "more for the model: 600 tokens of prompt, not 40; 340 of answer, not 337" in text


def test_an_answer_of_one_canvas_has_seconds_and_no_rate() -> None:
    line = cells_of(RESULT, "short answers")
    assert (line["tok/s"], line["in all"]) == ("-", "-")
    assert line["median s"] == "1.50"


def test_what_the_server_did_not_count_is_a_dash() -> None:
    silent = replace(ROW, calls=(replace(LONG, output=None), LONG), counted=None)
    line = cells_of(BenchResult((silent,), ()), "long answers")
    for title in ("tokens", "canvases", "steps", "s/canvas", "tok/s"):
        assert line[title] == "-"
    assert json.loads(output.format_json(BenchResult((silent,), ())))["rows"][0]["output_tokens"] is None


def test_an_incomplete_row_says_how_far_it_came() -> None:
    broken = replace(AT_ONCE, wanted=4)
    assert cells_of(BenchResult((broken,), ()), "four at once")["answers"] == "2 of 4"
    assert broken.total_tokens_per_second is None
    empty = replace(ROW, calls=())
    assert (
        empty.median_seconds,
        empty.tokens_per_second,
        empty.seconds_per_canvas,
        empty.seconds_per_further_canvas,
        empty.first_block_seconds,
    ) == (None,) * 5


def test_answers_of_many_lengths_have_no_rate_of_their_own() -> None:
    lengths = replace(ROW, key="lengths", calls=(LONG, replace(LONG, output=700, seconds=4.5)))
    assert lengths.tokens_per_second is None
    line = cells_of(BenchResult((lengths,), ()), "long answers")
    assert (line["tokens"], line["median s"]) == ("337 to 700", "3.00 to 4.50")


@given(st.integers(1, 3000), st.integers(0, 12))
def test_seconds_a_further_canvas_need_a_block_for_each_canvas(output_tokens: int, blocks: int) -> None:
    call = MeasuredCall(9.0, output_tokens, first=1.0, last=5.0, blocks=blocks)
    canvases = -(-output_tokens // 256)
    assert call.canvases == canvases
    assert (call.seconds_after_first_block is not None) == (blocks == canvases >= 2)
    assert (call.tokens_per_second is not None) == (canvases >= 2)


def test_the_difference_adds_up_to_what_the_gateway_took() -> None:
    table = next(table for table in output.build_tables(RESULT) if table.title.startswith("Direct and"))
    numbers = [float(line[1]) for line in table.rows]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1])
    assert table.rows[1][0] == "more for the model: 600 tokens of prompt, not 40; 340 of answer, not 337"
    difference = json.loads(output.format_json(RESULT))["differences"][0]
    assert difference["beside_model"] == pytest.approx(0.8)
    assert difference["longer_model"] == pytest.approx(0.2)


def compare(result: BenchResult) -> list[dict[str, str]]:
    """The lines of the table that holds ours beside what was published, by its titles."""
    for table in output.build_tables(result):
        if table.title.startswith("Beside"):
            return [dict(zip(table.columns, line, strict=True)) for line in table.rows]
    return []


def test_published_figures_stand_beside_ours_with_both_lengths() -> None:
    alone, at_once, _ = compare(RESULT)
    assert (alone["their s"], alone["their tokens"]) == ("3.33", "1,349 in 4")
    assert (alone["our s"], alone["our tokens"]) == ("3.00", "674 in 2")
    assert (at_once["their s"], at_once["our s"]) == ("9.34", "3.00")
    keys = {protocol.key for protocol in PROTOCOLS} | {"first", ""}
    assert {figure.beside for figure in PUBLISHED_FIGURES} <= keys


def test_whole_replies_were_published_and_ours_stand_beside_them_if_there_are_any() -> None:
    whole = replace(ROW, streamed=False, wall=8.0)
    [line] = compare(BenchResult((ROW, whole), ()))
    assert (line["way of ours"], line["our s"]) == ("whole", "4.00")


@pytest.mark.parametrize(("warm", "seconds"), [("cold", ["3.00"]), ("warm", []), ("unknown", [])])
def test_only_a_cold_first_request_stands_beside_the_published_one(warm: Warmth, seconds: list[str]) -> None:
    first = replace(ROW, key="first", label="the first request", warm=warm)
    assert [line["our s"] for line in compare(replace(RESULT, rows=(first,)))] == seconds


def test_a_run_that_stopped_early_says_so_first() -> None:
    for ended, code in ((None, 0), (STOPPED_BY_HAND, 130), ("The endpoint cut the connection.", 1)):
        result = replace(RESULT, ended=ended)
        assert result.exit_code == code
        first = lay_out(output.format_lines(result)).splitlines()[0]
        assert (first == f"NOT WHOLE: {ended} What follows was measured before that.") == (ended is not None)
        assert json.loads(output.format_json(result))["whole"] == (ended is None)


def test_a_page_of_markdown_holds_every_table() -> None:
    page = "\n".join(output.format_markdown(replace(RESULT, conditions=(("a", "b | c"),))))
    assert page.count("\n## ") == 6
    for line in page.splitlines():
        if line.startswith("| what | way"):
            assert line.count("|") in {len(table.columns) + 1 for table in output.build_tables(RESULT)}
    text = lay_out(output.format_lines(RESULT))
    assert "right once mended" in text
    assert text.index("date: today") < text.index("What was asked")


def test_text_of_a_server_cannot_control_the_terminal() -> None:
    evil = replace(
        RESULT, conditions=(("endpoint", "model a\x1b[2Jb\x9b2Jc\u202ed"),), ended="HTTP 400: \x1b[8m."
    )
    for lines in (
        lay_out(output.format_lines(evil)).splitlines(),
        output.format_markdown(evil),
        output.format_json(evil).splitlines(),
    ):
        assert all(line.isprintable() for line in lines)


def test_files_are_written_and_the_picture_is_one(tmp_path: Path) -> None:
    files = write_files(RESULT, tmp_path / "deep" / "er")
    assert [file.suffix for file in files] == [".json", ".md", ".png"]
    with Image.open(files[2]) as picture:
        assert picture.size == (1350, 750)
    assert len(set(Image.open(files[2]).convert("L").tobytes())) > 10


def test_without_anything_to_draw_there_is_no_chart(tmp_path: Path) -> None:
    assert len(write_files(BenchResult((), ()), tmp_path)) == 2
    assert RESULT.find_row("gateway", "long") is None


def test_a_picture_without_a_curve_still_shows_its_calls(tmp_path: Path) -> None:
    flat = BenchResult((replace(ROW, calls=(SHORT,)),), (("SIMULATION", "none"),))
    assert flat.canvas_seconds is None
    assert chart.draw_chart(flat, tmp_path / "a.png")


def test_the_curve_is_a_sawtooth() -> None:
    assert chart.canvas_rate(1.5, 256) == pytest.approx(2 * chart.canvas_rate(1.5, 257), rel=0.01)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchFailed, match="file cannot be written"):
        write_files(RESULT, tmp_path / "file")


async def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    async def measure(stop: asyncio.Event, on_progress: ProgressCallback) -> BenchResult:
        raise AssertionError("nothing may be measured")

    options = OutputOptions(print, print, folder=tmp_path / "new", can_draw_charts=False)
    with pytest.raises(BenchFailed, match="uv sync --extra bench"):
        await run_and_print(measure, options, asyncio.Event())
    assert not (tmp_path / "new").exists()

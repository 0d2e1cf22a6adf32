"""What calls amount to, and how a result is told: no rate without its length, no zero that means unknown."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bot.bench.endpoint import chart as result_picture
from bot.bench.endpoint import files as result_files
from bot.bench.endpoint import json_output as result_json
from bot.bench.endpoint import output as result_table
from bot.bench.endpoint.protocols import PROTOCOLS
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
)
from bot.bench.harness.bots import BenchFailed

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
    """The line of the first table that begins so, by its titles."""
    table = next(result_table.build_tables(result))
    line = next(line for line in table.rows if line[0] == label)
    return dict(zip(table.titles, line, strict=True))


def test_a_row_says_under_what_its_rate_was_made() -> None:
    line = cells_of(RESULT, "long answers")
    assert line["output tokens"] == "337"
    assert (line["thinking"], line["at once"], line["warm"]) == ("off", "1", "warm")
    assert (line["canvases"], line["steps a canvas"]) == ("4", "16.0")
    assert (line["s a canvas"], line["a further one"]) == ("1.500", "1.500")
    assert line["tok/s each"] == "112.3"
    assert line["tok/s in all"] == "-"
    assert cells_of(RESULT, "four at once")["tok/s in all"] == "224.7"


def test_an_answer_of_one_canvas_has_seconds_and_no_rate() -> None:
    line = cells_of(RESULT, "short answers")
    assert (line["tok/s each"], line["tok/s in all"]) == ("-", "-")
    assert line["s an answer"] == "1.50"


def test_what_the_server_did_not_count_is_a_dash() -> None:
    silent = replace(ROW, calls=(replace(LONG, output=None), LONG), counted=None)
    line = cells_of(BenchResult((silent,), ()), "long answers")
    for title in ("output tokens", "canvases", "steps a canvas", "s a canvas", "tok/s each"):
        assert line[title] == "-"
    assert json.loads(result_json.format_json(BenchResult((silent,), ())))["rows"][0]["output_tokens"] is None


def test_a_row_that_was_broken_off_says_how_far_it_came() -> None:
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
    assert (line["output tokens"], line["s an answer"]) == ("337 to 700", "3.00 to 4.50")


@given(st.integers(1, 3000), st.integers(0, 12))
def test_a_further_canvas_is_told_only_where_each_came_as_a_block(output: int, blocks: int) -> None:
    call = MeasuredCall(9.0, output, first=1.0, last=5.0, blocks=blocks)
    canvases = -(-output // 256)
    assert call.canvases == canvases
    assert (call.seconds_after_first_block is not None) == (blocks == canvases >= 2)
    assert (call.tokens_per_second is not None) == (canvases >= 2)


def test_the_difference_adds_up_to_what_the_gateway_took() -> None:
    table = next(one for one in result_table.build_tables(RESULT) if one.heading.startswith("Direct and"))
    numbers = [float(line[1]) for line in table.rows]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1])
    assert table.rows[1][0] == "more for the model: 600 tokens of prompt, not 40; 340 of answer, not 337"
    told = json.loads(result_json.format_json(RESULT))["differences"][0]
    assert told["beside_model"] == pytest.approx(0.8)
    assert told["longer_model"] == pytest.approx(0.2)


def test_published_figures_stand_beside_ours_with_their_own_conditions() -> None:
    *_, table = result_table.build_tables(RESULT)
    lines = [dict(zip(table.titles, line, strict=True)) for line in table.rows]
    assert (lines[0]["tok/s"], lines[0]["s"], lines[0]["ours, s"]) == ("101.26", "3.33", "3.00")
    assert (lines[1]["s"], lines[1]["ours, s"]) == ("9.34", "3.00")
    assert lines[3]["ours, s"] == "-"
    keys = {one.key for one in PROTOCOLS} | {"first", ""}
    assert {one.beside for one in PUBLISHED_FIGURES} <= keys


def test_what_stopped_early_says_so_first() -> None:
    for ended, code in ((None, 0), (STOPPED_BY_HAND, 130), ("The endpoint cut the connection.", 1)):
        result = replace(RESULT, ended=ended)
        assert result.exit_code == code
        first = next(result_table.format_lines(result))
        assert (first == f"NOT WHOLE: {ended} What follows was measured before that.") == (ended is not None)
        assert json.loads(result_json.format_json(result))["whole"] == (ended is None)


def test_a_page_of_markdown_holds_every_table() -> None:
    page = "\n".join(result_table.format_markdown(replace(RESULT, conditions=(("a", "b | c"),))))
    assert page.count("\n## ") == 4
    for line in page.splitlines():
        if line.startswith("| what | way"):
            assert line.count("|") == len(next(result_table.build_tables(RESULT)).titles) + 1
    told = "\n".join(result_table.format_lines(RESULT))
    assert "right once mended" in told
    assert told.index("date: today") < told.index("What was measured")


def test_words_of_a_server_give_a_terminal_nothing_to_obey() -> None:
    evil = replace(
        RESULT, conditions=(("endpoint", "model a\x1b[2Jb\x9b2Jc\u202ed"),), ended="HTTP 400: \x1b[8m."
    )
    for lines in (
        result_table.format_lines(evil),
        result_table.format_markdown(evil),
        result_json.format_json(evil).splitlines(),
    ):
        assert all(line.isprintable() for line in lines)


def test_files_are_written_and_the_picture_is_one(tmp_path: Path) -> None:
    files = result_files.write_files(RESULT, tmp_path / "deep" / "er")
    assert [file.suffix for file in files] == [".json", ".md", ".png"]
    with Image.open(files[2]) as picture:
        assert picture.size == (1350, 750)
    assert len(set(Image.open(files[2]).convert("L").tobytes())) > 10


def test_nothing_to_draw_makes_no_picture(tmp_path: Path) -> None:
    assert len(result_files.write_files(BenchResult((), ()), tmp_path)) == 2
    assert RESULT.find_row("gateway", "long") is None


def test_a_picture_without_a_curve_still_shows_its_calls(tmp_path: Path) -> None:
    flat = BenchResult((replace(ROW, calls=(SHORT,)),), (("SIMULATION", "none"),))
    assert flat.canvas_seconds is None
    assert result_picture.draw_chart(flat, tmp_path / "a.png")


def test_the_curve_is_a_saw() -> None:
    assert result_picture.canvas_rate(1.5, 256) == pytest.approx(
        2 * result_picture.canvas_rate(1.5, 257), rel=0.01
    )


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchFailed, match="file cannot be written"):
        result_files.write_files(RESULT, tmp_path / "file")

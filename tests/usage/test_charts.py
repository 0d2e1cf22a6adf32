"""A chart: what is unknown leaves a gap that says so, and drawing needs only the figures."""

import base64
import io
import json
import subprocess
import sys
from datetime import date
from typing import Any

import pytest
from PIL import Image, ImageFont

from bot.db.usage.usage_sums import Scope, TurnCounts
from bot.translations.translator import ENGLISH, LANGUAGES, load_translator
from bot.usage.chart_image import FONT_FILE, WIDTH, draw_png, draw_png_base64, list_ticks
from bot.usage.charts import (
    CHART_DAYS,
    UNDRAWABLE_LANGUAGES,
    build_daily_chart,
)
from bot.usage.report import Grouping, ReportQuery, ReportSums, UsageReport, build_report
from tests.support.report_sums import UNKNOWN_SUMS, call_sums, turn_sums
from tools.sandbox.process import SandboxLimits, run_in_sandbox

MAX_PHOTO_SIDES = 10_000  # pixels of width and height together that Telegram takes as a photo
TODAY = 20_050
DATE = date(2024, 11, 23)


def make_report(by: Grouping | None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(Scope(), by), ReportSums(**(plain | sums)))


def open_png(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image


def test_a_persons_chart_has_thirty_days_also_on_the_first():
    report = make_report("day", turns=[turn_sums(TODAY, turns=5, answered=3)])
    chart = build_daily_chart(report, DATE, "You", ENGLISH, with_output=False)
    assert (len(chart["labels"]), chart["labels"][-1], chart["notes"]) == (CHART_DAYS, "2024-11-23", [])
    (panel,) = chart["panels"]
    assert (panel["heading"], panel["values"]) == ("Answers a day", [0] * 29 + [3])
    assert panel["total"] == "3"


def test_admins_see_canvases_too_and_what_is_not_known_of_them():
    calls = [
        call_sums(TODAY - 1, **UNKNOWN_SUMS),
        call_sums(TODAY, canvases=7, canvases_known=1),
        call_sums(TODAY - 30),  # a day too old
    ]
    report = make_report("day", calls=calls, turns=[turn_sums(TODAY - 1, turns=2), turn_sums(TODAY, turns=3)])
    chart = build_daily_chart(report, DATE, "You", ENGLISH, with_output=True)
    answers, canvases = chart["panels"]
    assert answers["values"] == [0] * 28 + [2, 3]
    assert canvases["values"] == [0] * 28 + [None, 7]
    assert canvases["at least"] == [False] * 29 + [True]
    assert (answers["total"], canvases["total"]) == ("5", "≥ 7")
    assert chart["notes"] == ["≥ at least: not every count is known", "? unknown"]


@pytest.mark.parametrize("language", sorted(LANGUAGES.keys() - UNDRAWABLE_LANGUAGES))
def test_the_font_has_every_character_of_a_persons_chart(language: str):
    calls = [call_sums(TODAY - 1, **UNKNOWN_SUMS), call_sums(TODAY, canvases_known=1)]
    report = make_report("day", calls=calls)
    chart = build_daily_chart(report, DATE, "", load_translator(language), with_output=True)
    texts = [*(panel["heading"] for panel in chart["panels"]), *chart["notes"]]
    font = ImageFont.truetype(FONT_FILE, 36)
    missing = font.getmask("\U0010ffff").getbbox(), bytes(font.getmask("\U0010ffff"))
    for character in {*"".join(texts)} - {" ", "\u00a0", "\u202f"}:
        assert (font.getmask(character).getbbox(), bytes(font.getmask(character))) != missing, character


def test_the_columns_of_a_persons_chart_stand_where_their_days_are():
    report = make_report("day", turns=[turn_sums(TODAY, turns=3), turn_sums(TODAY - 29, turns=1)])
    chart = build_daily_chart(report, DATE, "You", ENGLISH, with_output=False)
    image = open_png(draw_png(chart)).convert("RGB")
    assert image.width == WIDTH
    assert image.height >= image.width  # portrait, or square
    heights = [count_pixels(image.crop((x, 0, x + 1, image.height)), GREY) for x in range(image.width)]
    columns = [x for x, height in enumerate(heights) if height]
    assert columns[0] < WIDTH / 5 < WIDTH * 4 / 5 < columns[-1]
    assert heights[columns[-1] - 5] == pytest.approx(3 * heights[columns[0] + 5], abs=6)


GREY = (0x57, 0x60, 0x6A)  # of turns, in the palette


def count_pixels(image: Image.Image, colour: tuple[int, int, int]) -> int:
    return {value: count for count, value in image.getcolors(maxcolors=1 << 16) or ()}.get(colour, 0)


@pytest.mark.parametrize(
    ("highest", "are_whole", "ticks"),
    [
        (0.0, True, [0, 1]),
        (1.0, True, [0, 1]),
        (3.0, True, [0, 1, 2, 3]),
        (14.0, True, [0, 5, 10, 15]),
        (1_000_000.0, True, [0, 500_000, 1_000_000]),
        (0.6, False, [0, 0.2, 0.4, 0.6]),
        (10.0, False, [0, 5, 10]),
    ],
)
def test_the_grid_has_few_round_lines(highest: float, are_whole: bool, ticks: list[float]):
    assert list_ticks(highest, are_whole=are_whole) == ticks


def test_what_is_unknown_is_none_and_never_zero():
    counted = make_report("day", turns=[TurnCounts(TODAY, 2, 0, 2)])
    (answers,) = build_daily_chart(counted, DATE, "You", ENGLISH, with_output=False)["panels"]
    assert answers["values"] == [0] * 29 + [None]


def test_what_is_known_in_part_is_marked_as_at_least_so_much():
    calls = [
        call_sums(TODAY - 3, canvases_known=1),
        call_sums(TODAY - 2, partial=1),
        call_sums(TODAY - 1),
        call_sums(TODAY, **UNKNOWN_SUMS),
    ]
    chart = build_daily_chart(make_report("day", calls=calls), DATE, "You", ENGLISH, with_output=True)
    _, canvases = chart["panels"]
    assert canvases["at least"][-4:] == [True, True, False, False]
    plain = {**chart, "panels": [{**panel, "at least": [False] * CHART_DAYS} for panel in chart["panels"]]}
    assert open_png(draw_png(chart)).tobytes() != open_png(draw_png(plain)).tobytes()


@pytest.mark.parametrize(
    "report",
    [
        make_report("day"),
        make_report("day", calls=[call_sums(TODAY)], turns=[turn_sums(TODAY)]),
        make_report("day", calls=[call_sums(TODAY, **UNKNOWN_SUMS)], turns=[turn_sums(TODAY, settled=0)]),
    ],
    ids=["nothing", "known", "unknown"],
)
def test_every_report_can_be_drawn_small_enough_for_a_chat(report: UsageReport):
    image = open_png(draw_png(build_daily_chart(report, DATE, "$ 模型 " * 20, ENGLISH, with_output=True)))
    assert image.width + image.height < MAX_PHOTO_SIDES
    assert image.getextrema() != ((255, 255),) * 3


async def test_it_is_drawn_in_a_process_of_its_own():
    chart = build_daily_chart(make_report("day"), DATE, "You", ENGLISH, with_output=True)
    body = json.dumps(chart).encode()
    limits = SandboxLimits(
        wall_seconds=50.0, cpu_seconds=40, memory_bytes=3 * 1024**3, max_result_bytes=4 * 1024**2
    )
    assert open_png(base64.b64decode(await run_in_sandbox(draw_png_base64, body, limits))).width > 1000


def test_nothing_is_imported_to_draw_before_something_is_drawn():
    program = (
        "import sys, bot.usage.charts, bot.usage.report_command, bot.chat.commands.usage;"
        "print([name for name in ('matplotlib', 'numpy', 'PIL') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"

"""A report as a picture: what is unknown leaves a gap that says so, and drawing needs only the figures."""

import base64
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from PIL import Image

from bot.db.usage.usage_sums import Scope, ToolSums
from bot.usage.charts import MAX_GROUPS, are_charts_installed, build_chart, draw_png, draw_png_base64
from bot.usage.report import Grouping, ReportQuery, ReportSums, UsageReport, build_report
from tests.support.report_sums import UNKNOWN_SUMS, call_sums, turn_sums
from tools.sandbox.process import SandboxLimits, run_in_sandbox


def make_report(by: Grouping | None, **sums: Any) -> UsageReport:
    plain: dict[str, Any] = {"calls": (), "retries": (), "turns": (), "tools": ()}
    return build_report(ReportQuery(Scope(), by), ReportSums(**(plain | sums)))


def open_png(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image


DAYS = make_report(
    "day",
    calls=[call_sums(20_000), call_sums(20_001)],
    turns=[turn_sums(20_000), turn_sums(20_001, settled=0)],
)


def test_a_chart_has_everything_that_the_picture_shows():
    chart = build_chart(DAYS, "You")
    assert (chart["title"], chart["labels"], chart["unit"]) == (
        "You",
        ["2024-10-04", "2024-10-05"],
        "seconds",
    )
    assert [stack["name"] for stack in chart["stacks"]][:2] == ["intake", "seat wait"]
    assert chart["stacks"][0]["values"] == [0.5, None]
    assert (chart["canvases"], chart["cached"]) == ([4, 4], [0.25, 0.25])


def test_what_is_unknown_is_none_and_never_zero():
    chart = build_chart(
        make_report("day", calls=[call_sums(20_000, **UNKNOWN_SUMS)], turns=[turn_sums(20_000, settled=0)]),
        "x",
    )
    assert (chart["stacks"], chart["canvases"], chart["cached"]) == ([], [None], [None])
    assert build_chart(make_report("day", turns=[turn_sums(20_000)]), "x")["canvases"] == [None]


def test_what_is_known_in_part_is_marked_as_at_least_so_much():
    some = [
        call_sums(20_000, canvases_known=1),
        call_sums(20_001, partial=1),
        call_sums(20_002),
        call_sums(20_003, **UNKNOWN_SUMS),
    ]
    turns = [turn_sums(20_000, settled=1), turn_sums(20_001), turn_sums(20_002, settled=0), turn_sums(20_003)]
    chart = build_chart(make_report("day", calls=some, turns=turns), "x")
    assert chart["canvases at least"] == [True, True, False, False]
    assert chart["stacks at least"] == [True, False, False, False]
    plain = {**chart, "canvases at least": [False] * 4, "stacks at least": [False] * 4}
    assert open_png(draw_png(chart)).tobytes() != open_png(draw_png(plain)).tobytes()


def test_a_day_on_which_nothing_happened_is_zero_and_not_left_out():
    chart = build_chart(
        make_report(
            "day", calls=[call_sums(20_000), call_sums(20_003)], turns=[turn_sums(20_000), turn_sums(20_003)]
        ),
        "x",
    )
    assert chart["labels"] == ["2024-10-04", "2024-10-05", "2024-10-06", "2024-10-07"]
    assert chart["stacks"][0]["values"] == [0.5, 0.0, 0.0, 0.5]
    assert (chart["canvases"], chart["cached"]) == ([4, 0, 0, 4], [0.25, None, None, 0.25])


def test_of_very_many_groups_the_newest_days_or_the_largest_are_drawn():
    days = build_chart(make_report("day", calls=[call_sums(day) for day in range(20_000, 20_040)]), "You")
    assert len(days["labels"]) == MAX_GROUPS
    assert days["labels"][-1] == "2024-11-12"
    assert days["title"] == "You (31 of 40 shown)"
    users = build_chart(
        make_report("user", calls=[call_sums(user, canvases=user) for user in range(1, 41)]), "You"
    )
    assert users["labels"][0] == "40"


def test_tools_are_drawn_by_how_they_ended():
    tools = [
        ToolSums("clock", "ok", 2, 2, 1.0),
        ToolSums("clock", "error", 1, 1, 1.0),
        ToolSums("b", None, 1, 0, 0.0),
    ]
    chart = build_chart(make_report("tool", tools=tools), "Tools")
    assert chart["unit"] == "tool calls"
    assert [(stack["name"], stack["values"]) for stack in chart["stacks"]] == [
        ("ok", [2, 0]),
        ("not well", [1, 0]),
        ("not ended", [0, 1]),
    ]
    assert open_png(draw_png(chart)).width > 1000


@pytest.mark.parametrize(
    "report",
    [
        DAYS,
        make_report(None, calls=[call_sums()], turns=[turn_sums()]),
        make_report("model", calls=[call_sums("$x^2$ \x1b[0m 模型"), call_sums("b", **UNKNOWN_SUMS)]),
        make_report("day", calls=[call_sums(20_000, **UNKNOWN_SUMS)], turns=[turn_sums(20_000, settled=0)]),
    ],
    ids=["days", "all", "models", "unknown"],
)
def test_every_report_can_be_drawn_small_enough_for_a_chat(report: UsageReport):
    image = open_png(draw_png(build_chart(report, "From 2024-10-04 $")))
    assert image.width + image.height < 10_000
    assert image.getextrema() != ((255, 255),) * 3


def test_days_that_differ_look_different():
    more = make_report(
        "day",
        calls=[call_sums(20_000, canvases=40), call_sums(20_001)],
        turns=[turn_sums(20_000), turn_sums(20_001)],
    )
    assert draw_png(build_chart(DAYS, "x")) != draw_png(build_chart(more, "x"))
    assert draw_png(build_chart(DAYS, "x")) == draw_png(build_chart(DAYS, "x"))


async def test_it_is_drawn_in_a_process_of_its_own():
    body = json.dumps(build_chart(DAYS, "You")).encode()
    limits = SandboxLimits(
        wall_seconds=50.0, cpu_seconds=40, memory_bytes=3 * 1024**3, max_result_bytes=4 * 1024**2
    )
    assert open_png(base64.b64decode(await run_in_sandbox(draw_png_base64, body, limits))).width > 1000


def test_nothing_is_imported_to_draw_before_something_is_drawn():
    program = (
        "import sys, bot.usage.charts, bot.usage.report_command, bot.telegram.commands.usage;"
        "print([name for name in ('matplotlib', 'numpy') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


def test_charts_are_installed_if_the_drawing_library_can_be_found():
    assert are_charts_installed()
    assert not are_charts_installed(find_spec=lambda name: None)

"""A report as a picture: what is not known leaves a gap that says so, and drawing needs no more than the
figures.
"""

import base64
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from PIL import Image

from bot.db.usage.usage_sums import Scope, ToolSums
from bot.usage.charts import MOST, apart, chart, drawn
from bot.usage.report import By, Found, Question, Report, report
from tests.support.report_sums import UNKNOWN, calls, turns
from tools.sandbox.process import Limits, run_apart


def made(by: By | None, **found: Any) -> Report:
    plain: dict[str, Any] = {"calls": (), "again": (), "turns": (), "tools": ()}
    return report(Question(Scope(), by), Found(**(plain | found)))


def opened(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    assert image.format == "PNG"
    return image


DAYS = made("day", calls=[calls(20_000), calls(20_001)], turns=[turns(20_000), turns(20_001, settled=0)])


def test_a_chart_says_what_stands_in_the_picture():
    told = chart(DAYS, "You")
    assert (told["title"], told["labels"], told["unit"]) == ("You", ["2024-10-04", "2024-10-05"], "seconds")
    assert [stack["name"] for stack in told["stacks"]][:2] == ["intake", "seat wait"]
    assert told["stacks"][0]["values"] == [0.5, None]
    assert (told["canvases"], told["cached"]) == ([4, 4], [0.25, 0.25])


def test_what_is_unknown_is_none_and_never_nought():
    told = chart(made("day", calls=[calls(20_000, **UNKNOWN)], turns=[turns(20_000, settled=0)]), "x")
    assert (told["stacks"], told["canvases"], told["cached"]) == ([], [None], [None])
    assert chart(made("day", turns=[turns(20_000)]), "x")["canvases"] == [None]


def test_what_is_known_in_part_is_marked_as_at_least_so_much():
    some = [
        calls(20_000, canvases_known=1),
        calls(20_001, partial=1),
        calls(20_002),
        calls(20_003, **UNKNOWN),
    ]
    books = [turns(20_000, settled=1), turns(20_001), turns(20_002, settled=0), turns(20_003)]
    told = chart(made("day", calls=some, turns=books), "x")
    assert told["canvases at least"] == [True, True, False, False]
    assert told["stacks at least"] == [True, False, False, False]
    plain = {**told, "canvases at least": [False] * 4, "stacks at least": [False] * 4}
    assert opened(drawn(told)).tobytes() != opened(drawn(plain)).tobytes()


def test_a_day_on_which_nothing_happened_is_nought_and_not_left_out():
    told = chart(made("day", calls=[calls(20_000), calls(20_003)], turns=[turns(20_000), turns(20_003)]), "x")
    assert told["labels"] == ["2024-10-04", "2024-10-05", "2024-10-06", "2024-10-07"]
    assert told["stacks"][0]["values"] == [0.5, 0.0, 0.0, 0.5]
    assert (told["canvases"], told["cached"]) == ([4, 0, 0, 4], [0.25, None, None, 0.25])


def test_of_very_many_groups_the_newest_days_or_the_largest_are_drawn():
    days = chart(made("day", calls=[calls(day) for day in range(20_000, 20_040)]), "You")
    assert len(days["labels"]) == MOST
    assert days["labels"][-1] == "2024-11-12"
    assert days["title"] == "You (31 of 40 shown)"
    users = chart(made("user", calls=[calls(user, canvases=user) for user in range(1, 41)]), "You")
    assert users["labels"][0] == "40"


def test_tools_are_drawn_by_how_they_ended():
    tools = [
        ToolSums("clock", "ok", 2, 2, 1.0),
        ToolSums("clock", "error", 1, 1, 1.0),
        ToolSums("b", None, 1, 0, 0.0),
    ]
    told = chart(made("tool", tools=tools), "Tools")
    assert told["unit"] == "tool calls"
    assert [(one["name"], one["values"]) for one in told["stacks"]] == [
        ("ok", [2, 0]),
        ("not well", [1, 0]),
        ("not ended", [0, 1]),
    ]
    assert opened(drawn(told)).width > 1000


@pytest.mark.parametrize(
    "found",
    [
        DAYS,
        made(None, calls=[calls()], turns=[turns()]),
        made("model", calls=[calls("$x^2$ \x1b[0m 模型"), calls("b", **UNKNOWN)]),
        made("day", calls=[calls(20_000, **UNKNOWN)], turns=[turns(20_000, settled=0)]),
    ],
    ids=["days", "all", "models", "unknown"],
)
def test_every_report_can_be_drawn_small_enough_for_a_chat(found: Report):
    image = opened(drawn(chart(found, "From 2024-10-04 $")))
    assert image.width + image.height < 10_000
    assert image.getextrema() != ((255, 255),) * 3


def test_days_that_differ_look_different():
    more = made(
        "day", calls=[calls(20_000, canvases=40), calls(20_001)], turns=[turns(20_000), turns(20_001)]
    )
    assert drawn(chart(DAYS, "x")) != drawn(chart(more, "x"))
    assert drawn(chart(DAYS, "x")) == drawn(chart(DAYS, "x"))


async def test_it_is_drawn_in_a_process_of_its_own():
    body = json.dumps(chart(DAYS, "You")).encode()
    limits = Limits(seconds=50.0, processor=40, memory=3 * 1024**3, answer=4 * 1024**2)
    assert opened(base64.b64decode(await run_apart(apart, body, limits))).width > 1000


def test_nothing_is_imported_to_draw_before_something_is_drawn():
    program = (
        "import sys, bot.usage.charts, bot.usage.report_command, bot.telegram.commands.usage;"
        "print([name for name in ('matplotlib', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"

"""The chart of columns: heights in proportion, nothing drawn where nothing is known."""

import re

import pytest

from bot.admin.column_chart import Column, draw_columns


def draw(*canvases: float | None, mark: str = "") -> str:
    columns = [
        Column(f"{number:02}", f"day {number}", () if value is None else (("canvas", value),), mark)
        for number, value in enumerate(canvases)
    ]
    return str(draw_columns("Canvases", columns))


def read_heights(chart: str) -> list[float]:
    return [float(height) for height in re.findall(r'<rect[^>]* height="([0-9.]+)"', chart)]


def test_columns_are_as_high_as_their_canvases_and_say_what_they_are():
    chart = draw(10, 5, 0)
    highest, half, none = read_heights(chart)
    assert (half, none) == (highest / 2, 0)
    assert re.findall(r"<title>(day [0-9])</title>", chart) == ["day 0", "day 1", "day 2"]


def test_pieces_of_a_column_stand_on_each_other():
    chart = str(draw_columns("Turns", [Column("1", "1", (("turn", 3), ("fault", 1)))]))
    places = re.findall(
        r'<rect class="(\w+)" x="[0-9.]+" y="([0-9.]+)" width="[0-9.]+" height="([0-9.]+)"', chart
    )
    (_, top, height), (_, failed_top, failed_height) = places
    assert float(failed_top) + float(failed_height) == pytest.approx(float(top), abs=0.1)
    assert float(height) == pytest.approx(3 * float(failed_height), abs=0.3)


def test_what_is_unknown_has_no_column_and_a_mark():
    assert len(read_heights(draw(None, 5))) == 1
    assert draw(None, 5, mark="?").count(">?</text>") == 2


def test_of_many_columns_a_few_have_labels():
    chart = draw(*[1.0] * 90)
    assert 4 <= len(re.findall(r'class="tick (?:middle|end)(?: fine)?" x="[0-9.]+%" y="132"', chart)) <= 8


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1"]),
        (4, ["0", "1", "2", "3", "4"]),
        (6, ["0", "2", "4", "6"]),
        (14_300, ["0", "5,000", "10,000", "15,000"]),
    ],
)
def test_ticks_are_few_whole_numbers_that_reach_every_column(highest: int, ticks: list[str]):
    assert re.findall(r'class="tick end" x="56"[^>]*>([^<]*)', draw(highest)) == ticks

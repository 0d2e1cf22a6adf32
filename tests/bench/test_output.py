"""A load report as a table and as JSON."""

import json

from bot.bench import output
from bot.bench.harness.statistics import (
    FigureRow,
    LoadReport,
    limit_to,
    limit_to_answer,
    limit_to_memory_loop,
)

REPORT = LoadReport(
    (
        FigureRow(
            "own_p50",
            "own time",
            "ms",
            {"bare": 2.0, "memory": 10.0, "ours": 15.04},
            limit_to_memory_loop(2, 10.0),
        ),
        FigureRow("prompt", "first prompt", "tokens", {"memory": 96, "ours": 1250}, limit_to(1200), digits=0),
        FigureRow(
            "killed", "answered once", "", {"memory": False, "ours": True}, limit_to_answer(value=True)
        ),
        FigureRow("idle", "memory", "MiB", {"ours": 100.0}, digits=0),
    ),
    (("machine", "two cores"),),
)


def test_the_table_shows_figures_limits_verdicts_and_conditions():
    assert list(output.format_lines(REPORT)) == [
        "                      bare loop  memory loop   ours  ours / memory      ours, at most",
        "-------------------------------------------------------------------------------------------",
        "own time, ms                2.0         10.0   15.0           1.50  2 x memory = 20.0    ok",
        "first prompt, tokens          -           96  1,250          13.02              1,200  over",
        "answered once                 -           no    yes                               yes    ok",
        "memory, MiB                   -            -    100",
        "",
        "machine: two cores",
    ]


def test_json_has_the_same_figures():
    fields = json.loads(output.format_json(REPORT))
    assert fields["holds"] is False
    assert fields["conditions"] == {"machine": "two cores"}
    assert fields["rows"][0] == {
        "key": "own_p50",
        "label": "own time",
        "unit": "ms",
        "bare": 2.0,
        "memory": 10.0,
        "ours": 15.04,
        "ratio": 1.504,
        "limit": 20.0,
        "verdict": "ok",
    }
    assert [row["limit"] for row in fields["rows"]] == [20.0, 1200.0, True, None]

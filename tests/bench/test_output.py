"""A load report as a table and as JSON."""

import json
import re

import pytest

from tests.bench import output
from tests.bench.harness.figures import (
    BotName,
    FigureRow,
    FigureValue,
    LoadReport,
    limit_to,
    limit_to_memory_loop,
    merge_runs,
    require_answer,
    require_at_least,
)
from tests.support.terminal_text import lay_out


def own_time(memory: float, ours: float) -> FigureRow:
    values: dict[BotName, FigureValue] = {"bare": 2.0, "memory": memory, "ours": ours}
    return FigureRow("own_p50", "own", "ms", values, limit_to_memory_loop(1.4))


REPORT = LoadReport(
    merge_runs(
        [
            own_time(10.0, 15.04),
            FigureRow(
                "prompt", "first prompt", "tokens", {"memory": 96, "ours": 1250}, limit_to(1200), digits=0
            ),
            FigureRow(
                "killed", "answered once", "", {"memory": False, "ours": True}, require_answer(value=True)
            ),
            FigureRow("turns", "turns a second", "", {"ours": 40.0}, require_at_least(40), digits=0),
            FigureRow("idle", "memory", "MiB", {"ours": 100.0}, digits=0),
            own_time(20.0, 26.0),
            own_time(11.0, 16.0),
        ]
    ),
    (("machine", "two cores"),),
)


def test_the_table_shows_figures_spread_limits_verdicts_and_conditions():
    lines = [re.sub(r" {2,}", " | ", line) for line in lay_out(output.format_lines(REPORT)).splitlines()]
    assert lines == [
        " | bare loop | memory loop | ours | ours / memory | limit",
        "own, ms | 2.0 | 11.0 (10.0–20.0) | 16.0 (15.0–26.0) | 1.45 (1.30–1.50) | ≤ 1.4 x memory | missed",
        "first prompt, tokens | - | 96 | 1,250 | 13.02 | ≤ 1,200 | missed",
        "answered once | - | no | yes | yes | ok",
        "turns a second | - | - | 40 | ≥ 40 | ok",
        "memory, MiB | - | - | 100",
        "",
        "machine: two cores",
    ]


def test_json_has_the_same_figures():
    fields = json.loads(output.format_json(REPORT))
    assert fields["holds"] is False
    assert fields["conditions"] == {"machine": "two cores"}
    ratio = pytest.approx(16 / 11)
    spread = {"bare": [2.0, 2.0], "memory": [10.0, 20.0], "ours": [15.04, 26.0], "ratio": [1.3, 1.504]}
    assert fields["rows"][0] == {
        "key": "own_p50",
        "label": "own",
        "unit": "ms",
        "bare": 2.0,
        "memory": 11.0,
        "ours": 16.0,
        "ratio": ratio,
        "runs": 3,
        "spread": spread,
        "limit": {"kind": "of memory loop", "value": 1.4},
        "verdict": "missed",
    }
    assert [row["verdict"] for row in fields["rows"]] == ["missed", "missed", "ok", "ok", ""]
    assert fields["rows"][1]["spread"] == {}

"""The developers' benches from the command line: what is printed, and with which exit code."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench import __main__ as benches
from tests.bench.harness.figures import FigureRow, LoadReport, limit_to, limit_to_memory_loop, merge_runs
from tests.bench.load.run import LoadOptions, PrintLine

runner = CliRunner()


@pytest.mark.parametrize(("ours", "code"), [(10.0, 0), (30.0, 1)])
def test_load_prints_its_figures_and_checks_them_if_asked(
    monkeypatch: pytest.MonkeyPatch, ours: float, code: int
) -> None:
    option_sets = []
    completions = [True, True, False]

    async def run(options: LoadOptions, say: PrintLine, stop: asyncio.Event) -> LoadReport:
        option_sets.append(options)
        say("measuring: own")
        row = FigureRow("own_p50", "own time", "ms", {"memory": 10.0, "ours": ours}, limit_to_memory_loop(2))
        return LoadReport(merge_runs([row]), is_complete=completions.pop(0))

    monkeypatch.setattr(benches, "run_load", run)
    options = ("--messages", "8", "--only", "own,start", "--json", "--check")
    result = runner.invoke(benches.bench, ["load", *options])
    assert (result.exit_code, result.stderr) == (code, "measuring: own\n")
    assert json.loads(result.stdout)["rows"][0]["verdict"] == ("missed" if code else "ok")
    assert option_sets == [LoadOptions(messages=8, only_sections=("own", "start"))]
    assert "own time, ms" in runner.invoke(benches.bench, ["load"]).stdout
    result = runner.invoke(benches.bench, ["load", "--check"])
    assert result.exit_code == 130
    assert result.stdout.splitlines()[0] == (
        "NOT WHOLE: It was stopped by hand. What follows was measured before that."
    )


def test_soak_lasts_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(minutes: float, stop: asyncio.Event, *, folder: Path | None) -> LoadReport:
        row = FigureRow("soak_lost", "messages without an answer", "", {"ours": minutes}, limit_to(1))
        return LoadReport(merge_runs([row]))

    monkeypatch.setattr(benches, "run_soak", run)
    result = runner.invoke(benches.bench, ["soak", "--minutes", "2", "--check"])
    assert result.exit_code == 1
    assert result.stderr == "loading the gateway for 2 min; Ctrl-C prints what was seen by then\n"
    assert result.stdout.splitlines()[1].endswith("missed")
    assert runner.invoke(benches.bench, ["soak"]).exit_code == 0

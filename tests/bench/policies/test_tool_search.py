"""`bench tools`: the needed one of many tools is in the prompt or among the first five found."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.bench.policies.output import PolicyReport, format_lines
from bot.bench.policies.tool_search import (
    ALL_SOURCES,
    TITLES,
    ToolSearchOptions,
    ToolSearchScore,
    run_tool_search,
)
from bot.cli.main import cli
from bot.errors import QuestionRefused
from tests.support.many_tools import make_many_tools
from tests.support.terminal_text import lay_out

FIXTURES = Path(__file__).parents[2] / "fixtures" / "thinking"
LANGUAGES = {"de", "fr", "es", "it", "pt", "ru", "tr", "ar", "zh", "ja"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A company's tools, some messages that need one of them, and one that needs none."""
    folder = tmp_path_factory.mktemp("company")
    schemas = {
        tool.name: {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        for tool in make_many_tools()
    }
    schemas["listPayDays"] = {"name": "listPayDays", "description": "When wages come.", "parameters": {}}
    cases = [
        ("Please approve invoice 17", ["approve_invoice", "list_invoice"], "approve_invoice"),
        ("How many vouchers were there in May?", ["count_voucher", "list_voucher"], None),
        ("When are wages paid? Show the pay days", ["listPayDays", "count_voucher"], "listPayDays"),
        ("Hm", ["get_rota"], None),
    ]
    rows = [
        {"text": text, "tools": tool_names, "needs_tools": True, "source": "company", "needed": needed}
        for text, tool_names, needed in cases
    ]
    rows.append({"text": "Hello!", "tools": ["get_rota"], "needs_tools": False, "source": "talk"})
    (folder / "tools.json").write_text(json.dumps(schemas), encoding="utf-8")
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_among_two_hundred_tools_messages_in_eleven_languages_reach_the_one_they_need(folder: Path) -> None:
    report = run_tool_search(ToolSearchOptions((FIXTURES, folder)))
    together = {score.judged: score for score in report.scores if score.source == ALL_SOURCES}
    assert together["thinking/english.jsonl"].reached >= 0.95
    assert together["thinking/languages.jsonl"].reached >= 0.95
    assert {score.source for score in report.scores} >= {"en", *LANGUAGES}
    assert 0 < report.pace["search"] <= report.pace["longest"]
    assert report.pace["tokens"] <= 2000
    index, search = report.notes
    assert re.fullmatch(
        r"index: \d+ ms of processor time, once a set of tools; in the prompt: \d+ tokens", index
    )
    assert re.match(
        r"search: [\d.]+ ms of processor time, 99 of 100 within [\d.]+ ms; its result: \d+ ", search
    )


def test_cases_that_do_not_say_what_they_need_need_what_fits_best(folder: Path) -> None:
    report = run_tool_search(ToolSearchOptions((folder,), registered_tools=50))
    [company, together] = report.scores
    assert (company.source, company.cases, company.reached, company.found) == ("company", 4, 0.75, 0.75)
    assert together.source == ALL_SOURCES
    assert not report.holds
    assert dict(report.conditions)["needed"].startswith("as the case says; 2 do not")


def test_a_folder_without_cases_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuestionRefused, match="No cases"):
        run_tool_search(ToolSearchOptions((tmp_path,)))


REPORT = PolicyReport(
    TITLES,
    (
        ToolSearchScore("set", "en", 74, 0.93, 0.68, 0.93, 0.973),
        ToolSearchScore("set", ALL_SOURCES, 74, 0.93, 0.68, 0.93, 0.973),
    ),
    (("load", "1.0"),),
    notes=("search: 0.7 ms",),
)


def test_the_table_shows_the_figures() -> None:
    text = lay_out(format_lines(REPORT))
    assert "en                      set     74         93.0 %       68.0 %      93.0 %  97.3 %" in text
    assert "\n\nsearch: 0.7 ms\n\nload" in text
    assert text.endswith("load: 1.0")


def test_the_command_prints_json_and_fails_where_too_few_are_reached(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["bench", "tools", "--data", str(folder), "--registered", "20", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["scores"][0]["cases"] == 4
    failed = CliRunner().invoke(
        cli, ["bench", "tools", "--data", str(folder), "--registered", "20", "--check"]
    )
    assert failed.exit_code == 1

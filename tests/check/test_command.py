"""`canvasgram check`: which endpoint is checked, what is printed, and the exit code."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing

import bot.cli.main as command_line
from bot import terminal
from bot.check import probe
from bot.check.findings import EXIT_CODES, CheckReport, Finding
from bot.check.probe import CheckOptions
from bot.errors import SettingsRefused
from bot.http_server import serve
from bot.settings import Settings
from tests.check.test_output import WARNED, make_report
from tests.support.endpoint.server import ScriptedEndpoint


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no setting in the environment."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_settings_name_the_endpoint_without_a_token(folder: Path) -> None:
    env = folder / ".env"
    env.write_text(
        "MODEL_URL=http://gpu:8000\nMODEL_API_KEY=k\nMODEL_NAME=m\nMODEL_SEATS=3\nPROMPT_BUDGET=9000\n"
    )
    assert probe.resolve_options(None, None, env) == CheckOptions(
        "http://gpu:8000/v1", "k", "m", 13_096, 3, includes_search=True
    )
    assert probe.resolve_options(None, "other", env).key == "other"


def test_without_settings_it_is_the_usual_address(folder: Path) -> None:
    assert probe.resolve_options(None, None, folder / ".env").url == "http://localhost:8000/v1"


def test_a_key_of_the_settings_is_not_sent_to_another_endpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_API_KEY", "k")
    env = folder / ".env"
    env.write_text("MODEL_API_KEY=k\nMODEL_SEATS=3\n")
    assert probe.resolve_options("http://other:1234", None, env) == CheckOptions(
        "http://other:1234/v1", None, None, 12_096, None
    )
    assert probe.resolve_options("http://other:1234/v1", "its", env).key == "its"


def test_an_address_that_is_none_is_said(folder: Path) -> None:
    with pytest.raises(SettingsRefused, match="MODEL_URL must be"):
        probe.resolve_options("gpu", None, folder / ".env")


@contextlib.asynccontextmanager
async def serve_endpoint(**endpoint: Any) -> AsyncIterator[str]:
    async with serve(ScriptedEndpoint(**endpoint).app) as url:
        yield f"{url}/v1"


def run_cli(monkeypatch: pytest.MonkeyPatch, report: CheckReport, *args: str) -> typer.testing.Result:
    """The command line, with a check that comes to this report."""

    async def run(_wish: CheckOptions, progress: Any, _stop: asyncio.Event) -> CheckReport:
        progress(1, 2, "version")
        progress(2, 2, "done")
        return report

    monkeypatch.setattr(probe, "run_check", run)
    return typer.testing.CliRunner().invoke(command_line.cli, ["check", *args])


@pytest.mark.parametrize(("json_wanted", "first"), [(False, "Check of http://gpu:8000/v1"), (True, "{")])
def test_the_report_is_printed_and_ends_with_its_code(
    monkeypatch: pytest.MonkeyPatch, json_wanted: bool, first: str
) -> None:
    result = run_cli(monkeypatch, make_report(WARNED), *(["--json"] if json_wanted else []))
    assert result.exit_code == 3
    assert result.stdout.splitlines()[0] == first
    assert result.stderr == ""


def test_words_of_a_server_give_a_terminal_nothing_to_obey(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = Finding("model", "warn", "Serves a\x1b[2Jb\x9b2Jc\u202ed.", "calls name the model", "ask \x1b[8m")
    for args in ([], ["--json"]):
        output = run_cli(monkeypatch, make_report(evil), *args).stdout
        assert output.replace("\n", "").isprintable()
        assert "\\x1b[2J" in output or "\\u001b[2J" in output


def test_progress_is_shown_on_a_terminal_and_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    terminal.show_progress(3, 20, "tools, whole")
    assert capsys.readouterr().err == "\r\x1b[K3/20 tools, whole"
    terminal.show_progress(20, 20, "done")
    assert capsys.readouterr().err == "\r\x1b[K"


async def test_the_command_checks_a_real_address(folder: Path) -> None:
    async with serve_endpoint(api_key="k", seats=16) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "check", "--endpoint", url, "--key", "k", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
        )
        out, err = await process.communicate()
    report = json.loads(out)
    assert err == b""
    assert process.returncode == report["exit_code"] == 4  # nobody has to wait
    unknown = {row["name"] for row in report["findings"] if row["status"] == "unknown"}
    assert {"priority"} <= unknown <= {"priority", "abort", "seats"}


def test_help_shows_examples_and_exit_codes() -> None:
    result = typer.testing.CliRunner().invoke(command_line.cli, ["check", "--help"])
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "canvasgram check --endpoint" in text
    for status, code in EXIT_CODES.items():
        assert code == 0 if status == "pass" else f"{code} " in text

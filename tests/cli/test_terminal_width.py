"""What commands print on terminals of 80 and 120 columns, and where there is no terminal."""

import asyncio
import errno
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

import bot.cli.main as command_line
from bot.bench.endpoint import run as bench_run
from bot.cli.setup import FIRST_WORDS
from bot.db.engine import open_database
from bot.db.people import people
from bot.settings import Settings
from bot.tables.layout import FILE_WIDTH
from bot.terminal import TerminalPrompter
from tests.bench.endpoint.test_result import RESULT
from tests.support.empty_database import place_empty_database
from tests.support.random_month import fill_month

WIDTHS = (80, 120)
LONG_NAME = "Maximilian Alexander von Hohenlohe-Langenburg"
COMMANDS = (
    ("report",),
    ("report", "--by", "user"),
    ("report", "--by", "day"),
    ("report", "--by", "tool"),
    ("report", "--by", "thinking"),
    ("report", "--list", "turns"),
    ("report", "--list", "calls"),
    ("turn", "7"),
    ("check", "--endpoint", "http://127.0.0.1:9/v1"),
    ("bench", "direct", "--compare"),
)
DOWN = ("check", "--endpoint", "http://127.0.0.1:9/v1")
STYLE = re.compile(r"\x1b\[[\d;]*m")
Show = Callable[..., str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a month of usage, and no setting in the environment."""
    for name in (*Settings.model_fields, "no_color", "force_color", "colorterm", "columns"):
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def month(folder: Path) -> None:
    """Settings that name a database with the turns of a month, and a person with a long name."""
    url = place_empty_database(folder / "canvasgram.db")

    async def fill() -> None:
        async with open_database(url) as database:
            month = await fill_month(database, 3)
            async with database.transaction() as tx:
                await people.put(tx, month.turns[0]["person"], LONG_NAME, "member", let_in_by=None, now=0.0)

    asyncio.run(fill())
    (folder / ".env").write_text(f"DATABASE_URL={url}\n")


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs a command on a terminal of this width, or without one; returns what it prints."""

    async def measure(*_: object) -> object:
        return RESULT

    def run(width: int | None, *args: str) -> str:
        capsys.readouterr()
        monkeypatch.setattr(bench_run, "run", measure)
        monkeypatch.setenv("COLUMNS", str(width or 57))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None, raising=False)
        monkeypatch.setattr(sys, "argv", ["canvasgram", *args])
        with pytest.raises(SystemExit):
            command_line.main()
        return capsys.readouterr().out

    return run


def list_words(text: str) -> set[str]:
    """The words of a text: labels without their colon, nothing shortened, and not how long a check took."""
    text = re.sub(r"[\d.]+ s$", "", text.strip())
    return {word.removesuffix(":") for word in text.split() if "…" not in word}


@pytest.mark.slow
@pytest.mark.usefixtures("month")
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(show: Show) -> None:
    for command in COMMANDS:
        words = list_words(STYLE.sub("", show(2000, *command)))
        for width in WIDTHS:
            text = STYLE.sub("", show(width, *command))
            assert max(map(cell_len, text.splitlines())) <= width, command
            assert list_words(text) <= words, command
        text = show(None, *command)
        assert max(map(cell_len, text.splitlines())) <= FILE_WIDTH, command
        assert list_words(text) <= words, command
        assert "\x1b" not in text, command


@pytest.mark.usefixtures("month")
def test_a_table_that_is_too_wide_is_pairs_and_only_a_terminal_shortens_names(show: Show) -> None:
    narrow = STYLE.sub("", show(80, "report", "--by", "user"))
    assert re.search(r"^  turns: \d+ +calls: \d+", narrow, re.MULTILINE)
    wide = STYLE.sub("", show(130, "report", "--by", "user"))
    assert re.search(r"^Maximilian Alexande….* +\d+ ", wide, re.MULTILINE)
    assert re.search(rf"^user: {LONG_NAME} \(\d+\)$", show(None, "report", "--by", "user"), re.MULTILINE)


@pytest.mark.usefixtures("month")
def test_what_machines_read_is_the_same_everywhere(show: Show) -> None:
    for command in (
        ("report", "--by", "user", "--format", "json"),
        ("report", "--by", "user", "--format", "csv"),
        ("turn", "7", "--json"),
        ("bench", "direct", "--json"),
    ):
        assert show(80, *command) == show(None, *command)


def test_an_endpoint_that_is_down_is_said_once(show: Show) -> None:
    lines = show(None, *DOWN).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines if line.startswith("unknown")] == [
        "28 further checks need an endpoint."
    ]
    assert lines[-1].startswith("1 fail, 28 unknown")


def test_what_setup_says_is_wrapped_at_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    TerminalPrompter(silent=False).say(f"{FIRST_WORDS}\n  https://t.me/a_bot?start=code")
    text, link = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert " ".join(text.splitlines()) == FIRST_WORDS
    assert max(map(len, text.splitlines())) <= 80
    assert link == "  https://t.me/a_bot?start=code"


@pytest.mark.slow
def test_setup_says_that_it_asks_in_a_terminal_only() -> None:
    command = [sys.executable, "-m", "bot", "setup"]
    result = subprocess.run(command, input="1:token\n", capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("TELEGRAM_TOKEN is missing: setup asks for it in a terminal only")


def test_published_figures_are_shown_only_to_compare(show: Show) -> None:
    assert "published" not in show(80, "bench", "direct")
    assert "What others have published" in show(80, "bench", "direct", "--compare")


def run_on_terminal(columns: int, *args: str) -> str:
    """What `canvasgram ARGS` shows on a real terminal."""
    terminal, its_end = os.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "bot", *args],
        stdin=subprocess.DEVNULL,
        stdout=its_end,
        stderr=subprocess.DEVNULL,
    ):
        os.close(its_end)
        output = b"".join(read_all(terminal))
    os.close(terminal)
    return output.decode().replace("\r\n", "\n")


def read_all(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # of Linux: the other end is closed
                raise
            return
        if not chunk:
            return
        yield chunk


@pytest.mark.slow
def test_a_real_terminal_has_colours_but_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    colourful = run_on_terminal(120, *DOWN)
    assert re.search(r"\x1b\[1;31mfail +\x1b\[0m", colourful)
    assert "\x1b[2munknown\x1b[0m" in colourful
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run_on_terminal(120, *DOWN)
    assert plain.partition(" · ")[0] == STYLE.sub("", colourful).partition(" · ")[0]
    assert "when asked for: models." in plain  # which in 80 columns has two lines


@pytest.mark.slow
def test_a_pipe_has_neither_colours_nor_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    command = [sys.executable, "-m", "bot", *DOWN]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "\x1b" not in output
    assert 60 < max(map(len, output.splitlines())) <= FILE_WIDTH

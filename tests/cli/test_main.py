"""The command line: what it prints, how it ends, and how signals stop it."""

import contextlib
import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

import bot
import bot.app
import bot.cli.main as command_line
import bot.demo
from bot import logs, terminal
from bot.cli import exposure
from bot.errors import CanvasgramError, GatewayRunning, SettingsRefused
from bot.settings import Settings
from tests.support.empty_database import place_empty_database

TOKEN = "1234567890:AAE-not-a-real-token"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no setting in the environment."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "CommandRunner":
    return CommandRunner(monkeypatch, capsys)


class CommandRunner:
    """Runs the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *args: str) -> tuple[int, str, str]:
        """Run `canvasgram ARGS` and return its exit code, stdout and stderr."""
        self._monkeypatch.setattr(sys, "argv", ["canvasgram", *args])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
        out, err = self._capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, out, err


def test_the_module_and_the_command_are_the_same() -> None:
    by_module = subprocess.run(
        [sys.executable, "-m", "bot", "--version"], capture_output=True, text=True, check=True
    )
    command = Path(sys.executable).with_name("canvasgram")
    by_command = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert by_module.stdout == by_command.stdout
    assert re.fullmatch(r"canvasgram \d+\.\d+\.\d+\S* \([0-9a-f]+\)\n", by_module.stdout)


def list_commands() -> Iterator[str]:
    """Every command as it is typed, without `canvasgram`."""
    pending = [("", typer.main.get_command(command_line.cli))]
    while pending:
        prefix, group = pending.pop()
        for name, command in getattr(group, "commands", {}).items():
            path = f"{prefix} {name}".strip()
            if hasattr(command, "commands"):
                pending.append((path, command))
            if not hasattr(command, "commands") or command.invoke_without_command:
                yield path


@pytest.mark.parametrize("command", sorted(list_commands()))
def test_every_command_has_help_with_an_example(call: CommandRunner, command: str) -> None:
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    text = " ".join(out.split())
    assert re.search(rf"Example.*canvasgram {command}", text.partition("Options:")[2])
    if command not in {"bench direct", "report"}:  # which have options of canvases, and a column of them
        assert not re.search(r"canvas(?!gram)", text)


def test_without_a_command_the_commands_are_listed(call: CommandRunner) -> None:
    _, out, err = call()
    for command in ("setup", "run", "demo", "bench", "migrate"):
        assert f"\n  {command} " in out + err


@pytest.mark.parametrize("args", [["run"], ["setup", "--yes"]], ids=lambda args: args[0])
def test_a_missing_setting_is_one_line_and_exit_code_2(call: CommandRunner, args: list[str]) -> None:
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"TELEGRAM_TOKEN is missing[:,] .+\. Example: .*\S+\n", err)
    assert ("`canvasgram setup` asks for it" in err) is (args == ["run"])


def test_a_settings_file_that_is_not_there_is_named(call: CommandRunner) -> None:
    for command in ("run", "report", "check", "migrate"):
        code, out, err = call(command, "--env-file", "nofile.env")
        assert (code, out) == (2, "")
        assert err == "nofile.env does not exist. `canvasgram setup`, with this option, writes it.\n"


def test_a_misspelled_setting_is_named_with_the_right_one(call: CommandRunner, folder: Path) -> None:
    (folder / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nMODEL_SEAT=4\n")
    line = "MODEL_SEAT in .env is no setting. Did you mean MODEL_SEATS? Example: MODEL_SEATS=4\n"
    assert call("run") == (2, "", line)


def test_a_wrong_setting_is_one_line_and_exit_code_2(call: CommandRunner, folder: Path) -> None:
    (folder / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nMODEL_SEATS=many\n")
    assert call("run") == (2, "", "MODEL_SEATS must be a valid integer. Example: MODEL_SEATS=4\n")


def test_a_wrong_option_is_exit_code_2(call: CommandRunner) -> None:
    code, _, err = call("demo", "--port", "70000")
    assert code == 2
    assert "--port" in err


def test_migrate_makes_the_database_and_says_so(call: CommandRunner, folder: Path) -> None:
    (folder / "my.env").write_text("DATABASE_URL=sqlite+aiosqlite:///here.db\n")
    code, out, _ = call("migrate", "--env-file", "my.env")
    assert (code, out) == (0, "sqlite+aiosqlite:///here.db is up to date.\n")
    assert (folder / "here.db").stat().st_size > 0


@pytest.fixture
def ledger(folder: Path) -> Path:
    """A database with one turn, and the settings that name it."""
    place_empty_database(folder / "here.db")
    (folder / ".env").write_text("DATABASE_URL=sqlite+aiosqlite:///here.db\n")
    with contextlib.closing(sqlite3.connect(folder / "here.db")) as connection:
        connection.executescript(
            """
            INSERT INTO turns
              (item, lane, person, conversation, state, tools, thinking, thinking_why, received_at, began_at)
              VALUES (1, '5', 5, 1, 'ended', '[]', 0, 'no tool fits', 1728043200, 1728043200);
            INSERT INTO messages (turn, role, text, made_at) VALUES (1, 'user', 'a secret', 1728043200);
            INSERT INTO model_calls
              (turn, step, purpose, endpoint, model, thinking, tools_offered, prompt_tokens, created_at)
              VALUES (1, 1, 'turn', 'main', '=gemma', 0, 0, 900, 1728043200);
            """
        )
    return folder


@pytest.mark.usefixtures("ledger")
def test_report_prints_what_is_asked_for(call: CommandRunner) -> None:
    code, out, err = call("report")
    assert (code, err) == (0, "")
    assert "Tokens" in out
    code, out, _ = call("report", "--by", "model", "--format", "csv")
    [row] = csv.DictReader(out.splitlines())
    assert (code, row["model"], row["calls"]) == (0, "'=gemma", "1")
    code, out, _ = call("report", "--list", "calls", "--top", "1", "--format", "json")
    assert (code, json.loads(out)[0]["input"]) == (0, 900)


def test_a_report_goes_to_a_file_of_its_owner(call: CommandRunner, ledger: Path) -> None:
    assert call("report", "--format", "csv", "--out", "sums.csv") == (0, "", "")
    assert (ledger / "sums.csv").stat().st_mode & 0o777 == 0o600
    assert (ledger / "sums.csv").read_text().startswith("group,")
    code, out, err = call("report", "--out", "nowhere/sums.csv")
    assert (code, out, err) == (2, "", "nowhere/sums.csv cannot be written: No such file or directory.\n")


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (["report", "--since", "2024-10-05", "--until", "2024-10-01"], 2, "is not before"),
        (["report", "--by", "week"], 2, "--by must be one of"),
        (["report", "--user", "9"], 1, "There is nothing in the ledger for this."),
        (["report", "audit", "--since", "7d"], 1, "No admin has changed anything that this asks for."),
        (["report", "audit", "--sort", "when"], 2, "report audit goes with"),
        (["report", "everything"], 2, "There is no report 'everything'."),
        (["report", "--until", "9999-12-31"], 2, "--until must be a time from 1970 to 9998."),
        (["report", "--user", "9" * 30], 2, "--user must be the number of a person."),
        (["turn", "x"], 2, "no id of a turn"),
        (["turn", "99"], 1, "There is no turn 99."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
@pytest.mark.usefixtures("ledger")
def test_what_cannot_be_answered_is_one_line_and_a_code(
    call: CommandRunner, args: list[str], code: int, reason: str
) -> None:
    exit_code, out, err = call(*args)
    assert (exit_code, out) == (code, "")
    assert reason in err
    assert err.count("\n") == 1


def test_a_report_without_a_database_makes_none(call: CommandRunner, folder: Path) -> None:
    (folder / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nDATABASE_URL=sqlite+aiosqlite:///none.db\n")
    code, _, err = call("report")
    assert (code, err.startswith("There is no database at none.db.")) == (1, True)
    assert not (folder / "none.db").exists()


@pytest.mark.usefixtures("ledger")
def test_a_turn_shows_texts_only_if_asked_and_says_that_it_does(call: CommandRunner) -> None:
    code, out, err = call("turn", "1")
    assert (code, err) == (0, "")
    assert "a secret" not in out
    code, out, err = call("turn", "1", "--texts")
    assert err.startswith("Texts are shown:")
    assert "a secret" in out
    assert re.search("machine.*texts read.*turn 1", call("report", "audit")[1])
    assert json.loads(call("turn", "1", "--json")[1])["said"] == []


def test_system_jobs_are_listed_and_run_on_request(call: CommandRunner, ledger: Path) -> None:
    code, _, err = call("jobs")
    assert (code, err) == (1, "There are no jobs yet: `canvasgram run` makes them.\n")
    with contextlib.closing(sqlite3.connect(ledger / "here.db")) as connection, connection:
        connection.execute(
            "INSERT INTO jobs (kind, name, text, made_at) VALUES ('system', 'backup', 'makes one', 0)"
        )
    assert call("jobs", "run", "backup")[1].startswith("backup is ordered.")
    code, out, _ = call("jobs")
    assert (code, "waits" in out, "Jobs of people: none." in out) == (0, True, True)
    code, out, err = call("jobs", "run", "laundry")
    assert (code, out, err) == (2, "", "There is no system job 'laundry'. There are: backup.\n")


def test_a_backup_is_made_without_a_gateway_and_the_exit_code_tells_of_it(
    call: CommandRunner, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(ledger / "here.db")) as connection:  # of a killed gateway
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO notices VALUES ('a', 'b', 0)")
        connection.commit()
        code, out, _ = call("backup", "copy.db")
        assert (code, out.splitlines()) == (
            0,
            [
                "Done: copy.db",
                "A backup is the database: conversations, people, jobs, tools with their secrets, "
                "and kept files.",
                "It leaves out: .env, whose SECRETS_KEY alone opens these secrets.",
                "Copy that too; bot/docs/moving.md says how a bot moves to another machine.",
            ],
        )
    with contextlib.closing(sqlite3.connect(ledger / "copy.db")) as connection:
        assert connection.execute("SELECT text FROM notices").fetchall() == [("b",)]
    assert call("backup", "copy.db") == (1, "", "copy.db exists already. Name another file.\n")
    assert call("backup")[0] == 2
    monkeypatch.setenv("BACKUP_DIR", "backups")
    assert call("backup")[0] == 0
    assert len(list((ledger / "backups").iterdir())) == 1
    monkeypatch.setenv("BACKUP_DIR", "copy.db")
    assert call("backup") == (1, "", "No backup could be made in copy.db: File exists.\n")
    (ledger / "here.db").unlink()
    assert call("backup", "other.db")[0] == 1


def test_an_export_needs_a_chat_of_which_anything_is_kept(call: CommandRunner, ledger: Path) -> None:
    assert call("export", "Anna")[0] == 2
    nothing = "Nothing is kept of chat {}. `canvasgram report --by chat` shows the numbers.\n"
    assert call("export", "-1001:3", "--folder", str(ledger)) == (1, "", nothing.format("-1001:3"))
    code, out, _ = call("export", "5", "--folder", str(ledger))
    assert (code, out.count("Done: ")) == (0, 2)
    [markdown] = ledger.glob("chat-*.md")
    assert (markdown.stat().st_mode & 0o777, "> a secret" in markdown.read_text()) == (0o600, True)
    assert re.search("machine.*exported.*chat 5", call("report", "audit")[1])
    code, out, err = call("export", "5", "--folder", str(ledger))
    assert (code, out, "File exists" in err) == (2, "", True)


def test_a_backup_is_restored_and_the_output_says_what_that_means(
    call: CommandRunner, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ledger / "copy.db").write_bytes((ledger / "here.db").read_bytes())
    (ledger / "here.db").write_bytes(b"a ruin")
    code, out, _ = call("restore", "copy.db")
    assert code == 0
    assert out.startswith("here.db is as it was on ")
    assert "kept for 30 days at most: here.db.before-restore-" in out
    assert "cannot be read, so people, groups and consents are those of the backup" in out
    (ledger / "here.db-mcp").mkdir()
    monkeypatch.setenv("TOOLS_DIR", "my-tools")
    monkeypatch.setenv("DOCUMENTS_DIR", "papers")
    code, out, _ = call("restore", "copy.db", "--waiting")
    assert "of another gateway" in out
    assert f"alone opens these secrets; my-tools; papers; {ledger / 'here.db-mcp'}." in out
    code, out, err = call("restore", "nowhere.db")
    assert (code, out, err) == (1, "", "nowhere.db cannot be copied: No such file or directory.\n")


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    slow = ("telegram", "openai", "sqlalchemy", "rich")
    program = f"import sys, bot.__main__; print([name for name in {slow} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@dataclass
class FakeEntryPoint:
    """Stands in for a package with `run`: records its calls and returns exit code 5."""

    calls: list[Any] = field(default_factory=list)

    async def run(self, *args: object, **options: object) -> int:
        self.calls.append({"args": args, **options})
        return 5


def test_run_gives_the_gateway_its_settings_and_ends_with_its_code(
    call: CommandRunner, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = FakeEntryPoint()
    monkeypatch.setattr(bot.app, "process", process, raising=False)
    monkeypatch.setattr(logs, "configure", lambda *args, **_: process.calls.append({"configured": args}))
    monkeypatch.setattr(exposure, "hide_memory", lambda: process.calls.append("hidden"))  # ours stays open
    (folder / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\nLOG_FORMAT=json\n")
    (folder / ".env").chmod(0o644)
    assert call("run")[0] == 5
    assert "others can read its keys" in caplog.text
    assert process.calls.pop(0) == "hidden"
    configure_call, run_call = process.calls
    assert configure_call == {"configured": ("INFO", "json", [TOKEN])}
    settings, stop = run_call["args"]
    assert (settings.log_format, stop.is_set()) == ("json", False)


def test_the_demo_ends_quietly_when_nobody_reads_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        demo = [sys.executable, "-m", "bot", "demo", "--say", "Hi"]
        result = subprocess.run(demo, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (1, b"")


def test_demo_reads_no_settings_and_passes_its_options(
    call: CommandRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = FakeEntryPoint()
    monkeypatch.setattr(bot.demo, "command", demo, raising=False)
    (folder / ".env").write_text("MODEL_SEATS=wrong\n")
    options = ("--model-url", "http://gpu/v1", "--model-key", "word")
    assert call("demo", "--say", "hello", *options)[0] == 5
    (run_call,) = demo.calls
    assert (run_call["say"], run_call["model_url"], run_call["port"]) == ("hello", "http://gpu/v1", 0)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Replaces the command line by one that raises the first error of the list."""
    errors: list[BaseException] = []

    def cli(*, prog_name: str) -> None:
        assert prog_name == "canvasgram"
        raise errors[0]

    monkeypatch.setattr(command_line, "cli", cli)
    return errors


def test_a_known_error_is_one_line(call: CommandRunner, failing: list[BaseException]) -> None:
    failing.append(GatewayRunning("Another gateway\nworks here."))
    assert call() == (1, "", "Another gateway works here.\n")
    failing[0] = CanvasgramError("It says \x1b[2J\x9b.")
    assert call() == (1, "", "It says \\x1b[2J\\x9b.\n")


def test_known_errors_out_of_task_groups_are_one_line(
    call: CommandRunner, failing: list[BaseException]
) -> None:
    inner = BaseExceptionGroup("inner", [SettingsRefused("X is wrong."), CanvasgramError("later")])
    failing.append(BaseExceptionGroup("outer", [inner]))
    assert call() == (2, "", "X is wrong.\n")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_system_that_gives_no_more_is_one_line(
    call: CommandRunner, failing: list[BaseException], error: Exception
) -> None:
    failing.append(ExceptionGroup("tasks", [error]))
    code, _, err = call()
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("The system gives too little memory or too few threads.")


def test_an_unexpected_error_is_logged_without_the_token(
    call: CommandRunner, failing: list[BaseException]
) -> None:
    logs.configure(secrets=[TOKEN])
    failing.append(ExceptionGroup("tasks", [CanvasgramError("known"), ValueError(f"/bot{TOKEN}/getMe")]))
    code, _, err = call()
    assert code == 1
    assert "stopped by a fault of its own" in err
    assert "ValueError" in err
    assert TOKEN not in err


STOP_SCRIPT = """
import asyncio
import sys
from bot import terminal

async def work(stop):
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    if "hang" in sys.argv:
        await asyncio.Event().wait()
    return 7

sys.exit(asyncio.run(terminal.run_until_signal(work, grace_seconds=float(sys.argv[1]))))
"""


def start_process(*args: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", STOP_SCRIPT, *args], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_work_end_by_itself(number: int) -> None:
    with start_process("500") as process:
        process.send_signal(number)
        assert process.wait() == 7


def test_a_second_signal_exits_at_once() -> None:
    with start_process("60", "hang") as process:
        assert process.stdout
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_work_that_does_not_end_is_abandoned_in_time() -> None:
    with start_process("0.2", "hang") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1
    assert terminal.GRACE_SECONDS < 10


def test_the_prompter_asks_at_a_terminal_and_nobody_when_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = []

    def prompt(question: str, *, hide_input: bool) -> str:
        prompts.append((question, hide_input))
        return "yes"

    monkeypatch.setattr(typer, "prompt", prompt)
    assert terminal.TerminalPrompter(silent=False).ask("Sure?", hidden=True) == "yes"
    assert terminal.TerminalPrompter(silent=True).ask("Sure?") is None
    assert prompts == [("Sure?", True)]
    terminal.TerminalPrompter(silent=True).say("hello")
    assert capsys.readouterr().out == "hello\n"


def interrupt_until_exit(process: "subprocess.Popen[bytes]") -> int:
    """Press Ctrl-C, again if it came before the terminal was read, and return the exit code."""
    while True:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=5)


def test_ctrl_c_at_a_question_ends_setup() -> None:
    master, terminal = os.openpty()
    args = [sys.executable, "-m", "bot", "setup"]
    with subprocess.Popen(
        args, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        os.close(terminal)
        output = b""
        while b"(not shown)" not in output:
            assert process.stdout
            output += os.read(process.stdout.fileno(), 1024)
        # The last: another Ctrl-C reached it while it was exiting.
        assert interrupt_until_exit(process) in {1, 130, -signal.SIGINT}
    os.close(master)

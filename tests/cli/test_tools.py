"""`canvasgram tools` on the machine: the actions of the chat, with programs and secrets.

A failure is one line.
"""

import asyncio
import contextlib
import io
import json
import logging
import re
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import bot.cli.main as command_line
from bot.cli.tools import actions
from bot.cli.tools.add import AddOptions, add_tools
from bot.cli.tools.session import ToolsSession, open_session
from bot.errors import ChangeRefused, NeedsConfirming
from bot.settings import Settings
from bot.tool_registry.formatting import NEW_CONVERSATION_HINT
from tests.support.empty_database import place_empty_database
from tests.support.openapi_shop import OpenApiShop, open_shop

TOKEN = "1234567890:AAE-not-a-real-token"
KEYS = ("qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4=", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=")
GREET = """
from tools.base import tool

@tool
async def greet(name: str) -> str:
    \"\"\"Greet somebody.

    Args:
        name: Whom.
    \"\"\"
    return f"Hello, {name}"
"""
STDIO_SERVER = Path(__file__).parents[1] / "support" / "mcp_stdio_server.py"


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers = list(root.handlers)
    level = root.level
    yield
    root.handlers = handlers
    root.level = level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database and its settings, and no setting in the environment."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    place_empty_database(tmp_path / "here.db")
    write_env(tmp_path, SECRETS_KEY=KEYS[0], TOOLS_PRIVATE_HOSTS="127.0.0.1")
    return tmp_path


def write_env(folder: Path, **more: str) -> None:
    values = {"TELEGRAM_TOKEN": TOKEN, "DATABASE_URL": "sqlite+aiosqlite:///here.db", **more}
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))


class CommandRunner:
    """Runs the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *args: str) -> tuple[int, str, str]:
        """Return the exit code, stdout and stderr of `canvasgram tools ARGS`."""
        self._monkeypatch.setattr(sys, "argv", ["canvasgram", "tools", *args])
        with pytest.raises(SystemExit) as exit_error:
            command_line.main()
        out, err = self._capsys.readouterr()
        assert isinstance(exit_error.value.code, int)
        return exit_error.value.code, out, err

    def run_ok(self, *args: str) -> str:
        code, out, err = self(*args)
        assert (code, err) == (0, "")
        return out


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(monkeypatch, capsys)


def query_rows(query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect("here.db")) as connection:
        return connection.execute(query).fetchall()


def test_builtin_tools_are_listed_shown_switched_ruled_and_granted(call: CommandRunner):
    assert "clock · on · everyone · " in call.run_ok("list")
    records = {record["name"]: record for record in json.loads(call.run_ok("list", "--json"))}
    assert (records["clock"]["rule"]["ask"], records["clock"]["rule"]["is_set"]) == ("never", False)
    assert records["clock"]["may_use"] == ["everyone"]
    assert call.run_ok("show", "clock").startswith("clock: on\nFrom: built in\n")
    assert json.loads(call.run_ok("show", "clock", "--json"))["definition"]["name"] == "clock"
    assert call.run_ok("disable", "clock") == "clock is off.\n"
    assert call.run_ok("enable", "clock") == "clock is on.\n"
    assert call.run_ok("rule", "clock", "always", "admins") == "clock: asks an admin each time.\n"
    assert call.run_ok("revoke", "clock", "everyone") == "clock may be used by: admins.\n"
    assert (
        call.run_ok("grant", "clock", "12345")
        == f"clock may be used by: admins, person (12345). {NEW_CONVERSATION_HINT}\n"
    )
    assert call.run_ok("log") == "No tool has been called yet.\n"
    assert call.run_ok("log", "clock") == "clock hasn't been called yet.\n"
    assert call.run_ok("log", "--json") == "[]\n"
    assert call.run_ok("grant", "clock", "chat", "-100123") == (
        f"clock may be used by: admins, chat -100123, person (12345). {NEW_CONVERSATION_HINT}\n"
    )
    assert call.run_ok("revoke", "clock", "-100123") == "clock may be used by: admins, person (12345).\n"
    assert query_rows("SELECT what, who, via FROM audit")[-2] == ("granted", None, "command")
    assert query_rows("SELECT number FROM revisions WHERE name = 'tools'") == [(7,)]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["show", "nothing"], "There is no tool called nothing.\n"),
        (["remove", "clock"], "clock can't be removed on its own, but you can disable it.\n"),
        (["accept", "clock"], "There's nothing to accept for clock.\n"),
        (["rule", "clock", "sometimes"], "A rule is never, once or always;"),
        (["deliver", "clock", "maybe"], "Say on or off:"),
        (["rule", "clock", "trusted"], "There is no source clock; /tools shows the source of each tool.\n"),
        (["deliver", "clock", "on"], "clock is a function on the server: it sends what it returns.\n"),
        (["grant", "clock", "somebody"], "Nobody with access is called somebody."),
        (["add", "server"], "There is no file server, and it is no URL. Give one of both.\n"),
        (["add", "server", "--stdio"], "Say --name: the tools' names will begin with it.\n"),
        (["add", "http://x.example", "--mcp", "--stdio"], "Take one of --mcp, --stdio and --endpoint.\n"),
        (["add", "https://x.example/a", "--endpoint", "GET"], "Say in --description what the endpoint does:"),
        (["add", "https://x.example/a", "--mcp", "--header", "oops"], "Write header as NAME: VALUE,"),
        (
            ["add", "https://x.example/a", "--mcp", "--header", "X-Api-Key: abc"],
            "The value of X-Api-Key looks like",
        ),
        (
            ["add", "https://x.example/a", "--mcp", "--header", "X: sk-abcdefghijklmnop"],
            "The value of X looks like",
        ),
        (["add", "https://x.example/a", "--environment", "A=b"], "--environment goes with --stdio only.\n"),
        (
            ["add", "false", "--stdio", "--name", "odd", "--header", "X: a"],
            "--header goes with a URL only.\n",
        ),
        (
            ["add", "https://x.example/a", "--mcp", "--parameter", "a: b"],
            "--parameter goes with --endpoint only.\n",
        ),
        (
            ["add", "https://x.example/a", "--mcp", "--header", "X Y: a"],
            "The header 'X Y' can't be set.\n",
        ),
        (["add", "https://x.example/a", "--header", "Host: a"], "The header 'Host' can't be set.\n"),
        (
            ["add", "https://x.example/a", "--header", "X: ä"],
            "The value of X doesn't fit into a header:",
        ),
        (["add", "https://x.example/?key=abc", "--mcp"], "The address looks as if it held a secret;"),
        (["add", "false", "--stdio", "--name", "odd"], "odd is not available: "),
        (
            ["add", "'false", "--stdio", "--name", "odd"],
            "The command cannot be read: No closing quotation.\n",
        ),
        (
            ["add", " ", "--stdio", "--name", "odd"],
            "There is no command: say which program is to be started.\n",
        ),
        (["add", "no-such-program x", "--stdio", "--name", "odd"], "no-such-program isn't in any of /"),
        (
            ["add", "./here/odd", "--stdio", "--name", "odd"],
            "./here/odd isn't a program. Give its full path.\n",
        ),
        (["grant", "clock", "--everyone"], "Nobody with access is called --everyone."),
        (["try", "nothing"], "nothing cannot be used now;"),
        (["try", "clock", "{"], "Arguments are JSON,"),
        (["secret", "remove", "x"], "There is no secret called x.\n"),
        (["timeout", "clock", "5"], "There is no source clock; /tools shows the source of each tool.\n"),
        (["timeout", "clock", "soon"], "Say how many seconds a call may take"),
        (["add", "https://x.example/a", "--start-timeout", "9"], "--start-timeout goes with --mcp or"),
        (["add", "x", "--stdio", "--name", "odd", "--timeout", "0"], "A limit is 1 to 3600 seconds.\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_refused_command_is_one_line_and_exit_code_1(call: CommandRunner, args: list[str], reason: str):
    code, out, err = call(*args)
    assert (code, out) == (1, "")
    assert err.startswith(reason)
    assert err.count("\n") == 1
    assert query_rows("SELECT * FROM audit") == []


def test_the_output_of_a_program_that_ended_is_shown(call: CommandRunner):
    code, out, err = call("add", "sh -c 'echo it is out of order >&2'", "--stdio", "--name", "odd")
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"odd is not available: it (has ended|reads no more), and wrote: it is out of order\.\n", err
    )


def test_a_server_that_lists_nothing_is_not_added(call: CommandRunner):
    add = ("add", f"{sys.executable} {STDIO_SERVER} empty", "--stdio", "--name", "odd")
    code, out, err = call(*add)
    assert (code, out) == (1, "")
    assert err.startswith("odd lists no tools, and wrote: KEY is missing. It may need its settings first: ")
    assert query_rows("SELECT * FROM sources") == []


def test_a_program_is_searched_where_it_would_start(
    call: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "odd").write_text("#!/bin/sh\necho here >&2\n")
    (tmp_path / "odd").chmod(0o700)
    add = ("add", "./odd", "--stdio", "--name", "odd")
    assert "and wrote: here." in call(*add, "--home", str(tmp_path))[2]
    monkeypatch.chdir(tmp_path)
    assert call(*add) == (1, "", "./odd isn't a program. Give its full path.\n")


async def test_a_server_that_answers_in_nonsense_is_one_line_too():
    root = Path(command_line.__file__).parents[2]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}
    async with open_shop() as shop:
        args = ("tools", "add", f"{shop.url}/v1/orders", "--mcp", "--name", "odd")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", *args), stdout=PIPE, stderr=PIPE, env=environment
        )
        output = await process.communicate()
    assert output == (b"", b"odd is not available: it does not speak the protocol.\n")
    assert process.returncode == 1


def test_without_a_database_none_is_made(call: CommandRunner, folder: Path):
    (folder / "here.db").unlink()
    code, _, err = call("list")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("There is no database at")
    assert not (folder / "here.db").exists()


def test_a_tool_is_tried_and_that_is_recorded(call: CommandRunner):
    lines = call.run_ok("try", "calculate", '{"expression": "6 * 7"}').splitlines()
    assert lines[0] == 'calculate {"expression": "6 * 7"}'
    assert lines[1].startswith("ok after ")
    assert "42" in lines[2]
    code, out, err = call("try", "calculate", '{"expression": "1 / 0"}')
    assert (code, err) == (1, "")
    assert out.splitlines()[1].startswith("error after ")
    assert query_rows("SELECT what FROM audit") == [("tried",), ("tried",)]


def test_secrets_are_read_from_a_pipe_and_only_names_are_ever_shown(
    call: CommandRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hunter2hunter2\nmore\n"))
    assert call.run_ok("secret", "set", "shop").startswith("shop is kept. Write it as {shop}")
    assert call.run_ok("secret", "list") == "shop\n"
    assert json.loads(call.run_ok("secret", "list", "--json")) == ["shop"]
    [(sealed,)] = query_rows("SELECT sealed FROM secrets")
    write_env(folder, SECRETS_KEY=f"{KEYS[1]},{KEYS[0]}")
    assert call.run_ok("secret", "rotate").startswith("1 secrets are sealed with the first key")
    assert query_rows("SELECT sealed FROM secrets") != [(sealed,)]
    write_env(folder, SECRETS_KEY=KEYS[1])
    assert call.run_ok("secret", "rotate").startswith("1 secrets")
    write_env(folder, SECRETS_KEY=KEYS[0])
    code, _, err = call("secret", "rotate")
    assert code == 2
    assert "doesn't open the secret shop" in err
    assert call.run_ok("secret", "remove", "shop") == "shop is gone.\n"
    assert call.run_ok("secret", "list") == "There are no secrets.\n"
    assert b"hunter2" not in b"".join(file.read_bytes() for file in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("1x", "v", "isn't a valid name for a secret"), ("x", "", "not empty"), ("x", "a\tb", "one line of")],
)
def test_a_value_that_is_no_secret_is_refused(
    call: CommandRunner, monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{value}\n"))
    code, _, err = call("secret", "set", name)
    assert (code, err.count("\n")) == (1, 1)
    assert reason in err


def test_without_a_key_no_secret_is_stored(
    call: CommandRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write_env(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO("hunter2\n"))
    for args in (("set", "shop"), ("rotate",)):
        code, out, err = call("secret", *args)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("SECRETS_KEY is missing")


def test_a_program_of_this_machine_is_added_with_its_secrets_and_tried(
    call: CommandRunner, monkeypatch: pytest.MonkeyPatch
):
    command = f"{sys.executable} {STDIO_SERVER}"
    missing = call("add", command, "--stdio", "--name", "odd", "--environment", "KEY={odd_key}")
    assert missing == (
        1,
        "",
        "The secret odd_key is missing: store it on the machine with "
        "`canvasgram tools secret set odd_key`.\n",
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("hunter2hunter2\n"))
    call.run_ok("secret", "set", "odd_key")
    options = ("--environment", "KEY={odd_key}", "--home", "servers/odd", "--timeout", "45")
    output = call.run_ok("add", command, "--stdio", "--name", "odd", *options)
    assert Path("servers/odd").is_dir()
    assert output.startswith("Added, for admins only until you grant it to others: odd_")
    assert "hunter2" not in call.run_ok("show", "odd")
    assert json.loads(call.run_ok("show", "odd", "--json"))["kind"] == "mcp_stdio"
    limits = call.run_ok("timeout", "odd", "start", "90")
    assert limits == "odd: a call may take 45 s, and 450 s if it reports progress; the start 90 s.\n"
    assert "odd · a local MCP server · " in call.run_ok("list")
    assert query_rows("SELECT kind, added_by FROM sources") == [("mcp_stdio", None)]
    assert call.run_ok("secret", "remove", "odd_key") == "odd_key is gone. Still named by: odd\n".replace(
        "odd\n", "odd.\n"
    )
    assert call.run_ok("remove", "odd").startswith("Removed: odd_")
    assert query_rows("SELECT * FROM tools") == []


def test_a_program_has_a_home_of_its_own_until_it_is_removed(call: CommandRunner, tmp_path: Path):
    home = tmp_path / "here.db-mcp" / "odd"
    add = ("add", f"{sys.executable} {STDIO_SERVER}", "--stdio", "--name", "odd")
    assert call(*add, "--pick", "odd_none")[0] == 1
    assert not home.exists()
    call.run_ok(*add)
    assert home.is_dir()
    (home / "download").write_text("kept")
    code, _, err = call("add", "sh -c 'rm -r download'", "--stdio", "--name", "odd")
    assert (code, err) == (1, "There's already a source odd. Remove it first, or choose another name.\n")
    assert (home / "download").exists()
    assert call("add", "true", "--stdio", "--name", "../odd")[0] == 1
    assert home.is_dir()
    call.run_ok("remove", "odd")
    assert not home.exists()


@contextlib.asynccontextmanager
async def open_session_and_shop() -> AsyncIterator[tuple[ToolsSession, OpenApiShop]]:
    async with open_session(Path(".env")) as session, open_shop() as shop:
        yield session, shop


async def test_operations_of_a_document_are_listed_and_some_are_added():
    async with open_session_and_shop() as (session, shop):
        lines = await add_tools(session, AddOptions(shop.document_url, "shop"))
        assert lines[0] == "1. listItems · GET /items/{kind} – List what there is of a kind."
        assert lines[-1].startswith("Nothing is added yet: say --pick")
        with pytest.raises(NeedsConfirming) as error:
            await add_tools(session, AddOptions(shop.document_url, "shop", pick=("elsewhere",)))
        assert "would go to localhost:9" in str(error.value)
        added = await add_tools(
            session, AddOptions(shop.document_url, "shop", pick=("elsewhere", "2", "evil"), confirmed=True)
        )
        assert added[0].startswith(
            "Added, for admins only until you grant it to others: shop_elsewhere, shop_order_item."
        )
        assert added[1].startswith("shop_evil is on hold")
        diff = await actions.accept_change(session, "shop_evil", None, allow_flagged=False)
        assert diff[1].startswith("Look closely: ")
        hash_prefix = diff[-1].split("--seen ")[1].split()[0]
        with pytest.raises(ChangeRefused, match="changed again"):
            await actions.accept_change(session, "shop_evil", "0" * 12, allow_flagged=True)
        with pytest.raises(NeedsConfirming):
            await actions.accept_change(session, "shop_evil", hash_prefix, allow_flagged=False)
        assert await actions.accept_change(session, "shop_evil", hash_prefix, allow_flagged=True) == [
            "shop_evil has been accepted."
        ]
        other = f"{shop.document_url}?other"
        with pytest.raises(ChangeRefused, match="already a source shop"):
            await add_tools(session, AddOptions(other, "shop", pick=("all",), confirmed=True))
        assert await actions.remove_source_or_tool(session, "shop_evil") == "Removed: shop_evil."


async def test_a_changed_document_suspends_changed_tools_and_removes_missing_ones():
    async with open_session_and_shop() as (session, shop):
        await add_tools(session, AddOptions(shop.document_url, "shop", pick=("listItems", "orderItem")))
        shop.document["paths"]["/orders"]["post"]["summary"] = "Order an item, and pay."
        del shop.document["paths"]["/items/{kind}"]
        lines = await actions.reload_tools(session)
        assert lines[0] == "shop has no listItems any more."
        tool_lines = await actions.list_tools(session, as_json=False)
        assert any(line.startswith("shop_list_items · gone: ") for line in tool_lines)
        assert any(
            line.startswith("shop_order_item · suspended until an admin accepts its changes · ")
            for line in tool_lines
        )
        diff = await actions.accept_change(session, "shop_order_item", None, allow_flagged=False)
        assert '+ "description": "Order an item, and pay.",' in diff
        with pytest.raises(ChangeRefused, match="cannot be used now"):
            await actions.run_tool(session, "shop_order_item", '{"item": "hat"}')
        hash_prefix = diff[-1].split("--seen ")[1]
        await actions.accept_change(session, "shop_order_item", hash_prefix, allow_flagged=False)
        assert (await actions.run_tool(session, "shop_order_item", '{"item": "hat"}'))[1]
        assert await actions.remove_source_or_tool(session, "shop_list_items") == "Removed: shop_list_items."
        shop.document = {"openapi": "3.1.0"}
        assert (await actions.reload_tools(session))[0].startswith(
            "shop stays as it was: The document cannot be used"
        )


async def test_files_are_loaded_again_and_a_broken_one_is_reported_with_its_line(folder: Path):
    (folder / "mine").mkdir()
    (folder / "mine" / "greet.py").write_text(GREET)
    (folder / "mine" / "broken.py").write_text("x = 1\nraise ValueError('oh')\n")
    write_env(folder, TOOLS_DIR="mine")
    async with open_session(Path(".env")) as session:
        lines = await actions.reload_tools(session)
        assert lines[:2] == ["broken.py, line 2: ValueError: oh", "greet.py: greet"]
        tool_lines = await actions.list_tools(session, as_json=False)
        assert any(line.startswith("greet · on · admins · ") for line in tool_lines)
        lines, succeeded = await actions.run_tool(session, "greet", '{"name": "Ann"}')
        assert (succeeded, lines[-1]) == (True, "Hello, Ann")


async def test_one_endpoint_is_added_with_a_header_that_names_a_secret():
    async with open_session_and_shop() as (session, shop):
        await actions.store_secret(session, "shop_key", "hunter2hunter2")
        options = AddOptions(
            f"{shop.url}/v1/items/{{kind}}",
            "hats",
            method="get",
            description="What hats there are.",
            parameters=("kind: the kind of hat",),
            access=(("header", "X-Api-Key: {shop_key}"),),
        )
        assert (await add_tools(session, options))[0].startswith(
            "Added, for admins only until you grant it to others: hats."
        )
        lines, succeeded = await actions.run_tool(session, "hats", '{"kind": "top"}')
        assert succeeded
        assert "top one" in "\n".join(lines)
        assert shop.calls[0][3]["x-api-key"] == "hunter2hunter2"
        with pytest.raises(ChangeRefused, match="doesn't describe a parameter"):
            await add_tools(
                session,
                AddOptions(f"{shop.url}/x", "x", method="get", description="X.", parameters=("oops",)),
            )

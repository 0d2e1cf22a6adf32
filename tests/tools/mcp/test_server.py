"""Servers that behave badly: calls are answered, others continue, and nothing stays behind."""

import asyncio
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.mcp_session import QUICK_LIMITS, call_tool, running_server, stdio_program
from tools.base import File, Picture, ToolContext, ToolError, run_tool
from tools.mcp.location import ServerProgram
from tools.mcp.results import MAX_FILES
from tools.mcp.server import McpServerClient
from tools.mcp.time_limits import McpServerLimits


async def test_tools_are_listed_and_built_from_what_the_server_says(context: ToolContext):
    async with running_server(stdio_program()) as (server, changes):
        listing = await server.list_tools()
        tools = {definition.name: server.build_tool(definition) for definition in listing.definitions}
        assert len(tools) == 21  # of three pages
        assert changes.listings == [listing]
        echo = tools["odd_echo"]
        die = tools["odd_die"]
        huge = tools["odd_huge"]
        assert (echo.rule.ask, echo.changes, echo.repeatable, echo.outside) == ("never", False, True, True)
        assert (die.rule.ask, die.changes, die.repeatable) == ("always", True, True)
        assert (huge.rule.ask, huge.changes, huge.repeatable) == ("always", True, False)
        assert (echo.source, echo.address) == ("odd", str(server.location))
        assert (await run_tool(echo, {"text": "hello"}, context)).text == "hello"


async def test_nothing_is_started_before_its_first_use(tmp_path: Path):
    home = tmp_path / "home"
    async with running_server(stdio_program(home=home)) as (server, _):
        await asyncio.sleep(0)
        assert not home.exists()
        await call_tool(server, "echo", {})
        assert home.exists()


async def test_results_are_text_and_pictures_and_the_rest_is_named_as_left_out():
    async with running_server(stdio_program()) as (server, _):
        result = await call_tool(server, "pictures", {})
        assert (result.files, result.has_undelivered) == ((), True)
        assert result.images == (Picture("image/png", b"\x89PNG\r\n\x1a\n picture"),) * 4
        assert result.text.splitlines() == [
            "a picture",
            "[left out: a picture]",
            "[left out: a picture]",
            "[left out: sound]",
            "from a resource",
            "[left out: the file file:///a.bin]",
            "[left out: the resource file:///b.txt]",
            "[left out: a picture]",
        ]
        assert (await call_tool(server, "structured", {})).text == '{"degrees":21}'
        for name, complaint in {
            "fail": "It is out of order.",
            "refuse": "odd refused: I would rather not.",
            "nonsense": "odd answered with something that is not a result.",
        }.items():
            with pytest.raises(ToolError, match=re.escape(complaint)):
                await call_tool(server, name, {})
        assert (await call_tool(server, "echo", {"text": "still here"})).text == "still here"


async def test_what_a_tool_returns_becomes_files_where_it_delivers(context: ToolContext):
    async with running_server(stdio_program(secrets={"key": "sesame-4711"})) as (server, _):
        listing = await server.list_tools()
        tools = {definition.name: server.build_tool(definition) for definition in listing.definitions}
        context = replace(context, delivers=True)
        result = await run_tool(tools["odd_pictures"], {}, context)
        png = b"\x89PNG\r\n\x1a\n picture"
        assert result.images == (Picture("image/png", png),) * 4
        assert result.text.splitlines() == [
            "a picture",
            "[left out: a picture]",  # its data are no base64
            "from a resource",
            "[left out: the resource file:///b.txt]",
        ]
        assert not result.has_undelivered
        picture = File("picture", png, media_type="image/png")
        assert result.files == (
            picture,
            picture,  # which the server calls a TIFF
            File("sound", b"\0\0\0", media_type="audio/wav"),
            File("notes.txt", b"from a resource", media_type="text/plain"),
            File("a.bin", b"\0\0\0"),
            *[picture] * 4,
        )
        image = {"type": "image", "data": "AAAA", "mimeType": "image/tiff"}
        uri = "file:///x/sesame-4711%20..%2Fmine.txt?x=/y"
        resource = {"uri": uri, "text": "sesame-4711 é"}
        many = {"content": [{"type": "resource", "resource": resource}, *[image] * 20]}
        result = await run_tool(tools["odd_answer"], {"text": json.dumps(many)}, context)
        assert result.files[0] == File("••• ../mine.txt", "••• é".encode(), media_type="text/plain")
        assert len(result.files) == MAX_FILES
        assert result.text.count("[left out: a picture]") == 11


async def test_what_a_server_repeats_of_its_secrets_is_masked():
    options = {
        "environment": {"KEY": "Bearer sesame-4711", "ZONE": "Europe/Oslo"},
        "secrets": {"key": "sesame-4711"},
    }
    async with running_server(stdio_program(**options)) as (server, _):
        assert "sesame" not in repr(server.location)
        variables = json.loads((await call_tool(server, "environment", {})).text)
        assert (variables["KEY"], variables["ZONE"]) == ("Bearer •••", "Europe/Oslo")


async def test_secrets_are_masked_however_a_server_spells_them():
    secrets = {"key": 'sesame"4711/', "padded": "sesame-0815 ", "short": "a"}
    async with running_server(stdio_program(secrets=secrets)) as (server, _):
        text = 'a sesame"4711/ sesame\\"4711/ sesame%224711%2F sesame-0815 z'
        assert (await call_tool(server, "echo", {"text": text})).text == "a ••• ••• ••• •••z"


async def test_a_program_gets_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("BOT_TOKEN", "a secret")
    async with running_server(stdio_program(environment={"KEY": "given"})) as (server, _):
        variables = json.loads((await call_tool(server, "environment", {})).text)
    assert set(variables) - {"LC_CTYPE"} == {"PATH", "LANG", "HOME", "KEY", "cwd", "home"}
    assert variables["KEY"] == "given"
    assert variables["HOME"] == variables["cwd"]
    assert variables["home"] == []
    assert not Path(variables["HOME"]).exists()


async def test_a_result_too_large_is_refused_and_the_connection_lives():
    async with running_server(stdio_program()) as (server, changes):
        for name in ("huge", "many"):
            with pytest.raises(
                ToolError, match=r"^The answer of odd is larger than 4 MiB.*Ask for less of it\.$"
            ):
                await call_tool(server, name, {})
        assert (await call_tool(server, "echo", {"text": "next"})).text == "next"
        assert len(changes.listings) == 1


async def test_an_oversized_message_without_an_id_ends_the_connection():
    async with running_server(stdio_program()) as (server, _):
        with pytest.raises(ToolError, match="is not available"):
            await call_tool(server, "endless", {})
        assert (await call_tool(server, "echo", {"text": "again"})).text == "again"


async def test_a_crash_during_a_call_is_reported_and_the_next_call_works():
    async with running_server(stdio_program()) as (server, changes):
        with pytest.raises(ToolError, match=r"odd is not available: .*what the call did is unknown"):
            await call_tool(server, "die", {})
        assert (await call_tool(server, "echo", {"text": "again"})).text == "again"
        assert len(changes.listings) == 1  # the same tools as before


async def test_a_crash_is_noticed_while_a_child_holds_the_pipes():
    async with running_server(stdio_program("stubborn")) as (server, _):
        with pytest.raises(ToolError, match=r"it has ended.*what the call did is unknown"):
            await call_tool(server, "die", {})
        assert (await call_tool(server, "echo", {"text": "again"})).text == "again"


async def test_garbage_between_messages_is_ignored_until_it_is_too_much():
    async with running_server(stdio_program()) as (server, _):
        with pytest.raises(ToolError, match="is not available"):
            await call_tool(server, "garbage", {})
        assert (await call_tool(server, "echo", {"text": "again"})).text == "again"


async def test_a_cancelled_call_is_reported_to_the_server_and_waits_for_nothing():
    async with running_server(stdio_program()) as (server, _):
        lines: asyncio.Queue[str] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(call_tool(server, "begin", {}, lines.put_nowait))
            assert await lines.get() == "1 of 10: searching"
            call.cancel()
        while not json.loads((await call_tool(server, "cancelled", {})).text):
            pass


async def test_progress_is_asked_for_and_reported_without_secrets():
    location = stdio_program(environment={"KEY": "sesame-4711"}, secrets={"key": "sesame-4711"})
    lines: list[str] = []
    async with running_server(location) as (server, _):
        assert (await call_tool(server, "work", {}, lines.append)).text == "worked"
        assert (await call_tool(server, "work", {})).text == "worked"
    assert lines == ["1 of 10: searching", "2.5 of 10: loading with •••", "10 of 10"]


async def test_a_start_is_not_counted_as_time_of_the_call():
    limits = replace(QUICK_LIMITS, call_seconds=0.001)  # no program starts as quickly
    async with running_server(stdio_program(), limits) as (server, changes):
        with pytest.raises(ToolError, match=r"did not answer in time \(0\.001 s\)"):
            await call_tool(server, "wait", {})
        assert len(changes.listings) == 1


async def test_whoever_waits_for_a_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tools.mcp.server.NOTICE_SECONDS", 0.0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lines: asyncio.Queue[str] = asyncio.Queue()
    program = stdio_program("slow", str(gate))
    async with running_server(program) as (server, _), asyncio.TaskGroup() as tasks:
        call = tasks.create_task(call_tool(server, "echo", {"text": "hello"}, lines.put_nowait))
        assert await lines.get() == "it is being started"
        (await asyncio.to_thread(gate.open, "w")).close()
        assert (await call).text == "hello"


async def test_an_unanswered_call_ends_in_time_and_three_of_them_reconnect():
    async with running_server(stdio_program()) as (server, _):
        process = await call_tool(server, "process", {})
        server.limits = replace(QUICK_LIMITS, call_seconds=0.01)
        for _ in range(3):
            with pytest.raises(ToolError, match="odd is not available: it did not answer in time"):
                await call_tool(server, "wait", {})
        server.limits = QUICK_LIMITS
        assert await call_tool(server, "process", {}) != process


@pytest.mark.parametrize("behavior", ["hang", "noise"])
async def test_a_server_that_never_starts_is_not_available(behavior: str):
    limits = replace(QUICK_LIMITS, connect_seconds=0.3)
    async with running_server(stdio_program(behavior), limits) as (server, _):
        with pytest.raises(ToolError, match="odd is not available: it "):
            await call_tool(server, "echo", {})
        with pytest.raises(ToolError, match="odd is not available: it "):
            await server.list_tools()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("/no/such/program",), "cannot be started"),
        ((str(Path(__file__)),), "cannot be started"),
        (("false",), "(has ended|reads no more)"),
    ],
)
async def test_a_program_that_cannot_run_fails_at_once_and_later_calls_do_not_wait(
    command: tuple[str, ...], complaint: str
):
    slow = replace(QUICK_LIMITS, max_retry_seconds=600.0)
    async with running_server(ServerProgram(command), slow) as (server, _):
        with pytest.raises(ToolError, match=f"odd is not available: it.*{complaint}"):
            await server.list_tools()
        assert server.trouble is not None


async def test_a_slow_start_is_waited_for(tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with running_server(stdio_program("slow", str(gate))) as (server, _), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(call_tool(server, "echo", {"text": str(number)})) for number in range(3)]
        opened = await asyncio.to_thread(gate.open, "w")
        assert not any(call.done() for call in calls)
        opened.close()
        assert [(await call).text for call in calls] == ["0", "1", "2"]


async def test_changed_tools_are_listed_when_the_server_says_so():
    async with running_server(stdio_program()) as (server, changes):
        await call_tool(server, "grow", {})
        await changes.wait_until(lambda listings: len(listings) == 2)
        before, after = ({definition.name for definition in each.definitions} for each in changes.listings)
        assert after - before == {"odd_grown"}


async def test_a_server_that_dies_during_the_pause_between_listings_is_restarted():
    limits = replace(QUICK_LIMITS, min_relist_pause_seconds=600.0)
    async with running_server(stdio_program(), limits) as (server, changes):
        await call_tool(server, "grow", {})
        await changes.wait_until(lambda listings: len(listings) == 2)
        with pytest.raises(ToolError, match="what the call did is unknown"):
            await call_tool(server, "die", {})
        assert (await call_tool(server, "echo", {"text": "again"})).text == "again"


async def test_an_endless_list_of_tools_is_read_to_a_bound():
    async with running_server(stdio_program("cyclic")) as (server, _):
        listing = await server.list_tools()
        assert len(listing.definitions) == 10
        assert "only the first 200 tools are used" in listing.warnings


async def test_a_flood_is_slowed_down_and_others_continue():
    async with running_server(stdio_program()) as (server, _):
        await server.list_tools()
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(call_tool(server, "flood", {}))
            for _ in range(10_000):  # in which all of its 3,000 messages would be read at once
                await asyncio.sleep(0)
            assert not call.done()
            call.cancel()


async def test_a_stubborn_program_is_killed_with_its_children(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    async with running_server(stdio_program("stubborn")) as (server, _):
        await server.list_tools()
        while not (pids := _find_pids(caplog)):  # noqa: ASYNC110  # what it writes comes another way
            await asyncio.sleep(0.01)
        assert all(_is_alive(pid) for pid in pids)
    while any(map(_is_alive, pids)):  # noqa: ASYNC110  # the system ends a killed process when it can
        await asyncio.sleep(0.01)


def _find_pids(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The processes that the program has named; empty if it has not yet."""
    lines = (line for line in caplog.messages if line.startswith("pids "))
    return [int(pid) for pid in next(lines, "pids").split()[1:]]


def _is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_no_call_waits_for_a_server_that_is_not_run():
    server = McpServerClient("odd", stdio_program(), McpServerLimits(call_seconds=0.05, connect_seconds=0.05))
    with pytest.raises(ToolError, match="odd is not available: it did not start in time"):
        await call_tool(server, "echo", {})

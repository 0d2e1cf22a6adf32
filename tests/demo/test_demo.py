"""The demo needs nothing: one exchange in the terminal, a page, a clean end; real settings are never read."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from bot.chat.commands.welcome import EXAMPLES
from bot.demo import command
from bot.demo.environment import DemoNotStarted, RealModel, open_demo
from bot.demo.gateway import build_page_reader
from bot.demo.page import PortTaken, serve_page
from bot.demo.web import serve_web
from bot.errors import CanvasgramError, SettingsRefused
from bot.http_server import serve
from bot.sim.demo_model.web_pages import WEB_HOSTS, WEB_QUESTION
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tools.base import ToolError

pytestmark = pytest.mark.usefixtures("quick_demos")

ROOT = Path(__file__).parents[2]


async def run_exchange(text: str, model_url: str | None = None) -> tuple[int, str]:
    lines: list[str] = []
    code = await command.run(asyncio.Event(), model_url=model_url, say=text, port=0, echo=lines.append)
    return code, "\n".join(lines)


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[ScriptedEndpoint, str]]:
    """An endpoint that is not the demo's own, and its address."""
    endpoint = ScriptedEndpoint(model="a-real-one", brain=reply_with("Forty-two."))
    async with serve(endpoint.app) as url:
        yield endpoint, url


async def test_a_real_endpoint_may_want_a_key():
    endpoint = ScriptedEndpoint(api_key="word", brain=reply_with("Let in."))
    async with serve(endpoint.app) as url:
        lines: list[str] = []
        code = await command.run(
            asyncio.Event(), model_url=f"{url}/v1", model_key="word", say="Hm?", echo=lines.append
        )
    assert code == 0
    assert "Let in." in "\n".join(lines)


async def test_an_exchange_is_printed_with_its_tools_and_seconds():
    code, lines = await run_exchange("Compare the time in Tokyo and New York")
    assert code == 0
    assert lines.startswith("You: Compare the time in Tokyo and New York\n")
    assert 'clock {"zone": "Asia/Tokyo"} → ' in lines
    assert "Canvasgram: In Tokyo it is " in lines
    assert " s: intake " in lines
    assert " · first text " in lines
    assert "2 model calls · " in lines
    assert "Simulated: the model" in lines


async def test_every_example_of_the_greeting_has_an_answer():
    for example, expected in zip(
        EXAMPLES, ("In Tokyo it is", "exactly\n\n434", "The Moon pulls"), strict=True
    ):
        code, lines = await run_exchange(example)
        assert code == 0
        assert expected in lines


async def test_what_is_new_is_searched_opened_and_answered_with_the_numbers_of_its_sources():
    code, lines = await run_exchange(WEB_QUESTION)
    assert code == 0
    assert re.findall(r"^  (\w+) \{", lines, re.MULTILINE) == ["search_web", "fetch_page"]
    assert f"http://{WEB_HOSTS[0]}:" in lines
    assert re.search(r"^Canvasgram: From Monday a ferry .* \[1\]$", lines, re.MULTILINE)
    assert f"Sources: 1 {WEB_HOSTS[0]} · 2 {WEB_HOSTS[0]} · 3 {WEB_HOSTS[1]}" in lines
    assert "3 model calls" in lines


async def test_of_this_machine_only_the_pages_of_the_demo_are_opened():
    async with serve_web() as web:
        port = httpx.URL(web.search_url).port
        page_reader = build_page_reader([*web.hosts])
        assert page_reader is not None
        page = await page_reader.read(f"http://{WEB_HOSTS[0]}:{port}/ferry", 100)
        assert page.title == "News from Grey Point: a ferry twice a day"
        for address in (
            f"http://127.0.0.1:{port}/ferry",
            f"http://localhost:{port}/ferry",
            f"http://{WEB_HOSTS[0]}/ferry",
        ):
            with pytest.raises(ToolError, match="is not on the public internet"):
                await page_reader.read(address, 100)
        async with httpx.AsyncClient(trust_env=False, timeout=None) as browser:
            shown = await browser.get(web.find_shown_address(page.address))
            assert "<h1>News from Grey Point" in shown.text
            assert (await browser.get(f"{web.search_url}/nothing")).status_code == 404
        assert web.find_shown_address("https://example.org/ferry") == "https://example.org/ferry"


async def test_a_command_is_answered_without_a_model_call():
    code, lines = await run_exchange("/help")
    assert code == 0
    assert "/usage" in lines
    assert "model call" not in lines


async def test_a_real_endpoint_takes_the_place_of_the_simulated_one(endpoint: tuple[ScriptedEndpoint, str]):
    code, lines = await run_exchange("What is the answer?", endpoint[1])
    assert code == 0
    assert "Canvasgram: Forty-two." in lines
    assert f"Real: the gateway and the model (a-real-one at {endpoint[1]}/v1). Simulated: Telegram." in lines


async def test_no_answer_is_a_failure(endpoint: tuple[ScriptedEndpoint, str]):
    endpoint[0].inject_fault("unauthorized", times=None)
    code, lines = await run_exchange("What is the answer?", endpoint[1])
    assert code == 1
    assert "tokens in" in lines


async def test_a_stop_ends_the_waiting(endpoint: tuple[ScriptedEndpoint, str]):
    endpoint[0].hold()
    stop = asyncio.Event()
    lines = list[str]()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            command.run(stop, model_url=endpoint[1], say="Hm?", port=0, echo=lines.append)
        )
        await endpoint[0].wait_until(lambda: endpoint[0].running == 1)
        stop.set()
    assert running.result() == 1
    assert lines == []


async def test_the_start_says_where_the_page_is_and_what_is_simulated():
    stop = asyncio.Event()
    lines = asyncio.Queue[str]()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            command.run(stop, model_url=None, say=None, port=0, echo=lines.put_nowait)
        )
        block = await lines.get()
        address = next(word for word in block.split() if word.startswith("http://127.0.0.1:"))
        async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
            assert "<title>Canvasgram demo</title>" in (await client.get(address)).text
        stop.set()
    assert running.result() == 0
    for words in ("Simulated", "Telegram, and the model", "canvasgram setup", "Ctrl-C"):
        assert words in block


async def test_the_page_says_which_half_is_real(endpoint: tuple[ScriptedEndpoint, str]):
    async with (
        open_demo(RealModel(endpoint[1])) as running,
        serve_page(running) as address,
        httpx.AsyncClient(trust_env=False, timeout=None) as client,
        client.stream("GET", f"{address}events") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: page"
        assert "Telegram is simulated. The model is real." in await anext(lines)


async def start_demo(*args: str, folder: Path, **variables: str) -> asyncio.subprocess.Process:
    """The demo as a person starts it, in a folder and an environment full of settings that are none of its
    business.
    """
    (folder / ".env").write_text("MODEL_SEATS=wrong\nTELEGRAM_TOKEN=wrong\n")
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bot", "demo", *args),
        cwd=folder,
        env={
            "PYTHONPATH": str(ROOT),
            "TELEGRAM_TOKEN": "wrong",
            "DATABASE_URL": "wrong",
            "ADMIN_IDS": "x",
            **variables,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_neither_environment_nor_env_file_is_read(tmp_path: Path):
    running = await start_demo("--say", "What is 2^100 / 7, exactly?", folder=tmp_path)
    out, err = await running.communicate()
    assert (running.returncode, err.decode()) == (0, "")
    assert "1267650600228229401496703205376/7" in out.decode()
    assert [file.name for file in tmp_path.iterdir()] == [".env"]


async def wait_for_page(demo: asyncio.subprocess.Process) -> str:
    """The address of the page, once it is printed."""
    assert demo.stdout is not None
    address = ""
    while not address:
        line = await demo.stdout.readline()
        assert line, "the demo has ended"
        address = next((word for word in line.decode().split() if word.startswith("http://")), "")
    return address


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_ctrl_c_ends_it_cleanly_with_its_processes_also_while_a_browser_listens(tmp_path: Path):
    running = await start_demo(folder=tmp_path, TMPDIR=str(tmp_path))
    address = await wait_for_page(running)
    assert running.stdout is not None
    assert running.stderr is not None
    (gateway,) = list_children(running.pid)
    async with (
        httpx.AsyncClient(trust_env=False, timeout=None) as client,
        client.stream("GET", f"{address}events") as stream,
    ):
        events = stream.aiter_lines()
        assert await anext(events) == "event: page"
        running.send_signal(signal.SIGINT)
        async with asyncio.timeout(300):
            assert await running.wait() == 0
            await wait_until_gone(gateway)
    assert (await running.stderr.read()).decode() == ""
    assert b"deleted" in await running.stdout.read()
    assert [file.name for file in tmp_path.iterdir()] == [".env"]


def list_children(pid: int) -> set[int]:
    """The processes that this one has started."""
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


async def wait_until_gone(process: int) -> None:
    while Path(f"/proc/{process}").exists():  # noqa: ASYNC110  # no event says so
        await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_kill_minus_nine_leaves_no_process(tmp_path: Path):
    running = await start_demo(folder=tmp_path, TMPDIR=str(tmp_path))
    await wait_for_page(running)
    (gateway,) = list_children(running.pid)
    running.kill()
    async with asyncio.timeout(300):
        await running.communicate()
        await wait_until_gone(gateway)


async def test_a_gateway_that_somebody_kills_comes_back_and_answers_once():
    async with open_demo(endpoint=ScriptedEndpoint(brain=reply_with("Forty-two."))) as running:
        pid = running.gateway.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        update = running.person.send("What is the answer?")
        assert await running.wait_until_settled(update.update_id, asyncio.Event())
        await running.wait_for_breakdowns()
        (outage,) = running.gateway.outages
        assert running.gateway.pid not in {None, pid}
        assert [message.text for message in running.person.chat.bot_messages] == ["Forty-two."]
        while outage.seconds is None:  # noqa: ASYNC110  # the gateway says so another way
            await asyncio.sleep(0.01)


async def test_a_gateway_is_not_killed_twice_at_once():
    async with open_demo() as running:
        running.gateway.kill()
        with pytest.raises(ValueError, match="is down already"):
            running.gateway.kill()


async def test_a_taken_port_and_a_missing_endpoint_are_said(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ExceptionGroup) as refused:
            await command.run(asyncio.Event(), model_url=None, say=None, port=port, echo=print)
    assert refused.group_contains(PortTaken, match=f"Port {port} cannot be had")
    with pytest.raises(ExceptionGroup) as refused:
        await run_exchange("hi", "http://127.0.0.1:9/v1")
    assert refused.group_contains(CanvasgramError, match="Nothing answers at")


async def test_a_gateway_that_does_not_start_is_an_error():
    with pytest.raises(ExceptionGroup) as refused:
        async with open_demo(start_seconds=0):
            raise AssertionError("it must not start")
    assert refused.group_contains(DemoNotStarted, match="NO_PROXY")


async def test_nothing_to_say_is_a_wrong_option():
    with pytest.raises(SettingsRefused, match="--say must be a text"):
        await run_exchange("  ")


async def test_a_wrong_model_address_is_a_wrong_option():
    with pytest.raises(ExceptionGroup) as refused:
        await run_exchange("hi", "gpu")
    assert refused.group_contains(SettingsRefused, match="MODEL_URL")

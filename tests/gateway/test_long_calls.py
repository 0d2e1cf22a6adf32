"""Calls with long arguments, cut by the length limit and asked again, through the whole gateway."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import ChatRequest, format_tool_call
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import running_gateway

SOURCE = '''
"""Pages."""

from pathlib import Path

from tools.base import tool


@tool
async def write_page(text: str) -> str:
    """Write a page.

    Args:
        text: All of it.
    """
    with Path(__file__).with_name("pages.txt").open("a", encoding="utf-8") as pages:
        pages.write(text)
    return "written"
'''


def write_call(text: str) -> ScriptedEndpoint:
    """An endpoint whose model writes this page in its first step, and then says so."""

    def think(request: ChatRequest) -> str:
        if request.step:
            return "It is written."
        return format_tool_call("write_page", {"text": text})

    return ScriptedEndpoint(brain=think)


def write_text(characters: int) -> str:
    """Prose of at least so many characters."""
    return write_prose(characters // 4, 1).strip()[:characters]


def install_pages(folder: Path) -> Path:
    tools_dir = folder / "tools"
    tools_dir.mkdir(mode=0o755)
    (tools_dir / "pages.py").write_text(SOURCE, encoding="utf-8")
    return tools_dir


def load_calls(folder: Path) -> list[tuple[object, ...]]:
    query = "select again, finish_reason, completion_tokens from model_calls order by id"
    with closing(sqlite3.connect(folder / "gateway.db")) as database:
        return database.execute(query).fetchall()


@pytest.mark.sqlite
@pytest.mark.parametrize("characters", [6_000, 12_000])
async def test_a_call_with_pages_of_argument_runs_once_and_whole(tmp_path: Path, characters: int):
    text = write_text(characters)
    tools_dir = install_pages(tmp_path)
    endpoint = write_call(text)
    async with running_gateway(tmp_path, endpoint, tools_dir=tools_dir) as gateway:
        gateway.ann.send("Write it down.")
        assert await gateway.wait_for_texts() == ["It is written."]
    assert (tools_dir / "pages.txt").read_text(encoding="utf-8") == text
    first, second, third = load_calls(tmp_path)
    assert first == (None, "length", 1024)
    assert second[:2] == ("cut", "tool_calls")
    assert third[:2] == (None, "stop")


@pytest.mark.sqlite
async def test_a_call_that_never_fits_is_not_run_and_the_person_is_told_what_to_do(tmp_path: Path):
    tools_dir = install_pages(tmp_path)
    endpoint = write_call(write_text(20_000))
    async with running_gateway(tmp_path, endpoint, tools_dir=tools_dir) as gateway:
        gateway.ann.send("Write it down.")
        [answer] = await gateway.wait_for_texts()
    assert "ask for it in smaller parts" in answer
    assert "ask an admin to raise the limit." in answer
    assert not (tools_dir / "pages.txt").exists()
    assert load_calls(tmp_path) == [(None, "length", 1024), ("cut", "length", 12 * 256)]

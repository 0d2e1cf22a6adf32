"""Registered tools in the whole house: what a chat is offered, when that changes, and what a restart finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.sim.vllm.server import Request
from bot.tool_registry import registry as catalogue
from bot.turns import cache_warmup as warming
from tests.support.gateway import ADMIN, World, open_house, world

BOB = 8
GREET = '''
from tools.base import tool


@tool(repeatable=True)
async def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    return f"hello, {name}"
'''
CALL = '@@tool:greet {"name": "Bo"}@@ @@say:Done.@@'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SETTLE", 0.0)
    monkeypatch.setattr(catalogue, "LOOK", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir(mode=0o755)
    (made / "greet.py").write_text(GREET)
    (made / "greet.py").chmod(0o644)
    return made


def offered(request: Request) -> set[str]:
    return {one["function"]["name"] for one in request.body.get("tools", ())}


async def say(house: World, chat: int, text: str, answer: str = "Done.") -> list[Request]:
    """What was asked of the endpoint for a text of Ann or Bob, until this stands as a new answer."""
    person = house.api.person(chat, "Ann" if chat == ADMIN else "Bob")
    told, asked = len(house.texts(chat)), len(house.endpoint.requests)
    person.send(text)
    await house.api.until(
        lambda: any(answer in one for one in house.texts(chat)[told:]) and house.finished(chat)
    )
    return [one for one in house.endpoint.requests[asked:] if not warms(one)]


def warms(request: Request) -> bool:
    """Whether it is the house's own."""
    return request.body.get("messages", [{}])[-1].get("content") in warming.ASKS


def result(requests: list[Request]) -> str:
    """What the model read as the result of its call."""
    return str(requests[-1].body["messages"][-1]["content"])


async def test_a_chat_is_offered_what_it_is_granted_from_its_next_conversation_on(
    tmp_path: Path, folder: Path
) -> None:
    async with open_house(
        tmp_path, tools_dir=str(folder), access="open", warm_up="on", thinking="off"
    ) as house:
        ann = await say(house, ADMIN, CALL)
        assert result(ann) == "hello, Bo"
        bob = await say(house, BOB, CALL)
        assert "There is no tool called greet" in result(bob)
        assert offered(ann[0]) == offered(bob[0]) | {"greet"}
        await say(house, ADMIN, "/grant greet everyone", "greet may be used by")
        asked = house.endpoint.requests
        await house.endpoint.until(lambda: any(warms(one) and "greet" in offered(one) for one in asked))
        again = await say(house, BOB, CALL)
        assert again[0].body["tools"] == bob[0].body["tools"]
        assert "There is no tool called greet" in result(again)
        await say(house, BOB, "/new", "new conversation")
        assert result(await say(house, BOB, CALL)) == "hello, Bo"


async def test_a_tool_that_is_disabled_says_so_and_the_prompt_stays_as_it_began(
    tmp_path: Path, folder: Path
) -> None:
    async with open_house(tmp_path, tools_dir=str(folder), thinking="off") as house:
        began = await say(house, ADMIN, CALL)
        await say(house, ADMIN, "/tools disable greet", "greet")
        asked = await say(house, ADMIN, CALL)
        while "hello" in result(asked):  # the house looks every now and then
            asked = await say(house, ADMIN, CALL)
        assert asked[0].body["tools"] == began[0].body["tools"]
        await say(house, ADMIN, "/new", "new conversation")
        [hello] = await say(house, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "greet" not in offered(hello)


async def test_a_restart_finds_the_chat_with_the_tools_it_had(tmp_path: Path, folder: Path) -> None:
    async with world(tmp_path, tools_dir=str(folder), thinking="off") as house:
        async with house.gateway():
            first = await say(house, ADMIN, CALL)
        (folder / "greet.py").rename(folder / "greet.txt")
        async with house.gateway():
            second = await say(house, ADMIN, CALL)
        assert second[0].body["tools"] == first[0].body["tools"]
        assert "hello" not in result(second)
        assert any("greet.py: it is not in TOOLS_DIR any more" in text for text in house.texts())


def test_a_house_that_registers_nothing_imports_nothing_for_it() -> None:
    heavy = (
        "mcp",
        "openapi_pydantic",
        "tools.mcp.",
        "tools.http.",
        "tools.openapi.",
        "bot.tool_registry.mcp_servers",
    )
    code = f"import sys, bot.app; print([one for one in sys.modules if one == 'mcp' or one.startswith({heavy[1:]!r})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

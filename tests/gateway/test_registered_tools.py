"""Registered tools in the whole house: what a chat is offered, when that changes, and what a restart finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.sim.vllm.server import RequestRecord
from bot.tool_registry import registry as catalogue
from bot.turns import cache_warmup as warming
from tests.support.gateway import ADMIN, GatewayHarness, open_harness, running_gateway

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
    monkeypatch.setattr(warming, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(catalogue, "POLL_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir(mode=0o755)
    (made / "greet.py").write_text(GREET)
    (made / "greet.py").chmod(0o644)
    return made


def offered_names(request: RequestRecord) -> set[str]:
    return {one["function"]["name"] for one in request.body.get("tools", ())}


async def send_and_wait(
    gateway: GatewayHarness, chat: int, text: str, answer: str = "Done."
) -> list[RequestRecord]:
    """What was asked of the endpoint for a text of Ann or Bob, until this stands as a new answer."""
    person = gateway.api.person(chat, "Ann" if chat == ADMIN else "Bob")
    told, asked = len(gateway.texts(chat)), len(gateway.endpoint.requests)
    person.send(text)
    await gateway.api.wait_until(
        lambda: any(answer in one for one in gateway.texts(chat)[told:]) and gateway.is_finished(chat)
    )
    return [one for one in gateway.endpoint.requests[asked:] if not is_warmup(one)]


def is_warmup(request: RequestRecord) -> bool:
    """Whether it is the house's own."""
    return request.body.get("messages", [{}])[-1].get("content") in warming.WARMUP_PROMPTS


def last_tool_result(requests: list[RequestRecord]) -> str:
    """What the model read as the result of its call."""
    return str(requests[-1].body["messages"][-1]["content"])


async def test_a_chat_is_offered_what_it_is_granted_from_its_next_conversation_on(
    tmp_path: Path, folder: Path
) -> None:
    async with running_gateway(
        tmp_path, tools_dir=str(folder), access="open", warm_up="on", thinking="off"
    ) as house:
        ann = await send_and_wait(house, ADMIN, CALL)
        assert last_tool_result(ann) == "hello, Bo"
        bob = await send_and_wait(house, BOB, CALL)
        assert "There is no tool called greet" in last_tool_result(bob)
        assert offered_names(ann[0]) == offered_names(bob[0]) | {"greet"}
        await send_and_wait(house, ADMIN, "/grant greet everyone", "greet may be used by")
        asked = house.endpoint.requests
        await house.endpoint.wait_until(
            lambda: any(is_warmup(one) and "greet" in offered_names(one) for one in asked)
        )
        again = await send_and_wait(house, BOB, CALL)
        assert again[0].body["tools"] == bob[0].body["tools"]
        assert "There is no tool called greet" in last_tool_result(again)
        await send_and_wait(house, BOB, "/new", "new conversation")
        assert last_tool_result(await send_and_wait(house, BOB, CALL)) == "hello, Bo"


async def test_a_tool_that_is_disabled_says_so_and_the_prompt_stays_as_it_began(
    tmp_path: Path, folder: Path
) -> None:
    async with running_gateway(tmp_path, tools_dir=str(folder), thinking="off") as house:
        began = await send_and_wait(house, ADMIN, CALL)
        await send_and_wait(house, ADMIN, "/tools disable greet", "greet")
        asked = await send_and_wait(house, ADMIN, CALL)
        while "hello" in last_tool_result(asked):  # the house looks every now and then
            asked = await send_and_wait(house, ADMIN, CALL)
        assert asked[0].body["tools"] == began[0].body["tools"]
        await send_and_wait(house, ADMIN, "/new", "new conversation")
        [hello] = await send_and_wait(house, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "greet" not in offered_names(hello)


async def test_a_restart_finds_the_chat_with_the_tools_it_had(tmp_path: Path, folder: Path) -> None:
    async with open_harness(tmp_path, tools_dir=str(folder), thinking="off") as house:
        async with house.run():
            first = await send_and_wait(house, ADMIN, CALL)
        (folder / "greet.py").rename(folder / "greet.txt")
        async with house.run():
            second = await send_and_wait(house, ADMIN, CALL)
        assert second[0].body["tools"] == first[0].body["tools"]
        assert "hello" not in last_tool_result(second)
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

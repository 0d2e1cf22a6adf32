"""Registered tools in the whole gateway: what a chat is offered, when that changes, what a restart finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.sim.vllm.server import RequestRecord
from bot.tool_registry import registry
from bot.turns import cache_warmup
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
    monkeypatch.setattr(cache_warmup, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(registry, "POLL_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools_dir = tmp_path / "mine"
    tools_dir.mkdir(mode=0o755)
    (tools_dir / "greet.py").write_text(GREET)
    (tools_dir / "greet.py").chmod(0o644)
    return tools_dir


def offered_names(request: RequestRecord) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


async def send_and_wait(
    gateway: GatewayHarness, chat: int, text: str, answer: str = "Done."
) -> list[RequestRecord]:
    """The requests to the endpoint for a text of Ann or Bob, until `answer` is in a new message."""
    person = gateway.api.person(chat, "Ann" if chat == ADMIN else "Bob")
    text_count = len(gateway.texts(chat))
    request_count = len(gateway.endpoint.requests)
    person.send(text)
    await gateway.api.wait_until(
        lambda: any(answer in text for text in gateway.texts(chat)[text_count:]) and gateway.is_finished(chat)
    )
    return [request for request in gateway.endpoint.requests[request_count:] if not is_warmup(request)]


def is_warmup(request: RequestRecord) -> bool:
    """Whether it is a warm-up of the gateway."""
    content = request.body.get("messages", [{}])[-1].get("content")
    return content in cache_warmup.WARMUP_PROMPTS or cache_warmup.PICTURE_PROMPT in str(content)


def last_tool_result(requests: list[RequestRecord]) -> str:
    """What the model read as the result of its call."""
    return str(requests[-1].body["messages"][-1]["content"])


async def test_a_chat_is_offered_what_it_is_granted_from_its_next_conversation_on(
    tmp_path: Path, folder: Path
) -> None:
    async with running_gateway(
        tmp_path, tools_dir=str(folder), access="open", warm_up="on", thinking="off"
    ) as gateway:
        ann = await send_and_wait(gateway, ADMIN, CALL)
        assert last_tool_result(ann) == "hello, Bo"
        bob = await send_and_wait(gateway, BOB, CALL)
        assert "There is no tool called greet" in last_tool_result(bob)
        assert offered_names(ann[0]) == offered_names(bob[0]) | {"greet"}
        await send_and_wait(gateway, ADMIN, "/grant greet everyone", "greet may be used by")
        requests = gateway.endpoint.requests
        await gateway.endpoint.wait_until(
            lambda: any(is_warmup(message) and "greet" in offered_names(message) for message in requests)
        )
        again = await send_and_wait(gateway, BOB, CALL)
        assert again[0].body["tools"] == bob[0].body["tools"]
        assert "There is no tool called greet" in last_tool_result(again)
        await send_and_wait(gateway, BOB, "/new", "New conversation")
        assert last_tool_result(await send_and_wait(gateway, BOB, CALL)) == "hello, Bo"


async def test_a_tool_that_is_disabled_says_so_and_the_prompt_stays_as_it_began(
    tmp_path: Path, folder: Path
) -> None:
    async with running_gateway(tmp_path, tools_dir=str(folder), thinking="off") as gateway:
        first_requests = await send_and_wait(gateway, ADMIN, CALL)
        await send_and_wait(gateway, ADMIN, "/tools disable greet", "greet")
        requests = await send_and_wait(gateway, ADMIN, CALL)
        while "hello" in last_tool_result(requests):  # the gateway looks for changes at intervals
            requests = await send_and_wait(gateway, ADMIN, CALL)
        assert requests[0].body["tools"] == first_requests[0].body["tools"]
        await send_and_wait(gateway, ADMIN, "/new", "New conversation")
        [hello] = await send_and_wait(gateway, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "greet" not in offered_names(hello)


async def test_a_restart_finds_the_chat_with_the_tools_it_had(tmp_path: Path, folder: Path) -> None:
    async with open_harness(tmp_path, tools_dir=str(folder), thinking="off") as gateway:
        async with gateway.run():
            first = await send_and_wait(gateway, ADMIN, CALL)
        (folder / "greet.py").rename(folder / "greet.txt")
        async with gateway.run():
            second = await send_and_wait(gateway, ADMIN, CALL)
            notice = "greet.py: it is not in TOOLS_DIR any more"
            await gateway.api.wait_until(lambda: any(notice in text for text in gateway.texts()))
        assert second[0].body["tools"] == first[0].body["tools"]
        assert "hello" not in last_tool_result(second)


def test_a_gateway_that_registers_nothing_imports_nothing_for_it() -> None:
    heavy = (
        "mcp",
        "openapi_pydantic",
        "tools.mcp.",
        "tools.http.",
        "tools.openapi.",
        "bot.tool_registry.mcp_servers",
    )
    is_heavy = f"name == 'mcp' or name.startswith({heavy[1:]!r})"
    code = f"import sys, bot.app; print([name for name in sys.modules if {is_heavy}])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"

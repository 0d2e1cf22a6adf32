"""More tools than a prompt has room for: a few stand in it, the others are found and used, and its front
stays.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.agent.tool_search import FIND_TOOLS, META_TOOL_NAMES, USE_TOOL
from bot.db.engine import Database
from bot.db.tables import approvals, inbox, tool_calls, turns
from bot.db.tools.sources import Source
from bot.tool_registry import registry as catalogue
from bot.tool_registry.assembly import SourceTools, assemble
from bot.tool_registry.registry import ToolRegistry
from tests.gateway.test_registered_tools import BOB, last_tool_result, offered_names, send_and_wait
from tests.support.gateway import ADMIN, open_harness, running_gateway
from tests.support.many_tools import TOOLS_FILE, make_many_tools
from tests.support.turn_harness import ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tools.base import Rule, Tool, ToolContext

SEARCH = f'@@tool:{FIND_TOOLS} {{"words": "approve a voucher"}}@@'
APPROVE = f'@@tool:{USE_TOOL} {{"name": "approve_voucher", "arguments": {{"number": "12"}}}}@@'
MAX_TOOL_TOKENS = 2000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "POLL_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = tmp_path / "mine"
    made.mkdir(mode=0o755)
    (made / "company.py").write_text(TOOLS_FILE)
    (made / "company.py").chmod(0o644)
    return str(made)


def estimate_tokens(tools: list[dict[str, Any]]) -> int:
    return sum(len(str(one)) for one in tools) // 4


async def test_one_of_two_hundred_tools_is_found_and_used_and_the_prompts_front_stays(
    tmp_path: Path, folder: str
) -> None:
    async with running_gateway(tmp_path, tools_dir=folder, access="open", thinking="off") as house:
        first = await send_and_wait(house, ADMIN, "Archive the contract of the machine @@say:Done.@@")
        opened, found, used = await send_and_wait(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
        assert "approve_voucher: Approve a voucher that waits.\narguments: {" in last_tool_result([found])
        assert last_tool_result([used]) == "done with 12"
        assert offered_names(first[0]) >= {*META_TOOL_NAMES, "archive_contract", "clock", "remember"}
        assert "approve_voucher" not in offered_names(first[0])
        assert estimate_tokens(first[0].body["tools"]) <= MAX_TOOL_TOKENS
        [again] = await send_and_wait(house, ADMIN, "@@say:Well.@@", "Well.")
        wrong = await send_and_wait(
            house, ADMIN, '@@tool:approve_voucher {"number": "no"}@@ @@say:So.@@', "So."
        )
        assert '"number": {"description": "Its number.", "type": "integer"}' in last_tool_result(wrong)
        front = json.dumps(first[0].body["tools"])
        assert {json.dumps(one.body["tools"]) for one in (opened, found, used, again, *wrong)} == {front}
        assert all(one.prompt_tokens < 3000 for one in house.endpoint.requests)
        # What somebody is not granted is neither offered, found nor used.
        bob = await send_and_wait(house, BOB, APPROVE + "@@say:Done.@@")
        assert not offered_names(bob[0]) & {*META_TOOL_NAMES, "archive_contract"}
        assert "There is no tool called use_tool" in last_tool_result(bob)
        # A new conversation begins with what was used of late.
        await send_and_wait(house, ADMIN, "/new", "new conversation")
        [new] = await send_and_wait(house, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "approve_voucher" in offered_names(new)
        assert "archive_contract" not in offered_names(new)


async def test_what_is_revoked_is_found_no_more_and_a_restart_keeps_the_prompts_front(
    tmp_path: Path, folder: str
) -> None:
    async with open_harness(tmp_path, tools_dir=folder, access="open", thinking="off") as house:
        async with house.run():
            for name in ("approve_voucher", *(f"list_{thing}" for thing in ("invoice", "customer"))):
                await send_and_wait(house, ADMIN, f"/grant {name} everyone", f"{name} may be used by")
            few = await send_and_wait(house, BOB, "@@say:Done.@@")
            assert offered_names(few[0]) >= {"approve_voucher", "list_invoice"}
            assert not offered_names(few[0]) & META_TOOL_NAMES
            ann = await send_and_wait(house, ADMIN, f"{APPROVE} @@say:Done.@@")
            assert last_tool_result(ann) == "done with 12"
        async with house.run():
            later = await send_and_wait(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert later[0].body["tools"] == ann[0].body["tools"]
            await send_and_wait(house, ADMIN, "/tools disable approve_voucher", "approve_voucher")
            asked = await send_and_wait(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            while "done with" in last_tool_result(asked):  # the house looks every now and then
                asked = await send_and_wait(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert "approve_voucher" not in last_tool_result([asked[1]])
            assert asked[0].body["tools"] == ann[0].body["tools"]


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


def use_tool_call(name: str, id: str = "a", **arguments: Any) -> Any:
    return make_call(USE_TOOL, json.dumps({"name": name, "arguments": arguments}), id=id)


def company_tools(*replacements: Tool) -> list[Tool]:
    """The company's tools as if they were the house's own, some of them another way."""
    return sorted(
        [
            *replacements,
            *(
                one
                for one in make_many_tools(source="")
                if one.name not in {other.name for other in replacements}
            ),
        ],
        key=lambda tool: tool.name,
    )


async def test_a_turn_writes_down_and_counts_the_tool_that_was_used(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, company_tools())
    model.script += [
        make_reply(
            "", make_call(FIND_TOOLS, '{"words": "vouchers"}'), use_tool_call("update_voucher", "b", number=1)
        ),
        *[make_reply("", use_tool_call("update_voucher", "c", number=1))] * 2,
        make_reply("Done."),
    ]
    await desk.build_runner().run(await desk.new_request("hello"))
    rows = await desk.load_rows(tool_calls, "name", "arguments", "outcome")
    assert [(name, outcome) for name, _, outcome in rows] == [
        (FIND_TOOLS, "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "refused"),
    ]
    assert {json.loads(arguments).get("number") for name, arguments, _ in rows[1:]} == {1}
    [(names, used)] = await desk.load_rows(turns, "tools", "used")
    assert set(json.loads(names)) > META_TOOL_NAMES
    assert json.loads(used) == [FIND_TOOLS, "update_voucher"]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_after_a_crash_the_tool_that_was_used_decides_whether_it_runs_again(
    database: Database, model: ScriptedModel, repeatable: bool
) -> None:
    begun, ran = asyncio.Event(), list[int]()

    async def hang(arguments: Mapping[str, Any], context: ToolContext) -> str:
        ran.append(arguments["number"])
        begun.set()
        if len(ran) == 1:
            await hang_forever()
        return "late"

    slow = replace(make_many_tools(200)[-1], source="", function=hang, repeatable=repeatable)
    desk = TurnHarness(database, model, company_tools(slow))
    model.script += [make_reply("", use_tool_call(slow.name, number=5)), make_reply("Done.")]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(desk.build_runner().run(await desk.new_request("hello")))
        await begun.wait()
        running.cancel()
    await desk.build_runner().run(await desk.restart("hello"))
    [(name, outcome)] = await desk.load_rows(tool_calls, "name", "outcome")
    assert (name, outcome) == (slow.name, "ok" if repeatable else "unknown")
    assert ran == [5] * (1 + repeatable)
    assert await desk.load_answers() == ["Done."]


async def test_a_person_is_asked_about_the_tool_that_is_used(
    database: Database, model: ScriptedModel
) -> None:
    asks = replace(make_many_tools(200)[-1], source="", rule=Rule("always"))
    desk = TurnHarness(database, model, company_tools(asks))
    model.script.append(make_reply("", use_tool_call(asks.name, number=5)))
    await desk.build_runner().run(await desk.new_request("hello"))
    assert await desk.load_rows(approvals, "tool", "arguments") == [(asks.name, '{"number": 5}')]
    assert await desk.load_rows(inbox, "state") == [("parked",)]


async def test_a_tool_that_is_not_granted_is_refused_by_its_own_name(
    database: Database, model: ScriptedModel
) -> None:
    desk = TurnHarness(database, model, company_tools(), forbidden_tools={"update_voucher"})
    model.script += [make_reply("", use_tool_call("update_voucher", number=1)), make_reply("Done.")]
    await desk.build_runner().run(await desk.new_request("hello"))
    [(name, outcome)] = await desk.load_rows(tool_calls, "name", "outcome")
    assert (name, outcome) == ("update_voucher", "refused")


async def test_a_few_toolboxes_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_CACHED_TOOLBOXES", 2)
    house = ToolRegistry(database, make_many_tools(), lambda person: True)
    first, *others = (
        house.build_conversation_toolbox(ADMIN, ADMIN, [thing], None)
        for thing in ("rota", "badge", "voucher")
    )
    assert house.build_conversation_toolbox(ADMIN, ADMIN, (), others[1].offered_names) is others[1]
    assert house.build_conversation_toolbox(ADMIN, ADMIN, (), first.offered_names) is not first
    assert first.tool_index is others[0].tool_index
    assert house.needs_tool_search


async def test_a_waiting_call_is_answered_by_its_own_name_though_its_grant_is_gone(
    database: Database, model: ScriptedModel
) -> None:
    asks = replace(make_many_tools(200)[-1], source="", rule=Rule("always"))
    desk = TurnHarness(database, model, company_tools(asks))
    model.script.append(make_reply("", use_tool_call(asks.name, number=5)))
    await desk.build_runner().run(await desk.new_request("hello"))
    [(question,)] = await desk.load_rows(approvals, "id")
    async with database.transaction() as tx:
        await desk.approvals.answer(tx, question, "once", (7, "Ann"), now=time.time())
    desk.forbidden_tools = {asks.name}
    model.script.append(make_reply("So be it."))
    await desk.build_runner().run(desk.build_request(await desk.claim(), "hello"))
    [(name, outcome, text)] = await desk.load_rows(tool_calls, "name", "outcome", "result")
    assert (name, outcome) == (asks.name, "refused")
    assert "may not be used by this person here" in text


def test_the_names_of_the_doors_are_the_houses() -> None:
    source = Source("company", "file", "/srv/tools/company.py")
    supply = SourceTools(source, (replace(make_many_tools(1)[0], name=FIND_TOOLS), make_many_tools(1)[0]))
    standing = assemble([], [supply], [], now=1.0)
    assert list(standing.tools) == [make_many_tools(1)[0].name]
    assert FIND_TOOLS in str(standing.trouble_changes["company"])

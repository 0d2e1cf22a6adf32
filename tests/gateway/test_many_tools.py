"""More tools than fit into a prompt: a few are in it, the others are found and used, and its beginning stays
the same.
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
from bot.llm.read_gains import ReadGain, store_gain
from bot.tool_registry import registry
from bot.tool_registry.assembly import SourceTools, assemble
from bot.tool_registry.registry import ToolRegistry
from bot.turns import preflight
from tests.gateway.test_registered_tools import BOB, last_tool_result, offered_names, send_and_wait
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, open_harness, running_gateway
from tests.support.many_tools import make_many_tools, write_tools_file
from tests.support.turn_harness import ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tools.base import Rule, Tool, ToolContext

SEARCH = f'@@tool:{FIND_TOOLS} {{"words": "approve a voucher"}}@@'
APPROVE = f'@@tool:{USE_TOOL} {{"name": "approve_voucher", "arguments": {{"number": "12"}}}}@@'
MAX_TOOL_TOKENS = 2000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "POLL_SECONDS", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    tools_dir = tmp_path / "mine"
    tools_dir.mkdir(mode=0o755)
    write_tools_file(tools_dir)
    return str(tools_dir)


def estimate_tokens(tools: list[dict[str, Any]]) -> int:
    return sum(len(str(tool)) for tool in tools) // 4


async def test_where_words_do_not_tell_tools_apart_a_read_that_has_gained_something_does(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "READ_SECONDS", 60.0)
    endpoint = ScriptedEndpoint(
        judge=lambda question: (
            [*(0.1 for _ in question.options[1:]), 9] if question.kind == "choice" else (1, 9)
        )
    )
    store_gain(tmp_path / "bench", "tools", ReadGain(endpoint.model, 100, gained=20, lost=2))
    async with running_gateway(tmp_path, endpoint, tools_dir=folder, thinking="off") as gateway:
        await send_and_wait(gateway, ADMIN, "@@say:Hello.@@", "Hello.")  # the model's name is known now
        await send_and_wait(gateway, ADMIN, "/new", "New conversation")
        [request] = await send_and_wait(gateway, ADMIN, "Please approve it @@say:Done.@@")
        [question] = endpoint.typed_questions
        assert len(question.options) == 20
        assert question.options[-1] in offered_names(request)
        await send_and_wait(gateway, ADMIN, "And approve that @@say:Well.@@", "Well.")
        assert len(endpoint.typed_questions) == 1


async def test_one_of_two_hundred_tools_is_found_and_used_and_the_prompts_beginning_stays(
    tmp_path: Path, folder: str
) -> None:
    async with running_gateway(tmp_path, tools_dir=folder, access="open", thinking="off") as gateway:
        first = await send_and_wait(gateway, ADMIN, "Archive the contract of the machine @@say:Done.@@")
        opened, searched, used = await send_and_wait(gateway, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
        assert "approve_voucher: Approve a voucher that waits.\narguments: {" in last_tool_result([searched])
        assert last_tool_result([used]) == "done with 12"
        assert offered_names(first[0]) >= {*META_TOOL_NAMES, "archive_contract", "clock", "remember"}
        assert "approve_voucher" not in offered_names(first[0])
        assert estimate_tokens(first[0].body["tools"]) <= MAX_TOOL_TOKENS
        [again] = await send_and_wait(gateway, ADMIN, "@@say:Well.@@", "Well.")
        wrong = await send_and_wait(
            gateway, ADMIN, '@@tool:approve_voucher {"number": "no"}@@ @@say:So.@@', "So."
        )
        assert '"number": {"description": "Its number.", "type": "integer"}' in last_tool_result(wrong)
        tools_json = json.dumps(first[0].body["tools"])
        assert {json.dumps(request.body["tools"]) for request in (opened, searched, used, again, *wrong)} == {
            tools_json
        }
        assert all(request.prompt_tokens < 3000 for request in gateway.endpoint.requests)
        # What somebody is not granted is neither offered, found nor used.
        bob = await send_and_wait(gateway, BOB, APPROVE + "@@say:Done.@@")
        assert not offered_names(bob[0]) & {*META_TOOL_NAMES, "archive_contract"}
        assert "There is no tool called use_tool" in last_tool_result(bob)
        # A new conversation begins with the tools used recently.
        await send_and_wait(gateway, ADMIN, "/new", "New conversation")
        [new] = await send_and_wait(gateway, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "approve_voucher" in offered_names(new)
        assert "archive_contract" not in offered_names(new)


async def test_what_is_revoked_is_found_no_more_and_a_restart_keeps_the_prompts_beginning(
    tmp_path: Path, folder: str
) -> None:
    async with open_harness(tmp_path, tools_dir=folder, access="open", thinking="off") as gateway:
        async with gateway.run():
            for name in ("approve_voucher", *(f"list_{thing}" for thing in ("invoice", "customer"))):
                await send_and_wait(gateway, ADMIN, f"/grant {name} everyone", f"{name} may be used by")
            few = await send_and_wait(gateway, BOB, "@@say:Done.@@")
            assert offered_names(few[0]) >= {"approve_voucher", "list_invoice"}
            assert not offered_names(few[0]) & META_TOOL_NAMES
            ann = await send_and_wait(gateway, ADMIN, f"{APPROVE} @@say:Done.@@")
            assert last_tool_result(ann) == "done with 12"
        async with gateway.run():
            later = await send_and_wait(gateway, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert later[0].body["tools"] == ann[0].body["tools"]
            await send_and_wait(gateway, ADMIN, "/tools disable approve_voucher", "approve_voucher")
            requests = await send_and_wait(gateway, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            # The gateway looks for changes at intervals, perhaps between the search and the call.
            while "approve_voucher" in last_tool_result([requests[1]]):
                requests = await send_and_wait(gateway, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert "done with" not in last_tool_result(requests)
            assert requests[0].body["tools"] == ann[0].body["tools"]


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


def use_tool_call(name: str, id: str = "a", **arguments: Any) -> Any:
    return make_call(USE_TOOL, json.dumps({"name": name, "arguments": arguments}), id=id)


def company_tools(*replacements: Tool) -> list[Tool]:
    """The company's tools as if they were built in, with some of them replaced."""
    return sorted(
        [
            *replacements,
            *(
                tool
                for tool in make_many_tools(source="")
                if tool.name not in {replacement.name for replacement in replacements}
            ),
        ],
        key=lambda tool: tool.name,
    )


async def test_a_turn_writes_down_and_counts_the_tool_that_was_used(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, company_tools())
    model.script += [
        make_reply(
            "", make_call(FIND_TOOLS, '{"words": "vouchers"}'), use_tool_call("update_voucher", "b", number=1)
        ),
        *[make_reply("", use_tool_call("update_voucher", "c", number=1))] * 2,
        make_reply("Done."),
    ]
    await harness.build_runner().run(await harness.new_request("hello"))
    rows = await harness.load_rows(tool_calls, "name", "arguments", "outcome")
    assert [(name, outcome) for name, _, outcome in rows] == [
        (FIND_TOOLS, "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "refused"),
    ]
    assert {json.loads(arguments).get("number") for name, arguments, _ in rows[1:]} == {1}
    [(names, used)] = await harness.load_rows(turns, "tools", "used")
    assert set(json.loads(names)) > META_TOOL_NAMES
    assert json.loads(used) == [FIND_TOOLS, "update_voucher"]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_after_a_crash_the_tool_that_was_used_decides_whether_it_runs_again(
    database: Database, model: ScriptedModel, repeatable: bool
) -> None:
    started = asyncio.Event()
    ran = list[int]()

    async def hang(arguments: Mapping[str, Any], context: ToolContext) -> str:
        ran.append(arguments["number"])
        started.set()
        if len(ran) == 1:
            await hang_forever()
        return "late"

    slow = replace(make_many_tools(200)[-1], source="", function=hang, repeatable=repeatable)
    harness = TurnHarness(database, model, company_tools(slow))
    model.script += [make_reply("", use_tool_call(slow.name, number=5)), make_reply("Done.")]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(harness.build_runner().run(await harness.new_request("hello")))
        await started.wait()
        running.cancel()
    await harness.build_runner().run(await harness.restart("hello"))
    [(name, outcome)] = await harness.load_rows(tool_calls, "name", "outcome")
    assert (name, outcome) == (slow.name, "ok" if repeatable else "unknown")
    assert ran == [5] * (1 + repeatable)
    assert await harness.load_answers() == ["Done."]


async def test_a_person_is_asked_about_the_tool_that_is_used(
    database: Database, model: ScriptedModel
) -> None:
    asks = replace(make_many_tools(200)[-1], source="", rule=Rule("always"))
    harness = TurnHarness(database, model, company_tools(asks))
    model.script.append(make_reply("", use_tool_call(asks.name, number=5)))
    await harness.build_runner().run(await harness.new_request("hello"))
    assert await harness.load_rows(approvals, "tool", "arguments") == [(asks.name, '{"number": 5}')]
    assert await harness.load_rows(inbox, "state") == [("parked",)]


async def test_a_tool_that_is_not_granted_is_refused_by_its_own_name(
    database: Database, model: ScriptedModel
) -> None:
    harness = TurnHarness(database, model, company_tools(), forbidden_tools={"update_voucher"})
    model.script += [make_reply("", use_tool_call("update_voucher", number=1)), make_reply("Done.")]
    await harness.build_runner().run(await harness.new_request("hello"))
    [(name, outcome)] = await harness.load_rows(tool_calls, "name", "outcome")
    assert (name, outcome) == ("update_voucher", "refused")


async def test_a_few_toolboxes_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_CACHED_TOOLBOXES", 2)
    gateway = ToolRegistry(database, make_many_tools(), lambda person: True)
    first, *calls = (
        gateway.build_conversation_toolbox(ADMIN, ADMIN, [thing], None)
        for thing in ("rota", "badge", "voucher")
    )
    assert gateway.build_conversation_toolbox(ADMIN, ADMIN, (), calls[1].offered_names) is calls[1]
    assert gateway.build_conversation_toolbox(ADMIN, ADMIN, (), first.offered_names) is not first
    assert first.tool_index is calls[0].tool_index
    assert gateway.needs_tool_search


async def test_a_waiting_call_is_answered_by_its_own_name_though_its_grant_is_gone(
    database: Database, model: ScriptedModel
) -> None:
    asks = replace(make_many_tools(200)[-1], source="", rule=Rule("always"))
    harness = TurnHarness(database, model, company_tools(asks))
    model.script.append(make_reply("", use_tool_call(asks.name, number=5)))
    await harness.build_runner().run(await harness.new_request("hello"))
    [(question,)] = await harness.load_rows(approvals, "id")
    async with database.transaction() as tx:
        await harness.approvals.answer(tx, question, "once", (7, "Ann"), now=time.time())
    harness.forbidden_tools = {asks.name}
    model.script.append(make_reply("So be it."))
    await harness.build_runner().run(harness.build_request(await harness.claim(), "hello"))
    [(name, outcome, text)] = await harness.load_rows(tool_calls, "name", "outcome", "result")
    assert (name, outcome) == (asks.name, "refused")
    assert "may not be used by this person here" in text


def test_the_names_of_the_search_tools_are_reserved() -> None:
    source = Source("company", "file", "/srv/tools/company.py")
    supply = SourceTools(source, (replace(make_many_tools(1)[0], name=FIND_TOOLS), make_many_tools(1)[0]))
    standing = assemble([], [supply], [], now=1.0)
    assert list(standing.tools) == [make_many_tools(1)[0].name]
    assert FIND_TOOLS in str(standing.trouble_changes["company"])

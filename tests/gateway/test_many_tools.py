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

from bot.agent.tool_search import DOORS, FIND, USE
from bot.db.engine import Database
from bot.db.tables import approvals, inbox, tool_calls, turns
from bot.db.tools.sources import Source
from bot.tool_registry import registry as catalogue
from bot.tool_registry.assembly import Supply, assemble
from bot.tool_registry.registry import Catalogue
from tests.gateway.test_registered_tools import BOB, offered, result, say
from tests.support.gateway import ADMIN, open_house, world
from tests.support.many_tools import FILE, many
from tests.support.turn_harness import Desk, Model, call, forever, said
from tools.base import Rule, Tool, ToolContext

SEARCH = f'@@tool:{FIND} {{"words": "approve a voucher"}}@@'
APPROVE = f'@@tool:{USE} {{"name": "approve_voucher", "arguments": {{"number": "12"}}}}@@'
ROOM = 2000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LOOK", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = tmp_path / "mine"
    made.mkdir(mode=0o755)
    (made / "company.py").write_text(FILE)
    (made / "company.py").chmod(0o644)
    return str(made)


def tokens(tools: list[dict[str, Any]]) -> int:
    return sum(len(str(one)) for one in tools) // 4


async def test_one_of_two_hundred_tools_is_found_and_used_and_the_prompts_front_stays(
    tmp_path: Path, folder: str
) -> None:
    async with open_house(tmp_path, tools_dir=folder, access="open", thinking="off") as house:
        first = await say(house, ADMIN, "Archive the contract of the machine @@say:Done.@@")
        opened, found, used = await say(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
        assert "approve_voucher: Approve a voucher that waits.\narguments: {" in result([found])
        assert result([used]) == "done with 12"
        assert offered(first[0]) >= {*DOORS, "archive_contract", "clock", "remember"}
        assert "approve_voucher" not in offered(first[0])
        assert tokens(first[0].body["tools"]) <= ROOM
        [again] = await say(house, ADMIN, "@@say:Well.@@", "Well.")
        wrong = await say(house, ADMIN, '@@tool:approve_voucher {"number": "no"}@@ @@say:So.@@', "So.")
        assert '"number": {"description": "Its number.", "type": "integer"}' in result(wrong)
        front = json.dumps(first[0].body["tools"])
        assert {json.dumps(one.body["tools"]) for one in (opened, found, used, again, *wrong)} == {front}
        assert all(one.prompt_tokens < 3000 for one in house.endpoint.requests)
        # What somebody is not granted is neither offered, found nor used.
        bob = await say(house, BOB, APPROVE + "@@say:Done.@@")
        assert not offered(bob[0]) & {*DOORS, "archive_contract"}
        assert "There is no tool called use_tool" in result(bob)
        # A new conversation begins with what was used of late.
        await say(house, ADMIN, "/new", "new conversation")
        [new] = await say(house, ADMIN, "@@say:Hello.@@", "Hello.")
        assert "approve_voucher" in offered(new)
        assert "archive_contract" not in offered(new)


async def test_what_is_revoked_is_found_no_more_and_a_restart_keeps_the_prompts_front(
    tmp_path: Path, folder: str
) -> None:
    async with world(tmp_path, tools_dir=folder, access="open", thinking="off") as house:
        async with house.gateway():
            for name in ("approve_voucher", *(f"list_{thing}" for thing in ("invoice", "customer"))):
                await say(house, ADMIN, f"/grant {name} everyone", f"{name} may be used by")
            few = await say(house, BOB, "@@say:Done.@@")
            assert offered(few[0]) >= {"approve_voucher", "list_invoice"}
            assert not offered(few[0]) & DOORS
            ann = await say(house, ADMIN, f"{APPROVE} @@say:Done.@@")
            assert result(ann) == "done with 12"
        async with house.gateway():
            later = await say(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert later[0].body["tools"] == ann[0].body["tools"]
            await say(house, ADMIN, "/tools disable approve_voucher", "approve_voucher")
            asked = await say(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            while "done with" in result(asked):  # the house looks every now and then
                asked = await say(house, ADMIN, f"{SEARCH} {APPROVE} @@say:Done.@@")
            assert "approve_voucher" not in result([asked[1]])
            assert asked[0].body["tools"] == ann[0].body["tools"]


@pytest.fixture
async def model() -> Model:
    return Model()


def using(name: str, id: str = "a", **arguments: Any) -> Any:
    return call(USE, json.dumps({"name": name, "arguments": arguments}), id=id)


def own(*changed: Tool) -> list[Tool]:
    """The company's tools as if they were the house's own, some of them another way."""
    return sorted(
        [*changed, *(one for one in many(source="") if one.name not in {other.name for other in changed})],
        key=lambda tool: tool.name,
    )


async def test_a_turn_writes_down_and_counts_the_tool_that_was_used(database: Database, model: Model) -> None:
    desk = Desk(database, model, own())
    model.says += [
        said("", call(FIND, '{"words": "vouchers"}'), using("update_voucher", "b", number=1)),
        *[said("", using("update_voucher", "c", number=1))] * 2,
        said("Done."),
    ]
    await desk.turns().run(await desk.ask("hello"))
    rows = await desk.rows(tool_calls, "name", "arguments", "outcome")
    assert [(name, outcome) for name, _, outcome in rows] == [
        (FIND, "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "ok"),
        ("update_voucher", "refused"),
    ]
    assert {json.loads(arguments).get("number") for name, arguments, _ in rows[1:]} == {1}
    [(names, used)] = await desk.rows(turns, "tools", "used")
    assert set(json.loads(names)) > DOORS
    assert json.loads(used) == [FIND, "update_voucher"]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_after_a_crash_the_tool_that_was_used_decides_whether_it_runs_again(
    database: Database, model: Model, repeatable: bool
) -> None:
    begun, ran = asyncio.Event(), list[int]()

    async def hang(arguments: Mapping[str, Any], context: ToolContext) -> str:
        ran.append(arguments["number"])
        begun.set()
        if len(ran) == 1:
            await forever()
        return "late"

    slow = replace(many(200)[-1], source="", function=hang, repeatable=repeatable)
    desk = Desk(database, model, own(slow))
    model.says += [said("", using(slow.name, number=5)), said("Done.")]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(desk.turns().run(await desk.ask("hello")))
        await begun.wait()
        running.cancel()
    await desk.turns().run(await desk.restarted("hello"))
    [(name, outcome)] = await desk.rows(tool_calls, "name", "outcome")
    assert (name, outcome) == (slow.name, "ok" if repeatable else "unknown")
    assert ran == [5] * (1 + repeatable)
    assert await desk.answers() == ["Done."]


async def test_a_person_is_asked_about_the_tool_that_is_used(database: Database, model: Model) -> None:
    asks = replace(many(200)[-1], source="", rule=Rule("always"))
    desk = Desk(database, model, own(asks))
    model.says.append(said("", using(asks.name, number=5)))
    await desk.turns().run(await desk.ask("hello"))
    assert await desk.rows(approvals, "tool", "arguments") == [(asks.name, '{"number": 5}')]
    assert await desk.rows(inbox, "state") == [("parked",)]


async def test_a_tool_that_is_not_granted_is_refused_by_its_own_name(
    database: Database, model: Model
) -> None:
    desk = Desk(database, model, own(), closed={"update_voucher"})
    model.says += [said("", using("update_voucher", number=1)), said("Done.")]
    await desk.turns().run(await desk.ask("hello"))
    [(name, outcome)] = await desk.rows(tool_calls, "name", "outcome")
    assert (name, outcome) == ("update_voucher", "refused")


async def test_a_few_toolboxes_are_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "KEPT", 2)
    house = Catalogue(database, many(), lambda person: True)
    first, *others = (house.kit(ADMIN, ADMIN, [thing], None) for thing in ("rota", "badge", "voucher"))
    assert house.kit(ADMIN, ADMIN, (), others[1].offered) is others[1]
    assert house.kit(ADMIN, ADMIN, (), first.offered) is not first
    assert first.offer is others[0].offer
    assert house.crowded


async def test_a_waiting_call_is_answered_by_its_own_name_though_its_grant_is_gone(
    database: Database, model: Model
) -> None:
    asks = replace(many(200)[-1], source="", rule=Rule("always"))
    desk = Desk(database, model, own(asks))
    model.says.append(said("", using(asks.name, number=5)))
    await desk.turns().run(await desk.ask("hello"))
    [(question,)] = await desk.rows(approvals, "id")
    async with database.transaction() as tx:
        await desk.approvals.answer(tx, question, "once", (7, "Ann"), now=time.time())
    desk.closed = {asks.name}
    model.says.append(said("So be it."))
    await desk.turns().run(desk.again(await desk.claim(), "hello"))
    [(name, outcome, text)] = await desk.rows(tool_calls, "name", "outcome", "result")
    assert (name, outcome) == (asks.name, "refused")
    assert "may not be used by this person here" in text


def test_the_names_of_the_doors_are_the_houses() -> None:
    source = Source("company", "file", "/srv/tools/company.py")
    supply = Supply(source, (replace(many(1)[0], name=FIND), many(1)[0]))
    standing = assemble([], [supply], [], now=1.0)
    assert list(standing.tools) == [many(1)[0].name]
    assert FIND in str(standing.troubles["company"])

"""Due tasks that wait for people, in the whole house: that gave way to a message, or wait for a question's
answer.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from bot.db.engine import open_database
from bot.db.queues import jobs
from bot.db.tables import inbox, tool_calls
from bot.db.tables import jobs as table
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.gateway.test_approval_waits import ring_prompt, tap_buttons, wait_for_message, wait_for_question
from tests.gateway.test_schedules import (
    add_due_job,
    has_said,
    introduce_person,
    messages_starting_with,
    wait_for_outcome,
)
from tests.support import breakdown_clock as books
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import GatewayHarness, long_story, open_harness, running_gateway


def slow_endpoint() -> SimulatedEndpoint:
    return SimulatedEndpoint(timing=Timing(canvas_seconds=0.05))


async def make_task_yield(gateway: GatewayHarness, message: str) -> int:
    """A due task of Ann's has shown something when she writes this; her answer is held. Returns the job."""
    await introduce_person(gateway)
    job = await add_due_job(gateway, long_story())
    await gateway.endpoint.wait_until(lambda: any(request.canvases for request in gateway.endpoint.requests))
    gateway.endpoint.hold()
    await gateway.api.wait_until(lambda: messages_starting_with(gateway, "word"))
    gateway.ann.send(message)
    await gateway.endpoint.wait_until(lambda: any(one.cancelled for one in gateway.endpoint.requests))
    return job


async def load_item_state(gateway: GatewayHarness, number: int) -> str:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return str((await tx.execute(select(inbox.c.state).where(inbox.c.job == number))).scalar_one())


async def wait_until_done(gateway: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(20):
        while await load_item_state(gateway, number) != "done":  # noqa: ASYNC110  # it is told to nobody
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("unhurried")
async def test_a_task_that_gave_way_to_a_new_conversation_stays_in_its_own(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as house:
        async with house.run():
            house.ann.send("@@say:An old word.@@")
            await wait_for_message(house, "An old word.")
            job = await add_due_job(house, long_story())
            await house.endpoint.wait_until(lambda: any(one.canvases for one in house.endpoint.requests[1:]))
            house.endpoint.hold()
            await house.api.wait_until(lambda: messages_starting_with(house, "word"))
            house.ann.send("/new")
            await wait_for_message(house, "Your notes stay.")
            house.endpoint.release()
            await wait_for_outcome(house, job)
            await house.api.wait_until(
                lambda: house.api.chat(house.ann.id).bot_messages[-1].buttons, 30
            )  # Continue
        again = house.endpoint.requests[-1].body["messages"]
        assert any("An old word." in str(one["content"]) for one in again)
    books.check_breakdowns(tmp_path / "house.db")
    with closing(sqlite3.connect(tmp_path / "house.db")) as database:
        cut = database.execute("select error from model_calls where outcome = 'cancelled'").fetchall()
    assert cut == [("it gave way to a message",)]


async def test_a_task_that_gave_way_and_whose_job_is_deleted_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as house, house.run():
        job = await make_task_yield(house, "@@say:Hello, Ann.@@")
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(table).where(table.c.id == job))
        house.endpoint.release()
        await wait_for_message(house, "Hello, Ann.")
        await wait_until_done(house, job)
        await house.api.wait_until(lambda: not messages_starting_with(house, "word"))
    books.check_breakdowns(tmp_path / "house.db")


async def test_the_button_of_a_task_that_gave_way_stops_that_task_and_not_what_runs_before_it(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as house, house.run():
        job = await make_task_yield(house, "@@say:Hello, Ann.@@")
        await house.endpoint.wait_until(lambda: len(house.endpoint.requests) == 2)
        shown = next(one for one in house.api.chat(house.ann.id).bot_messages if one.text.startswith("word"))
        assert await tap_buttons(house, house.ann, shown, "⏹ Stop") == "Stopped."
        house.endpoint.release()
        await wait_for_message(house, "Hello, Ann.")
        await wait_for_outcome(house, job)
        await house.api.wait_until(lambda: any(text.endswith("Stopped.") for text in house.texts()))
    assert [book.ending for book in books.check_breakdowns(tmp_path / "house.db")] == ["stopped", "answered"]


async def test_a_removed_persons_task_that_gave_way_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint(), access="open") as house, house.run():
        await introduce_person(house)
        bob = house.api.person(8, "Bob")
        await introduce_person(house, 8)
        job = await add_due_job(house, long_story(), chat=8)
        await house.endpoint.wait_until(lambda: any(request.canvases for request in house.endpoint.requests))
        house.endpoint.hold()
        await house.api.wait_until(lambda: has_said(house, "word", 8))
        bob.send("@@say:Hello, Bob.@@")
        await house.endpoint.wait_until(lambda: any(one.cancelled for one in house.endpoint.requests))
        house.ann.send("/people block 8")
        await wait_for_message(house, "is blocked.")
        house.endpoint.release()
        await wait_until_done(house, job)
        await house.api.wait_until(lambda: not has_said(house, "word", 8))
    books.check_breakdowns(tmp_path / "house.db")


async def test_a_task_that_waits_for_an_answer_is_not_run_beside_itself_and_its_account_adds_up(
    tmp_path: Path,
):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        async with house.run():
            await introduce_person(house)
            job = await add_due_job(house, ring_prompt("one"), rule=None)
            asked = await wait_for_question(house, "one")
            async with open_database(house.settings.database_url) as database, database.transaction() as tx:
                found = await jobs.find(tx, job)
                assert found is not None
                assert not await jobs.run_now(tx, job, jobs.build_inbox_row(found), now=1.0)
        async with house.run():
            await tap_buttons(house, house.ann, asked, "Allow once")
            await wait_for_message(house, "rang one")
            assert (await wait_for_outcome(house, job))["state"] == "done"
    assert load_rung_bells(tmp_path) == ["one"]
    [book] = books.check_breakdowns(tmp_path / "house.db")
    assert book.seconds["approval_wait"] > 0


async def test_a_task_that_waits_for_an_answer_and_whose_job_is_deleted_ends_with_its_account(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        await introduce_person(house)
        job = await add_due_job(house, ring_prompt("one"))
        asked = await wait_for_question(house, "one")
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(table).where(table.c.id == job))
        await tap_buttons(house, house.ann, asked, "Allow once")
        await wait_until_done(house, job)
    assert load_rung_bells(tmp_path) == []
    books.check_breakdowns(tmp_path / "house.db")


async def forget_everything(gateway: GatewayHarness) -> None:
    gateway.ann.send("/forget")
    await gateway.api.wait_until(lambda: messages_starting_with(gateway, "Shall I forget"))
    await tap_buttons(
        gateway, gateway.ann, messages_starting_with(gateway, "Shall I forget")[-1], "Forget it all"
    )
    gateway.endpoint.release()
    await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())


async def test_what_waited_for_an_answer_when_all_was_forgotten_ends_with_its_account(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        await introduce_person(house)
        await add_due_job(house, ring_prompt("canary"))
        await wait_for_question(house, "canary")
        await forget_everything(house)
    assert load_rung_bells(tmp_path) == []
    assert b"canary" not in (tmp_path / "house.db").read_bytes()
    assert [book.ending for book in books.check_breakdowns(tmp_path / "house.db")] == ["failed"]


async def test_what_gave_way_when_all_was_forgotten_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as house, house.run():
        await make_task_yield(house, "@@say:Hello, Ann.@@")
        await house.endpoint.wait_until(lambda: len(house.endpoint.requests) == 2)
        await forget_everything(house)
        await house.api.wait_until(lambda: not messages_starting_with(house, "word"))
    assert b"word10" not in (tmp_path / "house.db").read_bytes()
    assert {book.ending for book in books.check_breakdowns(tmp_path / "house.db")} == {"failed", "stopped"}


SLOW_TOOL_SOURCE = '''
"""Work that is not run again."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from tools.base import tool


@tool
async def work() -> str:
    """Work for a while."""
    here = Path(__file__)
    here.with_name("began.txt").touch()
    while not here.with_name("go.txt").exists():
        await asyncio.sleep(0.02)
    return "worked"
'''


async def test_a_task_in_the_middle_of_a_call_that_is_not_run_again_comes_to_its_end_first(tmp_path: Path):
    folder = tmp_path / "own_tools"
    folder.mkdir(mode=0o700)
    (folder / "slow.py").write_text(SLOW_TOOL_SOURCE, encoding="utf-8")
    (folder / "slow.py").chmod(0o600)
    async with running_gateway(tmp_path, tools_dir=folder) as house:
        await introduce_person(house)
        job = await add_due_job(house, "@@tool:work {}@@@@say:It is done.@@", rule=None)
        async with asyncio.timeout(20):
            while not (folder / "began.txt").exists():  # noqa: ASYNC110  # it is told to nobody
                await asyncio.sleep(0.05)
        house.ann.send("@@say:Hello, Ann.@@")
        async with open_database(house.settings.database_url) as database, asyncio.timeout(20):
            seen = select(inbox.c.id).where(inbox.c.kind == "update", inbox.c.seen_at.is_not(None))
            while True:
                async with database.read_transaction() as tx:
                    if (await tx.execute(seen)).first():
                        break
                await asyncio.sleep(0.05)
        (folder / "go.txt").touch()
        await wait_for_message(house, "Hello, Ann.")
        await wait_for_message(house, "It is done.")
        await wait_for_outcome(house, job)
        async with open_database(house.settings.database_url) as database, database.read_transaction() as tx:
            came = (await tx.execute(select(tool_calls.c.outcome, tool_calls.c.result))).all()
    assert [(one.outcome, "worked" in one.result) for one in came] == [("ok", True)]
    books.check_breakdowns(tmp_path / "house.db")

"""Due tasks that wait for users, in the whole gateway: that yielded to a message, or wait for an approval."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select

from bot.db.engine import open_database
from bot.db.queues import jobs
from bot.db.tables import inbox, tool_calls
from bot.db.tables import jobs as jobs_table
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.sim.vllm.server import Timing
from tests.gateway.test_approval_waits import ring_prompt, tap_buttons, wait_for_message, wait_for_question
from tests.gateway.test_schedules import (
    add_due_job,
    has_said,
    introduce_person,
    messages_starting_with,
    wait_for_outcome,
)
from tests.support import breakdown_clock
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, long_story, open_harness, running_gateway


def slow_endpoint() -> ScriptedEndpoint:
    return ScriptedEndpoint(timing=Timing(canvas_seconds=0.05))


async def make_task_yield(gateway: GatewayHarness, message: str) -> int:
    """A due task of Ann's has shown something when she writes this; her answer is held. Returns the job."""
    await introduce_person(gateway)
    job = await add_due_job(gateway, long_story())
    await gateway.endpoint.wait_until(lambda: any(request.canvases for request in gateway.endpoint.requests))
    gateway.endpoint.hold()
    await gateway.api.wait_until(lambda: messages_starting_with(gateway, "word"))
    gateway.ann.send(message)
    await gateway.endpoint.wait_until(lambda: any(request.cancelled for request in gateway.endpoint.requests))
    return job


async def load_item_state(gateway: GatewayHarness, number: int) -> str:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return str((await tx.execute(select(inbox.c.state).where(inbox.c.job == number))).scalar_one())


async def wait_until_done(gateway: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(60):
        while await load_item_state(gateway, number) != "done":  # noqa: ASYNC110  # nothing reports it
            await asyncio.sleep(0.05)


@pytest.mark.sqlite
async def test_a_task_that_gave_way_to_a_new_conversation_stays_in_its_own(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:An old word.@@")
            await wait_for_message(gateway, "An old word.")
            job = await add_due_job(gateway, long_story())
            await gateway.endpoint.wait_until(
                lambda: any(request.canvases for request in gateway.endpoint.requests[1:])
            )
            gateway.endpoint.hold()
            await gateway.api.wait_until(lambda: messages_starting_with(gateway, "word"))
            gateway.ann.send("/new")
            await wait_for_message(gateway, "Your notes are kept.")
            gateway.endpoint.release()
            await wait_for_outcome(gateway, job)
            await gateway.api.wait_until(lambda: "Continue" in str(gateway.ann.chat.bot_messages[-1].buttons))
        again = gateway.endpoint.requests[-1].body["messages"]
        assert any("An old word." in str(message["content"]) for message in again)
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as database:
        cut = database.execute("select error from model_calls where outcome = 'cancelled'").fetchall()
        again = database.execute("select again from model_calls where again != 'more'").fetchall()
    assert cut == [("it gave way to a message",)]
    assert again == [("yielded",)]


@pytest.mark.sqlite
async def test_a_task_that_gave_way_and_whose_job_is_deleted_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as gateway, gateway.run():
        job = await make_task_yield(gateway, "@@say:Hello, Ann.@@")
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(jobs_table).where(jobs_table.c.id == job))
        gateway.endpoint.release()
        await wait_for_message(gateway, "Hello, Ann.")
        await wait_until_done(gateway, job)
        await gateway.api.wait_until(lambda: not messages_starting_with(gateway, "word"))
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")


@pytest.mark.sqlite
async def test_the_button_of_a_task_that_gave_way_stops_that_task_and_not_what_runs_before_it(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as gateway, gateway.run():
        job = await make_task_yield(gateway, "@@say:Hello, Ann.@@")
        await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) == 2)
        message = next(
            message
            for message in gateway.api.chat(gateway.ann.id).bot_messages
            if message.text.startswith("word")
        )
        assert await tap_buttons(gateway, gateway.ann, message, "⏹ Stop") == "Stopped."
        gateway.endpoint.release()
        await wait_for_message(gateway, "Hello, Ann.")
        await wait_for_outcome(gateway, job)
        await gateway.api.wait_until(lambda: any(text.endswith("Stopped.") for text in gateway.texts()))
    assert [breakdown.ending for breakdown in breakdown_clock.check_breakdowns(tmp_path / "gateway.db")] == [
        "stopped",
        "answered",
    ]


@pytest.mark.sqlite
async def test_a_removed_persons_task_that_gave_way_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint(), access="open") as gateway, gateway.run():
        await introduce_person(gateway)
        bob = gateway.api.person(8, "Bob")
        await introduce_person(gateway, 8)
        job = await add_due_job(gateway, long_story(), chat=8)
        await gateway.endpoint.wait_until(
            lambda: any(request.canvases for request in gateway.endpoint.requests)
        )
        gateway.endpoint.hold()
        await gateway.api.wait_until(lambda: has_said(gateway, "word", 8))
        bob.send("@@say:Hello, Bob.@@")
        await gateway.endpoint.wait_until(
            lambda: any(request.cancelled for request in gateway.endpoint.requests)
        )
        gateway.ann.send("/people block 8")
        await wait_for_message(gateway, "is blocked.")
        gateway.endpoint.release()
        await wait_until_done(gateway, job)
        await gateway.api.wait_until(lambda: not has_said(gateway, "word", 8))
        await breakdown_clock.wait_for_breakdowns(tmp_path / "gateway.db")
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")


@pytest.mark.sqlite
async def test_a_task_that_waits_for_an_answer_is_not_run_twice_at_once_and_its_breakdown_adds_up(
    tmp_path: Path,
):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        async with gateway.run():
            await introduce_person(gateway)
            job = await add_due_job(gateway, ring_prompt("one"), rule=None)
            question = await wait_for_question(gateway, "one")
            async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
                row = await jobs.find(tx, job)
                assert row is not None
                assert not await jobs.run_now(tx, job, jobs.build_inbox_row(row), now=1.0)
        async with gateway.run():
            await tap_buttons(gateway, gateway.ann, question, "Allow once")
            await wait_for_message(gateway, "rang one")
            assert (await wait_for_outcome(gateway, job))["state"] == "done"
    assert load_rung_bells(tmp_path) == ["one"]
    [breakdown] = breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    assert breakdown.seconds["approval_wait"] > 0


@pytest.mark.sqlite
async def test_a_task_that_waits_for_an_answer_and_whose_job_is_deleted_ends_with_its_breakdown(
    tmp_path: Path,
):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        await introduce_person(gateway)
        job = await add_due_job(gateway, ring_prompt("one"))
        question = await wait_for_question(gateway, "one")
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(jobs_table).where(jobs_table.c.id == job))
        await tap_buttons(gateway, gateway.ann, question, "Allow once")
        await wait_until_done(gateway, job)
    assert load_rung_bells(tmp_path) == []
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")


async def forget_everything(gateway: GatewayHarness) -> None:
    gateway.ann.send("/forget")
    await gateway.api.wait_until(lambda: messages_starting_with(gateway, "Forget this chat"))
    await tap_buttons(
        gateway, gateway.ann, messages_starting_with(gateway, "Forget this chat")[-1], "Forget it all"
    )
    gateway.endpoint.release()
    await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())


@pytest.mark.sqlite
async def test_what_waited_for_an_answer_when_all_was_forgotten_ends_with_its_breakdown(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        await introduce_person(gateway)
        await add_due_job(gateway, ring_prompt("canary"))
        await wait_for_question(gateway, "canary")
        await forget_everything(gateway)
    assert load_rung_bells(tmp_path) == []
    assert b"canary" not in (tmp_path / "gateway.db").read_bytes()
    assert [breakdown.ending for breakdown in breakdown_clock.check_breakdowns(tmp_path / "gateway.db")] == [
        "failed"
    ]


@pytest.mark.sqlite
async def test_what_gave_way_when_all_was_forgotten_takes_back_what_it_has_shown(tmp_path: Path):
    async with open_harness(tmp_path, slow_endpoint()) as gateway, gateway.run():
        await make_task_yield(gateway, "@@say:Hello, Ann.@@")
        await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) == 2)
        await forget_everything(gateway)
        await gateway.api.wait_until(lambda: not messages_starting_with(gateway, "word"))
    assert b"word10" not in (tmp_path / "gateway.db").read_bytes()
    assert {breakdown.ending for breakdown in breakdown_clock.check_breakdowns(tmp_path / "gateway.db")} == {
        "failed",
        "stopped",
    }


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


@pytest.mark.sqlite
async def test_a_task_in_the_middle_of_a_call_that_is_not_run_again_comes_to_its_end_first(tmp_path: Path):
    folder = tmp_path / "own_tools"
    folder.mkdir(mode=0o700)
    (folder / "slow.py").write_text(SLOW_TOOL_SOURCE, encoding="utf-8")
    (folder / "slow.py").chmod(0o600)
    async with running_gateway(tmp_path, tools_dir=folder) as gateway:
        await introduce_person(gateway)
        job = await add_due_job(gateway, "@@tool:work {}@@@@say:It is done.@@", rule=None)
        async with asyncio.timeout(60):
            while not (folder / "began.txt").exists():  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0.05)
        gateway.ann.send("@@say:Hello, Ann.@@")
        async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
            newest = select(func.max(inbox.c.id)).where(inbox.c.kind == "update").scalar_subquery()
            seen = select(inbox.c.id).where(
                inbox.c.id == newest, inbox.c.shape == "text", inbox.c.seen_at.is_not(None)
            )
            while True:
                async with database.read_transaction() as tx:
                    if (await tx.execute(seen)).first():
                        break
                await asyncio.sleep(0.05)
        (folder / "go.txt").touch()
        await wait_for_message(gateway, "Hello, Ann.")
        await wait_for_message(gateway, "It is done.")
        await wait_for_outcome(gateway, job)
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            rows = (await tx.execute(select(tool_calls.c.outcome, tool_calls.c.result))).all()
    assert [(row.outcome, "worked" in row.result) for row in rows] == [("ok", True)]
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")

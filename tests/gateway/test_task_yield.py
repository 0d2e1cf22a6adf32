"""Due tasks that wait for people, in the whole house: that gave way to a message, or wait for a question's
answer.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from bot.db.engine import connected
from bot.db.queues import jobs
from bot.db.tables import inbox, tool_calls
from bot.db.tables import jobs as table
from bot.maintenance.retention import FORGOTTEN
from bot.sim.vllm.server import Endpoint, Timing
from tests.gateway.test_approval_waits import asks, question, said, tapped
from tests.gateway.test_schedules import due, has_said, known, noted, starting
from tests.support import breakdown_clock as books
from tests.support.approval_tools import hung, rung
from tests.support.gateway import World, long_story, open_house, world


def slow() -> Endpoint:
    return Endpoint(timing=Timing(canvas_seconds=0.05))


async def gave_way(house: World, message: str) -> int:
    """A due task of Ann's has shown something when she writes this; her answer is held. Returns the job."""
    await known(house)
    job = await due(house, long_story())
    await house.endpoint.until(lambda: any(request.canvases for request in house.endpoint.requests))
    house.endpoint.hold()
    await house.api.until(lambda: starting(house, "word"))
    house.ann.send(message)
    await house.endpoint.until(lambda: any(one.cancelled for one in house.endpoint.requests))
    return job


async def state(house: World, number: int) -> str:
    async with connected(house.settings.database_url) as database, database.reading() as tx:
        return str((await tx.execute(select(inbox.c.state).where(inbox.c.job == number))).scalar_one())


async def is_done(house: World, number: int) -> None:
    async with asyncio.timeout(20):
        while await state(house, number) != "done":  # noqa: ASYNC110  # it is told to nobody
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("unhurried")
async def test_a_task_that_gave_way_to_a_new_conversation_stays_in_its_own(tmp_path: Path):
    async with world(tmp_path, slow()) as house:
        async with house.gateway():
            house.ann.send("@@say:An old word.@@")
            await said(house, "An old word.")
            job = await due(house, long_story())
            await house.endpoint.until(lambda: any(one.canvases for one in house.endpoint.requests[1:]))
            house.endpoint.hold()
            await house.api.until(lambda: starting(house, "word"))
            house.ann.send("/new")
            await said(house, "Your notes stay.")
            house.endpoint.release()
            await noted(house, job)
            await house.api.until(lambda: house.api.chat(house.ann.id).from_bot[-1].buttons, 30)  # Continue
        again = house.endpoint.requests[-1].body["messages"]
        assert any("An old word." in str(one["content"]) for one in again)
    books.check(tmp_path / "house.db")
    with closing(sqlite3.connect(tmp_path / "house.db")) as database:
        cut = database.execute("select error from model_calls where outcome = 'cancelled'").fetchall()
    assert cut == [("it gave way to a message",)]


async def test_a_task_that_gave_way_and_whose_job_is_deleted_takes_back_what_it_has_shown(tmp_path: Path):
    async with world(tmp_path, slow()) as house, house.gateway():
        job = await gave_way(house, "@@say:Hello, Ann.@@")
        async with connected(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(table).where(table.c.id == job))
        house.endpoint.release()
        await said(house, "Hello, Ann.")
        await is_done(house, job)
        await house.api.until(lambda: not starting(house, "word"))
    books.check(tmp_path / "house.db")


async def test_the_button_of_a_task_that_gave_way_stops_that_task_and_not_what_runs_before_it(tmp_path: Path):
    async with world(tmp_path, slow()) as house, house.gateway():
        job = await gave_way(house, "@@say:Hello, Ann.@@")
        await house.endpoint.until(lambda: len(house.endpoint.requests) == 2)
        shown = next(one for one in house.api.chat(house.ann.id).from_bot if one.text.startswith("word"))
        assert await tapped(house, house.ann, shown, "⏹ Stop") == "Stopped."
        house.endpoint.release()
        await said(house, "Hello, Ann.")
        await noted(house, job)
        await house.api.until(lambda: any(text.endswith("Stopped.") for text in house.texts()))
    assert [book.ending for book in books.check(tmp_path / "house.db")] == ["stopped", "answered"]


async def test_a_removed_persons_task_that_gave_way_takes_back_what_it_has_shown(tmp_path: Path):
    async with world(tmp_path, slow(), access="open") as house, house.gateway():
        await known(house)
        bob = house.api.person(8, "Bob")
        await known(house, 8)
        job = await due(house, long_story(), chat=8)
        await house.endpoint.until(lambda: any(request.canvases for request in house.endpoint.requests))
        house.endpoint.hold()
        await house.api.until(lambda: has_said(house, "word", 8))
        bob.send("@@say:Hello, Bob.@@")
        await house.endpoint.until(lambda: any(one.cancelled for one in house.endpoint.requests))
        house.ann.send("/people block 8")
        await said(house, "is blocked.")
        house.endpoint.release()
        await is_done(house, job)
        await house.api.until(lambda: not has_said(house, "word", 8))
    books.check(tmp_path / "house.db")


async def test_a_task_that_waits_for_an_answer_is_not_run_beside_itself_and_its_account_adds_up(
    tmp_path: Path,
):
    async with world(tmp_path, tools_dir=hung(tmp_path)) as house:
        async with house.gateway():
            await known(house)
            job = await due(house, asks("one"), rule=None)
            asked = await question(house, "one")
            async with connected(house.settings.database_url) as database, database.transaction() as tx:
                found = await jobs.find(tx, job)
                assert found is not None
                assert not await jobs.run_now(tx, job, jobs.inbox_row(found), now=1.0)
        async with house.gateway():
            await tapped(house, house.ann, asked, "Allow once")
            await said(house, "rang one")
            assert (await noted(house, job))["state"] == "done"
    assert rung(tmp_path) == ["one"]
    [book] = books.check(tmp_path / "house.db")
    assert book.seconds["approval_wait"] > 0


async def test_a_task_that_waits_for_an_answer_and_whose_job_is_deleted_ends_with_its_account(tmp_path: Path):
    async with open_house(tmp_path, tools_dir=hung(tmp_path)) as house:
        await known(house)
        job = await due(house, asks("one"))
        asked = await question(house, "one")
        async with connected(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(table).where(table.c.id == job))
        await tapped(house, house.ann, asked, "Allow once")
        await is_done(house, job)
    assert rung(tmp_path) == []
    books.check(tmp_path / "house.db")


async def forgotten(house: World) -> None:
    house.ann.send("/forget")
    await house.api.until(lambda: starting(house, "Shall I forget"))
    await tapped(house, house.ann, starting(house, "Shall I forget")[-1], "Forget it all")
    house.endpoint.release()
    await house.api.until(lambda: FORGOTTEN in house.texts())


async def test_what_waited_for_an_answer_when_all_was_forgotten_ends_with_its_account(tmp_path: Path):
    async with open_house(tmp_path, tools_dir=hung(tmp_path)) as house:
        await known(house)
        await due(house, asks("canary"))
        await question(house, "canary")
        await forgotten(house)
    assert rung(tmp_path) == []
    assert b"canary" not in (tmp_path / "house.db").read_bytes()
    assert [book.ending for book in books.check(tmp_path / "house.db")] == ["failed"]


async def test_what_gave_way_when_all_was_forgotten_takes_back_what_it_has_shown(tmp_path: Path):
    async with world(tmp_path, slow()) as house, house.gateway():
        await gave_way(house, "@@say:Hello, Ann.@@")
        await house.endpoint.until(lambda: len(house.endpoint.requests) == 2)
        await forgotten(house)
        await house.api.until(lambda: not starting(house, "word"))
    assert b"word10" not in (tmp_path / "house.db").read_bytes()
    assert {book.ending for book in books.check(tmp_path / "house.db")} == {"failed", "stopped"}


SLOW = '''
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
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    (folder / "slow.py").chmod(0o600)
    async with open_house(tmp_path, tools_dir=folder) as house:
        await known(house)
        job = await due(house, "@@tool:work {}@@@@say:It is done.@@", rule=None)
        async with asyncio.timeout(20):
            while not (folder / "began.txt").exists():  # noqa: ASYNC110  # it is told to nobody
                await asyncio.sleep(0.05)
        house.ann.send("@@say:Hello, Ann.@@")
        async with connected(house.settings.database_url) as database, asyncio.timeout(20):
            seen = select(inbox.c.id).where(inbox.c.kind == "update", inbox.c.seen_at.is_not(None))
            while True:
                async with database.reading() as tx:
                    if (await tx.execute(seen)).first():
                        break
                await asyncio.sleep(0.05)
        (folder / "go.txt").touch()
        await said(house, "Hello, Ann.")
        await said(house, "It is done.")
        await noted(house, job)
        async with connected(house.settings.database_url) as database, database.reading() as tx:
            came = (await tx.execute(select(tool_calls.c.outcome, tool_calls.c.result))).all()
    assert [(one.outcome, "worked" in one.result) for one in came] == [("ok", True)]
    books.check(tmp_path / "house.db")

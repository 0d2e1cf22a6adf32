"""Due tasks give way: what people write in the same lane goes first, and nothing is lost or counted for it."""

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues import stop_requests as stopping
from bot.db.queues.claim import MAX_RUNNING_DUE_TASKS
from bot.db.queues.inbox import ClaimResult, IncomingUpdate
from bot.db.tables import inbox as table
from bot.domain import ItemKind, ItemShape, Lane

NOW = 1_000_000.0
LANE = Lane(7)


class LaneHarness:
    """One lane's inbox."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._updates = 0

    async def add_due(self, kind: ItemKind = "task", job: int | None = 1, lane: Lane = LANE) -> int:
        """A due item of a job; None: an item of the house's own, such as a /retry."""
        async with self._database.transaction() as tx:
            item = await inbox.add(tx, kind=kind, lane=lane, sender=7, body={}, now=NOW)
            await tx.execute(update(table).where(table.c.id == item).values(job=job, due_at=NOW + item))
        return item

    async def add_message(self, shape: ItemShape = "text") -> int:
        self._updates += 1
        async with self._database.transaction() as tx:
            arrival = IncomingUpdate(self._updates, shape, LANE, 7, "{}", stale=False, not_before=None)
            await inbox.store(tx, [arrival], now=NOW)
            return int(
                (await tx.execute(select(table.c.id).order_by(table.c.id.desc()).limit(1))).scalar_one()
            )

    async def claim(self) -> ClaimResult:
        async with self._database.transaction() as tx:
            return await inbox.claim(tx, now=NOW)

    async def claim_ids(self) -> list[int]:
        return [item.id for group in (await self.claim()).groups for item in group]

    async def finish(self, *items: int) -> None:
        async with self._database.transaction() as tx:
            await inbox.mark_done(tx, items, now=NOW)


@pytest.fixture
def lanes(database: Database) -> LaneHarness:
    return LaneHarness(database)


async def test_what_a_person_writes_goes_before_a_due_task_that_waits(lanes: LaneHarness):
    task = await lanes.add_due()
    message = await lanes.add_message()
    assert await lanes.claim_ids() == [message]
    await lanes.finish(message)
    assert await lanes.claim_ids() == [task]


async def test_only_so_many_due_tasks_begin_at_once_and_nothing_else_is_held_up(
    lanes: LaneHarness, database: Database
):
    tasks = [await lanes.add_due(lane=Lane(100 + number)) for number in range(2 * MAX_RUNNING_DUE_TASKS + 1)]
    others = [
        await lanes.add_due("reminder", lane=Lane(50)),
        await lanes.add_due(job=None, lane=Lane(51)),
        await lanes.add_message(),
    ]
    claimed = await lanes.claim()
    assert sorted(group[0].id for group in claimed.groups) == [*tasks[:MAX_RUNNING_DUE_TASKS], *others]
    assert claimed.has_waiting
    assert await lanes.claim_ids() == []
    async with database.transaction() as tx:  # one that has begun before, and was allowed something meanwhile
        await tx.execute(update(table).where(table.c.id == tasks[-1]).values(turn=1))
    await lanes.finish(*tasks[:2])
    assert sorted(await lanes.claim_ids()) == [
        *tasks[MAX_RUNNING_DUE_TASKS : MAX_RUNNING_DUE_TASKS + 2],
        tasks[-1],
    ]


@pytest.mark.parametrize(("kind", "job"), [("reminder", 1), ("task", None)])
async def test_a_reminder_and_a_retry_keep_their_place(lanes: LaneHarness, kind: ItemKind, job: int | None):
    first = await lanes.add_due(kind, job)
    await lanes.add_message()
    assert await lanes.claim_ids() == [first]


@pytest.mark.parametrize("shape", ["text", "deep", "new", "command"])
async def test_a_due_task_at_work_gives_way_to_whatever_a_person_sends(lanes: LaneHarness, shape: ItemShape):
    task = await lanes.add_due()
    assert await lanes.claim_ids() == [task]
    assert (await lanes.claim()).yielding_items == ()
    message = await lanes.add_message(shape)
    claimed = await lanes.claim()
    assert (claimed.groups, claimed.yielding_items, claimed.cutting_items, claimed.has_waiting) == (
        (),
        ((LANE, task),),
        (),
        True,
    )
    async with lanes._database.transaction() as tx:
        await inbox.release(tx, [task])
    assert await lanes.claim_ids() == [message]
    await lanes.finish(message)
    [[again]] = (await lanes.claim()).groups
    assert (again.id, again.attempt, again.job) == (task, 1, 1)


async def test_a_turn_of_a_person_gives_way_to_nobody(lanes: LaneHarness):
    first = await lanes.add_message()
    assert await lanes.claim_ids() == [first]
    await lanes.add_message()
    assert (await lanes.claim()).yielding_items == ()


async def test_what_was_done_meanwhile_does_not_step_back(lanes: LaneHarness):
    task = await lanes.add_due()
    await lanes.claim_ids()
    await lanes.finish(task)
    async with lanes._database.transaction() as tx:
        await inbox.release(tx, [task])
        assert (await tx.execute(select(table.c.state))).scalars().all() == ["done"]


async def test_a_due_task_does_not_step_behind_what_the_house_does_in_its_lane(lanes: LaneHarness):
    task = await lanes.add_due()
    house = await lanes.add_due("house", None)
    message = await lanes.add_message()
    for expected in (task, house, message):
        assert await lanes.claim_ids() == [expected]
        await lanes.finish(expected)


async def test_a_stop_means_what_runs_and_not_the_task_that_gave_way_to_it(lanes: LaneHarness):
    task = await lanes.add_due()
    assert await lanes.claim_ids() == [task]
    async with lanes._database.transaction() as tx:
        await tx.execute(update(table).where(table.c.id == task).values(turn=1))
        await inbox.release(tx, [task])
    message = await lanes.add_message()
    assert await lanes.claim_ids() == [message]
    for expected in ([message], [task]):
        async with lanes._database.transaction() as tx:
            assert (await stopping.stop(tx, LANE, before=99, now=NOW, include_parked=True)).running
            met = (
                (await tx.execute(select(table.c.id).where(table.c.stopped, table.c.state != "done")))
                .scalars()
                .all()
            )
        assert list(met) == expected
        await lanes.finish(*expected)

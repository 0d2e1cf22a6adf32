"""Due tasks yield: people's messages in the same lane go first, and no task or attempt is lost by it."""

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.queues import inbox, incoming_updates, stop_requests
from bot.db.queues.claim import MAX_RUNNING_DUE_TASKS
from bot.db.queues.inbox import ClaimResult
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.queues.stop_requests import StopCommand
from bot.db.tables import inbox as inbox_table
from bot.domain import ItemKind, ItemShape, Lane

NOW = 1_000_000.0
LANE = Lane(7)


class LaneHarness:
    """One lane's inbox."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._update_count = 0

    async def add_due(self, kind: ItemKind = "task", job: int | None = 1, lane: Lane = LANE) -> int:
        """Add a due item of a job; None: an item without a job, such as a /retry."""
        async with self.database.transaction() as tx:
            item = await inbox.add(tx, kind=kind, lane=lane, sender=7, body={}, now=NOW)
            await tx.execute(
                update(inbox_table).where(inbox_table.c.id == item).values(job=job, due_at=NOW + item)
            )
        return item

    async def add_message(self, shape: ItemShape = "text") -> int:
        self._update_count += 1
        async with self.database.transaction() as tx:
            incoming = IncomingUpdate(self._update_count, shape, LANE, 7, "{}", stale=False, not_before=None)
            await incoming_updates.store(tx, [incoming], now=NOW)
            newest = select(inbox_table.c.id).order_by(inbox_table.c.id.desc()).limit(1)
            return int((await tx.execute(newest)).scalar_one())

    async def claim(self) -> ClaimResult:
        async with self.database.transaction() as tx:
            return await inbox.claim(tx, now=NOW)

    async def claim_ids(self) -> list[int]:
        return [item.id for group in (await self.claim()).groups for item in group]

    async def finish(self, *items: int) -> None:
        async with self.database.transaction() as tx:
            await inbox.mark_done(tx, items, now=NOW)


@pytest.fixture
def lanes(database: Database) -> LaneHarness:
    return LaneHarness(database)


async def test_a_message_goes_before_a_waiting_due_task(lanes: LaneHarness):
    task = await lanes.add_due()
    message = await lanes.add_message()
    assert await lanes.claim_ids() == [message]
    await lanes.finish(message)
    assert await lanes.claim_ids() == [task]


async def test_the_number_of_running_due_tasks_is_limited_and_nothing_else_waits(
    lanes: LaneHarness, database: Database
):
    tasks = [await lanes.add_due(lane=Lane(100 + number)) for number in range(2 * MAX_RUNNING_DUE_TASKS + 1)]
    unlimited = [
        await lanes.add_due("reminder", lane=Lane(50)),
        await lanes.add_due(job=None, lane=Lane(51)),
        await lanes.add_message(),
    ]
    claimed = await lanes.claim()
    assert sorted(group[0].id for group in claimed.groups) == [*tasks[:MAX_RUNNING_DUE_TASKS], *unlimited]
    assert claimed.has_waiting
    assert await lanes.claim_ids() == []
    async with database.transaction() as tx:  # it has begun before, and waited for an approval
        await tx.execute(update(inbox_table).where(inbox_table.c.id == tasks[-1]).values(turn=1))
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
async def test_a_running_due_task_yields_to_any_message(lanes: LaneHarness, shape: ItemShape):
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
    async with lanes.database.transaction() as tx:
        await inbox.release(tx, [task])
    assert await lanes.claim_ids() == [message]
    await lanes.finish(message)
    [[again]] = (await lanes.claim()).groups
    assert (again.id, again.attempt, again.job) == (task, 1, 1)


async def test_a_turn_of_a_person_does_not_yield(lanes: LaneHarness):
    first = await lanes.add_message()
    assert await lanes.claim_ids() == [first]
    await lanes.add_message()
    assert (await lanes.claim()).yielding_items == ()


async def test_a_task_that_is_done_is_not_released(lanes: LaneHarness):
    task = await lanes.add_due()
    await lanes.claim_ids()
    await lanes.finish(task)
    async with lanes.database.transaction() as tx:
        await inbox.release(tx, [task])
        assert (await tx.execute(select(inbox_table.c.state))).scalars().all() == ["done"]


async def test_a_due_task_does_not_yield_to_a_system_job_in_its_lane(lanes: LaneHarness):
    task = await lanes.add_due()
    system_job = await lanes.add_due("system", None)
    message = await lanes.add_message()
    for expected in (task, system_job, message):
        assert await lanes.claim_ids() == [expected]
        await lanes.finish(expected)


async def test_a_stop_concerns_what_runs_and_not_the_task_that_yielded_to_it(lanes: LaneHarness):
    task = await lanes.add_due()
    assert await lanes.claim_ids() == [task]
    async with lanes.database.transaction() as tx:
        await tx.execute(update(inbox_table).where(inbox_table.c.id == task).values(turn=1))
        await inbox.release(tx, [task])
    message = await lanes.add_message()
    assert await lanes.claim_ids() == [message]
    for expected in ([message], [task]):
        async with lanes.database.transaction() as tx:
            assert (await stop_requests.stop(tx, LANE, before=99, now=NOW, command=StopCommand())).running
            stopped = select(inbox_table.c.id).where(inbox_table.c.stopped, inbox_table.c.state != "done")
            assert (await tx.execute(stopped)).scalars().all() == expected
        await lanes.finish(*expected)

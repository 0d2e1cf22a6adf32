"""An outage lasts from the end of a process, or its last heartbeat if it was killed, to the next start."""

from bot.db.engine import Database
from bot.db.usage import process_lives


async def store_process(
    database: Database, began_at: float, *, beat_at: float | None = None, ended_at: float | None = None
) -> None:
    async with database.transaction() as tx:
        life = await process_lives.begin(tx, began_at=began_at)
        if beat_at is not None:
            await process_lives.record_heartbeat(tx, life, now=beat_at)
        if ended_at is not None:
            await process_lives.end(tx, life, now=ended_at)


async def list_outages(database: Database, since: float) -> list[tuple[float, float]]:
    async with database.read_transaction() as tx:
        return await process_lives.list_outages(tx, since)


async def test_a_running_process_has_no_outage(database: Database):
    assert await list_outages(database, 0.0) == []
    await store_process(database, 10.0)
    assert await list_outages(database, 0.0) == await list_outages(database, 11.0) == []


async def test_an_outage_lasts_from_the_last_heartbeat_to_the_next_start(database: Database):
    await store_process(database, 10.0, beat_at=15.0, ended_at=20.0)
    await store_process(database, 30.0, beat_at=35.0)
    await store_process(database, 40.0)
    await store_process(database, 50.0)
    assert await list_outages(database, 12.0) == [(20.0, 30.0), (35.0, 40.0), (40.0, 50.0)]


async def test_only_outages_after_the_given_time_are_listed(database: Database):
    await store_process(database, 10.0, ended_at=20.0)
    await store_process(database, 30.0, beat_at=35.0)
    await store_process(database, 40.0)
    assert await list_outages(database, 32.0) == [(35.0, 40.0)]
    assert await list_outages(database, 41.0) == []

"""An export is made part by part, each once whenever the process dies, and not after a /forget."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from sqlalchemy import select

from bot.chat.export_runner import ExportRunner
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tables import outbox, outbox_files
from bot.domain import Lane
from tests.support.update_harness import ANNA, UpdateHarness

LANES = (Lane(ANNA), Lane(ANNA, 3), Lane(ANNA, -5))


class ProcessDied(Exception):
    """The process ends here."""


async def order_export(harness: UpdateHarness) -> None:
    await harness.let_in(ANNA)
    for number in range(45):
        await harness.store_answered_turn(f"question {number}", item=1000 + number, lane=LANES[number % 3])
    [answer] = await harness.send_text("/export")
    assert answer.text == "I'm exporting this chat. You'll get it here as files."
    [again] = await harness.send_text("/export")
    assert again.text == "I'm still exporting or deleting this chat. Please try again later."
    async with harness.database.transaction() as tx:  # as `canvasgram send` leaves it: nothing to wait for
        body = {"job": "send"}
        sent = await inbox.add(tx, kind="system", lane=LANES[0], sender=None, body=body, now=harness.now)
        await inbox.mark_done(tx, [sent], now=harness.now)


async def run_export(harness: UpdateHarness, clock: Callable[[], float] | None = None) -> None:
    """Run what was ordered in a process of its own."""
    async with harness.database.transaction() as tx:
        await inbox.recover(tx, now=harness.now)
    async with harness.database.transaction() as tx:
        groups = (await inbox.claim(tx, now=harness.now)).groups
    [group] = [group for group in groups if group[0].body.get("job") == "export"]
    runner = ExportRunner(
        harness.database,
        harness.access,
        harness.groups,
        "UTC",
        max_part_bytes=4000,
        clock=clock or (lambda: harness.now),
    )
    await runner(group)


async def load_parts(database: Database) -> list[dict[str, Any]]:
    """The JSON files that are stored with a message of the outbox, in its order."""
    query = select(outbox_files.c.data).join(outbox, outbox.c.id == outbox_files.c.outbox)
    query = query.where(outbox_files.c.name.endswith(".json")).order_by(outbox.c.part)
    async with database.read_transaction() as tx:
        return [json.loads(data) for data in (await tx.execute(query)).scalars()]


@pytest.mark.parametrize("calls_until_death", range(1, 8))
async def test_each_turn_is_in_one_part_whenever_the_process_dies(database: Database, calls_until_death: int):
    harness = UpdateHarness(database)
    await order_export(harness)
    calls = count(1)

    def die_on_the_way() -> float:
        if next(calls) == calls_until_death:
            raise ProcessDied
        return harness.now

    with pytest.raises(ProcessDied):
        await run_export(harness, die_on_the_way)
    await run_export(harness)
    parts = await load_parts(database)
    assert [part["part"] for part in parts] == list(range(1, len(parts) + 1))
    assert len(parts) > 2
    entries = [entry for part in parts for entry in part["entries"]]
    texts = [message["text"] for entry in entries for message in entry["messages"]]
    assert texts == [f"question {number}" for first in (0, 2, 1) for number in range(first, 45, 3)]
    assert len(await harness.load_items(kind="system", state="done")) == 2


async def test_a_part_is_not_stored_once_the_chat_was_forgotten_or_the_access_is_gone(database: Database):
    harness = UpdateHarness(database)
    await order_export(harness)
    await harness.tap("forget:yes")
    assert len(await harness.load_items(kind="system")) == 5
    await run_export(harness)
    assert await load_parts(database) == []
    async with database.transaction() as tx:
        ids = [item.id for item in await harness.load_items(kind="system")]
        await inbox.mark_done(tx, ids, now=harness.now)
    await harness.send_text("/export")
    harness.access.forget(ANNA)
    await run_export(harness)
    assert await load_parts(database) == []

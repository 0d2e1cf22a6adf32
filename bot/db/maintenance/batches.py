"""Wipes rows in small transactions, so that nobody waits long for the database."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, LargeBinary, Text, and_, func, literal, select

from bot.db.engine import Database
from bot.db.transaction import Transaction

BATCH_ROWS = 50  # rows wiped in one transaction
BATCH_SIZE = 2_000_000  # characters and bytes in them, so 8 MB at most
SCAN_ROWS = 2000  # rows found by one read, which holds no lock

_WipeRows = Callable[[Transaction, Sequence[Any], ColumnElement[bool]], Awaitable[None]]


async def wipe_in_batches(
    database: Database,
    key: Column[Any],
    condition: ColumnElement[bool],
    wipe: _WipeRows,
    *,
    batch_rows: int = BATCH_ROWS,
    scan_rows: int = SCAN_ROWS,
) -> int:
    """Find rows without a lock, and wipe a few at a time those that still match the condition.

    Returns how many were found.
    """
    texts = (column for column in key.table.columns if isinstance(column.type, Text | LargeBinary))
    size = sum((func.coalesce(func.length(column), 0) for column in texts), literal(0))
    query = select(key, size).where(condition).order_by(key).limit(scan_rows)
    count = 0
    while True:
        async with database.long_read_transaction() as tx:
            rows = [(row[0], int(row[1])) for row in await tx.execute(query)]
        for batch in build_batches(rows, batch_rows):
            async with database.long_transaction() as tx:
                await wipe(tx, batch, and_(key.in_(batch), condition))
        count += len(rows)
        if len(rows) < scan_rows:
            return count


def build_batches(rows: Sequence[tuple[Any, int]], batch_rows: int) -> Iterator[list[Any]]:
    """The keys of rows with their sizes, in batches; a row that is too large is a batch of its own."""
    batch: list[Any] = []
    batch_size = 0
    for key, size in rows:
        batch_size += size
        if batch and (len(batch) == batch_rows or batch_size > BATCH_SIZE):
            yield batch
            batch = []
            batch_size = size
        batch.append(key)
    if batch:
        yield batch

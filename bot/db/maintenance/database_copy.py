"""Copies a database into an empty one of the other kind, while no gateway works on either.

All rows are one transaction of the target, which ends only after they were read back: an attempt that was
killed leaves it as empty as it was. The last thing that is done is a mark in the source, so that no gateway
does there again what is due.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, delete, func, insert, select, text

from bot.db.database_url import describe_database, is_postgresql, parse_database_path
from bot.db.migrate import has_schema, migrate_stopped
from bot.db.portable_sql import upsert
from bot.db.readonly import check_readable
from bot.db.sqlite.engine import translate_errors
from bot.db.sqlite.lock import hold_lock
from bot.db.sqlite.migrate import create_blocking_engine
from bot.db.tables import metadata, notices
from bot.db.usage.process_lives import COPIED
from bot.errors import CanvasgramError

_BATCH_ROWS = 50  # some hold files
_PASSES = 3  # over all rows: they are written, then read on both sides

ShowProgress = Callable[[int, int, str], None]
"""Gets how many rows are done, of how many, and the name of the table."""


class CopyRefused(CanvasgramError):
    """A database cannot be copied there. The text says why."""


@dataclass(frozen=True, slots=True)
class TableSum:
    """How many rows a table has, and a sum of the digests of all their values."""

    rows: int = 0
    digest: int = 0


def copy_database(
    source_url: str, target_url: str, show_progress: ShowProgress, *, now: float
) -> Mapping[str, TableSum]:
    """Copy all rows, or find that an earlier attempt has; returns the sums of the tables, which are equal.

    Raises CopyRefused, GatewayRunning, SchemaUnknown or StoreUnavailable; nothing is stored then.
    """
    if is_postgresql(source_url) == is_postgresql(target_url):
        raise CopyRefused(
            "A copy goes from SQLite to PostgreSQL or back. Between two of a kind, use `canvasgram backup` "
            "and `restore`, or pg_dump and pg_restore."
        )
    check_readable(source_url)
    if not has_schema(target_url):
        migrate_stopped(target_url)
    check_readable(target_url)
    with _open_locked(source_url) as source, _open_locked(target_url) as target:
        progress = _Progress(source, show_progress)
        target_sums = {table.name: _sum_rows(target, table) for table in metadata.sorted_tables}
        if any(table_sum.rows for table_sum in target_sums.values()):
            problem = "It is not empty. Name an empty database."
        else:
            problem = "A value was not stored as it was."
            for table in metadata.sorted_tables:
                _copy_rows(source, target, table, progress)
            target_sums = {table.name: _sum_rows(target, table, progress) for table in metadata.sorted_tables}
        source_sums = {table.name: _sum_rows(source, table, progress) for table in metadata.sorted_tables}
        different = [name for name, table_sum in source_sums.items() if table_sum != target_sums[name]]
        if different:
            raise CopyRefused(
                f"{describe_database(target_url)} differs from the source in {different[0]}. {problem}"
            )
        progress.end()
        _commit(target, target_url)
        mark = {"subject": COPIED, "text": f"copied to {describe_database(target_url)}", "told_at": now}
        put_mark = upsert(notices).values(mark)
        source.execute(put_mark.on_conflict_do_update(index_elements=["subject"], set_=mark))
        _commit(source, source_url)
    return source_sums


def remove_copy_mark(url: str) -> None:
    """Let gateways work on the database at `url` again although it was copied. Raises GatewayRunning."""
    if has_schema(url):
        with _open_locked(url) as connection:
            connection.execute(delete(notices).where(notices.c.subject == COPIED))
            _commit(connection, url)


class _Progress:
    """Counts rows in all passes; a copy that is found complete jumps to its end."""

    def __init__(self, source: Connection, show: ShowProgress) -> None:
        counts = [select(func.count()).select_from(table) for table in metadata.sorted_tables]
        self._total = _PASSES * sum(source.execute(count).scalar_one() for count in counts)
        self._done = 0
        self._show = show

    def advance(self, rows: int, table: Table) -> None:
        self._done += rows
        self._show(self._done, self._total, table.name)

    def end(self) -> None:
        self._show(self._total, self._total, "")


@contextlib.contextmanager
def _open_locked(url: str) -> Iterator[Connection]:
    """A transaction beside which nobody writes; rolled back unless it is committed in the block."""
    if is_postgresql(url):
        from bot.db.postgresql.offline import open_offline

        with open_offline(url, metadata.sorted_tables) as connection:
            yield connection
        return
    file = parse_database_path(url)
    with hold_lock(file), translate_errors(), create_blocking_engine(file).connect() as connection:
        yield connection


def _commit(connection: Connection, url: str) -> None:
    """Commit unless a gateway has begun to work there, which a file's lock has kept it from."""
    if is_postgresql(url):
        from bot.db.postgresql.offline import refuse_gateway

        refuse_gateway(connection, url)
    connection.commit()


def _copy_rows(source: Connection, target: Connection, table: Table, progress: _Progress) -> None:
    for rows in _read_rows(source, table):
        target.execute(insert(table), [dict(row._mapping) for row in rows])  # noqa: SLF001  # is public
        progress.advance(len(rows), table)
    if table.autoincrement_column is not None:
        _raise_sequence(target, table, _find_last_id(source, table))


def _sum_rows(connection: Connection, table: Table, progress: _Progress | None = None) -> TableSum:
    table_sum = TableSum()
    for rows in _read_rows(connection, table):
        digests = [hashlib.sha256(repr(tuple(row)).encode()).digest() for row in rows]
        digest = table_sum.digest + sum(int.from_bytes(digest) for digest in digests)
        table_sum = TableSum(table_sum.rows + len(rows), digest)
        if progress is not None:
            progress.advance(len(rows), table)
    return table_sum


def _read_rows(connection: Connection, table: Table) -> Iterator[Sequence[Row[Any]]]:
    query: Select[Any] = select(table)
    if table is notices:  # the mark of an earlier copy
        query = query.where(notices.c.subject != COPIED)
    streamed = query.execution_options(stream_results=True, max_row_buffer=_BATCH_ROWS)
    return connection.execute(streamed).partitions(_BATCH_ROWS)


def _find_last_id(source: Connection, table: Table) -> int:
    """The highest id ever given: buttons in chats name rows by id, so none of a deleted row is reused."""
    highest: int | None = source.execute(select(func.max(table.c.id))).scalar_one()
    query = "SELECT seq FROM sqlite_sequence WHERE name = :table"
    if source.dialect.name == "postgresql":
        query = "SELECT pg_sequence_last_value(pg_get_serial_sequence(:table, 'id')::regclass)"
    given: int | None = source.execute(text(query), {"table": table.name}).scalar_one_or_none()
    return max(highest or 0, given or 0)


def _raise_sequence(target: Connection, table: Table, number: int) -> None:
    """Let the ids of a table that has got its rows go on above this number."""
    row = {"table": table.name, "number": number}
    if number == 0:
        return
    if target.dialect.name == "postgresql":
        sequence = "pg_get_serial_sequence(:table, 'id')::regclass"
        target.execute(text(f"SELECT setval({sequence}, :number)"), row)
        return
    target.execute(text("DELETE FROM sqlite_sequence WHERE name = :table"), row)
    target.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :number)"), row)

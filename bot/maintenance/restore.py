"""Puts a backup in the database's place, so that nothing which was done since it was made is done again.

The house must not run meanwhile; what was there before is kept beside it, as any copy is.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bot.db import lock
from bot.db import migrate as migrating
from bot.db.engine import Database, Transaction, make_private, open_database, parse_database_path
from bot.db.maintenance import restore as restored
from bot.db.maintenance.backup import find_integrity_errors, fsync_path, read_made_at
from bot.db.maintenance.restore import DiscardCounts, ReplacedDatabaseState
from bot.db.readonly import open_readonly
from bot.errors import RestoreRefused, SchemaUnknown, StoreUnavailable
from bot.jobs.times.rrules import RecurrenceRule, find_next, load_zone

SIDE_SUFFIXES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What became of it: the backup's age (epoch seconds), where the replaced database is kept (None: there
    was none), how many due times were passed over; `known` None: the replaced database told nothing.
    """

    made_at: float
    replaced_file: Path | None
    settled: DiscardCounts
    skipped_due_times: int
    changes_since: ReplacedDatabaseState | None


async def restore_backup(url: str, backup: Path, *, answer_waiting: bool, now: float) -> RestoreReport:
    """Restore the database at `url`; `waiting`: what waited when the backup was made is answered, too.

    Raises RestoreRefused, SchemaUnknown, GatewayRunning; the database is then as it was.
    """
    file = parse_database_path(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.hold_lock(file), _make_temporary_file(file) as fresh:
        _copy_and_upgrade(backup, file, fresh)
        async with open_database(url.replace(str(file), str(fresh))) as database:
            settled, passed_over, known = await _reconcile_with_replaced(
                database, url, answer_waiting=answer_waiting, now=now
            )
            await database.truncate_wal()
        try:
            aside = _replace_database(fresh, file, now)
        except OSError as error:
            raise RestoreRefused(f"{file} cannot be replaced: {error.strerror}.") from error
        return RestoreReport(read_made_at(backup), aside, settled, passed_over, known)


@contextmanager
def _make_temporary_file(file: Path) -> Iterator[Path]:
    """A file that is made ready, and gone in the end if it has not taken its place."""
    fresh = file.with_name(f"{file.name}.restoring")
    _delete_temporary_file(fresh)  # a log that a killed attempt has left would be taken for the new file's
    try:
        yield fresh
    finally:
        _delete_temporary_file(fresh)


def _delete_temporary_file(temporary_file: Path) -> None:
    for suffix in ("", *SIDE_SUFFIXES):
        Path(f"{temporary_file}{suffix}").unlink(missing_ok=True)


def _copy_and_upgrade(backup: Path, file: Path, temporary_file: Path) -> None:
    """A private copy of a sound backup, brought to this version's schema."""
    if file.exists() and backup.exists() and backup.samefile(file):
        raise RestoreRefused(f"{backup} is the database itself.")
    try:
        _copy_with_wal(backup, temporary_file)
    except OSError as error:
        raise RestoreRefused(f"{backup} cannot be copied: {error.strerror}.") from None
    if found := find_integrity_errors(temporary_file):
        raise RestoreRefused(f"{backup} is not sound ({found[0]}). Take another backup.")
    at = migrating.read_current_revision(temporary_file)
    wanted = migrating.find_newest_revision()
    if at is None:
        raise RestoreRefused(f"{backup} is no database of Canvasgram.")
    if at > wanted:
        raise SchemaUnknown(
            f"{backup} has schema {at}, this version knows up to {wanted}. Use the newer version."
        )
    if at < wanted:
        migrating.upgrade(f"sqlite+aiosqlite:///{temporary_file}")


def _copy_with_wal(backup: Path, temporary_file: Path) -> None:
    """Byte by byte, with a log that has not been merged: a folder that cannot be written is enough."""
    for suffix in ("", "-wal"):
        if not suffix or Path(f"{backup}{suffix}").exists():
            make_private(Path(f"{temporary_file}{suffix}"))
            shutil.copyfile(f"{backup}{suffix}", f"{temporary_file}{suffix}")


async def _reconcile_with_replaced(
    database: Database, url: str, *, answer_waiting: bool, now: float
) -> tuple[DiscardCounts, int, ReplacedDatabaseState | None]:
    async with database.read_transaction() as tx:
        received, birth = await restored.find_last_received_and_birth(tx)
    try:
        async with open_readonly(url) as replaced, replaced.read_transaction() as old:
            known = await restored.load_replaced_state(old, received, birth)
    except (StoreUnavailable, SchemaUnknown):
        known = None
    async with database.transaction() as tx:
        settled = await restored.discard_pending(tx, answer_waiting=answer_waiting, now=now)
        passed_over = 0
        if known is not None:
            await restored.apply_replaced_state(tx, known, now=now)
        if not answer_waiting and (known is None or known.rows_by_table is None):
            passed_over = await _skip_overdue_jobs(tx, now)
    return settled, passed_over, known


async def _skip_overdue_jobs(tx: Transaction, now: float) -> int:
    """Whatever was due since the backup may have been done."""
    found = await restored.list_overdue_jobs(tx, now=now)
    for job, rule, where in found:
        await restored.reschedule_job(
            tx, job, find_next(RecurrenceRule.parse(rule), load_zone(where), now) if rule else None
        )
    return len(found)


def _replace_database(temporary_file: Path, file: Path, now: float) -> Path | None:
    """Let the file take its place; the one that stood there, if any, goes aside. One rename decides."""
    aside = None
    if file.exists() and file.stat().st_size:
        aside = file.with_name(
            f"{file.name}.before-restore-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S.%fZ}.bak"
        )
        _merge_wal(file)
        os.link(file, aside)
        os.utime(aside, (now, now))
        for suffix in SIDE_SUFFIXES:  # a log that could not be merged would be taken for the new file's
            if (side := Path(f"{file}{suffix}")).exists():
                side.replace(f"{aside}{suffix}")
    fsync_path(temporary_file)
    temporary_file.replace(file)
    fsync_path(file.parent)
    return aside


def _merge_wal(file: Path) -> None:
    """Merge the write-ahead log of a database, if it can be read at all."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.DatabaseError:
        return


def format_summary(report: RestoreReport, file: Path) -> Iterator[str]:
    """What is to be known after a restore."""
    yield f"{file} is as it was on {datetime.fromtimestamp(report.made_at, UTC):%-d %B %Y at %H:%M} UTC."
    if report.replaced_file is not None:
        yield f"What stood there is kept for 30 days at most: {report.replaced_file}"
    yield (
        f"Messages that waited then and are not answered again: {report.settled.dropped}. Sent or not, nobody knows, and "
        f"not sent again: {report.settled.unknown}. Due times since then, passed over: {report.skipped_due_times}."
    )
    yield "What people wrote since then is gone: Telegram does not hand it over twice. It is in their chats still."
    if report.changes_since is None:
        yield (
            "The database that stood there told nothing. Who was shut out since then is let in again: see /people. "
            "What was forgotten since then is there again, and the last messages may be answered twice."
        )
    elif report.changes_since.rows_by_table is None:
        yield "The database that stood there was of another house: people, limits and jobs are those of the backup."

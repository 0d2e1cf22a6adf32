"""Puts a backup in the place of the database, so that nothing done since the backup is done again.

The gateway must not run meanwhile. The replaced database is kept beside the new one, as any copy is.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bot.db.database_url import is_postgresql, parse_database_path
from bot.db.engine import Database, open_database
from bot.db.maintenance import restore as restore_rows
from bot.db.maintenance.backup import find_integrity_errors, fsync_path, read_made_at
from bot.db.maintenance.restore import DiscardCounts, ReplacedDatabaseState
from bot.db.readonly import open_readonly
from bot.db.schema import find_newest_revision
from bot.db.sqlite import lock, migrate
from bot.db.sqlite.files import make_private
from bot.db.transaction import Transaction
from bot.errors import RestoreRefused, SchemaUnknown, StoreUnavailable
from bot.jobs.times.rrules import RecurrenceRule, find_next, load_zone

SIDE_SUFFIXES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did.

    `made_at` is the age of the backup (epoch seconds), `replaced_file` where the replaced database is kept
    (None: there was none), `skipped_due_times` how many due times were passed over. `changes_since` is what
    the replaced database held beyond the backup; None: it could not be read.
    """

    made_at: float
    replaced_file: Path | None
    settled: DiscardCounts
    skipped_due_times: int
    changes_since: ReplacedDatabaseState | None


async def restore_backup(url: str, backup: Path, *, answer_waiting: bool, now: float) -> RestoreReport:
    """Restore the database at `url`.

    `answer_waiting`: what waited when the backup was made is answered, too. Raises RestoreRefused,
    SchemaUnknown or GatewayRunning; the database is then as it was.
    """
    if is_postgresql(url):
        raise RestoreRefused(
            "This is for SQLite files. On PostgreSQL, pg_restore or psql brings back what pg_dump wrote."
        )
    file = parse_database_path(url)
    with lock.hold_lock(file), _make_temporary_file(file) as temporary_file:
        _copy_and_upgrade(backup, file, temporary_file)
        async with open_database(url.replace(str(file), str(temporary_file))) as database:
            async with database.long_read_transaction() as tx:
                last_received, birth = await restore_rows.find_last_received_and_birth(tx)
            changes_since = await _load_replaced_state(url, last_received, birth)
            discarded, skipped = await _reconcile_with_replaced(
                database, changes_since, answer_waiting=answer_waiting, now=now
            )
            await database.erase_deleted()
        try:
            replaced_file = _replace_database(temporary_file, file, now)
        except OSError as error:
            raise RestoreRefused(f"{file} cannot be replaced: {error.strerror}.") from error
        made_at = read_made_at(backup, last_received)
        return RestoreReport(made_at, replaced_file, discarded, skipped, changes_since)


@contextmanager
def _make_temporary_file(file: Path) -> Iterator[Path]:
    """The path of a file to prepare; it is deleted in the end unless it was moved to its place."""
    temporary_file = file.with_name(f"{file.name}.restoring")
    _delete_temporary_file(temporary_file)  # a log left by a killed attempt would be read as the new file's
    try:
        yield temporary_file
    finally:
        _delete_temporary_file(temporary_file)


def _delete_temporary_file(temporary_file: Path) -> None:
    for suffix in ("", *SIDE_SUFFIXES):
        Path(f"{temporary_file}{suffix}").unlink(missing_ok=True)


def _copy_and_upgrade(backup: Path, file: Path, temporary_file: Path) -> None:
    """Make a private copy of a sound backup, upgraded to this version's schema."""
    if file.exists() and backup.exists() and backup.samefile(file):
        raise RestoreRefused(f"{backup} is the database itself.")
    try:
        _copy_with_wal(backup, temporary_file)
    except OSError as error:
        raise RestoreRefused(f"{backup} cannot be copied: {error.strerror}.") from None
    if errors := find_integrity_errors(temporary_file):
        raise RestoreRefused(f"{backup} is not sound ({errors[0]}). Take another backup.")
    revision = migrate.read_current_revision(temporary_file)
    newest = find_newest_revision()
    if revision is None:
        raise RestoreRefused(f"{backup} is no database of Canvasgram.")
    if revision > newest:
        raise SchemaUnknown(
            f"{backup} has schema {revision}, this version knows up to {newest}. Use the newer version."
        )
    if revision < newest:
        migrate.upgrade(temporary_file)


def _copy_with_wal(backup: Path, temporary_file: Path) -> None:
    """Copy byte by byte, with a log that has not been merged; the backup's folder may be read-only."""
    for suffix in ("", "-wal"):
        if not suffix or Path(f"{backup}{suffix}").exists():
            make_private(Path(f"{temporary_file}{suffix}"))
            shutil.copyfile(f"{backup}{suffix}", f"{temporary_file}{suffix}")


async def _load_replaced_state(
    url: str, last_received: float, birth: float | None
) -> ReplacedDatabaseState | None:
    try:
        async with open_readonly(url) as replaced, replaced.long_read_transaction() as tx:
            return await restore_rows.load_replaced_state(tx, last_received, birth)
    except (StoreUnavailable, SchemaUnknown):
        return None


async def _reconcile_with_replaced(
    database: Database, changes_since: ReplacedDatabaseState | None, *, answer_waiting: bool, now: float
) -> tuple[DiscardCounts, int]:
    async with database.long_transaction() as tx:
        discarded = await restore_rows.discard_pending(tx, answer_waiting=answer_waiting, now=now)
        skipped = 0
        if changes_since is not None:
            await restore_rows.apply_replaced_state(tx, changes_since, now=now)
        if not answer_waiting and (changes_since is None or changes_since.rows_by_table is None):
            skipped = await _skip_overdue_jobs(tx, now)
    return discarded, skipped


async def _skip_overdue_jobs(tx: Transaction, now: float) -> int:
    """Pass over what was due since the backup, for it may have been done; returns how many jobs that are."""
    overdue = await restore_rows.list_overdue_jobs(tx, now=now)
    for job, rule, zone in overdue:
        next_due = None
        if rule:
            next_due = find_next(RecurrenceRule.parse(rule), load_zone(zone), now)
        await restore_rows.reschedule_job(tx, job, next_due)
    return len(overdue)


def _replace_database(temporary_file: Path, file: Path, now: float) -> Path | None:
    """Move the new file to its place; returns where the replaced one is kept, if any. One rename decides."""
    stamp = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S.%fZ}"
    replaced_file = file.with_name(f"{file.name}.before-restore-{stamp}.bak")
    is_kept = file.exists() and file.stat().st_size > 0
    if is_kept:
        _merge_wal(file)
        os.link(file, replaced_file)
        os.utime(replaced_file, (now, now))
    # A log that could not be merged, or whose database was removed, would be read as the new file's.
    for suffix in SIDE_SUFFIXES:
        side_file = Path(f"{file}{suffix}")
        if side_file.exists():
            side_file.replace(f"{replaced_file}{suffix}")
    fsync_path(temporary_file)
    temporary_file.replace(file)
    fsync_path(file.parent)
    return replaced_file if is_kept else None


def _merge_wal(file: Path) -> None:
    """Merge the write-ahead log of a database, if it can be read at all."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.DatabaseError:
        return


def format_summary(report: RestoreReport, file: Path) -> Iterator[str]:
    """Yield what an operator must know after a restore."""
    made_at = f"{datetime.fromtimestamp(report.made_at, UTC):%-d %B %Y at %H:%M} UTC"
    yield f"{file} is as it was on {made_at}."
    if report.replaced_file is not None:
        yield f"What stood there is kept for 30 days at most: {report.replaced_file}"
    for count, meaning in (
        (report.settled.dropped, "Messages that waited then and are not answered any more"),
        (report.settled.unknown, "Messages that are not sent again, for they may have been sent"),
        (report.skipped_due_times, "Due times since then that are passed over"),
    ):
        if count:
            yield f"{meaning}: {count}."
    yield "What people wrote since then is gone here; it is in their chats still."
    if report.changes_since is None:
        reason = "No database stood there"
        if report.replaced_file is not None:
            reason = "The database that stood there cannot be read"
        yield (
            f"{reason}, so people, groups and consents are those of the backup, and what was forgotten "
            "since then is there again: see /people and /groups. The last messages may be answered twice."
        )
    elif report.changes_since.rows_by_table is None:
        yield (
            "The database that stood there was of another gateway: "
            "people, groups, limits and jobs are those of the backup."
        )

"""Backups of the database while the gateway runs, and integrity checks of database files.

A backup is a complete, checked, private file in a folder, or there is none: SQLite copies one snapshot in
small steps, and the file gets its final name only after its integrity check.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from bot.db.engine import Database
from bot.errors import BackupFailed
from tools.threads import run_in_thread

_PAGES_PER_STEP = 256  # after a step the disk is left to others for as long as the step took
CANCEL_CHECK_STEPS = 20_000
"""SQLite's own small steps after which an integrity check looks whether it is cancelled."""
_PARTIAL_SUFFIX = ".partial"
_TIMESTAMP_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class BackupDirectory:
    """The folder with the newest `max_backups` backups of a database; a name says when it was begun."""

    database_file: Path
    folder: Path
    max_backups: int

    def list_backups(self) -> list[Path]:
        """The backups in the folder, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if self._match_timestamp(path) is not None)

    def find_newest_time(self) -> float | None:
        """When the newest backup was begun (epoch seconds); None if there is none."""
        backups = self.list_backups()
        if backups:
            return read_made_at(backups[-1])
        return None

    def expire(self, *, before: float) -> int:
        """Delete the backups begun before this moment (epoch seconds) but the newest; returns how many."""
        expired = [backup for backup in self.list_backups()[:-1] if read_made_at(backup) < before]
        for backup in expired:
            backup.unlink()
        return len(expired)

    async def make_backup(self, *, now: float) -> Path:
        """Make a backup, and delete the oldest ones beyond `max_backups`.

        Raises BackupFailed; earlier backups are then untouched.
        """
        cancelled = threading.Event()
        try:
            return await run_in_thread(self._make_backup, now, cancelled)
        finally:
            cancelled.set()  # if this task is cancelled, the thread ends within a step

    def _make_backup(self, now: float, cancelled: threading.Event) -> Path:
        timestamp = datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP_FORMAT)
        final = self.folder / f"{self.database_file.stem}-{timestamp}.db"
        self.check_folder()
        _write_backup(self.database_file, final, cancelled)
        with _translate_errors(self.folder):
            # A clock that was wrong may have named one that seems to be newer.
            others = [backup for backup in self.list_backups() if backup != final]
            for oldest in others[: max(0, len(others) + 1 - self.max_backups)]:
                oldest.unlink()
        return final

    def check_folder(self) -> None:
        """Make the folder if needed; raises BackupFailed where no file can be written to it."""
        with _translate_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def _match_timestamp(self, path: Path) -> re.Match[str] | None:
        return re.fullmatch(re.escape(self.database_file.stem) + r"-(\d{8}T\d{6}Z)\.db", path.name)


async def write_backup(database_file: Path, final: Path) -> None:
    """Write one backup to a file that does not exist yet. Raises BackupFailed."""
    cancelled = threading.Event()
    try:
        await run_in_thread(_write_backup, database_file, final, cancelled)
    finally:
        cancelled.set()


def _write_backup(database_file: Path, final: Path, cancelled: threading.Event) -> None:
    if final.exists():
        raise BackupFailed(f"{final} exists already. Name another file.")
    prefix = f".{database_file.stem}-"
    partial = final.with_name(f"{prefix}{final.name}{_PARTIAL_SUFFIX}")
    with _translate_errors(final.parent), _hold_folder(final.parent):
        try:
            _delete_partials(final.parent, prefix)  # of attempts that were killed
            if shutil.disk_usage(final.parent).free < database_file.stat().st_size:
                # A backup that fills the disk would keep the gateway itself from writing.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _copy_database(database_file, partial, cancelled)
            _check_copy(partial, cancelled)
            partial.replace(final)
        finally:
            _delete_partials(final.parent, prefix)
        fsync_path(final.parent)


def _delete_partials(folder: Path, prefix: str) -> None:
    """Delete the files of unfinished attempts."""
    for partial in folder.glob(f"{prefix}*{_PARTIAL_SUFFIX}*"):
        partial.unlink()


@contextlib.contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing a backup to this folder, and from deleting this one's files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BackupFailed(f"Another backup is being made in {folder}.") from None
    finally:
        os.close(descriptor)


def read_made_at(backup: Path, last_received: float = 0.0) -> float:
    """When a copy was made (epoch seconds).

    By its name; else when it last received anything, for copying sets the file's own time; else by that.
    """
    stamp = re.search(r"-(\d{8}T\d{6}Z)\.db$", backup.name)
    if stamp is None:
        return last_received or backup.stat().st_mtime
    return datetime.strptime(stamp[1], _TIMESTAMP_FORMAT).replace(tzinfo=UTC).timestamp()


async def check_integrity(database: Database, file: Path) -> list[str]:
    """Merge the write-ahead log, update the statistics, and check every page of the file for damage.

    Returns SQLite's error messages; none if the file is sound. Neither writers nor readers wait for the check
    of the pages. Raises StoreUnavailable while the database cannot be written.
    """
    await database.optimize()
    cancelled = threading.Event()
    try:
        return await run_in_thread(find_integrity_errors, file, cancelled)
    finally:
        cancelled.set()  # if this task is cancelled, the thread ends at once


def find_integrity_errors(
    file: Path, cancelled: threading.Event | None = None, *, cancel_check_steps: int = CANCEL_CHECK_STEPS
) -> list[str]:
    """SQLite's error messages about the database in `file`; none if it is sound.

    No writer or reader waits for it. It ends early once `cancelled` is set; its result is then meaningless.
    """
    try:
        with closing(open_readonly_connection(file)) as connection:
            if cancelled is not None:
                connection.set_progress_handler(cancelled.is_set, cancel_check_steps)
            messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    if messages == ["ok"]:
        return []
    return messages


def open_readonly_connection(file: Path) -> sqlite3.Connection:
    """Open a connection that cannot write."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, isolation_level=None)


def fsync_path(path: Path) -> None:
    """Sync a file, or the names in a folder, so that they survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_database(source: Path, target: Path, cancelled: threading.Event) -> None:
    """Copy one snapshot: an open read transaction keeps it while others write, or the copy would restart."""
    with (
        closing(open_readonly_connection(source)) as reader,
        closing(sqlite3.connect(target, isolation_level=None)) as writer,
    ):
        writer.execute("PRAGMA journal_mode=OFF")  # a partial copy is deleted, never rolled back
        writer.execute("PRAGMA synchronous=OFF")  # synced step by step instead
        writer.execute("PRAGMA cache_size=16")
        reader.execute("BEGIN")
        reader.execute("SELECT 1 FROM sqlite_master").fetchone()
        reader.backup(writer, pages=_PAGES_PER_STEP, progress=_build_progress_callback(target, cancelled))
    # A backup is a single file: in WAL mode, which the gateway uses, opening it would create two more.
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode=DELETE")
    fsync_path(target)


def _build_progress_callback(target: Path, cancelled: threading.Event) -> Callable[[int, int, int], None]:
    step_began_at = time.monotonic()

    def on_step(_status: int, _remaining: int, _total: int) -> None:
        nonlocal step_began_at
        # A little at a time: one sync of everything at the end would block every commit of the gateway.
        fsync_path(target)
        if cancelled.wait(time.monotonic() - step_began_at):
            raise BackupFailed("The backup was broken off.")
        step_began_at = time.monotonic()

    return on_step


def _check_copy(copy: Path, cancelled: threading.Event) -> None:
    if errors := find_integrity_errors(copy, cancelled):
        raise BackupFailed(
            f"The backup was not sound and is thrown away; the database may not be, too: {errors[0]}"
        )


@contextlib.contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error}.") from error

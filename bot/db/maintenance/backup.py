"""Backups of the database while the house is at work: whole, sound, private files in a folder, or nothing at
all.

Made by SQLite itself out of one moment's view, in small steps; a file has its name only once it was found to
be sound.
"""

import contextlib
import errno
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

from bot.errors import BackupFailed
from tools.threads import run_in_thread

_PAGES_PER_STEP = (
    256  # pages copied at once; between steps the disk is left to others for as long as a step took
)
_PROGRESS_INTERVAL_STEPS = (
    20_000  # of SQLite's own small steps, after which a check looks whether it is to end
)
_PARTIAL_SUFFIX = ".partial"
_TIMESTAMP_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class BackupDirectory:
    """Where backups of the database `file` lie, the newest `keep` of them; their names say when they were
    begun.
    """

    database_file: Path
    folder: Path
    max_backups: int

    def list_backups(self) -> list[Path]:
        """The backups there are, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(one for one in self.folder.iterdir() if self._match_timestamp(one) is not None)

    def find_newest_time(self) -> float | None:
        """When the newest one was begun (epoch seconds); None if there is none."""
        found = self.list_backups()
        if found:
            return read_made_at(found[-1])
        return None

    def expire(self, *, before: float) -> None:
        """Delete the backups begun before this moment (epoch seconds)."""
        for one in self.list_backups():
            if read_made_at(one) < before:
                one.unlink()

    async def make_backup(self, *, now: float) -> Path:
        """Make a backup, and delete those beyond `keep`. Raises BackupFailed; what was there before is there
        still.
        """
        enough = threading.Event()
        try:
            return await run_in_thread(self._make_backup, now, enough)
        finally:
            enough.set()  # cancelled, the thread ends within a step

    def _make_backup(self, now: float, cancelled: threading.Event) -> Path:
        final = (
            self.folder
            / f"{self.database_file.stem}-{datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP_FORMAT)}.db"
        )
        partial = final.with_name(f".{final.name}{_PARTIAL_SUFFIX}")
        with _translate_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._delete_partials()
            if shutil.disk_usage(self.folder).free < self.database_file.stat().st_size:
                raise OSError(
                    errno.ENOSPC, os.strerror(errno.ENOSPC)
                )  # or the house itself could not write meanwhile
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                _copy_database(self.database_file, partial, cancelled)
                _check_copy(partial, cancelled)
                partial.replace(final)
            finally:
                self._delete_partials()
            fsync_path(self.folder)
            for old in self.list_backups()[: -self.max_backups]:
                old.unlink()
        return final

    def _delete_partials(self) -> None:
        """Delete what attempts that did not come to their end have left."""
        for left in self.folder.glob(f".{self.database_file.stem}-*{_PARTIAL_SUFFIX}*"):
            left.unlink()

    def _match_timestamp(self, path: Path) -> re.Match[str] | None:
        return re.fullmatch(re.escape(self.database_file.stem) + r"-(\d{8}T\d{6}Z)\.db", path.name)


def read_made_at(backup: Path) -> float:
    """When a copy was made (epoch seconds): by its name if that says so, else by the file."""
    stamp = re.search(r"-(\d{8}T\d{6}Z)\.db$", backup.name)
    if stamp is None:
        return backup.stat().st_mtime
    return datetime.strptime(stamp[1], _TIMESTAMP_FORMAT).replace(tzinfo=UTC).timestamp()


def find_integrity_errors(file: Path, cancelled: threading.Event | None = None) -> list[str]:
    """What SQLite finds wrong with the database in `file`, in its own words; nothing if it is sound.

    Nobody waits for it; it ends early once `enough` is set, and what it says then counts for nothing.
    """
    try:
        with closing(open_readonly_connection(file)) as connection:
            if cancelled is not None:
                connection.set_progress_handler(cancelled.is_set, _PROGRESS_INTERVAL_STEPS)
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    if found == ["ok"]:
        return []
    return found


def open_readonly_connection(file: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, isolation_level=None)


def fsync_path(path: Path) -> None:
    """See to it that a file, or the names in a folder, survive a power cut."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _copy_database(source: Path, target: Path, cancelled: threading.Event) -> None:
    """One moment's view: an open reading keeps it while others write, so that the copy need not begin again."""
    with (
        closing(open_readonly_connection(source)) as there,
        closing(sqlite3.connect(target, isolation_level=None)) as here,
    ):
        here.execute("PRAGMA journal_mode=OFF")  # half a copy is thrown away
        here.execute("PRAGMA synchronous=OFF")  # synced step by step instead
        here.execute("PRAGMA cache_size=16")
        there.execute("BEGIN")
        there.execute("SELECT 1 FROM sqlite_master").fetchone()
        there.backup(here, pages=_PAGES_PER_STEP, progress=_build_progress_callback(target, cancelled))
    # Kept as one file: in the mode the house works in, opening it would make two more beside it.
    with closing(sqlite3.connect(target, isolation_level=None)) as alone:
        alone.execute("PRAGMA journal_mode=DELETE")
    fsync_path(target)


def _build_progress_callback(target: Path, cancelled: threading.Event) -> Callable[[int, int, int], None]:
    began = time.monotonic()

    def stepped(_status: int, _left: int, _all: int) -> None:
        nonlocal began
        fsync_path(
            target
        )  # a little each time: all of it at the end would keep every commit of the house waiting
        if cancelled.wait(time.monotonic() - began):
            raise BackupFailed("The backup was broken off.")
        began = time.monotonic()

    return stepped


def _check_copy(copy: Path, cancelled: threading.Event) -> None:
    if found := find_integrity_errors(copy, cancelled):
        raise BackupFailed(
            f"The backup was not sound and is thrown away; the database may not be, too: {found[0]}"
        )


@contextlib.contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error}.") from error

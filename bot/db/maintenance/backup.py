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
from tools.threads import in_thread

_STEP = 256  # pages copied at once; between steps the disk is left to others for as long as a step took
_LOOK = 20_000  # of SQLite's own small steps, after which a check looks whether it is to end
_PARTIAL = ".partial"
_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where backups of the database `file` lie, the newest `keep` of them; their names say when they were
    begun.
    """

    file: Path
    folder: Path
    keep: int

    def backups(self) -> list[Path]:
        """The backups there are, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(one for one in self.folder.iterdir() if self._stamp(one) is not None)

    def newest(self) -> float | None:
        """When the newest one was begun (epoch seconds); None if there is none."""
        found = self.backups()
        if found:
            return made_at(found[-1])
        return None

    def expire(self, *, before: float) -> None:
        """Delete the backups begun before this moment (epoch seconds)."""
        for one in self.backups():
            if made_at(one) < before:
                one.unlink()

    async def add(self, *, now: float) -> Path:
        """Make a backup, and delete those beyond `keep`. Raises BackupFailed; what was there before is there
        still.
        """
        enough = threading.Event()
        try:
            return await in_thread(self._add, now, enough)
        finally:
            enough.set()  # cancelled, the thread ends within a step

    def _add(self, now: float, enough: threading.Event) -> Path:
        final = self.folder / f"{self.file.stem}-{datetime.fromtimestamp(now, UTC).strftime(_STAMP)}.db"
        partial = final.with_name(f".{final.name}{_PARTIAL}")
        with _translated(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep()
            if shutil.disk_usage(self.folder).free < self.file.stat().st_size:
                raise OSError(
                    errno.ENOSPC, os.strerror(errno.ENOSPC)
                )  # or the house itself could not write meanwhile
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                _copy(self.file, partial, enough)
                _check(partial, enough)
                partial.replace(final)
            finally:
                self._sweep()
            sync(self.folder)
            for old in self.backups()[: -self.keep]:
                old.unlink()
        return final

    def _sweep(self) -> None:
        """Delete what attempts that did not come to their end have left."""
        for left in self.folder.glob(f".{self.file.stem}-*{_PARTIAL}*"):
            left.unlink()

    def _stamp(self, one: Path) -> re.Match[str] | None:
        return re.fullmatch(re.escape(self.file.stem) + r"-(\d{8}T\d{6}Z)\.db", one.name)


def made_at(backup: Path) -> float:
    """When a copy was made (epoch seconds): by its name if that says so, else by the file."""
    stamp = re.search(r"-(\d{8}T\d{6}Z)\.db$", backup.name)
    if stamp is None:
        return backup.stat().st_mtime
    return datetime.strptime(stamp[1], _STAMP).replace(tzinfo=UTC).timestamp()


def faults(file: Path, enough: threading.Event | None = None) -> list[str]:
    """What SQLite finds wrong with the database in `file`, in its own words; nothing if it is sound.

    Nobody waits for it; it ends early once `enough` is set, and what it says then counts for nothing.
    """
    try:
        with closing(reading(file)) as connection:
            if enough is not None:
                connection.set_progress_handler(enough.is_set, _LOOK)
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    if found == ["ok"]:
        return []
    return found


def reading(file: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, isolation_level=None)


def sync(path: Path) -> None:
    """See to it that a file, or the names in a folder, survive a power cut."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _copy(source: Path, target: Path, enough: threading.Event) -> None:
    """One moment's view: an open reading keeps it while others write, so that the copy need not begin again."""
    with closing(reading(source)) as there, closing(sqlite3.connect(target, isolation_level=None)) as here:
        here.execute("PRAGMA journal_mode=OFF")  # half a copy is thrown away
        here.execute("PRAGMA synchronous=OFF")  # synced step by step instead
        here.execute("PRAGMA cache_size=16")
        there.execute("BEGIN")
        there.execute("SELECT 1 FROM sqlite_master").fetchone()
        there.backup(here, pages=_STEP, progress=_pace(target, enough))
    # Kept as one file: in the mode the house works in, opening it would make two more beside it.
    with closing(sqlite3.connect(target, isolation_level=None)) as alone:
        alone.execute("PRAGMA journal_mode=DELETE")
    sync(target)


def _pace(target: Path, enough: threading.Event) -> Callable[[int, int, int], None]:
    began = time.monotonic()

    def stepped(_status: int, _left: int, _all: int) -> None:
        nonlocal began
        sync(target)  # a little each time: all of it at the end would keep every commit of the house waiting
        if enough.wait(time.monotonic() - began):
            raise BackupFailed("The backup was broken off.")
        began = time.monotonic()

    return stepped


def _check(copy: Path, enough: threading.Event) -> None:
    if found := faults(copy, enough):
        raise BackupFailed(
            f"The backup was not sound and is thrown away; the database may not be, too: {found[0]}"
        )


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise BackupFailed(f"No backup could be made in {folder}: {error}.") from error

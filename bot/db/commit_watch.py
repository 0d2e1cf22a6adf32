"""Tells whether the database was written, by any process, without reading it.

Parts that have to notice what other commands write look every few seconds; while nothing is written, such a
look costs one call to the system, and no query.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# A commit is visible only when its sync to the disk has ended, later than the log shows it.
SETTLE_SECONDS = 3.0


class CommitWatch:
    """Watches the write-ahead log of one database file for one part, which looks when it likes.

    Each change is reported by every look until one that is SETTLE_SECONDS later than the first. Without a
    file, and while there is no log, every look says that something may have been written.
    """

    def __init__(self, database_file: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._wal_file = f"{database_file}-wal" if database_file else ""
        self._clock = clock
        self._state: tuple[int, int] | None = None
        self._noticed_at = 0.0
        self._is_seen = False

    @contextlib.contextmanager
    def look(self) -> Iterator[bool]:
        """Tell whether anything may have been written since the last look, the first time in any case.

        A look in whose block an error is raised does not count: the next one says the same.
        """
        state = self._read_state()
        now = self._clock()
        if state != self._state:
            self._state = state
            self._noticed_at = now
            self._is_seen = False
        yield state is None or not self._is_seen
        self._is_seen = now >= self._noticed_at + SETTLE_SECONDS

    def _read_state(self) -> tuple[int, int] | None:
        """Time and size of the log, which change with every commit of any process; None: there is none."""
        with contextlib.suppress(OSError):
            status = os.stat(self._wal_file)  # noqa: PTH116  # every few seconds
            return status.st_mtime_ns, status.st_size
        return None


def compute_seconds_to_look(interval: float) -> float:
    """Seconds until all parts with this interval look, at one moment, which wakes the process once."""
    return interval - asyncio.get_running_loop().time() % interval

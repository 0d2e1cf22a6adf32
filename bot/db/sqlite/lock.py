"""One gateway for each database: a lock file beside it, released when its process dies, even by kill -9."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from bot.db.sqlite.files import translate_file_errors
from bot.errors import GatewayRunning


@contextlib.contextmanager
def hold_lock(database_file: Path) -> Iterator[None]:
    """Hold the lock of `database_file` while the block runs.

    Raises GatewayRunning if another process holds it, SettingsRefused if this user can never write the lock
    file, StoreUnavailable if the disk is full.
    """
    lock = FileLock(f"{database_file}.lock", timeout=0, mode=0o600)
    with translate_file_errors(Path(lock.lock_file)):
        try:
            lock.acquire()
        except Timeout:
            raise GatewayRunning(
                f"Another gateway already works on {database_file}. "
                "Stop it first, or set DATABASE_URL to another file."
            ) from None
    try:
        yield
    finally:
        lock.release()

"""One gateway for each database: a lock file beside it, released when its process dies, even by kill -9."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from bot.db.sqlite.files import translate_file_errors
from bot.errors import GatewayRunning


@contextlib.contextmanager
def hold_lock(database_file: Path) -> Iterator[None]:
    """Hold the lock of `database_file` while the block runs; the lock file stays.

    Raises GatewayRunning if another process holds it, SettingsRefused if this user can never write the lock
    file, StoreUnavailable if the disk is full.
    """
    lock_file = Path(f"{database_file}.lock")
    with translate_file_errors(lock_file):
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock_file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        with translate_file_errors(lock_file):
            _lock(descriptor, database_file)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, database_file: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise GatewayRunning(
            f"Another gateway already works on {database_file}. "
            "Stop it first, or set DATABASE_URL to another file."
        ) from None

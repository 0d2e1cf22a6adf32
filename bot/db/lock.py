"""One gateway a database: a lock beside the file that dies with its process, also by kill -9."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from bot.errors import GatewayRunning


@contextlib.contextmanager
def hold_lock(database_file: Path) -> Iterator[None]:
    """Hold the lock of `database` while the block runs; raises GatewayRunning if another process has it."""
    lock = FileLock(f"{database_file}.lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise GatewayRunning(
            f"Another gateway already works on {database_file}. Stop it first, or set DATABASE_URL to another file."
        ) from None
    try:
        yield
    finally:
        lock.release()

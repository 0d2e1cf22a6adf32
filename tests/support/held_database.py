"""Another process that holds a database's write lock, as a backup tool or a viewer does; and a full disk."""

import contextlib
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import AsyncIterator
from pathlib import Path

FULL_DISK_BYTES = 16_384
"""A limit for the size of files: enough for a log that begins, too little for the database."""

_HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.asynccontextmanager
async def hold_database(file: Path, statement: str = "BEGIN IMMEDIATE") -> AsyncIterator[None]:
    """Another process holds the lock while the block runs."""
    holder = await create_subprocess_exec(
        sys.executable, "-c", _HOLDER, str(file), statement, stdin=PIPE, stdout=PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        assert holder.stdin is not None
        holder.stdin.close()
        await holder.wait()

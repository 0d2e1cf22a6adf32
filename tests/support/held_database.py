"""A database that another process holds, as a backup tool or a viewer does; a full disk; files of others."""

import contextlib
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

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


def refuse_opening(monkeypatch: pytest.MonkeyPatch, file: Path, number: int) -> list[Path]:
    """Have the system refuse to open this file, which root may always open; returns the refusals."""
    refusals: list[Path] = []
    original_open: Callable[..., int] = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path) == str(file):
            refusals.append(file)
            raise OSError(number, os.strerror(number), str(path))
        return original_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    return refusals

"""The disk under the database of a run: its file system, and what an fsync costs there."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bot.bench.harness.statistics import median

_FSYNC_WRITES = 20
_PAGE = bytes(4096)


def describe_database(folder: Path) -> Iterator[tuple[str, str]]:
    """What figures with a database in this folder depend on, as (name, text)."""
    disk = f"{folder} ({find_file_system(folder)}); a write with fsync {describe_fsync(folder)}"
    yield "database", f"SQLite as shipped, in {disk}"


def describe_fsync(folder: Path) -> str:
    """The time that a 4 KiB write with fsync takes in this folder."""
    durations = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_FSYNC_WRITES):
            started_at = time.perf_counter()
            file.write(_PAGE)
            file.flush()
            os.fsync(file.fileno())
            durations.append(time.perf_counter() - started_at)
    return f"takes {1000 * (median(durations) or 0):.2f} ms"


def find_file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system a folder is on; `unknown` where the machine does not say."""
    best_mount_point = ""
    best_type = "unknown"
    with contextlib.suppress(OSError):
        for line in mounts.read_text(encoding="utf-8").splitlines():
            _, mount_point, mount_type, *_ = line.split()
            if folder.resolve().is_relative_to(mount_point) and len(mount_point) >= len(best_mount_point):
                best_mount_point = mount_point
                best_type = mount_type
    if best_type in {"tmpfs", "ramfs"}:
        return "tmpfs: no real disk"
    return best_type

"""The conditions of a run: machine, versions, and the disk under the database with its cost of an fsync."""

import contextlib
import importlib.metadata
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bot.bench.harness.statistics import median

LIBRARIES = ("python-telegram-bot", "openai", "SQLAlchemy", "aiosqlite", "aiohttp", "uvicorn")

_FSYNC_WRITES = 20
_PAGE = bytes(4096)


def describe_machine() -> Iterator[tuple[str, str]]:
    """What all figures depend on, as (name, text)."""
    yield "machine", f"{_processor_name()}, {count_cores()} cores, {platform.system()} {platform.release()}"
    versions = ", ".join(f"{name} {version}" for name, version in _installed_versions())
    yield "versions", f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}"


def describe_database(folder: Path) -> Iterator[tuple[str, str]]:
    """What figures with a database in this folder depend on, as (name, text)."""
    disk = f"{folder} ({find_file_system(folder)}); a write with fsync {describe_fsync(folder)}"
    yield "database", f"SQLite as shipped, in {disk}"


def count_cores() -> int:
    """How many processes can run at once."""
    return os.cpu_count() or 1


def read_load() -> float | None:
    """How many processes ran or waited to, over the last minute; None where the machine does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def describe_load() -> str:
    """The load of the machine over 1, 5 and 15 minutes."""
    try:
        return " ".join(f"{load:.1f}" for load in os.getloadavg())
    except OSError:
        return "unknown"


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


def _installed_versions() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine() or "unknown processor"

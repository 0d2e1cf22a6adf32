"""The conditions of a run: machine, versions and load."""

import contextlib
import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterator
from pathlib import Path

LIBRARIES = ("python-telegram-bot", "openai", "SQLAlchemy", "aiosqlite", "aiohttp", "uvicorn")


def describe_machine() -> Iterator[tuple[str, str]]:
    """What all figures depend on, as (name, text)."""
    yield "machine", f"{_processor_name()}, {count_cores()} cores, {platform.system()} {platform.release()}"
    versions = ", ".join(f"{name} {version}" for name, version in _installed_versions())
    yield "versions", f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}"


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

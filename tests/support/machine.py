"""What all figures of a measurement depend on: machine and versions."""

import contextlib
import importlib.metadata
import platform
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bot.bench.harness.machine import count_cores

LIBRARIES = ("python-telegram-bot", "openai", "SQLAlchemy", "aiosqlite", "aiohttp", "uvicorn")


def describe_machine() -> Iterator[tuple[str, str]]:
    """What all figures depend on, as (name, text)."""
    yield "machine", f"{_processor_name()}, {count_cores()} cores, {platform.system()} {platform.release()}"
    versions = ", ".join(f"{name} {version}" for name, version in _installed_versions())
    yield "versions", f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {versions}"


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

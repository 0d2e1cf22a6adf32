"""Tools of one's own in the files of TOOLS_DIR: plain Python with `@tool`, run inside this process.

Whoever may write there may do whatever the gateway can, so a folder open to others is refused whole. A file
that cannot be loaded is told with its line, and the others go on.
"""

import itertools
import os
import stat
import sys
import traceback
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tools.base import Tool

MAX_ERROR_CHARS = 300  # characters of what a file says went wrong

_load_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file and its tools; `trouble` says why there are none."""

    name: str
    tools: tuple[Tool, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedFolder:
    """What a folder held; `refused` says why nothing of it was loaded."""

    files: tuple[LoadedFile, ...] = ()
    refusal_reason: str | None = None


class _WritableByOthers(Exception):
    """Somebody else may write here, or it cannot be told; the text says where, and what to do."""


def load_folder(folder: Path, builtin_tools: Collection[Tool] = ()) -> LoadedFolder:
    """Load every file anew; what runs of an earlier load goes on. `own` are tools a file may only import."""
    try:
        _check_permissions(folder, os.stat(folder))  # noqa: PTH116 the folder may be a link, its files may not
        texts = {path: _read_file(path) for path in sorted(folder.glob("*.py")) if path.name[0] not in "_."}
    except _WritableByOthers as open_to_others:
        return LoadedFolder(refusal_reason=f"TOOLS_DIR is not loaded: {open_to_others}")
    except OSError as error:
        return LoadedFolder(
            refusal_reason=f"TOOLS_DIR is not loaded: {error.filename} cannot be read ({error.strerror})."
        )
    return LoadedFolder(tuple(_load_file(path, text, builtin_tools) for path, text in texts.items()))


def _read_file(path: Path) -> bytes:
    """What stands in a file, read from just the file that was looked at."""
    if path.is_symlink() or not path.is_file():
        raise _WritableByOthers(f"{path} is no plain file. Put the file itself there, no link and no folder.")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        _check_permissions(path, os.fstat(file.fileno()))
        return file.read()


def _check_permissions(path: Path, file_stat: os.stat_result) -> None:
    if file_stat.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _WritableByOthers(f"others may write to {path}. Say `chmod go-w {path}`.")
    if file_stat.st_uid not in {0, os.geteuid()}:
        raise _WritableByOthers(
            f"{path} belongs to another user than the gateway's. Say `chown` to change that."
        )


def _load_file(path: Path, text: bytes, builtin_tools: Collection[Tool]) -> LoadedFile:
    # A name of its own for each load: functions of an earlier one keep their module.
    module = ModuleType(f"tools_dir_{next(_load_numbers)}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102 whoever may write here is trusted
    except (Exception, SystemExit) as error:  # noqa: BLE001 a file may raise anything
        del sys.modules[module.__name__]
        return LoadedFile(path.name, trouble=_format_error(path, error).replace(module.__name__, path.stem))
    found = [one for one in vars(module).values() if isinstance(one, Tool) and one not in builtin_tools]
    return LoadedFile(
        path.name, tuple(replace(one, source=path.name, address=path.name) for one in dict.fromkeys(found))
    )


def _format_error(path: Path, error: BaseException) -> str:
    """What went wrong, and at which line of the file."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    else:
        line = (lines or [None])[-1]
    where = f"{path.name}, line {line}" if line else path.name
    said = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())[:MAX_ERROR_CHARS]
    if said:
        return f"{where}: {type(error).__name__}: {said}"
    return f"{where}: {type(error).__name__}"

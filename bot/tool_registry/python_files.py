"""Tools in the files of TOOLS_DIR: plain Python with `@tool`, run inside this process.

Anybody who may write there may do whatever the gateway can, so a folder open to others is refused whole. A
file that cannot be loaded is reported with its line, and the others are loaded. Each is loaded in another
process before, since nothing could stop it here.
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

from bot.tool_registry.file_trials import LOAD_SECONDS, find_unloadable_files
from tools.base import Tool
from tools.loop_thread import LoopThread

NO_TOOLS = "it has no tool: write @tool above a function, or begin the file's name with _"
MAX_ERROR_CHARS = 300  # of the error that a file raised

_load_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file and its tools; `trouble` says why there are none."""

    name: str
    tools: tuple[Tool, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedFolder:
    """What a folder held; `refusal_reason` says why nothing of it was loaded."""

    files: tuple[LoadedFile, ...] = ()
    refusal_reason: str | None = None


class _WritableByOthers(Exception):
    """Somebody else may write here, or that cannot be known; the text says where, and what to do."""


def load_folder(
    folder: Path, builtin_tools: Collection[Tool] = (), load_seconds: float = LOAD_SECONDS
) -> LoadedFolder:
    """Load every file again; functions of an earlier load keep running. Blocks while they load.

    `builtin_tools` are tools that a file may import and does not define; one that takes longer than
    `load_seconds` is left out.
    """
    try:
        _check_permissions(folder, os.stat(folder))  # noqa: PTH116  # the folder may be a link, no file
        _check_parents(folder)
        texts = {path: _read_file(path) for path in sorted(folder.glob("*.py")) if path.name[0] not in "_."}
    except _WritableByOthers as error:
        return LoadedFolder(refusal_reason=f"TOOLS_DIR is not loaded: {error}")
    except OSError as error:
        return LoadedFolder(
            refusal_reason=f"TOOLS_DIR is not loaded: {error.filename} cannot be read ({error.strerror})."
        )
    troubles = find_unloadable_files(texts, load_seconds)
    files = [
        LoadedFile(path.name, trouble=troubles[path])
        if path in troubles
        else _load_file(path, text, builtin_tools)
        for path, text in texts.items()
    ]
    return LoadedFolder(tuple(files))


def _check_parents(folder: Path) -> None:
    """Refuse a folder that others could replace; in a sticky folder above it only owners can."""
    for parent in folder.resolve().parents:
        mode = parent.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise _WritableByOthers(
                f"others may write to {parent}, and so replace what is in it. Say `chmod go-w {parent}`."
            )


def _read_file(path: Path) -> bytes:
    """The content of a file, read from the very file whose permissions were checked."""
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
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102  # who may write here is trusted
    except BaseException as error:  # noqa: BLE001  # a file may raise anything, this is no main thread
        del sys.modules[module.__name__]
        return LoadedFile(path.name, trouble=_format_error(path, error).replace(module.__name__, path.stem))
    defined = [
        value for value in vars(module).values() if isinstance(value, Tool) and value not in builtin_tools
    ]
    if not defined:
        return LoadedFile(path.name, trouble=f"{path.name}: {NO_TOOLS}")
    loop_thread = LoopThread(path.name)
    tools = [
        replace(tool, source=path.name, address=path.name, function=loop_thread.wrap(tool.function))
        for tool in dict.fromkeys(defined)
    ]
    return LoadedFile(path.name, tuple(tools))


def _format_error(path: Path, error: BaseException) -> str:
    """What went wrong, and at which line of the file."""
    parts = [path.name]
    if line := _find_line(path, error):
        parts = [f"{path.name}, line {line}"]
    parts.append(type(error).__name__)
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    if text := " ".join(message.split())[:MAX_ERROR_CHARS]:
        parts.append(text)
    return ": ".join(parts)


def _find_line(path: Path, error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(path):
            return frame.lineno
    return None

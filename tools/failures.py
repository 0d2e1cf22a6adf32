"""Describes an error that a tool raised, for the author of the tool: type, message and line. Pure."""

import os
import sysconfig
import traceback
from pathlib import Path

MAX_MESSAGE_CHARS = 300

_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_OWN_PACKAGES = tuple(f"{Path(__file__).parents[1] / name}{os.sep}" for name in ("tools", "bot"))


def describe_failure(error: BaseException) -> str:
    """The error, and the innermost line that its author wrote: `KeyError: 'x' (a.py, line 12, in get_it)`."""
    message = " ".join(str(error).split())[:MAX_MESSAGE_CHARS]
    description = f"{type(error).__name__}: {message}".removesuffix(": ")
    all_frames = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in all_frames if _is_authors(frame.filename)] or all_frames
    if not frames:
        return description
    return f"{description} ({Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name})"


def _is_authors(filename: str) -> bool:
    return not filename.startswith((*_LIBRARIES, *_OWN_PACKAGES, "<"))

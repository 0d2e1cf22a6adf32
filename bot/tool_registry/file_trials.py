"""Finds files of TOOLS_DIR that take forever to load, or end the process, with one that can be killed.

Nothing in this process could stop them: neither a thread nor what holds the interpreter's lock.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHILD_SCRIPT = Path(__file__).with_name("load_child.py")
LOAD_SECONDS = 10.0  # that one file may take
_GRACE_SECONDS = 10.0  # more for the process itself


def find_unloadable_files(files: Mapping[Path, bytes], seconds: float = LOAD_SECONDS) -> dict[Path, str]:
    """Why files cannot be loaded, by path; the others can, or raise an error. Blocks while they load."""
    troubles = {}
    waiting = list(files)
    while waiting:
        loaded_count, last_words = _load(waiting, files, seconds)
        if loaded_count >= len(waiting):
            break
        path = waiting[loaded_count]
        troubles[path] = _describe(path, last_words, seconds)
        waiting = waiting[loaded_count + 1 :]
    return troubles


def _load(paths: Sequence[Path], files: Mapping[Path, bytes], seconds: float) -> tuple[int, str]:
    """How many files were loaded, and what the process said when it ended before."""
    texts = [(str(path), files[path].decode("latin-1")) for path in paths]
    request = json.dumps({"path": sys.path, "seconds": seconds, "files": texts}).encode()
    process = subprocess.Popen(  # noqa: S603  # our own script, with the environment that tools may read
        [sys.executable, "-I", "-S", "-B", str(CHILD_SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(request, timeout=seconds * len(paths) + _GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        output = b""
    finally:
        _kill_group(process)
    text = output.decode("utf-8", "replace")
    last_words = text.lstrip(".")
    return len(text) - len(last_words), last_words


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with all that a file has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _describe(path: Path, last_words: str, seconds: float) -> str:
    place = path.name
    if line := re.search(rf'File "{re.escape(str(path))}", line (\d+)', last_words):
        place = f"{path.name}, line {line[1]}"
    if last_words:
        return f"{place}: it took longer than {seconds:g} s to load"
    return f"{place}: it ended the process that loaded it"

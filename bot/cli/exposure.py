"""What others on this machine could read of the settings, such as the token and SECRETS_KEY."""

import contextlib
import ctypes
import stat
from pathlib import Path

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Let only root read this process's environment and memory: programs of MCP servers are of its user.

    Linux alone has this.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def describe_open_file(env_file: Path) -> str | None:
    """Say that other users can read or write the settings file; None: they cannot, or there is none."""
    if not env_file.is_file():
        return None
    mode = stat.S_IMODE(env_file.stat().st_mode)
    if not mode & 0o077:
        return None
    return f"{env_file} has mode {mode:04o}, so others can read its keys. Mend it: chmod 600 {env_file}"

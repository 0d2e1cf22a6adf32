"""Tells which version and commit of Canvasgram this is."""

import importlib.metadata
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_COMMIT_FILE = _ROOT / "bot/commit.txt"  # written where a release is built
_GIT = ("git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD")


def describe_version() -> str:
    """The version with its commit, such as `1.0.0 (3fa2b1c90d4e)`; without it where nobody can tell."""
    version = importlib.metadata.version("canvasgram")
    commit = _find_commit()
    return f"{version} ({commit})" if commit else version


def _find_commit() -> str:
    if _COMMIT_FILE.exists():
        return _COMMIT_FILE.read_text(encoding="ascii").strip()
    if not (_ROOT / ".git").exists():  # a repository around it is not this one
        return ""
    try:
        found = subprocess.run(_GIT, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603  # a constant
    except (OSError, subprocess.SubprocessError):  # no git, or it refuses the folder of somebody else
        return ""
    return found.stdout.strip()

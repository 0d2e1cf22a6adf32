"""Writes settings into a `.env` file: whole or not at all, for its owner alone, other lines unchanged.

Not by python-dotenv's `set_key`: that writes one name at a time, keeps the mode of an existing file, does not
sync it to the disk, and drops empty lines above a setting it changes.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from bot.errors import SettingsRefused
from bot.settings import format_example

_UNQUOTED = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")


def write_settings(path: Path, values: Mapping[str, str]) -> None:
    """Set these names in the file at `path` (mode 0600): in place where they stand, else at its end.

    Raises SettingsRefused.
    """
    path = path.resolve()  # a link stays a link
    try:
        _write_atomically(path, "".join(_build_lines(path, values)))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsRefused(
            f"{path} cannot be written ({error}). Example: run setup in a folder of your own"
        ) from None


def _build_lines(path: Path, values: Mapping[str, str]) -> list[str]:
    missing = dict(values)
    lines = []
    for statement in _parse_statements(path):
        name = statement.key
        text = statement.original.string
        if name not in values:
            lines.append(text)
        elif name in missing:
            margin = text[: len(text) - len(text.lstrip())]  # empty lines above belong to the statement
            lines.append(margin + _format_assignment(name, missing.pop(name)))
    if lines and missing and not lines[-1].endswith("\n"):
        lines.append("\n")
    return [*lines, *(_format_assignment(name, value) for name, value in missing.items())]


def _parse_statements(path: Path) -> list[Binding]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(parse_stream(file))


def _format_assignment(name: str, value: str) -> str:
    if "${" in value or not value.isprintable():
        example = format_example(name.lower())
        raise SettingsRefused(f"{name} may not hold `${{` or line breaks in a .env file. Example: {example}")
    if not _UNQUOTED.fullmatch(value):
        value = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{name}={value}\n"


def _write_atomically(path: Path, text: str) -> None:
    descriptor, temporary_name = tempfile.mkstemp(prefix=".env-", dir=path.parent)  # mode 0600
    temporary_file = Path(temporary_name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary_file.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary_file.unlink()
        raise

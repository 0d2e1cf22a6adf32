"""The files that the tools of a turn send to the person: how many there may be, and what the model reads."""

from collections.abc import Sequence

from bot.agent.sanitize import to_sendable
from bot.attachments.outgoing_files import prepare_file
from bot.domain import OutgoingFile
from tools.base import File

MAX_TURN_FILES = 10
MAX_TURN_BYTES = 100 << 20


class FileAllowance:
    """What a turn may still send; `count` files are stored or about to be."""

    def __init__(self) -> None:
        self.count = 0
        self._bytes = 0

    def count_stored(self, files: Sequence[OutgoingFile]) -> None:
        """Count files that an earlier attempt at the turn stored."""
        for file in files:
            self._spend(file)

    def take(self, files: Sequence[File]) -> tuple[tuple[OutgoingFile, ...], list[str]]:
        """The files that will be sent, and a line for the model about each, sent or not."""
        taken = []
        lines = []
        for file in files[:MAX_TURN_FILES]:
            prepared = prepare_file(file.name, file.data, to_sendable(file.caption), file.media_type)
            described = f"{prepared.name}, {describe_size(prepared.size)}"
            refusal = self._find_refusal(prepared)
            if refusal is not None:
                lines.append(f"not sent: {described} ({refusal})")
                continue
            self._spend(prepared)
            taken.append(prepared)
            lines.append(_describe(prepared, described))
        if len(files) > MAX_TURN_FILES:
            lines.append(f"not sent: {len(files) - MAX_TURN_FILES} more files")
        return tuple(taken), lines

    def _find_refusal(self, file: OutgoingFile) -> str | None:
        if not file.size:
            return "it is empty"
        if self.count == MAX_TURN_FILES:
            return f"an answer brings at most {MAX_TURN_FILES} files"
        if self._bytes + _count_bytes(file) > MAX_TURN_BYTES:
            return f"the files of an answer have at most {describe_size(MAX_TURN_BYTES)}"
        return None

    def _spend(self, file: OutgoingFile) -> None:
        self.count += 1
        self._bytes += _count_bytes(file)


def describe_size(size: int) -> str:
    """A number of bytes as the model reads it, such as `48 KB`."""
    if size < 1024:
        return f"{size} B"
    if size < 1 << 20:
        return f"{round(size / 1024)} KB"
    return f"{size / (1 << 20):.1f} MB".replace(".0 MB", " MB")


def _describe(file: OutgoingFile, described: str) -> str:
    if file.kind == "too_large":
        return f"not sent: {described} (too large for Telegram; the person is told)"
    return f"sent to the person: {described}"


def _count_bytes(file: OutgoingFile) -> int:
    """The bytes that are stored: none of a file that is too large."""
    return 0 if file.kind == "too_large" else file.size

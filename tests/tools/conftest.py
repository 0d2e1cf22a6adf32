"""A context for tools: a fixed clock, notes and a past kept in lists."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tools.base import Note, Passage, ToolContext, ToolError
from tools.net import pages
from tools.sandbox.process import SandboxLimits


class InMemoryNotes:
    """Notes of one chat in memory, at most two of them."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    async def add(self, text: str) -> int:
        if len(self.notes) == 2:
            raise ToolError("There is no room for another note; /notes deletes one.")
        self.notes.append(Note(len(self.notes) + 1, text, "Ann", date(2026, 11, 20)))
        return len(self.notes)

    async def all(self) -> list[Note]:
        return list(self.notes)


class InMemoryPast:
    """A past of two passages, found by the words they contain."""

    def __init__(self) -> None:
        self.passages = [
            Passage("the user", date(2026, 11, 18), "The locker code is 4711."),
            Passage("document lease.pdf", date(2026, 11, 19), "… the code of the door …"),
        ]

    async def find(self, words: str) -> list[Passage]:
        return [passage for passage in self.passages if words in passage.text]

    async def result(self, number: int) -> str | None:
        if number == 12:
            return "0123456789" * 2000
        return None


@pytest.fixture
def extracted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extract in this process, which imports only once what each in the sandbox imports again."""

    async def run_here(function: Callable[..., Any], body: bytes, _: SandboxLimits, **options: Any) -> Any:
        return function(body, **options)

    monkeypatch.setattr(pages, "run_in_sandbox", run_here)


@pytest.fixture
def context() -> ToolContext:
    return build_context()


async def find_time() -> datetime:
    return datetime(2026, 11, 20, 10, 30, 5, tzinfo=UTC)


def build_context() -> ToolContext:
    return ToolContext(
        chat="chat-1",
        person="Ann",
        person_id=7,
        call_id="call-1",
        notes=InMemoryNotes(),
        past=InMemoryPast(),
        now=find_time,
        key="key-1",
    )

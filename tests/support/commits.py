"""A commit listener that keeps what it hears."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.domain import Changes, Lane


@dataclass
class CommitRecord:
    """`lanes` and `shares` in the order in which they were noted; the counts are of commits."""

    lanes: list[Lane] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)
    inbox_count: int = 0
    due_times_count: int = 0
    questions_count: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def build_notifications(self, changes: Changes) -> Sequence[str]:
        return ()

    def note_commit(self, changes: Changes) -> None:
        self.lanes += changes.outbox_lanes
        self.shares += sorted(changes.inbox_shares)
        self.inbox_count += bool(changes.inbox_shares)
        self.due_times_count += changes.has_due_times
        self.questions_count += changes.has_questions
        self.changed.set()

    def clear(self) -> None:
        """Forget what was heard up to now."""
        self.lanes.clear()
        self.shares.clear()
        self.inbox_count = 0
        self.due_times_count = 0
        self.questions_count = 0
        self.changed.clear()

"""A journal by message, mark, row and number, so that the judge can ask it. Pure."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from bot.db.queues.outbox import SENT_AGAIN_TEXT, UNSURE_TEXT
from tests.chaos.journal import (
    Disturbance,
    InboxRow,
    Journal,
    OutboxPart,
    SeenMessage,
    TurnRow,
    WrittenRequest,
)
from tests.chaos.marks import read_marks

NEAR_SECONDS = 5.0
MAX_NEAR = 3
UNSETTLED_STATES = frozenset({"new", "sending", "open"})

Place = tuple[int, int]
"""A message and an offset in its text."""


@dataclass(frozen=True)
class JournalIndex:
    """Looks up what belongs together."""

    journal: Journal

    @cached_property
    def messages(self) -> dict[int, SeenMessage]:
        """The visible messages by id."""
        return {message.message_id: message for message in self.journal.messages}

    @cached_property
    def places(self) -> dict[tuple[int, str], list[Place]]:
        """Where a mark is seen in a chat, in order."""
        places = defaultdict[tuple[int, str], list[Place]](list)
        for message in sorted(self.journal.messages, key=lambda message: message.message_id):
            for mark in read_marks(message.text):
                places[message.chat, mark.word].append((message.message_id, mark.offset))
        return places

    @cached_property
    def parts_by_word(self) -> dict[tuple[int, str], list[OutboxPart]]:
        """The rows of the outbox that have a mark, by chat."""
        parts = defaultdict[tuple[int, str], list[OutboxPart]](list)
        for part in self.journal.outbox:
            for word in dict.fromkeys(mark.word for mark in read_marks(part.text or "")):
                parts[part.chat, word].append(part)
        return parts

    @cached_property
    def parts_by_message(self) -> dict[int, OutboxPart]:
        """The row that a message was sent for; none where the outcome is unknown."""
        return {part.message_id: part for part in self.journal.outbox if part.message_id is not None}

    @cached_property
    def parts_by_item(self) -> dict[int, list[OutboxPart]]:
        parts = defaultdict[int, list[OutboxPart]](list)
        for part in self.journal.outbox:
            if part.item is not None:
                parts[part.item].append(part)
        return parts

    @cached_property
    def questions(self) -> dict[int, OutboxPart]:
        """The question about a row of unknown outcome, by that row."""
        return {
            part.about: part
            for part in self.journal.outbox
            if part.about is not None and part.about != part.id
        }

    @cached_property
    def items_by_update(self) -> dict[int, InboxRow]:
        return {row.update_id: row for row in self.journal.inbox if row.update_id is not None}

    @cached_property
    def turns(self) -> dict[int, TurnRow]:
        return {turn.id: turn for turn in self.journal.turns}

    @cached_property
    def tapped_data(self) -> frozenset[str]:
        return frozenset(tap.data for tap in self.journal.taps)

    @cached_property
    def asked_turns(self) -> frozenset[int]:
        """The turns in which a person was asked about a call."""
        return frozenset(run.turn for run in self.journal.tool_runs if run.was_asked)

    @cached_property
    def chats(self) -> frozenset[int]:
        """The chats in which people wrote."""
        return frozenset(request.chat for request in self.journal.requests)

    @cached_property
    def jobs(self) -> frozenset[int]:
        """The numbers of the messages that something is to be done later for."""
        return frozenset(job.number for job in self.journal.jobs)

    @cached_property
    def requests(self) -> dict[int, WrittenRequest]:
        return {request.number: request for request in self.journal.requests}

    def find_turn(self, item: InboxRow | None) -> TurnRow | None:
        """The turn that an inbox row belongs to."""
        if item is None or item.turn is None:
            return None
        return self.turns.get(item.turn)

    def list_parts(self, item: InboxRow) -> list[OutboxPart]:
        """The rows of the outbox that answer an inbox row, or the turn that it is part of."""
        turn = self.find_turn(item)
        return self.parts_by_item[item.id] or (self.parts_by_item[turn.item] if turn else [])

    def list_notices(self, item: InboxRow) -> list[OutboxPart]:
        """What was said to its chat about an item in the moment in which it was set aside.

        Messages that were to be answered together are set aside together, and one notice says so.
        """
        together = {
            row.id for row in self.journal.inbox if row.done_at == item.done_at and row.lane == item.lane
        }
        return [part for number in together for part in self.parts_by_item[number]]

    def is_said(self, part: OutboxPart) -> bool:
        """Whether the chat shows a question about this row of unknown outcome, or that it was sent again."""
        question = self.questions.get(part.id)
        if question is None or question.message_id is None:
            return False
        message = self.messages.get(question.message_id)
        return message is not None and message.text in {UNSURE_TEXT, SENT_AGAIN_TEXT}

    def is_shown(self, part: OutboxPart) -> bool:
        """Whether the chat shows a message that is known to be this row's."""
        return part.message_id in self.messages

    def describe_near(self, chat: int, moment: float) -> str:
        """What was done to the gateway around a moment, the nearest first."""
        near = sorted(
            (_distance(disturbance, moment), disturbance.name)
            for disturbance in self.journal.disturbances
            if disturbance.chat in (0, chat) and _distance(disturbance, moment) <= NEAR_SECONDS
        )
        texts = [f"{name} {seconds:.1f} s away" for seconds, name in near[:MAX_NEAR]]
        return ", ".join(texts) or "nothing was done to it then"

    def has_near(self, chat: int, moment: float, word: str) -> bool:
        """Whether something with this word in its name was done around a moment."""
        return any(
            word in disturbance.name and disturbance.chat in (0, chat)
            for disturbance in self.journal.disturbances
            if _distance(disturbance, moment) <= NEAR_SECONDS
        )

    def has_between(self, since: float, until: float, word: str) -> bool:
        """Whether something with this word in its name was done for all chats between two moments."""
        return any(
            word in disturbance.name and disturbance.chat == 0
            for disturbance in self.journal.disturbances
            if disturbance.started_at <= until and disturbance.ended_at >= since
        )


def _distance(disturbance: Disturbance, moment: float) -> float:
    """Seconds between a moment and what was done."""
    return max(disturbance.started_at - moment, moment - disturbance.ended_at, 0.0)

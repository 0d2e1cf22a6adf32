"""A row of the outbox as a value: what the sender needs of it, and how a Part is stored as text. Pure."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Row

from bot.db.tables import outbox
from bot.domain import Button, Lane, Part


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row as the sender needs it.

    `body` None: taken back. `is_notice`: it answers no item, and nobody is asked about it if it gets lost.
    `can_repeat`: a question to a person, which is better sent twice than never. `has_more`: other rows of
    the lane were due when this one was taken.
    """

    id: int
    lane: Lane
    reply_to: int | None
    body: Part | None
    final: bool
    state: str
    message_id: int | None
    is_notice: bool
    can_repeat: bool = False
    has_more: bool = False


OUTBOX_COLUMNS = (
    outbox.c.id,
    outbox.c.lane,
    outbox.c.reply_to,
    outbox.c.body,
    outbox.c.final,
    outbox.c.state,
    outbox.c.message_id,
    outbox.c.item,
    outbox.c.copy_of,
    outbox.c.about,
)
"""The columns `to_outbox_row` needs."""


def to_outbox_row(row: Row[Any], *, has_more: bool = False) -> OutboxRow:
    """Convert a row that was selected or returned with OUTBOX_COLUMNS."""
    return OutboxRow(
        id=row.id,
        lane=Lane.parse(row.lane),
        reply_to=row.reply_to,
        body=_parse_part(row.body),
        final=row.final,
        state=row.state,
        message_id=row.message_id,
        is_notice=row.item is None and row.copy_of is None,
        can_repeat=row.about is not None,
        has_more=has_more,
    )


def serialize_part(part: Part | None) -> str | None:
    """A part as JSON; None, a body that was taken back, stays None."""
    if part is None:
        return None
    fields = asdict(part)
    if part.kind == "text":
        del fields["kind"]  # as it was stored before there were others: bodies are compared
    if not part.secret:
        del fields["secret"]
    return json.dumps(fields, ensure_ascii=False)


def _parse_part(text: str | None) -> Part | None:
    if text is None:
        return None
    stored = json.loads(text)
    return Part(
        text=stored["text"],
        entities=tuple(stored["entities"]),
        buttons=tuple(tuple(Button(**button) for button in row) for row in stored["buttons"]),
        silent=stored["silent"],
        kind=stored.get("kind", "text"),
        secret=stored.get("secret", ""),
    )


def hide_secret(part: Part) -> Part:
    """The part without its secret; entities keep their places."""
    return replace(part, text=part.text.replace(part.secret, "•" * len(part.secret)), secret="")

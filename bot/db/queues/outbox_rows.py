"""A row of the outbox as a value: what the sender needs of it, and how a Part is kept as text.

Pure; used by the outbox alone.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Row

from bot.db.tables import outbox
from bot.domain import Button, Lane, Part

MOST_TRIES = 20  # times a question is sent while its outcome stays unknown: some minutes at least


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A row as the sender sees it; `body` None: taken back. Nobody is asked about a notice that got lost.

    `may_repeat`: a question of ours, which rather comes twice than never. `more`: other rows of the lane were
    due when this one was taken.
    """

    id: int
    lane: Lane
    reply_to: int | None
    body: Part | None
    final: bool
    state: str
    message_id: int | None
    is_notice: bool
    may_repeat: bool = False
    more: bool = False


SEEN = (
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
    outbox.c.tries,
)
"""The columns `read` needs."""


def read(row: Row[Any], *, more: bool = False) -> Outgoing:
    """A row that was selected or returned with `SEEN`."""
    return Outgoing(
        id=row.id,
        lane=Lane.parse(row.lane),
        reply_to=row.reply_to,
        body=None if row.body is None else _part(row.body),
        final=row.final,
        state=row.state,
        message_id=row.message_id,
        is_notice=row.item is None and row.copy_of is None,
        may_repeat=row.about is not None and row.tries < MOST_TRIES,
        more=more,
    )


def written(part: Part | None) -> str | None:
    """A part as it is stored."""
    if part is None:
        return None
    return json.dumps(asdict(part), ensure_ascii=False)


def _part(text: str) -> Part:
    stored = json.loads(text)
    return Part(
        text=stored["text"],
        entities=tuple(stored["entities"]),
        buttons=tuple(tuple(Button(**button) for button in row) for row in stored["buttons"]),
        silent=stored["silent"],
    )

"""Finds what an edit of a message changes, and applies edits to messages that came in the same batch. Pure.

A message that waits is answered as it reads now; one that is being answered, or was, stays as it is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bot.db.queues.inbox import TURN_SHAPES, IncomingUpdate


def fold_edits(updates: Sequence[IncomingUpdate]) -> list[IncomingUpdate]:
    """Give messages of a batch their newest text; nothing is left to be done about such an edit."""
    folded = list(updates)
    positions = {
        (update.lane, update.message_id): position
        for position, update in enumerate(updates)
        if update.shape in TURN_SHAPES and update.lane is not None
    }
    for position, update in enumerate(updates):
        edit = update.edit
        target = None if edit is None else positions.get((edit.lane, edit.message_id))
        if edit is not None and target is not None and folded[target].shape == edit.shape:
            folded[target] = replace(folded[target], body=edit.body)
            folded[position] = replace(update, shape="other", edit=None)
    return folded


def has_new_text(edited: dict[str, Any], original: dict[str, Any]) -> bool:
    """Whether a raw message reads differently now; Telegram also reports edits that change no text."""
    return any(edited.get(key) != original.get(key) for key in ("text", "caption"))

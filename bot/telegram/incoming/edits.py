"""Finds what an edit of a message changes, and applies those that came in the same batch. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from bot.db.queues.inbox import STALE_SECONDS, TURN_SHAPES
from bot.db.queues.incoming_updates import IncomingUpdate, MessageEdit
from bot.domain import Lane

EDIT_HOLD_SECONDS = 3.0  # who corrects a message often does so twice

_FILE_KINDS = ("photo", "animation", "video", "voice", "video_note", "audio", "document")


def fold_edits(updates: Sequence[IncomingUpdate]) -> list[IncomingUpdate]:
    """Give messages of a batch their newest text; nothing is left to be done about such an edit.

    Of several edits of one message only the newest is left.
    """
    folded = list(updates)
    newest = {
        (update.edit.lane, update.edit.message_id): position
        for position, update in enumerate(updates)
        if update.edit is not None
    }
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
        elif edit is not None and newest[edit.lane, edit.message_id] != position:
            folded[position] = replace(update, shape="other", edit=None)
    return folded


def judge_group_edits(
    updates: Sequence[IncomingUpdate],
    known: Collection[tuple[Lane, int]],
    now: float,
    *,
    hold_seconds: float = EDIT_HOLD_SECONDS,
) -> list[IncomingUpdate]:
    """Return the updates that concern the assistant, judging edits by what was asked in groups before.

    `known`: the messages among the edited ones that it was sent. An edit of one concerns it, also if the
    message no longer addresses it; one that makes a recent message address it is a new message, which waits
    `hold_seconds`.
    """
    judged = list[IncomingUpdate]()
    for update in updates:
        edit = update.edit
        if edit is not None and (edit.lane, edit.message_id) in known:
            judged.append(replace(update, is_for_others=False))
        elif update.is_for_others:
            continue
        elif edit is None or not edit.lane.is_group:
            judged.append(update)
        elif edit.shape == "text" and now - edit.sent_at <= STALE_SECONDS:
            judged.append(_to_message(update, edit, not_before=now + hold_seconds))
    return judged


def _to_message(update: IncomingUpdate, edit: MessageEdit, *, not_before: float) -> IncomingUpdate:
    """Return an edit as the message that it leaves."""
    return replace(
        update,
        shape=edit.shape,
        lane=edit.lane,
        body=edit.body,
        message_id=edit.message_id,
        not_before=not_before,
        edit=None,
        is_edited_question=True,
    )


def has_new_content(edited: dict[str, Any], original: dict[str, Any]) -> bool:
    """Whether a raw message says something else now; Telegram also reports edits that change nothing."""
    has_new_text = any(edited.get(key) != original.get(key) for key in ("text", "caption"))
    return has_new_text or _find_file(edited) != _find_file(original)


def _find_file(message: dict[str, Any]) -> str | None:
    """What came with a message, as Telegram names the same file for ever; its `file_id` changes."""
    for kind in _FILE_KINDS:
        file = message.get(kind)
        if isinstance(file, list) and file:
            file = file[-1]
        if isinstance(file, dict) and isinstance(file.get("file_unique_id"), str):
            return str(file["file_unique_id"])
    return None

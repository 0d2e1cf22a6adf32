"""Takes what people write as the answer to what the model has asked them."""

from collections.abc import Sequence
from typing import Any

from bot.chat.message_turns import find_own_words
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tools import approvals as approval_rows
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.telegram.incoming.group_address import find_reply_target
from bot.telegram.incoming.prompt_text import extract_text
from bot.telegram.incoming.update import ParsedUpdate
from bot.turns import Approvals
from tools.builtin.ask import ask


async def take_answer(
    database: Database, approvals: Approvals, updates: Sequence[ParsedUpdate], lane: Lane, *, now: float
) -> bool:
    """Take messages as the answer to the question that is open here; False: they are a request.

    Those that are more than words end the wait, and are answered after it.
    """
    if not approvals.may_have_open or updates[0].item.has_turn:
        return False
    async with database.read_transaction() as tx:
        question = await _find_question(tx, updates[0], lane, now)
    if question is None:
        return False
    ids = [update.item.id for update in updates]
    texts = [find_plain_words(update.item.body["message"]) for update in updates]
    async with database.transaction() as tx:
        await approval_rows.find(tx, question, to_answer=True)  # a tap at the same time waits
        if await _find_question(tx, updates[0], lane, now) != question:
            return False
        answerer = (updates[0].person or 0, updates[0].name)
        reply = "\n".join(texts) if all(texts) else None
        await approvals.answer(tx, question, "given", answerer, reply, now=now)
        if reply is None:
            await inbox.release(tx, ids)
        else:
            await inbox.mark_done(tx, ids, now=now)
    return True


async def _find_question(tx: Transaction, update: ParsedUpdate, lane: Lane, now: float) -> int | None:
    """The question that a message answers: in a group only a reply to it does, and no other reply."""
    message: dict[str, Any] = update.item.body["message"]
    if update.item.shape != "text" or update.person is None or extract_text(message).startswith("/"):
        return None
    asked = await approval_rows.find_asked(
        tx, lane, update.person, ask.name, received_at=update.item.received_at, now=now
    )
    if asked is None:
        return None
    question, question_message = asked
    target = find_reply_target(message)
    is_any_answer = not (target or lane.is_group or "external_reply" in message)
    if is_any_answer or target.get("message_id", 0) == question_message:
        return question
    return None


def find_plain_words(message: dict[str, Any]) -> str:
    """The text of a message, if all that came is what its sender wrote; else ""."""
    if "text" in message and find_own_words(message):
        return extract_text(message)
    return ""

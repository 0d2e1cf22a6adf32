"""The messages of a turn's answer as rows of the outbox: its text, then what files it brings."""

from dataclasses import dataclass

from bot.attachments.outgoing_files import plan_file_parts
from bot.db.queues import first_sends, outbox, outbox_files
from bot.db.transaction import Transaction
from bot.domain import FirstSend, Lane, OutgoingFile, Part
from bot.translations.translator import Translator
from bot.turns.file_allowance import MAX_TURN_FILES


@dataclass(frozen=True, slots=True)
class AnswerMessages:
    """What a turn that ends has to say, and where.

    `item`: the turn's first.
    `block_files`: of the answer's long blocks.
    `tool_file_count`: how many files tools returned, which are stored with the turn.
    """

    turn: int
    item: int
    lane: Lane
    reply_to: int | None
    translate: Translator
    parts: tuple[Part, ...]
    block_files: tuple[OutgoingFile, ...]
    tool_file_count: int


async def store_messages(
    tx: Transaction, answer: AnswerMessages, first_send: FirstSend | None, *, now: float
) -> None:
    """Store what is to be sent; the first message as taken, if `first_send` can make that call."""
    parts = answer.parts
    row = None
    if first_send is not None and parts:
        row = await first_sends.add_taken(
            tx, parts[0], item=answer.item, lane=answer.lane, reply_to=answer.reply_to, now=now
        )
    if row is None or len(parts) > 1:
        await outbox.add(
            tx, item=answer.item, lane=answer.lane, parts=parts, reply_to=answer.reply_to, now=now
        )
    has_files = await _store_files(tx, answer, now=now)
    if first_send is not None and row is not None:
        first_send.take(row, parts[0], has_more=has_files or len(parts) > 1)


async def _store_files(tx: Transaction, answer: AnswerMessages, *, now: float) -> bool:
    """Store the messages that bring files; False if there are none."""
    block_files = answer.block_files[: MAX_TURN_FILES - answer.tool_file_count]
    if not (answer.tool_file_count or block_files):
        return False
    await outbox_files.store(tx, block_files, turn=answer.turn, now=now)
    files = await outbox_files.load_waiting(tx, answer.turn)
    file_parts = plan_file_parts(files, answer.translate)
    await outbox_files.add_parts(tx, file_parts, item=answer.item, lane=answer.lane, now=now)
    return True

"""The messages of a turn's answer as rows of the outbox: its text, then what files it brings."""

from dataclasses import dataclass

from bot.attachments.outgoing_files import plan_file_parts
from bot.db.queues import first_sends, outbox, outbox_files
from bot.db.transaction import Transaction
from bot.domain import FirstSend, OutgoingFile, Part
from bot.turns.file_allowance import MAX_TURN_FILES
from bot.turns.turn_request import TurnRequest


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """How a turn ends, and what is sent of it.

    `block_files`: what is longer than a message. `tool_file_count`: how many files tools returned, which are
    stored with the turn. `is_whole`: it is an answer, and all of it.
    """

    ending: str
    parts: tuple[Part, ...] = ()
    block_files: tuple[OutgoingFile, ...] = ()
    tool_file_count: int = 0
    is_whole: bool = False


async def store_messages(
    tx: Transaction,
    turn: int,
    request: TurnRequest,
    answer: TurnAnswer,
    first_send: FirstSend | None,
    *,
    now: float,
) -> None:
    """Store what is to be sent; the first message as taken, if `first_send` can make that call."""
    lane = request.lane
    item = request.items[0].id
    parts = answer.parts
    row = None
    if first_send is not None and parts:
        row = await first_sends.add_taken(
            tx, parts[0], item=item, lane=lane, reply_to=request.reply_to, now=now
        )
    if row is None or len(parts) > 1:
        await outbox.add(tx, item=item, lane=lane, parts=parts, reply_to=request.reply_to, now=now)
    files = await _store_files(tx, turn, answer, now=now)
    await outbox_files.add_parts(tx, plan_file_parts(files, request.translate), item=item, lane=lane, now=now)
    if first_send is not None and row is not None:
        first_send.take(row, parts[0], has_more=bool(files) or len(parts) > 1)


async def _store_files(
    tx: Transaction, turn: int, answer: TurnAnswer, *, now: float
) -> tuple[OutgoingFile, ...]:
    """Store the files of long blocks; returns all that the answer brings."""
    block_files = answer.block_files[: MAX_TURN_FILES - answer.tool_file_count]
    if not (answer.tool_file_count or block_files):
        return ()
    await outbox_files.store(tx, block_files, turn=turn, now=now)
    return await outbox_files.load_waiting(tx, turn)

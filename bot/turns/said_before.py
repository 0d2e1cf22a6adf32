"""What people of a group said to each other before a question, in front of it as text of others.

It is part of the question's user message, so that nothing of the prompt before it changes, and the turn is
planned with it. It leaves the table in the transaction that opens the turn; if it has changed by then, by an
edit or because somebody had it deleted, the turn is planned again.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from bot.agent.prompt import DATA_END, build_data_block
from bot.db.conversations import turns
from bot.db.people import group_texts
from bot.db.people.group_texts import MAX_BYTES, StoredText
from bot.db.transaction import Transaction
from bot.turns.turn_request import TurnRequest

LABEL = "said before, not to you"
_BEGINNING = f"[data: {LABEL}]\n"


async def load_texts(tx: Transaction, request: TurnRequest, *, now: float) -> tuple[StoredText, ...]:
    """Return what was said before the question of a request; nothing in a private chat."""
    if not request.lane.is_group or request.message_id is None:
        return ()
    return await group_texts.load(tx, request.lane, before_message=request.message_id, now=now)


async def load_earlier_block(tx: Transaction, request: TurnRequest) -> str:
    """Return the block that stood in front of a question before it was edited; "" if there was none."""
    if request.revised_turn is None or not request.speaker:
        return ""
    messages = (await turns.load_messages(tx, [request.revised_turn]))[0]
    first_text = messages[0].text if messages else ""
    # What a person wrote cannot be taken for it: their name stands in front of that.
    if not first_text.startswith(_BEGINNING) or DATA_END not in first_text:
        return ""
    return first_text[: first_text.index(DATA_END) + len(DATA_END)]


def strip_block(text: str) -> str:
    """A user's message without what others had said to each other before it."""
    if not text.startswith(_BEGINNING):
        return text
    return text.partition(DATA_END)[2].lstrip("\n")


def build_block(texts: Sequence[StoredText], zone: tzinfo) -> str:
    """Build the block of these texts, each with its sender and time, without the oldest if it is too long."""
    lines = [_format_line(text, zone) for text in texts]
    while lines:
        block = build_data_block(LABEL, "\n".join(lines))
        if len(block.encode()) <= MAX_BYTES:
            return block
        lines = lines[1:]
    return ""


def _format_line(text: StoredText, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(text.written_at, zone)
    return f"{text.name} ({moment:%a %H:%M}): {text.text}"

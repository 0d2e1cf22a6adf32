"""Judges a run by what the database says: unknown sends, what is not finished, failures. Pure."""

from collections.abc import Iterator

from bot.queue.dead_letters import DEAD_LETTER_NOTICE
from tests.chaos.anomaly import Anomaly
from tests.chaos.index import UNSETTLED_STATES, JournalIndex
from tests.chaos.journal import InboxRow, OutboxPart
from tests.chaos.marks import read_marks

DIED_TOO_OFTEN = "The process ended"


def judge_rows(index: JournalIndex) -> Iterator[Anomaly]:
    """What the rows show, and the processes that nobody ended."""
    for part in index.journal.outbox:
        yield from _judge_part(index, part)
    for row in index.journal.inbox:
        yield from _judge_item(index, row)
    for turn in index.journal.turns:
        if turn.state == "running":
            yield Anomaly("not finished", 0, f"turn {turn.id} is still running")
    for text in index.journal.leftovers:
        yield Anomaly("left behind", 0, text)
    for code in index.journal.exit_codes:
        yield Anomaly("ended by itself", 0, f"a gateway ended with code {code}, and nobody had ended it")


def _judge_part(index: JournalIndex, part: OutboxPart) -> Iterator[Anomaly]:
    near = index.describe_near(part.chat, part.made_at)
    what = f"row {part.id} ({_describe_text(part)})"
    if part.state in UNSETTLED_STATES:
        yield Anomaly("not finished", part.chat, f"{what} is still {part.state}; {near}")
    elif part.state == "failed":
        if index.has_near(part.chat, part.made_at, "refused") or "refused" in (part.error or ""):
            yield Anomaly("refused by Telegram", part.chat, f"{what}: {part.error}; {near}")
        else:
            yield Anomaly("failed without a cause", part.chat, f"{what}: {part.error}; {near}")
    elif part.state == "unknown" and part.is_final and part.text is not None:
        yield from _judge_unknown(index, part, f"{what}: {part.error}; {near}")


def _judge_unknown(index: JournalIndex, part: OutboxPart, what: str) -> Iterator[Anomaly]:
    """Whether the chat was asked about a send of unknown outcome."""
    has_arrived = any(
        message.chat == part.chat and message.text == part.text
        for message in index.journal.messages
        if message.message_id not in index.parts_by_message
    )
    if part.item is None and part.copy_of is None and part.chat not in index.chats:
        yield Anomaly("notice of unknown outcome", part.chat, f"{what}; nobody is asked in the admins' feed")
    elif not index.is_said(part):
        yield Anomaly("unknown not said", part.chat, what)
    elif has_arrived:
        yield Anomaly("unknown, said, had arrived", part.chat, what)
    else:
        yield Anomaly("unknown, said", part.chat, what)


def _judge_item(index: JournalIndex, row: InboxRow) -> Iterator[Anomaly]:
    chat = int(row.lane) if row.lane else 0
    what = f"inbox row {row.id}"
    if row.state == "dead" and row.update_id not in index.journal.odd_updates:
        notices = [part for part in index.list_notices(row) if part.text == DEAD_LETTER_NOTICE]
        is_said = any(index.is_shown(part) or index.is_said(part) for part in notices)
        is_by_kills = (row.error or "").startswith(DIED_TOO_OFTEN)
        if is_by_kills and is_said:
            yield Anomaly("set aside, said", chat, f"{what}: {row.error}")
        else:
            yield Anomaly("failed without a cause", chat, f"{what} was set aside: {row.error}")
    elif row.state not in {"done", "dead"}:
        yield Anomaly("not finished", chat, f"{what} is still {row.state}")


def _describe_text(part: OutboxPart) -> str:
    words = [mark.word for mark in read_marks(part.text or "")]
    if words:
        return " … ".join(dict.fromkeys([words[0], words[-1]]))
    return repr((part.text or "")[:40])

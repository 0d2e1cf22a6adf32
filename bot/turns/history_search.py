"""Search in a chat's conversation, for tools: the newest messages and documents, ranked by words.

Plain rows, ranked when asked: an index of SQLite's own (FTS5) would double what is stored, knows English
endings only, and finds no Chinese word of two characters; a conversation is small enough to be read in some
hundredths of a second.
"""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

from bot.agent import text_search
from bot.db.conversations import calls, search
from bot.db.conversations.search import HistoryText
from bot.db.engine import Database
from bot.domain import Lane
from tools.base import Passage
from tools.builtin.look_back import look_back
from tools.threads import run_in_thread

MAX_CHARS = 3_000_000  # characters that are searched


class HistorySearch:
    """The history of one lane's current conversation."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane

    async def find(self, words: str) -> list[Passage]:
        """The few passages that match these words best, the best first."""
        async with self._database.long_read_transaction() as tx:
            documents = await search.load_documents(tx, self._lane)
            messages = await search.load_messages(tx, self._lane, excluded_tool=look_back.name)
        texts = select_newest([*documents, *messages])
        # Ranking takes too long for the event loop, and ends by itself.
        matches = await run_in_thread(text_search.find_passages, words, [text.text for text in texts])
        return [_to_passage(texts[match.text_index], match.passage) for match in matches]

    async def result(self, number: int) -> str | None:
        """A tool result of this conversation that was cut, as far as it is stored."""
        async with self._database.read_transaction() as tx:
            return await calls.load_whole_result(tx, self._lane, number)


def select_newest(texts: Sequence[HistoryText], max_chars: int = MAX_CHARS) -> list[HistoryText]:
    """The newest of these texts, as many as have at most `max_chars` together."""
    newest_first = sorted(texts, key=lambda text: -text.made_at)
    totals = itertools.accumulate(len(text.text) for text in newest_first)
    return [text for text, total in zip(newest_first, totals, strict=True) if total <= max_chars]


def _to_passage(text: HistoryText, passage: str) -> Passage:
    date = datetime.fromtimestamp(text.made_at, UTC).date()
    return Passage(text.source, date, passage)

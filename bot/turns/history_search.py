"""What a chat's conversation holds, as tools look back at it: the newest messages and documents, ranked by
words.

Plain rows, ranked when asked: an index of SQLite's own (FTS5) would double what is stored, knows English
endings only, and finds no Chinese word of two signs; a conversation is small enough to be read in some
hundredths of a second.
"""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

from bot.agent import text_search as finding
from bot.db.conversations import calls
from bot.db.conversations import search as past
from bot.db.conversations.search import HistoryText
from bot.db.engine import Database
from bot.domain import Lane
from tools.base import Passage
from tools.builtin.look_back import look_back
from tools.threads import run_in_thread

MAX_CHARS = 3_000_000  # characters that are looked through


class HistorySearch:
    """The past of one lane's current conversation."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane

    async def find(self, words: str) -> list[Passage]:
        """The few passages that fit these words best, the best first."""
        async with self._database.read_transaction() as tx:
            held = select_newest(
                [
                    *await past.load_documents(tx, self._lane),
                    *await past.load_messages(tx, self._lane, excluded_tool=look_back.name),
                ]
            )
        # Ranking takes too long for the event loop, and ends by itself.
        found = await run_in_thread(finding.find_passages, words, [one.text for one in held])
        return [_to_passage(held[one.text_index], one.passage) for one in found]

    async def result(self, number: int) -> str | None:
        """A tool's result of this conversation that was cut, as far as it is kept."""
        async with self._database.read_transaction() as tx:
            return await calls.load_whole_result(tx, self._lane, number)


def select_newest(utterances: Sequence[HistoryText], max_chars: int = MAX_CHARS) -> list[HistoryText]:
    """The newest of these texts, as many as have so many characters together."""
    newest = sorted(utterances, key=lambda one: -one.made_at)
    sizes = itertools.accumulate(len(one.text) for one in newest)
    return [one for one, size in zip(newest, sizes, strict=True) if size <= max_chars]


def _to_passage(utterance: HistoryText, text: str) -> Passage:
    when = datetime.fromtimestamp(utterance.made_at, UTC).date()
    return Passage(utterance.source, when, text)

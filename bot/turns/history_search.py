"""Search in all that was said in a chat, also before /new, and in the files it keeps, ranked by words.

Plain rows, ranked when asked: an index of SQLite's own (FTS5) would double what is stored, knows English
endings only, and finds no Chinese word of two characters; what people write is small enough to be read in a
tenth of a second.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime

from bot.agent.periods import find_day_span
from bot.agent.prompt import strip_data
from bot.agent.text_search import TextPassage, find_passages
from bot.attachments.excerpts import split_pages
from bot.db.conversations import calls, kept_files, search
from bot.db.conversations.kept_files import KeptText
from bot.db.conversations.search import HistoryText, SearchedPeriod
from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.domain import FilePage, Lane
from bot.turns.said_before import strip_block
from bot.turns.turn_request import strip_stamp
from tools.base import Passage
from tools.builtin.look_back import format_page, look_back
from tools.threads import run_in_thread

MAX_MESSAGE_CHARS = 5_000_000  # characters of messages that are searched
MAX_DOCUMENT_CHARS = 3_000_000  # of documents and results of tools
ZONE_SECONDS = 14 * 3600  # a day may have begun so much earlier where the person is, or end so much later


@dataclass(frozen=True, slots=True)
class FoundText:
    """A text of the chat, and the passage of it that matches."""

    text: HistoryText
    passage: str


class HistorySearch:
    """The history of one lane; `has_access`: the person who asks may read the owner's folder."""

    def __init__(self, database: Database, lane: Lane, *, has_access: bool = False) -> None:
        self._database = database
        self._lane = lane
        self._has_access = has_access

    async def find(self, words: str) -> list[Passage]:
        """The few passages that match these words best, the best first."""
        async with self._database.long_read_transaction() as tx:
            today = datetime.now(UTC).date()
            found = await find_texts(tx, self._lane, words, today, has_access=self._has_access)
        if used := {match.text.file for match in found if match.text.file is not None}:
            async with self._database.transaction(durable=False) as tx:
                await kept_files.mark_used(tx, list(used), now=time.time())
        return [_to_passage(match.text, match.passage) for match in found]

    async def result(self, number: int) -> str | None:
        """A tool result of this conversation that was cut, as far as it is stored."""
        async with self._database.read_transaction() as tx:
            return await calls.load_whole_result(tx, self._lane, number)


async def find_texts(
    tx: Transaction, lane: Lane, words: str, today: date, *, for_people: bool = False, has_access: bool
) -> list[FoundText]:
    """The few passages of a lane that match these words best; of the days that the words name, if any do.

    `for_people`: without results of tools, and as they were written. `has_access`: with the owner's folder.
    """
    kept = await load_kept_pages(tx, lane, has_access=has_access)
    if span := find_day_span(words, today):
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (span.start, span.end))
        period = SearchedPeriod(start.timestamp() - ZONE_SECONDS, end.timestamp() + ZONE_SECONDS)
        pages = [page for page in kept if period.start <= page.made_at < period.end]
        if found := await _rank_texts(tx, lane, span.rest, period, pages, for_people=for_people):
            return found
    return await _rank_texts(tx, lane, words, None, kept, for_people=for_people)


async def load_kept_pages(tx: Transaction, lane: Lane, *, has_access: bool) -> list[HistoryText]:
    """The pages of the newest files that a chat keeps, and of the owner's folder for those with access."""
    if lane.is_guest:
        return []
    texts = await kept_files.load_texts(tx, lane.chat, MAX_DOCUMENT_CHARS, has_access=has_access)
    return await run_in_thread(_split_files, texts)


def _split_files(texts: Iterable[KeptText]) -> list[HistoryText]:
    pages = list[HistoryText]()
    for kept in texts:
        for stored in split_pages(kept.text):
            page = FilePage(kept.name, stored.noun, stored.number)
            source = format_page(*astuple(page))
            pages.append(HistoryText(0, source, kept.kept_at, stored.text, kept.id, page))
    return pages


async def load_exchange(tx: Transaction, lane: Lane, turn: int) -> list[HistoryText]:
    """What was asked and answered in a turn, as it was written; empty where nothing of it may be found."""
    return [replace(text, text=_to_written(text.text)) for text in await search.load_exchange(tx, lane, turn)]


def select_newest(texts: Sequence[HistoryText], max_chars: int = MAX_DOCUMENT_CHARS) -> list[HistoryText]:
    """The newest of these texts, as many as have at most `max_chars` together."""
    newest_first = sorted(texts, key=lambda text: -text.made_at)
    totals = itertools.accumulate(len(text.text) for text in newest_first)
    return [text for text, total in zip(newest_first, totals, strict=True) if total <= max_chars]


async def _rank_texts(
    tx: Transaction,
    lane: Lane,
    words: str,
    period: SearchedPeriod | None,
    pages: Sequence[HistoryText],
    *,
    for_people: bool,
) -> list[FoundText]:
    documents = await search.load_documents(tx, lane, period)
    if not for_people:
        documents += await search.load_results(tx, lane, period, excluded_tool=look_back.name)
    documents = [*select_newest(documents), *select_newest(pages)]
    messages = await search.load_messages(tx, lane, period)
    # Ranking takes too long for the event loop, and ends by itself.
    ids, matches = await run_in_thread(_find, words, messages, documents, for_people=for_people)
    origins = await search.load_origins(
        tx, [ids[match.text_index] for match in matches if match.text_index < len(ids)]
    )
    texts = (
        origins[ids[match.text_index]]
        if match.text_index < len(ids)
        else documents[match.text_index - len(ids)]
        for match in matches
    )
    return [FoundText(text, match.passage) for text, match in zip(texts, matches, strict=True)]


def _find(
    words: str, rows: Iterable[tuple[int, str]], documents: Sequence[HistoryText], *, for_people: bool
) -> tuple[list[int], list[TextPassage]]:
    """The ids of all messages, the newest first, and the passages that match.

    The indexes of documents follow those of the messages.
    """
    ids = list[int]()
    texts = list[str]()
    char_count = 0
    for id_, stored in sorted(rows, reverse=True):
        # What was read along in a group may not be kept longer than a day.
        text = strip_block(stored)
        if for_people:
            text = _to_written(text)
        char_count += len(text)
        if char_count > MAX_MESSAGE_CHARS:
            break
        ids.append(id_)
        texts.append(text)
    return ids, find_passages(words, texts, documents=[document.text for document in documents])


def _to_written(text: str) -> str:
    return strip_stamp(strip_data(text).strip())


def _to_passage(text: HistoryText, passage: str) -> Passage:
    day = datetime.fromtimestamp(text.made_at, UTC).date()
    return Passage(text.source, day, passage)

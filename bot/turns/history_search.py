"""Search in all that was said in a chat, also before /new, and in the files it keeps, ranked by words.

What was said is read when asked: an index of SQLite's own (FTS5) would double what is stored, knows English
endings only, and finds no Chinese word of two characters; what people write is small enough to be read in a
tenth of a second. Kept files have an index of their words.
"""

import itertools
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime
from functools import partial

from bot.agent.periods import find_day_span
from bot.agent.prompt import strip_data
from bot.agent.search_terms import build_terms
from bot.agent.text_search import MAX_PASSAGES, RankedPieces, rank_pieces
from bot.agent.word_index import HEAD, WordIndex, list_buckets
from bot.attachments.excerpts import split_pages
from bot.db.conversations import calls, kept_files, search
from bot.db.conversations.kept_files import FOLDER_CHAT, SearchedFile
from bot.db.conversations.search import HistoryText, JoinedMessages, SearchedPeriod, split_messages
from bot.db.engine import Database
from bot.db.transaction import Transaction
from bot.domain import FilePage, Lane
from bot.llm.read_gains import CLEAR, READ_SECONDS
from bot.llm.search_questions import (
    MAX_READ,
    ask_about_passages,
    describe_passages,
    order_passages,
    read_passage_chances,
)
from bot.turns.recorded_reads import ReadSubject, RecordedReads
from bot.turns.said_before import strip_block
from bot.turns.turn_request import strip_stamp
from tools.base import Passage
from tools.builtin.look_back import format_page, look_back
from tools.threads import run_in_thread

MAX_MESSAGE_CHARS = 5_000_000  # characters of messages that are searched
MAX_DOCUMENT_CHARS = 3_000_000  # of documents, results of tools, and kept files without an index
ZONE_SECONDS = 14 * 3600  # a day may have begun so much earlier where the person is, or end so much later


@dataclass(frozen=True, slots=True)
class FoundText:
    """A text of the chat, and the passage of it that matches."""

    text: HistoryText
    passage: str


class HistorySearch:
    """The history of one lane; `has_access`: the person who asks may read the owner's folder.

    `reads` put the best in order, where that was shown to gain something.
    """

    def __init__(
        self,
        database: Database,
        lane: Lane,
        *,
        has_access: bool = False,
        reads: RecordedReads | None = None,
    ) -> None:
        self._database = database
        self._lane = lane
        self._has_access = has_access
        self._reads = reads

    async def find(self, words: str) -> list[Passage]:
        """The few passages that match these words best, the best first."""
        async with self._database.long_read_transaction() as tx:
            today = datetime.now(UTC).date()
            found = await find_texts(tx, self._lane, words, today, has_access=self._has_access)
        if self._reads and self._reads.find_clearness("recall") > CLEAR and len(found) > 1:
            found = await self._put_in_order(self._reads, words, found)
        found = found[:MAX_PASSAGES]
        if used := {match.text.file for match in found if match.text.file is not None}:
            async with self._database.transaction(durable=False) as tx:
                await kept_files.mark_used(tx, list(used), now=time.time())
        return [_to_passage(match.text, match.passage) for match in found]

    async def _put_in_order(
        self, reads: RecordedReads, words: str, found: list[FoundText]
    ) -> list[FoundText]:
        """The passages by what the endpoint reads of each; as they are where it gives no answer in time."""
        passages = [match.passage for match in found]
        state = describe_passages(words, passages)
        subject = ReadSubject(self._lane.chat, "decision", ask_about_passages(len(found)), state)
        _, reading = await reads.read(subject, timeout_seconds=READ_SECONDS)
        if reading is None:
            return found
        return [found[index] for index in order_passages(read_passage_chances(reading, len(found)))]

    async def result(self, number: int) -> str | None:
        """A tool result of this conversation that was cut, as far as it is stored."""
        async with self._database.read_transaction() as tx:
            return await calls.load_whole_result(tx, self._lane, number)


async def find_texts(
    tx: Transaction,
    lane: Lane,
    words: str,
    today: date,
    *,
    for_people: bool = False,
    has_access: bool,
) -> list[FoundText]:
    """The passages of a lane that match these words best; of the days that the words name, if any do.

    `for_people`: without results of tools, and as they were written. `has_access`: with the owner's folder.
    """
    search_texts = partial(_search_texts, tx, lane, for_people=for_people, has_access=has_access)
    if span := find_day_span(words, today):
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (span.start, span.end))
        period = SearchedPeriod(start.timestamp() - ZONE_SECONDS, end.timestamp() + ZONE_SECONDS)
        if found := await search_texts(span.rest, period):
            return found
    return await search_texts(words, None)


async def load_exchange(tx: Transaction, lane: Lane, turn: int) -> list[HistoryText]:
    """What was asked and answered in a turn, as it was written; empty where nothing of it may be found."""
    return [
        replace(text, text=restore_written(text.text)) for text in await search.load_exchange(tx, lane, turn)
    ]


def select_newest(texts: Sequence[HistoryText], max_chars: int = MAX_DOCUMENT_CHARS) -> list[HistoryText]:
    """The newest of these texts, as many as have at most `max_chars` together."""
    newest_first = sorted(texts, key=lambda text: -text.made_at)
    totals = itertools.accumulate(len(text.text) for text in newest_first)
    return [text for text, total in zip(newest_first, totals, strict=True) if total <= max_chars]


async def _search_texts(
    tx: Transaction,
    lane: Lane,
    words: str,
    period: SearchedPeriod | None,
    *,
    for_people: bool,
    has_access: bool,
) -> list[FoundText]:
    joined = await search.load_messages(tx, lane, period)
    documents = await search.load_documents(tx, lane, period)
    if joined.has_results and not for_people:
        documents += await search.load_results(tx, lane, period, excluded_tool=look_back.name)
    chats = [] if lane.is_guest else [lane.chat, *([FOLDER_CHAT] if has_access else [])]
    unindexed = await kept_files.load_unindexed(tx, chats, MAX_DOCUMENT_CHARS, period)
    pages = [page for file in unindexed for page in await run_in_thread(_split_file, file)]
    buckets = [HEAD, *list_buckets(build_terms(words))]
    files = await kept_files.load_indexed(tx, chats, buckets, period)
    texts = [*select_newest(documents), *select_newest(pages)]
    # Ranking takes too long for the event loop, and ends by itself.
    ranked = await run_in_thread(_rank_texts, words, joined, texts, files, for_people=for_people)
    best = await _load_best(tx, ranked)
    best_texts = {key: text.text for key, text in best.items()}
    passages = await run_in_thread(ranked.ranking.choose_passages, best_texts, MAX_READ)
    return [FoundText(best[match.text_index, match.part], match.passage) for match in passages]


@dataclass(frozen=True, slots=True)
class _RankedTexts:
    """The best pieces of messages, documents and indexed files, whose texts are numbered in this order.

    Of messages, the newest first, only ids and texts are known.
    """

    ranking: RankedPieces
    ids: Sequence[int]
    messages: Sequence[str]
    documents: Sequence[HistoryText]
    files: Sequence[SearchedFile]


def _rank_texts(
    words: str,
    joined: JoinedMessages,
    documents: Sequence[HistoryText],
    files: Sequence[SearchedFile],
    *,
    for_people: bool,
) -> _RankedTexts:
    ids, stored = split_messages(joined)
    # What was read along in a group may not be kept longer than a day.
    messages = [strip_block(text) for text in stored]
    if for_people:
        messages = [restore_written(text) for text in messages]
    count = bisect_right(list(itertools.accumulate(map(len, messages))), MAX_MESSAGE_CHARS)
    messages = messages[:count]
    indexes = [WordIndex(file.words) for file in files]
    ranking = rank_pieces(words, messages, [document.text for document in documents], indexes)
    return _RankedTexts(ranking, ids[:count], messages, documents, files)


async def _load_best(tx: Transaction, ranked: _RankedTexts) -> dict[tuple[int, int], HistoryText]:
    """The texts of the best pieces, by index and part; of indexed files only the best few are read."""
    indexes = list(dict.fromkeys(piece.text_index for piece in ranked.ranking.pieces))
    first_document = len(ranked.ids)
    first_file = first_document + len(ranked.documents)
    ids = {index: ranked.ids[index] for index in indexes if index < first_document}
    origins = await search.load_origins(tx, ids.values())
    best = {(index, 0): replace(origins[id_], text=ranked.messages[index]) for index, id_ in ids.items()}
    for index in indexes:
        if first_document <= index < first_file:
            best[index, 0] = ranked.documents[index - first_document]
    file_indexes = [index for index in indexes if index >= first_file][:MAX_PASSAGES]
    files = {index: ranked.files[index - first_file] for index in file_indexes}
    texts = await kept_files.load_texts(tx, [file.id for file in files.values()])
    for index, file in files.items():
        pages = await run_in_thread(_split_file, replace(file, text=texts[file.id]))
        best |= {(index, part): page for part, page in enumerate(pages)}
    return best


def _split_file(file: SearchedFile) -> list[HistoryText]:
    """The pages of a kept file."""
    pages = list[HistoryText]()
    for stored in split_pages(file.text):
        page = FilePage(file.name, stored.noun, stored.number)
        source = format_page(*astuple(page))
        pages.append(HistoryText(0, source, file.kept_at, stored.text, file.id, page))
    return pages


def restore_written(text: str) -> str:
    """A user's message as its sender wrote it, without all that is of others, and without its stamp."""
    if "[data: " not in text:  # as most are, and it takes a fifth of the time
        return strip_stamp(text).strip()
    return strip_stamp(strip_data(strip_stamp(text)).strip())


def _to_passage(text: HistoryText, passage: str) -> Passage:
    day = datetime.fromtimestamp(text.made_at, UTC).date()
    return Passage(text.source, day, passage)

"""Files that a chat keeps beyond its conversations, as the text that was read of them with its pages.

Those of the owner's folder are kept for everybody with access. Functions work inside the caller's transaction
`tx`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, or_, select, update

from bot.db.conversations.search import SearchedPeriod
from bot.db.portable_sql import upsert
from bot.db.tables import attachments, kept_files, kept_words, lanes, messages, turns
from bot.db.transaction import Transaction
from bot.domain import Lane

FOLDER_CHAT: Final = 0
"""The chat of the files in the owner's folder."""


@dataclass(frozen=True, slots=True)
class SentDocument:
    """A document of a turn whose text is still stored, and who sent it."""

    id: int
    person: int
    name: str
    text: str
    size: int


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A kept file without its text; `pages` None: it has none. `size` is that of the text, in bytes."""

    id: int
    person: int
    name: str
    pages: int | None
    size: int
    used_at: float


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A kept file to be searched: since when it is kept, and its text or buckets of its index.

    The text is as `excerpts.split_pages` takes it apart.
    """

    id: int
    name: str
    kept_at: float
    text: str = ""
    words: Mapping[int, bytes] = field(default_factory=dict)


_SEARCHED_FILE = (kept_files.c.id, kept_files.c.name, kept_files.c.kept_at)
_HAS_INDEX = exists().where(kept_words.c.file == kept_files.c.id)
_KEPT_FILE = (
    *(kept_files.c.id, kept_files.c.person, kept_files.c.name),
    *(kept_files.c.pages, kept_files.c.size, kept_files.c.used_at),
)


def hash_content(*parts: bytes) -> str:
    """What tells a file from others of its chat."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


async def list_documents(tx: Transaction, lane: Lane, turn: int) -> list[SentDocument]:
    """The documents that came with a turn of this lane, as far as their texts are stored."""
    query = (
        select(
            attachments.c.id, attachments.c.person, attachments.c.name, attachments.c.text, attachments.c.size
        )
        .join(messages, attachments.c.message == messages.c.id)
        .join(turns, messages.c.turn == turns.c.id)
        .where(turns.c.id == turn, turns.c.lane == lane.key)
        .where(attachments.c.kind == "document", attachments.c.size > 0)
        .order_by(attachments.c.id)
    )
    return [SentDocument(*row) for row in await tx.execute(query)]


async def keep(
    tx: Transaction, chat: int, turn: int, document: SentDocument, pages: int | None, *, now: float
) -> KeptFile:
    """Keep a document of a turn: its text moves here. One with the same text counts as used now."""
    row = {
        "chat": chat,
        "person": document.person,
        "turn": turn,
        "name": document.name,
        "hash": hash_content(document.text.encode()),
        "text": document.text,
        "pages": pages,
        "size": document.size,
        "kept_at": now,
        "used_at": now,
    }
    added = upsert(kept_files).values(row).on_conflict_do_nothing(index_elements=["chat", "hash"])
    if (await tx.execute(added.returning(kept_files.c.id))).first() is not None:
        await tx.execute(update(attachments).where(attachments.c.id == document.id).values(text=None, size=0))
    used = update(kept_files).where(kept_files.c.chat == chat, kept_files.c.hash == row["hash"])
    return KeptFile(*(await tx.execute(used.values(used_at=now).returning(*_KEPT_FILE))).one())


async def list_files(tx: Transaction, chat: int, *, turn: int | None = None) -> list[KeptFile]:
    """What a chat keeps, the newest first; `turn`: only what was kept below its answer."""
    query = select(*_KEPT_FILE).where(kept_files.c.chat == chat).order_by(kept_files.c.id.desc())
    if turn is not None:
        query = query.where(kept_files.c.turn == turn)
    return [KeptFile(*row) for row in await tx.execute(query)]


async def remove(tx: Transaction, chat: int, file: int) -> None:
    """Delete a kept file of a chat for good, and its name from what prompts there begin with."""
    await tx.execute(delete(kept_files).where(kept_files.c.chat == chat, kept_files.c.id == file))
    await tx.execute(update(lanes).where(is_lane_of(chat)).values(files=None))


def is_lane_of(chat: int) -> ColumnElement[bool]:
    """The condition that a lane is of this chat."""
    return or_(lanes.c.lane == str(chat), lanes.c.lane.startswith(f"{chat}:"))


async def count_bytes(tx: Transaction, person: int) -> int:
    """How much is kept of what a person sent."""
    query = select(func.coalesce(func.sum(kept_files.c.size), 0)).where(kept_files.c.person == person)
    return int((await tx.execute(query)).scalar_one())


async def sum_bytes(tx: Transaction) -> dict[int, int]:
    """How much is kept of what each person sent."""
    sums = select(kept_files.c.person, func.sum(kept_files.c.size)).group_by(kept_files.c.person)
    return {person: int(size) for person, size in await tx.execute(sums)}


async def load_unindexed(
    tx: Transaction, chats: Collection[int], max_bytes: int, period: SearchedPeriod | None
) -> list[SearchedFile]:
    """The texts of what these chats keep and has no index yet, the newest first.

    None follows that with which they have `max_bytes` together.
    """
    newest_first = kept_files.c.id.desc()
    bytes_before = func.sum(kept_files.c.size).over(order_by=newest_first) - kept_files.c.size
    sizes = select(kept_files.c.id, bytes_before.label("bytes_before"))
    sized = sizes.where(_is_searched(chats, period), ~_HAS_INDEX).subquery()
    query = select(*_SEARCHED_FILE, kept_files.c.text).join(sized, sized.c.id == kept_files.c.id)
    rows = await tx.execute(query.where(sized.c.bytes_before < max_bytes).order_by(newest_first))
    return [SearchedFile(*row) for row in rows]


async def load_indexed(
    tx: Transaction, chats: Collection[int], buckets: Collection[int], period: SearchedPeriod | None
) -> list[SearchedFile]:
    """What these chats keep and has an index, the newest first, with these buckets of it."""
    query = select(*_SEARCHED_FILE).where(_is_searched(chats, period)).order_by(kept_files.c.id.desc())
    files = (await tx.execute(query)).all()
    words = select(kept_words.c.file, kept_words.c.bucket, kept_words.c.words)
    words = words.where(kept_words.c.file.in_([file.id for file in files]), kept_words.c.bucket.in_(buckets))
    words_of_files: dict[int, dict[int, bytes]] = defaultdict(dict)
    for file, bucket, lines in await tx.execute(words):
        words_of_files[file][bucket] = lines
    return [SearchedFile(*file, words=words_of_files[file.id]) for file in files if file.id in words_of_files]


def _is_searched(chats: Collection[int], period: SearchedPeriod | None) -> ColumnElement[bool]:
    condition = kept_files.c.chat.in_(chats)
    if period is None:
        return condition
    return and_(condition, kept_files.c.kept_at >= period.start, kept_files.c.kept_at < period.end)


async def load_texts(tx: Transaction, files: Collection[int]) -> dict[int, str]:
    """The texts of these files, by number."""
    query = select(kept_files.c.id, kept_files.c.text).where(kept_files.c.id.in_(files))
    return {row.id: row.text for row in await tx.execute(query)}


async def find_unindexed(tx: Transaction) -> int | None:
    """The number of a kept file that has no index yet; None: all have one."""
    query = select(kept_files.c.id).where(~_HAS_INDEX).order_by(kept_files.c.id).limit(1)
    return (await tx.execute(query)).scalar_one_or_none()


async def store_index(tx: Transaction, file: int, buckets: Mapping[int, bytes]) -> None:
    """Store the index of a file, unless the file is gone or has one."""
    of_file = select(kept_files.c.id).where(kept_files.c.id == file, ~_HAS_INDEX)
    if (await tx.execute(of_file.with_for_update())).one_or_none() is not None:
        rows = [{"file": file, "bucket": bucket, "words": words} for bucket, words in buckets.items()]
        await tx.execute(insert(kept_words), rows)


async def mark_used(tx: Transaction, files: Sequence[int], *, now: float) -> None:
    """Note that an answer was looked up in these files."""
    await tx.execute(update(kept_files).where(kept_files.c.id.in_(files)).values(used_at=now))


async def load_folder_sizes(tx: Transaction) -> dict[str, int]:
    """The sizes of the texts that are kept of the owner's folder, by hash."""
    query = select(kept_files.c.hash, kept_files.c.size).where(kept_files.c.chat == FOLDER_CHAT)
    return {row.hash: row.size for row in await tx.execute(query)}


async def keep_in_folder(
    tx: Transaction, name: str, file_hash: str, text: str, pages: int | None, *, now: float
) -> None:
    """Keep a file of the owner's folder for everybody with access."""
    row = {
        "chat": FOLDER_CHAT,
        "person": 0,
        "name": name,
        "hash": file_hash,
        "text": text,
        "pages": pages,
        "size": len(text.encode()),
        "kept_at": now,
        "used_at": now,
    }
    added = upsert(kept_files).values(row)
    await tx.execute(added.on_conflict_do_nothing(index_elements=["chat", "hash"]))


async def drop_from_folder(tx: Transaction, hashes: Collection[str]) -> None:
    """Delete the files of the owner's folder but those with these hashes."""
    gone = (kept_files.c.chat == FOLDER_CHAT, kept_files.c.hash.not_in(hashes))
    await tx.execute(delete(kept_files).where(*gone))

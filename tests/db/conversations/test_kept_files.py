"""Kept files are found by an index of their words, which goes with them."""

import pytest
from sqlalchemy import func, insert, select

from bot.bench.harness.prose import write_prose
from bot.db.conversations import kept_files
from bot.db.conversations.kept_files import FOLDER_CHAT
from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.tables import kept_files as kept_table
from bot.db.tables import kept_words
from bot.domain import Lane
from bot.maintenance.kept_file_indexer import KeptFileIndexer
from bot.turns.history_search import HistorySearch

PAGES = [write_prose(900, 1), f"{write_prose(400, 2)} The zebras sleep at noon. {write_prose(400, 3)}"]
FILE = {"person": 7, "name": "a.txt", "hash": "", "size": 1, "kept_at": 1.0, "used_at": 1.0}
TEXT = "\n\n".join(f"(page {number})\n{text}" for number, text in enumerate(PAGES, start=1))


async def find(database: Database, words: str) -> list[tuple[str, str]]:
    passages = await HistorySearch(database, Lane(7), has_access=True).find(words)
    return [(passage.source, passage.text) for passage in passages]


async def test_what_an_index_finds_is_what_reading_finds_and_it_goes_with_its_file(database: Database):
    async with database.transaction() as tx:
        for name, text in (("zoo.pdf", TEXT), ("menu.txt", "Soup, and zebra cake. 密码")):
            await kept_files.keep_in_folder(tx, name, name, text, None, now=1e9)
    read = {
        words: await find(database, words) for words in ("zebra", "sleep noon", "soups", "密码", "nothing")
    }
    assert [source for source, _ in read["zebra"]] == ['file "menu.txt"', 'file "zoo.pdf", page 2']
    indexer = KeptFileIndexer(database, None)
    assert [await indexer.index_file() for _ in range(3)] == [True, True, False]
    async with database.transaction() as tx:
        assert await kept_files.load_unindexed(tx, [FOLDER_CHAT], 1, None) == []
        assert await kept_files.load_indexed(tx, [7], [-1], None) == []
    for words, passages in read.items():
        assert sorted(await find(database, words)) == sorted(passages)
    async with database.transaction() as tx:
        await kept_files.drop_from_folder(tx, ["menu.txt"])
        await kept_files.store_index(tx, 1, {0: b"of a file that is gone"})
    assert [source for source, _ in await find(database, "zebra")] == ['file "menu.txt"']
    async with database.transaction() as tx:
        assert (await tx.execute(select(func.count(kept_words.c.file.distinct())))).scalar_one() == 1


@pytest.mark.sqlite
async def test_no_byte_of_a_forgotten_file_and_its_index_is_left(database: Database, database_url: str):
    async with database.transaction() as tx:
        await tx.execute(insert(kept_table).values(**FILE, chat=7, text=f"canary {TEXT}"))
    await KeptFileIndexer(database, None).index_file()
    file = parse_database_path(database_url)
    assert any(b"\ncanary\t" in path.read_bytes() for path in file.parent.glob(f"{file.name}*"))
    await retention.forget(database, retention.build_lane_scope(Lane(7), item=1, asked_at=2.0))
    await database.erase_deleted()
    assert not any(b"canary" in path.read_bytes() for path in file.parent.glob(f"{file.name}*"))

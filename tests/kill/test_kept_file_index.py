"""Killed around each commit of the index of kept files: then it is as if that had never happened."""

import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import delete, select

from bot.db.conversations import kept_files
from bot.db.engine import Database, open_database
from bot.db.tables import kept_words
from bot.domain import Lane
from bot.turns.history_search import HistorySearch
from tests.kill.gateway import ENVIRONMENT, ForkServer
from tests.support.empty_database import place_empty_database

SMALL = "The launch is in May."
LARGE = " ".join(f"word{number}" for number in range(30_000))  # its index is stored by a thread


async def load_index(database: Database) -> list[tuple[object, ...]]:
    async with database.read_transaction() as tx:
        rows = await tx.execute(select(kept_words).order_by(kept_words.c.file, kept_words.c.bucket))
        return [tuple(row) for row in rows]


async def index(fork_server: ForkServer, folder: Path, url: str, bomb: str = "") -> int:
    """Run the indexer until it ends or is killed, `bomb` says where; returns its exit code."""
    if bomb:
        (folder / "bomb").write_text(bomb)
    command = ("tests.kill.kept_file_index", url)
    code = await (await fork_server.fork(folder, command, ENVIRONMENT, "log")).wait()
    sys.stdout.write((folder / "log").read_text())  # if the test fails
    return code


async def test_each_file_is_found_and_indexed_once(
    either_database: Mapping[str, str], tmp_path: Path, fork_server: ForkServer
):
    url = either_database.get("database_url") or place_empty_database(tmp_path / "canvasgram.db")
    async with open_database(url) as database:
        async with database.transaction() as tx:
            for name, text in (("small.txt", SMALL), ("large.txt", LARGE)):
                await kept_files.keep_in_folder(tx, name, name, text, None, now=1e9)
        assert await index(fork_server, tmp_path, url) == 0
        whole = await load_index(database)
        for moment in ("after 1",) if either_database else ("before 1", "after 1", "before 2", "after 2"):
            async with database.transaction() as tx:
                await tx.execute(delete(kept_words))
            # It commits once for each file.
            assert await index(fork_server, tmp_path, url, moment) == -signal.SIGKILL
            assert await index(fork_server, tmp_path, url) == 0
            assert await load_index(database) == whole
        for words, name in (("launch", "small.txt"), ("word29999", "large.txt")):
            [passage] = await HistorySearch(database, Lane(7), has_access=True).find(words)
            assert name in passage.source

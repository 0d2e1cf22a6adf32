"""Indexes the words of kept files beside everything else, so that no search has to read them.

One file a transaction. Until a file has its index, a search reads its text.
"""

import asyncio
from pathlib import Path

from bot.agent.word_index import build_word_index
from bot.attachments.excerpts import split_pages
from bot.db.commit_watch import CommitWatch, compute_seconds_to_look
from bot.db.conversations import kept_files
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from tools.threads import run_in_thread

LOOK_SECONDS = 2.0


class KeptFileIndexer:
    """Looks for files without an index: what was kept just now, or before an upgrade or a crash.

    `database_file` is watched, so that nothing is read while nothing is written; None: a server.
    """

    def __init__(self, database: Database, database_file: Path | None) -> None:
        self._database = database
        self._commits = CommitWatch(database_file)

    async def run(self) -> None:
        """Index what is kept, until cancelled."""
        while True:
            with self._commits.look() as is_written:
                has_more = is_written
                while has_more:
                    has_more = await retry_until_available(self.index_file)
            await asyncio.sleep(compute_seconds_to_look(LOOK_SECONDS))

    async def index_file(self) -> bool:
        """Index a file that has no index; False: there is none."""
        async with self._database.read_transaction() as tx:
            file = await kept_files.find_unindexed(tx)
        if file is None:
            return False
        async with self._database.long_read_transaction() as tx:
            texts = await kept_files.load_texts(tx, [file])
        # That takes up to seconds, and ends by itself.
        buckets = await run_in_thread(_index_text, texts.get(file, ""))
        async with self._database.file_transaction(sum(map(len, buckets.values()))) as tx:
            await kept_files.store_index(tx, file, buckets)
        return True


def _index_text(text: str) -> dict[int, bytes]:
    return build_word_index([page.text for page in split_pages(text)])

"""Indexes the kept files of a database, and kills itself around the commit that the file `bomb` names."""

import asyncio
import sys

from bot.db.engine import open_database
from bot.maintenance.kept_file_indexer import KeptFileIndexer
from tests.kill.armed_gateway import BOMB, CommitBomb, count_commits


async def index_all(url: str) -> None:
    """Index one file after the other."""
    async with open_database(url) as database:
        indexer = KeptFileIndexer(database, None)
        while await indexer.index_file():
            pass


if __name__ == "__main__":
    bomb = CommitBomb()
    if BOMB.exists():
        bomb.arm(0, None)
    count_commits(bomb)
    asyncio.run(index_all(sys.argv[1]))
    sys.exit()  # the launcher takes an end without it for an error

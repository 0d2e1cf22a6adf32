"""The database's care: its log merged, its statistics refreshed, every page of it looked through for damage."""

import threading
from pathlib import Path

from bot.db.engine import Database
from bot.db.maintenance.backup import find_integrity_errors
from tools.threads import run_in_thread


async def check_integrity(database: Database, file: Path) -> list[str]:
    """What is wrong with the database in `file`, in SQLite's own words; nothing if it is sound.

    Neither writers nor readers wait for the look through it. Raises StoreUnavailable while it cannot be
    written.
    """
    await database.optimize()
    enough = threading.Event()
    try:
        return await run_in_thread(find_integrity_errors, file, enough)
    finally:
        enough.set()  # cancelled, the thread ends at once

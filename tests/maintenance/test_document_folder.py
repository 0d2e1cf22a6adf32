"""The owner's folder: files come and go with it, what cannot be read is told once, an open bot asks first."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.queues import admin_notices
from bot.db.queues.admin_notices import AdminNotices
from bot.db.tables import kept_files, outbox
from bot.maintenance.document_folder import OPENED, DocumentFolder
from tests.support import attachment_files

ADMIN = 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder without the database."""
    path = tmp_path / "documents"
    path.mkdir()
    return path


@contextlib.asynccontextmanager
async def watch(database: Database, folder: Path | None, *, needs_opening: bool) -> AsyncIterator[None]:
    notices = AdminNotices([ADMIN])
    watched = DocumentFolder(
        database, folder, attachment_files.build_reader(), notices, needs_opening=needs_opening
    )
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watched.run())
        yield
        task.cancel()


async def list_kept(database: Database) -> list[tuple[str, int | None]]:
    async with database.read_transaction() as tx:
        rows = await tx.execute(select(kept_files.c.name, kept_files.c.pages).order_by(kept_files.c.name))
        return [(row.name, row.pages) for row in rows]


async def list_told(database: Database) -> list[str]:
    async with database.read_transaction() as tx:
        return [str(body) for body in (await tx.execute(select(outbox.c.body))).scalars()]


async def wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110  # another task writes to the database
            await asyncio.sleep(0.05)


async def test_files_come_change_and_go_with_the_folder(database: Database, folder: Path):
    (folder / "handbook.pdf").write_bytes(attachment_files.make_pdf(["One.", "Two."]))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / ".hidden").write_text("Hidden.")

    async def is_read() -> bool:
        return await list_kept(database) == [("handbook.pdf", 2)] and bool(await list_told(database))

    async def is_replaced() -> bool:
        return await list_kept(database) == [("rules.txt", None)]

    async with watch(database, folder, needs_opening=False):
        await wait_until(is_read)
        (folder / "handbook.pdf").unlink()
        (folder / "rules.txt").write_text("No shoes.")
        await wait_until(is_replaced)
    async with watch(database, folder, needs_opening=False):
        (folder / "broken.pdf").touch()
        (folder / "later.txt").write_text("Later.")
        await wait_until(lambda: _has(database, 2))
    told = await list_told(database)
    assert [text for text in told if "DOCUMENTS_DIR" in text] == told[:1]
    assert "broken.pdf" in told[0]
    async with watch(database, None, needs_opening=False):
        await wait_until(lambda: _has(database, 0))


async def _has(database: Database, count: int) -> bool:
    return len(await list_kept(database)) == count


async def test_an_open_bot_keeps_the_folder_closed_until_an_admin_opens_it(database: Database, folder: Path):
    (folder / "rules.txt").write_text("No shoes.")

    async def is_asked() -> bool:
        return bool(await list_told(database))

    async with watch(database, folder, needs_opening=True):
        await wait_until(is_asked)
        assert await list_kept(database) == []
        async with database.transaction() as tx:
            await admin_notices.record_if_changed(tx, OPENED, "7", now=1.0)
        await wait_until(lambda: _has(database, 1))
    assert len(await list_told(database)) == 1

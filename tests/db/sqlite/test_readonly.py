"""A database is read beside its gateway without a trace; one that cannot be read is reported."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from bot.db.engine import Database, open_database
from bot.db.readonly import open_readonly
from bot.db.tables import people
from bot.errors import SchemaUnknown, StoreUnavailable

pytestmark = pytest.mark.sqlite


async def load_names(database: Database) -> list[str]:
    async with database.read_transaction() as tx:
        return [row.name for row in await tx.execute(people.select())]


async def test_what_a_gateway_writes_is_read_at_once_and_nothing_can_be_written(database_url: str):
    async with open_database(database_url) as gateway, open_readonly(database_url) as readonly:
        async with gateway.transaction() as tx:
            await tx.execute(people.insert().values(id=5, name="Ann", role="member", since=0.0))
        assert await load_names(readonly) == ["Ann"]
        with pytest.raises(StoreUnavailable, match="readonly"):
            async with readonly.read_transaction() as tx:
                await tx.execute(people.delete())
        assert await load_names(gateway) == ["Ann"]


async def test_it_is_read_while_a_gateway_writes(database_url: str):
    async with (
        open_database(database_url) as gateway,
        open_readonly(database_url) as readonly,
        gateway.transaction() as tx,
    ):
        await tx.execute(people.insert().values(id=5, name="Ann", role="member", since=0.0))
        assert await load_names(readonly) == []


async def test_it_is_read_without_a_gateway(database_url: str, tmp_path: Path):
    async with open_readonly(database_url) as readonly:
        assert await load_names(readonly) == []
    assert not (tmp_path / "canvasgram.db.lock").exists()


async def open_and_close(url: str) -> None:
    async with open_readonly(url):
        pass


async def test_a_missing_database_is_not_created(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="There is no database at"):
        await open_and_close(f"sqlite+aiosqlite:///{tmp_path / 'none.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"", "is no database of Canvasgram"), (b"no database at all" * 99, "cannot be read: file is not")],
)
async def test_a_file_that_is_no_database_of_ours_is_reported(tmp_path: Path, body: bytes, message: str):
    file = tmp_path / "other.db"
    file.write_bytes(body)
    with pytest.raises(StoreUnavailable, match=message):
        await open_and_close(f"sqlite+aiosqlite:///{file}")


@pytest.mark.parametrize(
    ("version", "message"), [("0001", "Restart the gateway"), ("9999", "Use the newer version")]
)
async def test_a_database_of_another_version_is_reported(
    database_url: str, tmp_path: Path, version: str, message: str
):
    with closing(sqlite3.connect(tmp_path / "canvasgram.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        connection.commit()
    with pytest.raises(SchemaUnknown, match=message):
        await open_and_close(database_url)


async def test_a_damaged_database_is_reported(database_url: str, tmp_path: Path):
    async with open_database(database_url):
        pass
    file = tmp_path / "canvasgram.db"
    body = bytearray(file.read_bytes())
    body[8192:] = b"\xff" * len(body[8192:])

    async def read_while_damaged() -> None:
        async with open_readonly(database_url) as readonly:
            file.write_bytes(body)
            await load_names(readonly)

    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await read_while_damaged()


async def test_a_wrong_statement_is_not_taken_for_a_damaged_database(database_url: str):
    with pytest.raises(Exception, match="no such table: nowhere"):
        async with open_readonly(database_url) as readonly, readonly.read_transaction() as tx:
            await tx.execute(text("SELECT * FROM nowhere"))

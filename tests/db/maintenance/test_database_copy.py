"""A database is the same in PostgreSQL as in SQLite and back again, and is used in one place alone."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Float, LargeBinary, MetaData, Table, Text, insert, select

from bot.cli.database_copy import copy_to
from bot.db.database_url import parse_database_path
from bot.db.engine import Database, open_database
from bot.db.maintenance.database_copy import CopyRefused, copy_database, remove_copy_mark
from bot.db.postgresql.session_locks import open_session_locks
from bot.db.sqlite.lock import hold_lock
from bot.db.tables import metadata, notices, personas
from bot.db.usage import process_lives
from bot.errors import GatewayRunning, SettingsRefused
from bot.settings import build_settings
from bot.tables import TextTable
from bot.tool_registry.program_homes import find_homes_folder
from bot.usage.report_command import ReportOptions, render_audit, render_report
from tests.support.empty_database import place_empty_database
from tests.support.postgresql import PostgresServer
from tests.support.random_month import fill_month
from tests.support.random_record import fill_record

NOW = 1_795_000_000.0
TEXTS = ("", "a\0b", "\ufdd0", "é 字 \U0001f600", "'%s' :bound \\", '{"a": [null, 1.5]}')
FLOATS = (0.1 + 0.2, 1e-300, -1.7e300, 1_795_000_000.123456, -0.0)
COPIES = """
import alembic.command, os, psycopg, sys
import bot.db.postgresql.offline
from bot.db.maintenance.database_copy import copy_database
for line in sys.stdin:
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        copy_database(*line.split(), lambda *_: print("step", flush=True), now=0.0)
        os._exit(0)
    os.waitpid(child, 0)
    print("over", flush=True)
"""


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return place_empty_database(tmp_path / "source.db")


@pytest.fixture
def server_url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


@pytest.fixture
def bare_server_url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_bare_database() as url:
        yield url


@pytest.fixture
def back_url(tmp_path: Path) -> str:
    return place_empty_database(tmp_path / "back.db")


@pytest.fixture
def bare_back_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/bare.db"


@pytest.fixture
def copies() -> Iterator[subprocess.Popen[str]]:
    """A process that forks one that copies for each line of two URLs."""
    command = [sys.executable, "-c", COPIES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def show_nothing(_done: int, _total: int, _label: str) -> None:
    return None


def copy(source_url: str, target_url: str) -> int:
    """Copy; returns how many rows there are."""
    sums = copy_database(source_url, target_url, show_nothing, now=NOW)
    return sum(table_sum.rows for table_sum in sums.values())


def make_value(column: Column[Any], number: int) -> Any:
    """A value of the column's type; those of one column differ."""
    if column.foreign_keys:
        return number
    if column.nullable and number % 5 == 0:
        return None
    if isinstance(column.type, Boolean):
        return number % 2 == 0
    if isinstance(column.type, Float):
        return FLOATS[number % len(FLOATS)]
    if isinstance(column.type, LargeBinary):
        return bytes(range(256)) * number
    if isinstance(column.type, Text):
        return f"{number} {TEXTS[number % len(TEXTS)]}"
    return number if column.primary_key or number % 2 == 0 else -number * 2**60


async def fill_every_table(database: Database) -> int:
    """Store rows of every type of value in every table; returns how many."""
    rows_by_table = {
        table: [
            {column.name: make_value(column, number) for column in table.columns} for number in range(1, 8)
        ]
        for table in metadata.sorted_tables
    }
    async with database.transaction() as tx:
        for table, rows in rows_by_table.items():
            await tx.execute(insert(table), rows)
        await tx.execute(personas.delete().where(personas.c.id > 5))
    return sum(map(len, rows_by_table.values())) - 2


async def load_all(url: str, tables: MetaData) -> dict[str, list[Any]]:
    async with open_database(url) as database, database.read_transaction() as tx:
        return {
            table.name: sorted(map(repr, (await tx.execute(select_without_mark(table))).all()))
            for table in tables.sorted_tables
        }


def select_without_mark(table: Table) -> Any:
    query = select(table)
    return query.where(notices.c.subject != process_lives.COPIED) if table is notices else query


async def begin_life(url: str) -> int:
    async with open_database(url) as database, database.transaction() as tx:
        return await process_lives.begin(tx, began_at=NOW)


async def test_every_value_is_the_same_there_and_back_and_ids_go_on(
    file_url: str, bare_server_url: str, bare_back_url: str
):
    async with open_database(file_url) as database:
        row_count = await fill_every_table(database)
    assert copy(file_url, bare_server_url) == row_count
    assert copy(bare_server_url, bare_back_url) == row_count
    stored = await load_all(file_url, metadata)
    assert await load_all(bare_server_url, metadata) == stored
    assert await load_all(bare_back_url, metadata) == stored
    for url in (bare_server_url, bare_back_url):
        remove_copy_mark(url)
        assert await begin_life(url) == 8
        async with open_database(url) as database, database.transaction() as tx:
            added = insert(personas).values(name="new", text="").returning(personas.c.id)
            assert (await tx.execute(added)).scalar_one() == 8  # not those that were deleted


async def test_a_gateway_starts_in_one_place_alone(file_url: str, server_url: str, back_url: str):
    first_life = await begin_life(file_url)
    settings = build_settings(database_url=file_url, telegram_token="1:a", backup_dir="backups")
    find_homes_folder(file_url).mkdir()
    lines = list(copy_to(settings, server_url, Path("canvasgram.env"), now=NOW))
    assert lines[0].startswith("Copied, and compared value by value: 1 rows of ")
    assert lines[1] == "Now set this in canvasgram.env:"
    assert lines[2] == f"DATABASE_URL={server_url}"
    assert "BACKUP_DIR" in lines[3]
    assert lines[4].startswith(f"Move the homes of MCP servers: mv {find_homes_folder(file_url)} ")
    with pytest.raises(SettingsRefused, match=r"copied to postgresql.*`canvasgram run --here`"):
        await begin_life(file_url)
    assert await begin_life(server_url) == first_life + 1
    with pytest.raises(CopyRefused, match=r"differs from the source in lives\. It is not empty"):
        copy(file_url, server_url)
    copy(server_url, back_url)
    with pytest.raises(SettingsRefused, match=r"copied to sqlite"):
        await begin_life(server_url)
    assert await begin_life(back_url) == first_life + 2
    remove_copy_mark(file_url)
    assert await begin_life(file_url) == first_life + 1


async def test_nothing_is_copied_beside_a_gateway_or_between_two_of_a_kind(file_url: str, server_url: str):
    with pytest.raises(CopyRefused, match="`canvasgram backup`"):
        copy(file_url, file_url.replace("source", "other"))
    with hold_lock(parse_database_path(file_url)), pytest.raises(GatewayRunning):
        copy(file_url, server_url)
    copy(file_url, server_url)
    async with open_session_locks(server_url) as locks:
        await locks.join(1)
        with pytest.raises(GatewayRunning, match="Stop it first"):
            copy(file_url, server_url)
        with pytest.raises(GatewayRunning):
            copy(server_url, file_url.replace("source", "other"))


async def load_reports(url: str) -> list[Any]:
    """The figures of reports, as they are printed."""
    groupings = (None, "day", "tool", "thinking", "user-model")
    lists = [("turns", "tokens"), ("calls", "seconds"), ("readings", "tokens")]
    options = [ReportOptions(by=by) for by in groupings]
    options += [ReportOptions(what=kind, sort=sort, top=100) for kind, sort in lists]
    reports = [await render_report(url, each, now=NOW) for each in options]
    reports.append(await render_audit(url, ReportOptions(), now=NOW))
    return [
        [(line.title, line.rows) if isinstance(line, TextTable) else line for line in report]
        for report in reports
    ]


@pytest.mark.slow
async def test_killed_at_any_moment_a_copy_is_made_by_the_next_attempt(
    copies: subprocess.Popen[str], file_url: str, server_url: str, back_url: str
):
    seed = time.time_ns()
    print(f"moments of seed {seed}")
    rng = random.Random(seed)
    async with open_database(file_url) as database:
        await fill_month(database, seed, until=NOW)
        await fill_record(database, seed, until=NOW)
    reports = await load_reports(file_url)
    assert "150" in str(reports[0])
    for source_url, target_url in itertools.pairwise((file_url, server_url, back_url)):
        stored = await load_all(source_url, metadata)
        for _ in range(5):
            kill_copy(copies, source_url, target_url, steps=rng.randrange(80))
        copy(source_url, target_url)
        assert await load_all(source_url, metadata) == stored
        assert await load_all(target_url, metadata) == stored
        assert await load_reports(target_url) == reports


def kill_copy(copies: subprocess.Popen[str], source_url: str, target_url: str, *, steps: int) -> None:
    """Kill a process that copies when it has made so many steps, or after its end."""
    assert copies.stdin is not None
    assert copies.stdout is not None
    copies.stdin.write(f"{source_url} {target_url}\n")
    copies.stdin.flush()
    process = int(copies.stdout.readline())
    for _ in range(steps):
        if copies.stdout.readline() == "over\n":
            return
    os.kill(process, signal.SIGKILL)
    while copies.stdout.readline() != "over\n":
        pass

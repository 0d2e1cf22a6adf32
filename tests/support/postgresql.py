"""A PostgreSQL server for tests, from the programs of a wheel; it keeps an empty migrated database to copy.

It syncs nothing, and its folder is in memory where there is one.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bot.db.migrate import migrate
from tests.bench.harness.postgresql_process import PostgresProcess

TEMPLATE = "migrated"
ACCESS_RULES = "local all postgres trust\nlocal all all scram-sha-256\nhost all all samenet scram-sha-256\n"
SERVER_OPTIONS = (
    *("-c", "fsync=off", "-c", "full_page_writes=off"),
    *("-c", "shared_buffers=32MB", "-c", "max_connections=60"),
)


class PostgresServer(PostgresProcess):
    """A server of empty databases, which knows passwords; it listens at the address `host` as well.

    With `autovacuum` it tidies up, as for a long run.
    """

    def __init__(self, folder: Path, host: str = "", *, autovacuum: bool = False) -> None:
        own_options = ("-c", f"listen_addresses={host}", "-c", f"autovacuum={'on' if autovacuum else 'off'}")
        super().__init__(folder, (*SERVER_OPTIONS, *own_options))
        self._has_template = False
        self._numbers = itertools.count(1)

    def initialize(self) -> None:
        """Make the files of an empty server."""
        super().initialize()
        (self.data_folder / "pg_hba.conf").write_text(ACCESS_RULES)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement; returns its rows."""
        with psycopg.connect(
            host=str(self.folder), user="postgres", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def copy(self, table: str, database: str) -> bytes:
        """A table as comma-separated values with a header."""
        with (
            psycopg.connect(host=str(self.folder), user="postgres", dbname=database) as connection,
            connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT csv, HEADER)".encode()) as lines,
        ):
            return b"".join(lines)

    @contextmanager
    def open_database(self) -> Iterator[str]:
        """Make an empty migrated database, and drop it at the end; gives its URL."""
        if not self._has_template:
            self.execute(f"CREATE DATABASE {TEMPLATE}")
            migrate(self.build_url(TEMPLATE))
            self._has_template = True
        with self.open_bare_database(f"TEMPLATE {TEMPLATE} STRATEGY FILE_COPY") as url:
            yield url

    @contextmanager
    def open_bare_database(self, options: str = "") -> Iterator[str]:
        """Make a database without tables, and drop it at the end; gives its URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        yield self.build_url(name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def run_server(host: str = "", *, autovacuum: bool = False) -> Iterator[PostgresServer]:
    """Run a server; its folder has a short name, for the path of a socket is bounded."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="pg-", dir=parent) as folder:
        server = PostgresServer(Path(folder), host, autovacuum=autovacuum)
        server.initialize()
        server.start()
        yield server
        server.stop()

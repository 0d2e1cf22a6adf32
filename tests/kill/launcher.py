"""Runs the gateway's command line with the tools of these tests, in a process for each folder on stdin.

This process has run a gateway itself and forks others when asked to, since these tests start hundreds of
them. Each line that it prints is a key and a number: a folder and the process there, or a process and its
exit code. On SIGUSR1 a gateway arms itself: it kills itself with SIGKILL around the commit that the file
`bomb` names, such as `before 3` or `after 3`.
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn

import aiosqlite
import psycopg
import typer

import tools.builtin
from bot.cli import main as command_line
from bot.db.sqlite.connections import LoopConnection
from tests.support.compiled_statements import share_compiled_statements
from tests.support.gateway import running_gateway

TOOLS = Path(__file__).with_name("tools_found")
BOMB = Path("bomb")


class CommitBomb:
    """Counts commits once it is armed."""

    def __init__(self) -> None:
        self._commits_left = 0
        self._when = ""

    def arm(self, _signal: int, _frame: FrameType | None) -> None:
        """Read which commit to die at, and confirm by deleting the file."""
        self._when, commits_left = BOMB.read_text(encoding="utf-8").split()
        self._commits_left = int(commits_left)
        BOMB.unlink()

    def before_commit(self) -> None:
        """Count a commit that is about to be made."""
        self._commits_left -= 1
        if self._commits_left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)

    def after_commit(self) -> None:
        """Die if the commit just made was the one."""
        if self._commits_left <= 0 and self._when == "after":
            os.kill(os.getpid(), signal.SIGKILL)


async def warm_up() -> None:
    """Answer a message in this process: what that imports and compiles each fork would do again."""
    share_compiled_statements()
    with TemporaryDirectory() as folder:
        async with running_gateway(Path(folder)) as gateway:
            gateway.ann.send("@@say:ready@@")
            await gateway.wait_for_texts()


def serve_forks() -> None:
    """Start a gateway in each folder named on stdin."""
    asyncio.run(warm_up())
    tools.builtin.__path__.append(str(TOOLS))
    command_line.cli = typer.main.get_command(command_line.cli)  # type: ignore[assignment]  # once for all
    gc.freeze()
    for line in sys.stdin:
        assert threading.active_count() == 1
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            _watch_gateway(Path(line.strip()))


def _watch_gateway(folder: Path) -> NoReturn:
    """Run the gateway of a folder in a child process, and tell how it ends."""
    child = os.fork()
    if child == 0:
        _run_gateway(folder)
    os.write(sys.stdout.fileno(), f"{folder}\t{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(sys.stdout.fileno(), f"{child}\t{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run_gateway(folder: Path) -> NoReturn:
    os.chdir(folder)
    devnull = os.open(os.devnull, os.O_RDONLY)
    log = os.open("gateway.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for descriptor, standard_descriptor in ((devnull, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard_descriptor)
    bomb = CommitBomb()
    signal.signal(signal.SIGUSR1, bomb.arm)
    _count_commits(bomb)
    sys.argv = ["canvasgram", "run", "--env-file", ".env"]
    code = 1
    try:
        command_line.main()
    except SystemExit as exit_request:
        code = int(exit_request.code or 0)
    finally:
        with contextlib.suppress(OSError):  # the disk may be full
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _count_commits(bomb: CommitBomb) -> None:
    """Have the bomb count every commit."""
    commit_in_loop = LoopConnection.commit
    commit_in_thread = aiosqlite.Connection.commit
    commit_on_server = psycopg.AsyncConnection.commit

    def count_in_loop(connection: LoopConnection) -> None:
        bomb.before_commit()
        commit_in_loop(connection)
        bomb.after_commit()

    async def count_in_thread(connection: aiosqlite.Connection) -> None:
        bomb.before_commit()
        await commit_in_thread(connection)
        bomb.after_commit()

    async def count_on_server(connection: psycopg.AsyncConnection[Any]) -> None:
        bomb.before_commit()
        await commit_on_server(connection)
        bomb.after_commit()

    psycopg.AsyncConnection.commit = count_on_server  # type: ignore[assignment,method-assign]
    LoopConnection.commit = count_in_loop  # type: ignore[assignment,method-assign]
    aiosqlite.Connection.commit = count_in_thread  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    serve_forks()

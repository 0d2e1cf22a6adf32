"""A gateway with the tools of these tests, which kills itself when it is told to.

On SIGUSR1 it arms itself: it kills itself with SIGKILL around the commit that the file `bomb` names, such as
`before 3` or `after 3`.
"""

import functools
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import aiosqlite
import psycopg

import tools.builtin
from bot.app import process
from bot.app.factory import RunOptions
from bot.cli import main as command_line
from bot.db.sqlite.connections import LoopConnection
from bot.queue.worker import Worker
from tests.kill.gateway import PATIENCE, PATIENT, UNLIMITED
from tests.support.delivery_harness import GENEROUS_LIMITS

TOOLS = Path(__file__).with_name("tools_found")
BOMB = Path("bomb")
# People of a chaos run write on while it is down. Menus would be two thirds of the calls of a start.
OPTIONS = RunOptions(max_waiting=1000, sets_menus=False)


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


def count_commits(bomb: CommitBomb) -> None:
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
    tools.builtin.__path__.append(str(TOOLS))
    bomb = CommitBomb()
    signal.signal(signal.SIGUSR1, bomb.arm)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # the launcher has blocked it
    count_commits(bomb)
    if Path(UNLIMITED).exists():
        OPTIONS = replace(OPTIONS, rate_limits=GENEROUS_LIMITS)
    if Path(PATIENT).exists():
        defaults = Worker.__init__.__kwdefaults__
        assert defaults is not None
        defaults["grace_seconds"] = PATIENCE
    process.run = functools.partial(process.run, options=OPTIONS)
    command_line.main()

"""The real gateway as a process of its own, started and killed by a test."""

import asyncio
import contextlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from asyncio.subprocess import STDOUT
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

import bot
from tests.support.telegram.server import ScriptedBotApi

ROOT = Path(bot.__file__).parents[1]
ENVIRONMENT = {
    "PATH": os.defpath,
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "1",  # on a full disk it would be half a file, here in the sources
}
ARGUMENTS = ("run", "--env-file", ".env")
UNLIMITED = "unlimited"  # a file by which the gateway does not pace its calls
PATIENT = "patient"  # one by which it waits at its end for what runs
PATIENCE = 120.0  # seconds; on a busy machine the start of a process takes a minute

T = TypeVar("T")


class GatewayDied(AssertionError):
    """The gateway process ended while a test waited for something."""


class Process(Protocol):
    """What these tests need of a process; asyncio's have it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int: ...


class ForkServer:
    """Forks gateways and other programs from a process that has imported everything (launcher.py)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.launcher"],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # By the request or the process they are about.
        self._numbers: dict[str, Future[int]] = {"warm": Future()}
        self._keys = itertools.count()
        self._reader = threading.Thread(target=self._read_numbers, daemon=True)
        self._reader.start()

    def wait_until_warm(self) -> None:
        """Wait until it has imported everything."""
        self._numbers["warm"].result()

    def close(self) -> None:
        """End the process once all gateways have ended; no more can be forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._reader.join()
        self._process.stdout.close()
        self._process.wait()

    async def fork(
        self,
        folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: str,
        source: str | None = None,
    ) -> "ForkedProcess":
        """Fork a process that runs a module with arguments in this folder, and writes its output to a log.

        With a `source`, both are pipes: it reads that, and its stdout is the log.
        """
        assert self._process.stdin is not None
        module, *arguments = command
        key = f"fork-{next(self._keys)}"
        request = {
            "key": key,
            "folder": str(folder),
            "module": module,
            "arguments": arguments,
            "environment": dict(environment),
            "log": log,
            "input": source,
        }
        pid = self._numbers[key] = Future()
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        # It comes also if nobody waits for it any more.
        number = await asyncio.shield(asyncio.wrap_future(pid))
        return ForkedProcess(number, self._numbers[str(number)])

    def _read_numbers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            key, number = line.split()
            if not key.isdigit():
                self._numbers[number] = Future()  # its exit code, which comes later
            self._numbers[key].set_result(int(number))


class ForkedProcess:
    """A process that another one waits for."""

    def __init__(self, pid: int, exit_code: Future[int]) -> None:
        self.pid = pid
        self._exit_code = exit_code

    @property
    def returncode(self) -> int | None:
        if not self._exit_code.done():
            return None
        return self._exit_code.result()

    def send_signal(self, signal: int) -> None:
        if self._exit_code.done():
            raise ProcessLookupError  # another process may have its number by now
        os.kill(self.pid, signal)

    async def wait(self) -> int:
        return await asyncio.shield(asyncio.wrap_future(self._exit_code))


class GatewayProcess:
    """A gateway in a folder of its own, with the settings in `.env`; one process at a time.

    With a fork server it also has the tests' own tools; without one it is exactly `python -m bot run`, which
    `launch` runs elsewhere.
    """

    def __init__(
        self,
        api: ScriptedBotApi,
        folder: Path,
        settings: Mapping[str, object],
        fork_server: ForkServer | None,
        launch: Sequence[str] = (),
    ) -> None:
        folder.mkdir()
        env_file = folder / ".env"
        env_file.touch(0o600)
        env_file.write_text("".join(f"{name.upper()}={value}\n" for name, value in settings.items()))
        self._api = api
        self._folder = folder
        self._fork_server = fork_server
        self.launch = launch
        self._log = folder / "gateway.log"
        self._process: Process | None = None
        self._started = 0.0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def output(self) -> str:
        """All it has written so far."""
        if not self._log.exists():
            return ""
        return self._log.read_text(errors="replace")

    async def wait_for_output(self, text: str, count: int = 1) -> None:
        """Wait until it has written this text so many times."""
        async with asyncio.timeout(PATIENCE):
            while self.output.count(text) < count:  # another process writes it
                if not self.is_running:
                    raise self._explain_death(self._current_process.returncode)
                await asyncio.sleep(0.01)

    def lift_rate_limits(self) -> None:
        """Let it call Telegram as often as it likes, from its next start on; only a forked one does."""
        (self._folder / UNLIMITED).touch()

    def extend_grace(self) -> None:
        """Have it wait at its end for what runs as long as a test does; only a forked one does."""
        (self._folder / PATIENT).touch()

    async def spawn(self) -> None:
        """Start the process, in a clean environment, without waiting until it works."""
        assert not self.is_running
        self._started = time.monotonic()
        if self._fork_server is not None:
            command = ("tests.kill.armed_gateway", *ARGUMENTS)
            self._process = await self._fork_server.fork(self._folder, command, ENVIRONMENT, self._log.name)
            return
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(*self.launch, sys.executable, "-m", "bot", *ARGUMENTS),
                cwd=self._folder,
                env=ENVIRONMENT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=STDOUT,
            )

    async def start(self) -> None:
        """Start it and wait until it has asked Telegram for updates."""
        await self.spawn()
        await self.while_alive(self._api.wait_until(self._has_polled, PATIENCE))

    def _has_polled(self) -> bool:
        calls = self._api.calls
        return any(
            call.method == "getUpdates" and call.arrived_at > self._started for call in reversed(calls)
        )

    async def while_alive(self, awaitable: Awaitable[T]) -> T:
        """The result of the awaitable; fails at once if the process ends meanwhile."""

        async def watch() -> None:
            code = await self._current_process.wait()
            raise self._explain_death(code)

        async def wait() -> T:
            return await awaitable

        try:
            async with asyncio.TaskGroup() as tasks:
                watcher = tasks.create_task(watch())
                result = await tasks.create_task(wait())
                watcher.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return result

    def _explain_death(self, code: int | None) -> GatewayDied:
        """Say how it ended, with the end of what it has written, which names the error of a fault."""
        last_lines = "\n".join(self.output.splitlines()[-8:])
        return GatewayDied(f"the gateway ended with {code}, after:\n{last_lines}")

    def freeze(self) -> None:
        """Suspend the process, so that it handles nothing that reaches it."""
        self.signal(signal.SIGSTOP)

    async def arm(self, when: str) -> None:
        """Have it kill itself around a commit, such as `before 3` or `after 3`, counted from now.

        One that was armed before, and had come through, may have died of a later commit: it is started again.
        It may have died of this one already, once it had read that: then nothing runs.
        """
        bomb_file = self._folder / "bomb"
        bomb_file.write_text(when, encoding="utf-8")
        while bomb_file.exists():
            try:
                self.signal(signal.SIGUSR1)
                await self.while_alive(self._wait_until_read(bomb_file))
            except (GatewayDied, ProcessLookupError):
                assert await self.wait_for_exit() == -signal.SIGKILL
                if bomb_file.exists():
                    await self.start()

    async def _wait_until_read(self, bomb_file: Path) -> None:
        async with asyncio.timeout(PATIENCE):
            while bomb_file.exists():  # noqa: ASYNC110  # no event says so
                await asyncio.sleep(0.005)

    async def kill(self) -> None:
        """kill -9, now."""
        with contextlib.suppress(ProcessLookupError):  # an armed one may have just killed itself
            self.signal(signal.SIGKILL)
        assert await self.wait_for_exit() == -signal.SIGKILL

    async def restart(self) -> None:
        """Kill it and start it again."""
        await self.kill()
        await self.start()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._current_process.send_signal(number)

    def limit_file_size(self, byte_count: int) -> None:
        """Let it write no file beyond this size, as on a full disk."""
        resource.prlimit(
            self._current_process.pid, resource.RLIMIT_FSIZE, (byte_count, resource.RLIM_INFINITY)
        )

    async def terminate(self) -> tuple[int, float]:
        """Send SIGTERM; returns the exit code, and the seconds it took."""
        started_at = time.monotonic()
        self.signal(signal.SIGTERM)
        return await self.wait_for_exit(), time.monotonic() - started_at

    async def wait_for_exit(self) -> int:
        """The exit code, once it has ended by itself."""
        async with asyncio.timeout(PATIENCE):
            return await self._current_process.wait()

    @property
    def _current_process(self) -> Process:
        assert self._process is not None
        return self._process

"""Runs modules as programs, in a process for each line on stdin.

This process has run a gateway itself and forks others when asked to, since tests start hundreds of them. A
line is a ForkRequest in JSON. Each line that it prints is a key and a number: the key of a request and the
process that it started, or a process and its exit code. SIGUSR1 is blocked in a program until it is ready
for it.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, TypedDict

import typer

from bot.cli import main as command_line
from tests.support.compiled_statements import share_compiled_statements
from tests.support.gateway import running_gateway


class ForkRequest(TypedDict):
    """A module that runs as a program in `folder`: its arguments, its whole environment, its log there.

    `key` is that of the answer. With an `input`, both are pipes: it reads that, and the log is its stdout.
    None: it reads nothing.
    """

    key: str
    folder: str
    module: str
    arguments: list[str]
    environment: dict[str, str]
    log: str
    input: str | None


async def warm_up() -> None:
    """Answer a message in this process: what that imports and compiles each fork would do again."""
    share_compiled_statements()
    with TemporaryDirectory() as folder:
        async with running_gateway(Path(folder), access="open") as gateway:
            gateway.ann.send('@@tool:remember {"note": "milk"}@@@@say:ready@@')
            await gateway.wait_for_texts()
            gateway.api.person(8).send("@@say:ready@@")  # the use of all but admins is limited
            await gateway.wait_for_texts(chat=8)


def serve_forks() -> None:
    """Start a process for each request on stdin, and tell how it ends."""
    asyncio.run(warm_up())
    command_line.cli = typer.main.get_command(command_line.cli)  # type: ignore[assignment]  # once for all
    _print_number("warm", 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    stdin = sys.stdin.fileno()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    unread = b""
    while True:
        readable, _, _ = select.select((stdin, ended), (), ())
        if ended in readable:
            os.read(ended, 4096)
            _report_ends()
        if stdin in readable:
            text = os.read(stdin, 65_536)
            if not text:
                return
            *lines, unread = (unread + text).split(b"\n")
            for line in lines:
                _start_program(json.loads(line))


def _report_ends() -> None:
    """Print the exit codes of all that have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            _print_number(str(child), os.waitstatus_to_exitcode(status))


def _start_program(request: ForkRequest) -> None:
    importlib.import_module(request["module"])  # once for all
    gc.freeze()
    assert threading.active_count() == 1
    pipes = []
    if request["input"] is not None:
        try:
            pipes = [os.open(request["input"], os.O_RDONLY), os.open(request["log"], os.O_WRONLY)]
        except OSError:
            return  # the test that asked is over
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _run_program(request, pipes)
    for pipe in pipes:
        os.close(pipe)  # so that the program alone has its end
    _print_number(request["key"], child)


def _print_number(key: str, number: int) -> None:
    os.write(sys.stdout.fileno(), f"{key}\t{number}\n".encode())


def _run_program(request: ForkRequest, pipes: list[int]) -> NoReturn:
    os.chdir(request["folder"])
    os.environ.clear()  # noqa: TID251  # a program has only what it is given
    os.environ.update(request["environment"])  # noqa: TID251
    if pipes:
        streams = pipes
    else:
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        streams = [os.open(os.devnull, os.O_RDONLY), log, log]
    for standard_descriptor, descriptor in enumerate(streams):
        os.dup2(descriptor, standard_descriptor)
    for pipe in pipes:
        os.close(pipe)
    sys.argv = ["canvasgram", *request["arguments"]]
    warnings.filterwarnings("ignore", module="runpy")  # that the module was imported before is meant
    code = 1
    try:
        runpy.run_module(request["module"], run_name="__main__")
    except SystemExit as exit_request:
        code = int(exit_request.code or 0)
    except BaseException:  # noqa: BLE001  # the interpreter's own end would print it, too
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # the disk may be full
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve_forks()

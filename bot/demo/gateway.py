"""The demo's gateway: a process of its own, which can be killed without the chat page.

Reads a line of JSON from stdin, its settings and options, and ends when stdin does: with the demo, however
that ends. Writes lines of JSON to stdout: once that it can answer, and what it measures of its newest turn.
"""

import asyncio
import contextlib
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from bot import logs
from bot.app import process
from bot.app.factory import RunOptions
from bot.domain import InboxItem, Lane
from bot.errors import CanvasgramError
from bot.llm.client import import_connection_class
from bot.settings import build_settings
from bot.terminal import GRACE_SECONDS
from bot.usage.timers import TurnTimer, TurnTimers
from tools.net.addresses import resolve_host
from tools.net.pages import PAGE_PORTS, PageReader
from tools.threads import run_in_thread

REPORT_SECONDS = 0.1

Json = Mapping[str, Any]


class ReportedTimers(TurnTimers):
    """Turn timers that report what they measure of the newest turn while it runs, and as it is accounted."""

    def __init__(self, report: Callable[[Json], None]) -> None:
        super().__init__()
        self._report = report
        self._newest: InboxItem | None = None

    def open(self, item: InboxItem, lane: Lane) -> TurnTimer:
        """Also remember the item: its turn is the newest."""
        self._newest = item
        return super().open(item, lane)

    def forget(self, item: int) -> None:
        """Report it a last time before."""
        self.report_newest()
        super().forget(item)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.wait_until_measuring()
            self.report_newest()
            await asyncio.sleep(REPORT_SECONDS)

    def report_newest(self) -> None:
        """Report the newest turn, if it is measured."""
        if self._newest is None:
            return
        timer = self.find(self._newest.id)
        if timer is None:
            return
        self._report(
            {
                "item": timer.item,
                "chat": timer.lane.chat,
                "received_at": self._newest.received_at,
                "spans": [(span.kind, span.begin, span.end) for span in self.spans(timer, time.time())],
                "block_times": timer.block_times,
            }
        )


def main() -> None:
    """Run the gateway until stdin ends; it was started with garbage collection off, for a quick start."""
    gc.freeze()
    gc.enable()
    line = sys.stdin.buffer.readline()
    if not line:
        return
    try:
        code = asyncio.run(_run(json.loads(line)))
    except* CanvasgramError as group:
        code = 1
        for error in group.exceptions:
            print(error, file=sys.stderr)  # noqa: T201  # the demo's stderr
    sys.exit(code)


async def _run(order: Json) -> int:
    settings = build_settings(**order["settings"])
    logs.configure("WARNING", secrets=settings.list_secrets())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_end_with_demo, args=(loop, stop), daemon=True).start()
    timers = ReportedTimers(_write_line)
    options = RunOptions(
        page_reader=build_page_reader(order["pages"]), timers=timers, examples=tuple(order["examples"])
    )
    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(timers.run()), tasks.create_task(_report_readiness())]
        code = await process.run(settings, stop, options=options)
        for task in others:
            task.cancel()
    return code


def _end_with_demo(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stop as on SIGTERM when the demo closes the pipe, or has died; at once if that takes too long."""
    sys.stdin.buffer.read()
    loop.call_soon_threadsafe(stop.set)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


async def _report_readiness() -> None:
    """Report when an answer waits for no import any more."""
    await run_in_thread(import_connection_class)
    _write_line({"is_ready": True})


def _write_line(content: Json) -> None:
    with contextlib.suppress(BrokenPipeError):  # the demo has died, and this process ends
        os.write(1, f"{json.dumps(content)}\n".encode())


def build_page_reader(hosts: list[str]) -> PageReader | None:
    """Reads pages of these hosts, each with its port, too: their names lead to this machine here.

    Only by name and port: no other private host may be opened for that. Without any: only public pages.
    """
    if not hosts:
        return None
    names = {host.partition(":")[0] for host in hosts}
    ports = {int(host.partition(":")[2]) for host in hosts}

    async def resolve(host: str, port: int) -> list[str]:
        if host in names:
            return ["127.0.0.1"]
        return await resolve_host(host, port)

    return PageReader(resolve=resolve, ports=PAGE_PORTS | ports, private=frozenset(hosts))

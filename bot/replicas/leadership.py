"""Whether this replica leads: polls Telegram, writes due times down, does what is done once for all."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Leadership:
    """`grant` and `end` are called by the share keeper; `run` does the leader's work meanwhile."""

    def __init__(self) -> None:
        self._granted = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_active = False

    @property
    def is_granted(self) -> bool:
        """Whether this replica may lead."""
        return self._granted.is_set()

    @property
    def is_active(self) -> bool:
        """Whether the leader's work runs; it takes a moment to end."""
        return self._is_active

    def grant(self) -> None:
        """Let the leader's work begin."""
        self._ended.clear()
        self._granted.set()

    def end(self) -> None:
        """Have the leader's work end."""
        self._granted.clear()
        self._ended.set()

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do `work` whenever this replica leads, until cancelled; what it raises is raised."""
        while True:
            await self._granted.wait()
            self._is_active = True
            try:
                async with asyncio.TaskGroup() as tasks:
                    task = tasks.create_task(work(), name="leader")
                    await self._ended.wait()
                    task.cancel()
            finally:
                self._is_active = False

"""What the endpoint is asked before a turn begins: how long a prompt near the limit is, and whether to think.

Whatever it does not answer stays open; a turn begins all the same. The reading is a row of the ledger, a count is none:
nothing is generated for it.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.agent.toolbox import Toolbox
from bot.db import calls
from bot.db.calls import Closing, NewCall
from bot.db.engine import Database
from bot.db.patience import patiently
from bot.domain import CallTimes, Message, Reply, Usage
from bot.opening import Told, Wanting


@dataclass(frozen=True, slots=True)
class Read:
    """The chance, 0 to 1, that messages ask for tool work worth thinking about, and what reading it took."""

    chance: float
    input_tokens: int | None
    output_tokens: int | None


Count = Callable[[Sequence[Message], Toolbox, bool], Awaitable[int | None]]
"""Tokens of a prompt with these tools, thinking or not; None if the endpoint does not say."""
Reads = Callable[[Sequence[str], Toolbox], Awaitable[Read | None]]


class Inquiry:
    """Asks. `endpoint` and `model` are the ledger's names."""

    def __init__(
        self, database: Database, count: Count, read: Reads, *, endpoint: str, model: Callable[[], str]
    ) -> None:
        self._database = database
        self._count = count
        self._read = read
        self._endpoint = endpoint
        self._model = model

    async def __call__(self, wanting: Wanting, texts: Sequence[str]) -> Told:
        """What the endpoint says to what is wanted."""
        counted = await self._count(wanting.prompt, wanting.toolbox, wanting.thinking) if wanting.count else None
        call, chance = await self._chance(wanting, texts) if wanting.read else (None, None)
        return Told(counted, chance, call, count_asked=True, read_asked=True)

    async def _chance(self, wanting: Wanting, texts: Sequence[str]) -> tuple[int, float | None]:
        created = time.time()
        call = await patiently(lambda: self._open(wanting, texts, created))
        read = await self._read(texts, wanting.toolbox)
        await patiently(lambda: self._close(call, read, created))
        return call, read.chance if read else None

    async def _open(self, wanting: Wanting, texts: Sequence[str], now: float) -> int:
        new = NewCall(
            turn=None,
            step=0,
            purpose="decision",
            again=None,
            endpoint=self._endpoint,
            model=self._model(),
            thinking=False,
            tools_offered=len(wanting.toolbox.tools),
            chars_system=0,
            chars_tools=0,
            chars_history=sum(map(len, texts)),
        )
        async with self._database.transaction() as tx:
            return await calls.open_call(tx, new, now=now)

    async def _close(self, call: int, read: Read | None, created: float) -> None:
        now = time.time()
        closing = Closing(call, None, "failed", "the endpoint gave no reading")
        if read is not None:
            usage = Usage(read.input_tokens, None, read.output_tokens)
            times = CallTimes(created, ended=now)
            closing = Closing(call, Reply(f"{read.chance:.2f}", "", (), "stop", usage, times), "ok")
        async with self._database.transaction() as tx:
            await calls.close_call(tx, closing, now=now)

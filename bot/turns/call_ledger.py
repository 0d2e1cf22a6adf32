"""The account's rows of model calls, each opened or closed in a transaction of its own; and the calls of the
house itself, which belong to no turn and for which nobody waits.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from bot.db.conversations import calls
from bot.db.conversations.calls import Closing, NewCall
from bot.db.engine import Database
from bot.db.retry import patiently
from bot.domain import LanguageModel, ModelRequest, Reply
from bot.errors import CallFailed, EndpointAway, StoreUnavailable

LAST_WORDS = 0.5  # seconds to store what a call has taken when the house goes down under it
LONGEST = 300.0  # seconds a call of the house's own may hold its seat


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a call of the house's own; `closing` is how its row ends, once it is stored."""

    given: Reply | CallFailed
    closing: Closing


class Book:
    """Opens and closes rows, again and again until the database can be written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, new: NewCall, after: Closing | None = None) -> int:
        """The row of a call about to be made; `after` is closed together with it."""

        async def write() -> int:
            now = time.time()
            async with self._database.transaction() as tx:
                if after is not None:
                    await calls.close_call(tx, after, now=now)
                return await calls.open_call(tx, new, now=now)

        return await patiently(write)

    async def close(self, closing: Closing) -> None:
        """Write down what came of a call."""

        async def write() -> None:
            async with self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

        await patiently(write)

    async def let_go(self, closing: Closing) -> None:
        """Close the row of a call that is cut because the house goes down, if that can be done at once."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(LAST_WORDS), self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

    async def errand(self, model: LanguageModel, request: ModelRequest, new: NewCall) -> Came:
        """Make a call of the house's own, once. Its row is open until what is given back is stored with it;
        if the call is cancelled, it is closed here.
        """
        call = await self.open(new)
        cut: list[Reply] = []
        try:
            async with asyncio.timeout(None) as limit:
                now = asyncio.get_running_loop().time
                reply = await model.call(
                    request, _nobody_looks, lambda: limit.reschedule(now() + LONGEST), cut.append
                )
        except CallFailed as failed:
            return _failed(call, failed)
        except TimeoutError:
            return _failed(call, EndpointAway(f"The endpoint took longer than {LONGEST:g} s.", cut[-1]))
        except asyncio.CancelledError:
            await self.let_go(Closing(call, cut[-1] if cut else None, "cancelled", "the gateway was stopped"))
            raise
        return Came(reply, Closing(call, reply, "ok"))


def _failed(call: int, failed: CallFailed) -> Came:
    return Came(failed, Closing(call, failed.partial, "failed", str(failed)))


def _nobody_looks(text: str) -> None: ...

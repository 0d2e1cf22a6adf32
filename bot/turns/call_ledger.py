"""The account's rows of model calls, each opened or closed in a transaction of its own; and the calls of the
house itself, which belong to no turn and for which nobody waits.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.domain import LanguageModel, ModelRequest, Reply
from bot.errors import CallFailed, EndpointAway, StoreUnavailable

SHUTDOWN_WRITE_SECONDS = 0.5  # seconds to store what a call has taken when the house goes down under it
MAX_CALL_SECONDS = 300.0  # seconds a call of the house's own may hold its seat


@dataclass(frozen=True, slots=True)
class SystemCallResult:
    """What came of a call of the house's own; `closing` is how its row ends, once it is stored."""

    result: Reply | CallFailed
    closing: CallCompletion


class CallLedger:
    """Opens and closes rows, again and again until the database can be written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, new_call: NewCall, previous_closing: CallCompletion | None = None) -> int:
        """The row of a call about to be made; `after` is closed together with it."""

        async def write() -> int:
            now = time.time()
            async with self._database.transaction() as tx:
                if previous_closing is not None:
                    await calls.close_call(tx, previous_closing, now=now)
                return await calls.open_call(tx, new_call, now=now)

        return await retry_until_available(write)

    async def close(self, closing: CallCompletion) -> None:
        """Write down what came of a call."""

        async def write() -> None:
            async with self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

        await retry_until_available(write)

    async def close_on_shutdown(self, closing: CallCompletion) -> None:
        """Close the row of a call that is cut because the house goes down, if that can be done at once."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(SHUTDOWN_WRITE_SECONDS), self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

    async def call_once(
        self, model: LanguageModel, request: ModelRequest, new_call: NewCall
    ) -> SystemCallResult:
        """Make a call of the house's own, once. Its row is open until what is given back is stored with it;
        if the call is cancelled, it is closed here.
        """
        call = await self.open(new_call)
        cut: list[Reply] = []
        try:
            async with asyncio.timeout(None) as limit:
                now = asyncio.get_running_loop().time
                reply = await model.call(
                    request, _ignore_text, lambda: limit.reschedule(now() + MAX_CALL_SECONDS), cut.append
                )
        except CallFailed as failed:
            return _build_failure(call, failed)
        except TimeoutError:
            return _build_failure(
                call, EndpointAway(f"The endpoint took longer than {MAX_CALL_SECONDS:g} s.", cut[-1])
            )
        except asyncio.CancelledError:
            await self.close_on_shutdown(
                CallCompletion(call, cut[-1] if cut else None, "cancelled", "the gateway was stopped")
            )
            raise
        return SystemCallResult(reply, CallCompletion(call, reply, "ok"))


def _build_failure(call: int, error: CallFailed) -> SystemCallResult:
    return SystemCallResult(error, CallCompletion(call, error.partial, "failed", str(error)))


def _ignore_text(text: str) -> None: ...

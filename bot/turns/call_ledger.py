"""The ledger's rows of model calls, each opened or closed in a transaction of its own.

Also makes the gateway's own calls, which belong to no turn and for which nobody waits.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from bot.db import shares
from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.domain import CallTimes, LanguageModel, ModelRequest, Reply, Usage
from bot.errors import CallFailed, EndpointAway, StoreUnavailable
from bot.llm.typed_reads import TypedQuestions, TypedReader, TypedReading

OWN_CALL_SECONDS = 300.0  # seconds one of the gateway's own calls may hold its seat


@dataclass(frozen=True, slots=True)
class SystemCallResult:
    """The result of one of the gateway's own calls; `closing` is how its row ends, not stored yet."""

    result: Reply | CallFailed
    closing: CallCompletion


class CallLedger:
    """Opens and closes rows, retrying until the database can be written.

    `shutdown_seconds`: to store what a call has used when the gateway shuts down during it. `life`: the id of
    this process's life, by which others know whether it still makes its own calls.
    """

    def __init__(
        self,
        database: Database,
        *,
        shutdown_seconds: float,
        max_call_seconds: float = OWN_CALL_SECONDS,
        life: int | None = None,
    ) -> None:
        self._database = database
        self._shutdown_seconds = shutdown_seconds
        self._life = life
        self._max_call_seconds = max_call_seconds

    async def open(self, new_call: NewCall, previous_closing: CallCompletion | None = None) -> int:
        """Store a call about to be made, and close the previous one with it; returns the row."""

        async def write() -> int:
            now = time.time()
            async with self._database.transaction() as tx:
                if previous_closing is not None:
                    await calls.close_call(tx, previous_closing, now=now)
                life = self._life if new_call.turn is None else None
                return await calls.open_call(tx, new_call, now=now, life=life)

        return await retry_until_available(write)

    async def close(self, closing: CallCompletion) -> None:
        """Store how one of the gateway's own calls ended, also for a chat that another replica has by now."""

        async def write() -> None:
            async with self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

        with shares.work_under(None):
            await retry_until_available(write)

    async def close_on_shutdown(self, closing: CallCompletion) -> None:
        """Store how a call ended that the shutdown cancels, if that can be done at once."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(self._shutdown_seconds), self._database.transaction() as tx:
                await calls.close_call(tx, closing, now=time.time())

    async def call_once(
        self, model: LanguageModel, request: ModelRequest, new_call: NewCall
    ) -> SystemCallResult:
        """Make one of the gateway's own calls, without retry.

        Its row stays open until the caller stores the returned closing; if the call is cancelled, it is
        closed here.
        """
        call = await self.open(new_call)
        partial_replies: list[Reply] = []
        try:
            async with asyncio.timeout(None) as timeout:
                now = asyncio.get_running_loop().time
                reply = await model.call(
                    request,
                    _ignore_text,
                    lambda: timeout.reschedule(now() + self._max_call_seconds),
                    partial_replies.append,
                )
        except CallFailed as failed:
            return _build_failure(call, failed)
        except TimeoutError:
            text = f"The endpoint took longer than {self._max_call_seconds:g} s."
            return _build_failure(call, EndpointAway(text, partial_replies[-1]))
        except asyncio.CancelledError:
            partial = next(reversed(partial_replies), None)
            await self._close_cancelled(call, partial)
            raise
        return SystemCallResult(reply, CallCompletion(call, reply, "ok"))

    async def read_once(
        self,
        new_call: NewCall,
        reader: TypedReader,
        questions: TypedQuestions,
        state: str,
        timeout_seconds: float,
    ) -> tuple[int, TypedReading | None]:
        """Make a typed read, and store what it took; returns its row and the reading, if there is one."""
        created_at = time.time()
        call = await self.open(new_call)
        try:
            reading = await reader.read(questions, state, timeout_seconds=timeout_seconds)
        except asyncio.CancelledError:
            await self._close_cancelled(call, None)
            raise
        await self.close(_build_reading_closing(call, reading, created_at))
        return call, reading

    async def _close_cancelled(self, call: int, partial: Reply | None) -> None:
        with shares.work_under(None):
            await self.close_on_shutdown(CallCompletion(call, partial, "cancelled", calls.GATEWAY_STOPPED))


def _build_reading_closing(call: int, reading: TypedReading | None, created_at: float) -> CallCompletion:
    if reading is None:
        return CallCompletion(call, None, "failed", "the endpoint gave no reading")
    usage = Usage(reading.input_tokens, None, reading.output_tokens)
    times = CallTimes(created_at, ended=time.time())
    answers = (chance for options in reading.chances.values() for chance in options.values())
    text = " ".join(f"{chance:.2f}" for chance in answers)
    reply = Reply(text, "", (), "stop", usage, times, model=reading.model)
    return CallCompletion(call, reply, "ok")


def _build_failure(call: int, error: CallFailed) -> SystemCallResult:
    return SystemCallResult(error, CallCompletion(call, error.partial, "failed", str(error)))


def _ignore_text(text: str) -> None: ...

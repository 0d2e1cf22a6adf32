"""Calls under way at a server: their outcome, whatever it is, and what the server asks before it is there."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp_types import (
    ElicitRequest,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)

from tools.mcp.elicitation import MAX_QUESTIONS, ElicitAnswer, Elicitation
from tools.mcp.errors import ConnectionGone

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FailedCall:
    error: Exception


async def capture_outcome(request: Coroutine[Any, Any, R]) -> R | FailedCall:
    """The outcome, result or error: an error of one call must not end the connection for all."""
    try:
        return await request
    except Exception as error:  # noqa: BLE001 for who waits to raise
        return FailedCall(error)


class OpenCall:
    """A call under way, and what its server asks meanwhile: one question after the other, and only a few."""

    def __init__(self, elicitation: Elicitation, tasks: asyncio.TaskGroup) -> None:
        self.ended = asyncio.Event()
        self._elicitation = elicitation
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._received = 0

    async def answer_all(self, required: InputRequiredResult) -> dict[str, ElicitResult]:
        """The answers to what the server asks before it goes on; empty if it wants what is no question."""
        requests = required.input_requests or {}
        questions = {key: each.params for key, each in requests.items() if isinstance(each, ElicitRequest)}
        if len(questions) < len(requests):
            return {}
        return {key: await self.answer(params) for key, params in questions.items()}

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """The answer to a question; a call that ends has none."""
        self._received += 1
        if self._received > MAX_QUESTIONS:
            return ElicitResult(action="cancel")
        asking = self._tasks.create_task(capture_outcome(self._ask(params)), name="elicitation")
        ending = self._tasks.create_task(self.ended.wait(), name="end of a call")
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            if not asking.done():
                asking.cancel()
        if self.ended.is_set() or asking.cancelled():
            return ElicitResult(action="cancel")
        answer = asking.result()
        if isinstance(answer, FailedCall):
            return ElicitResult(action="cancel")
        return ElicitResult(action=answer.action, content=answer.content)

    async def _ask(self, params: ElicitRequestParams) -> ElicitAnswer:
        async with self._lock:
            if isinstance(params, ElicitRequestURLParams):
                return await self._elicitation.answer_link(params.message, params.url)
            return await self._elicitation.answer_form(params.message, params.requested_schema)


class OpenCalls:
    """The calls under way at a server, of which one can be asked what the server wants to know.

    A question names no call. So it is refused while there are several, and after one was left without its
    answer: it may be about that one. Then `close` is called with the reason once no call is under way, so
    that the next one can be asked.
    """

    def __init__(self, tasks: asyncio.TaskGroup, close: Callable[[str], None]) -> None:
        self._tasks = tasks
        self._close = close
        self._calls: list[OpenCall] = []
        self._was_one_left = False
        self._has_refused = False

    @contextlib.contextmanager
    def begin(self, elicitation: Elicitation) -> Iterator[OpenCall]:
        """Count a call as under way while the block runs."""
        call = OpenCall(elicitation, self._tasks)
        self._calls.append(call)
        try:
            yield call
        except (asyncio.CancelledError, ConnectionGone):
            self._was_one_left = True
            raise
        finally:
            self._calls.remove(call)
            call.ended.set()
            if self._has_refused and not self._calls:
                self._close("it may still ask about a call that was given up")

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """Put a question of the server to the person of the call, if that is certain."""
        self._has_refused |= self._was_one_left
        if self._was_one_left or len(self._calls) != 1:
            return ElicitResult(action="cancel")
        return await self._calls[0].answer(params)

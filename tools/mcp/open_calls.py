"""Calls under way at a server: their outcome, whatever it is, and what the server asks before it is there."""

import asyncio
from collections.abc import Coroutine
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

"""Sends one simulated completion over HTTP, streamed or whole, and notices when the client is gone.

Asks the engine for canvases and the answer for their words; owns neither.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from time import monotonic
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bot.sim.vllm.engine import ConnectionCut, Engine, EngineDied
from bot.sim.vllm.errors import DEAD
from bot.sim.vllm.metrics import Metrics
from bot.sim.vllm.request import Job
from bot.sim.vllm.response import Answer
from bot.sim.vllm.sse import DONE, KEEP_ALIVE, dumps, line

Json = dict[str, Any]
CUT = "canvasgram.cut"
"""Where in the scope the way to cut the connection is found."""


class Delivery(Response):
    """The response to an accepted request. `done` is called when its log is complete."""

    def __init__(self, engine: Engine, job: Job, answer: Answer, done: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._job = job
        self._answer = answer
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve(scope[CUT], send), name="completion")
            if self._engine.profile.frees_on_abort:
                watching = tasks.create_task(_watch(receive, serving), name="client")
                serving.add_done_callback(lambda _: watching.cancel())

    async def _serve(self, cut: Callable[[], Awaitable[None]], send: Send) -> None:
        log = self._job.log
        try:
            if self._job.chat.body.get("stream"):
                await self._stream(send)
            else:
                await self._whole(send)
        except ConnectionCut:
            await cut()
        except asyncio.CancelledError:
            log.cancelled = log.finished is None
            raise
        finally:
            self._close()

    async def _stream(self, send: Send) -> None:
        await send(self._start(200, "text/event-stream; charset=utf-8"))
        end = b""
        try:
            async with aclosing(
                self._engine.generate(self._job, self._engine.profile.keep_alive_s)
            ) as canvases:
                async for canvas in canvases:
                    if canvas is None:
                        await send(_body(KEEP_ALIVE, more=True))
                        continue
                    said = b"".join(map(line, self._answer.chunks(canvas)))
                    if canvas.last:
                        end = said
                    else:
                        await send(_body(said, more=True))
            self._close()
            end += b"".join(map(line, self._answer.tail()))
        except EngineDied:
            end = line(DEAD.body)
        # Sent last, so that a client who has read the end finds its seat free and its log complete.
        await send(_body(end + DONE))

    async def _whole(self, send: Send) -> None:
        try:
            async with aclosing(self._engine.generate(self._job, None)) as canvases:
                texts = [canvas.text async for canvas in canvases if canvas]
            self._close()
            status = 200
            body = self._answer.whole("".join(texts))
        except EngineDied:
            status = DEAD.status
            body = DEAD.body
        await send(self._start(status, "application/json"))
        await send(_body(dumps(body)))

    def _start(self, status: int, content_type: str) -> Message:
        self._job.log.status = status
        headers = [(b"content-type", content_type.encode())]
        if self._engine.profile.request_ids:
            wanted = self._job.log.headers.get("x-request-id") or secrets.token_hex(16)
            headers.append((b"x-request-id", wanted.encode()))
        return {"type": "http.response.start", "status": status, "headers": headers}

    def _close(self) -> None:
        """Complete the log, once."""
        log = self._job.log
        if log.finished is None:
            log.finished = monotonic()
            _measure(self._engine.metrics, self._job)
            self._done()


def _body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _watch(receive: Receive, serving: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    serving.cancel()


def _measure(metrics: Metrics, job: Job) -> None:
    log = job.log
    if log.finished is None or log.first is None or log.seated is None or log.cancelled or not job.output:
        return
    metrics.finished[job.output.finish] += 1
    metrics.measure("time_to_first_token_seconds", log.first - log.received)
    metrics.measure("e2e_request_latency_seconds", log.finished - log.received)
    metrics.measure("request_queue_time_seconds", log.seated - log.received)
    metrics.measure("request_prefill_time_seconds", log.first - log.seated)
    metrics.measure("request_decode_time_seconds", log.finished - log.first)

"""Sends one simulated completion over HTTP, streamed or whole, and notices when the client is gone.

Gets canvases from the engine and their JSON from the encoder; owns neither.
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
from bot.sim.vllm.errors import ENGINE_DEAD
from bot.sim.vllm.metrics import EngineMetrics
from bot.sim.vllm.request import EngineJob
from bot.sim.vllm.response import CompletionEncoder
from bot.sim.vllm.sse import DONE, KEEP_ALIVE, dump_json, format_event

Json = dict[str, Any]
CUT_SCOPE_KEY = "canvasgram.cut"
"""Where in the scope the way to cut the connection is found."""


class CompletionResponse(Response):
    """The response to an accepted request. `on_done` is called when its log is complete."""

    def __init__(
        self, engine: Engine, job: EngineJob, encoder: CompletionEncoder, on_done: Callable[[], None]
    ) -> None:
        super().__init__()
        self._engine = engine
        self._job = job
        self._encoder = encoder
        self._on_done = on_done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self._serve(scope[CUT_SCOPE_KEY], send), name="completion")
            if self._engine.profile.frees_on_abort:
                watching = tasks.create_task(_cancel_on_disconnect(receive, serving), name="client")
                serving.add_done_callback(lambda _: watching.cancel())

    async def _serve(self, cut_connection: Callable[[], Awaitable[None]], send: Send) -> None:
        log = self._job.log
        try:
            if self._job.chat.body.get("stream"):
                await self._send_stream(send)
            else:
                await self._send_whole(send)
        except ConnectionCut:
            await cut_connection()
        except asyncio.CancelledError:
            log.cancelled = log.finished_at is None
            raise
        finally:
            self._complete_log()

    async def _send_stream(self, send: Send) -> None:
        await send(self._start_message(200, "text/event-stream; charset=utf-8"))
        end = b""
        try:
            async with aclosing(
                self._engine.generate(self._job, self._engine.profile.keep_alive_s)
            ) as canvases:
                async for canvas in canvases:
                    if canvas is None:
                        await send(_body_message(KEEP_ALIVE, has_more=True))
                        continue
                    frames = b"".join(map(format_event, self._encoder.encode_canvas(canvas)))
                    if canvas.is_last:
                        end = frames
                    else:
                        await send(_body_message(frames, has_more=True))
            self._complete_log()
            end += b"".join(map(format_event, self._encoder.encode_tail()))
        except EngineDied:
            end = format_event(ENGINE_DEAD.body)
        # Sent last, so that a client who has read the end finds its seat free and its log complete.
        await send(_body_message(end + DONE))

    async def _send_whole(self, send: Send) -> None:
        try:
            async with aclosing(self._engine.generate(self._job, None)) as canvases:
                texts = [canvas.text async for canvas in canvases if canvas]
            self._complete_log()
            status = 200
            body = self._encoder.encode_whole("".join(texts))
        except EngineDied:
            status = ENGINE_DEAD.status
            body = ENGINE_DEAD.body
        await send(self._start_message(status, "application/json"))
        await send(_body_message(dump_json(body)))

    def _start_message(self, status: int, content_type: str) -> Message:
        self._job.log.status = status
        headers = [(b"content-type", content_type.encode())]
        if self._engine.profile.request_ids:
            request_id = self._job.log.headers.get("x-request-id") or secrets.token_hex(16)
            headers.append((b"x-request-id", request_id.encode()))
        return {"type": "http.response.start", "status": status, "headers": headers}

    def _complete_log(self) -> None:
        """Complete the log, once."""
        log = self._job.log
        if log.finished_at is None:
            log.finished_at = monotonic()
            _observe_times(self._engine.metrics, self._job)
            self._on_done()


def _body_message(data: bytes, *, has_more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": has_more}


async def _cancel_on_disconnect(receive: Receive, serving: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    serving.cancel()


def _observe_times(metrics: EngineMetrics, job: EngineJob) -> None:
    log = job.log
    if (
        log.finished_at is None
        or log.first_canvas_at is None
        or log.seated_at is None
        or log.cancelled
        or not job.output
    ):
        return
    metrics.finished[job.output.finish_reason] += 1
    metrics.observe("time_to_first_token_seconds", log.first_canvas_at - log.received_at)
    metrics.observe("e2e_request_latency_seconds", log.finished_at - log.received_at)
    metrics.observe("request_queue_time_seconds", log.seated_at - log.received_at)
    metrics.observe("request_prefill_time_seconds", log.first_canvas_at - log.seated_at)
    metrics.observe("request_decode_time_seconds", log.finished_at - log.first_canvas_at)

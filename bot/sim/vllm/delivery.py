"""Sends one simulated completion over HTTP, streamed or whole, and notices when the client is gone.

Gets canvases from the engine and their JSON from the encoder; owns neither.
"""

import asyncio
import secrets
from contextlib import aclosing
from time import monotonic

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bot.sim.vllm.engine import Engine
from bot.sim.vllm.metrics import EngineMetrics
from bot.sim.vllm.request import EngineJob
from bot.sim.vllm.response import CompletionEncoder
from bot.sim.vllm.sse import DONE, KEEP_ALIVE, Json, dump_json, format_event


class CompletionResponse(Response):
    """The response to an accepted request."""

    def __init__(self, engine: Engine, job: EngineJob, encoder: CompletionEncoder) -> None:
        super().__init__()
        self._engine = engine
        self._job = job
        self._encoder = encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(self.serve(send), name="completion")
            if self._engine.profile.frees_on_abort:
                watching = tasks.create_task(_cancel_on_disconnect(receive, serving), name="client")
                serving.add_done_callback(lambda _: watching.cancel())

    async def serve(self, send: Send) -> None:
        """Send the response; cancelled when the client is gone."""
        log = self._job.log
        try:
            if self._job.chat.body.get("stream"):
                await self.send_stream(send)
            else:
                await self.send_whole(send)
        except asyncio.CancelledError:
            log.cancelled = log.finished_at is None
            raise
        finally:
            self._complete_log()

    async def send_stream(self, send: Send) -> None:
        """Send a stream of events."""
        await send(self._start_message(200, "text/event-stream; charset=utf-8"))
        end = b""
        canvases = self._engine.generate(self._job, self._engine.profile.keep_alive_s)
        async with aclosing(canvases):
            async for canvas in canvases:
                if canvas is None:
                    await send(body_message(KEEP_ALIVE, has_more=True))
                    continue
                frames = b"".join(map(format_event, self._encoder.encode_canvas(canvas)))
                if canvas.is_last:
                    end = frames
                else:
                    await send(body_message(frames, has_more=True))
        self._complete_log()
        end += b"".join(map(format_event, self._encoder.encode_tail()))
        # Sent last, so that a client who has read the end finds its seat free and its log complete.
        await send(body_message(end + DONE))

    async def send_whole(self, send: Send) -> None:
        """Send an answer that is not streamed."""
        async with aclosing(self._engine.generate(self._job, None)) as canvases:
            texts = [canvas.text async for canvas in canvases if canvas]
        self._complete_log()
        await self.send_json(send, 200, self._encoder.encode_whole("".join(texts)))

    async def send_json(self, send: Send, status: int, body: Json) -> None:
        """Send a whole body."""
        await send(self._start_message(status, "application/json"))
        await send(body_message(dump_json(body)))

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
            self._engine.on_change()


def body_message(data: bytes, *, has_more: bool = False) -> Message:
    """A piece of a body, the last one unless it `has_more`."""
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

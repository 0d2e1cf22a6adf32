"""Makes one model call of a turn, with retries while the endpoint is away; a ledger row an attempt.

Owns the waiting between attempts, and what the user and the admins read meanwhile. The loop decides what to
ask, and what to make of the reply.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from bot.agent import history
from bot.agent.events import TurnInterruption
from bot.canvases import CANVAS_TOKENS
from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.retry import retry_until_available
from bot.domain import (
    BRAKE_FINISH_REASON,
    CallTimes,
    Channel,
    LanguageModel,
    Message,
    ModelRequest,
    NotifyAdmins,
    Reply,
    Usage,
)
from bot.errors import CallFailed, EndpointAway, EndpointRefused
from bot.llm.diagnostics import CAP_NOTICE, OutputCapDetector
from bot.translations.translator import DeferredText, Translatable, defer, translatable
from bot.turns.call_ledger import CallLedger
from bot.turns.handle import TurnHandle
from bot.turns.seat_queue import SeatQueueNotice, SeatTimes
from bot.usage.intervals import Span

EndpointLabel = Literal["model endpoint", "second model endpoint"]
ENDPOINT_NAMES: Mapping[EndpointLabel, str] = {
    "model endpoint": translatable("The model server"),
    "second model endpoint": translatable("The second model's server"),
}
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds between attempts; the last one repeats
FAILURES_UNTIL_DOWN = 2  # failures in a row after which an endpoint counts as down, or a refusal as final
_IMAGE_LIMIT = re.compile(r"At most (\d+) image")  # vLLM's --limit-mm-per-prompt counts the whole prompt
IMAGE_PLACEHOLDER = "[an image that this model cannot see]"
AWAY_NOTICE = translatable(
    "The model is not answering. I'll keep trying for up to {minutes} min; /stop ends it."
)
CONSENT_HINT = translatable("To let the second model answer, allow it with /consent.")

FailoverDecision = Literal["go", "wait", "no"]


class FailoverPolicy(Protocol):
    """Decides whether a turn continues at another endpoint: go at once, wait for consent, or no."""

    async def __call__(self, *, is_refusal: bool) -> FailoverDecision:
        """`is_refusal`: this endpoint would refuse the same request again."""
        ...


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """A request, the open ledger row of its first attempt, and the row to store for further attempts.

    `optional`: the turn has an answer without it, so it is attempted only twice.
    """

    request: ModelRequest
    call: int
    new_call: NewCall
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call: a reply, the end of the turn, or a failure; `closing` is how its row ends."""

    result: Reply | TurnInterruption | CallFailed
    closing: CallCompletion


@dataclass(frozen=True, slots=True)
class _Retry:
    """Why a call is made again; `awaits_consent`: the chat may still agree to the other endpoint."""

    reason: Literal["away", "refused"]
    awaits_consent: bool


class ModelCaller:
    """Calls one endpoint.

    `patience_seconds`: how long the endpoint may be away before a turn gives up.
    `notify_admins`: posts a subject and a text to the admins.
    `endpoint_label`: the endpoint's name in these posts.
    `on_cache_lost`: called when the endpoint answers again and its cache is empty.
    `seat_times`: tell who waits how long; None: nobody is told.
    `max_images`: it has refused more in a prompt; None: it has refused none.
    """

    def __init__(
        self,
        ledger: CallLedger,
        model: LanguageModel,
        *,
        patience_seconds: float,
        notify_admins: NotifyAdmins,
        endpoint_label: EndpointLabel = "model endpoint",
        on_cache_lost: Callable[[], None] | None = None,
    ) -> None:
        self._endpoint_label = endpoint_label
        self._on_cache_lost = on_cache_lost
        self._ledger = ledger
        self._model = model
        self._patience_seconds = patience_seconds
        self._notify_admins = notify_admins
        self._is_away = False
        self._output_caps = OutputCapDetector()
        self.max_images: int | None = None
        self.seat_times: SeatTimes | None = None

    @property
    def has_free_seat(self) -> bool:
        """Whether a user's call would get a seat at once."""
        return self._model.has_free_seat

    async def call(
        self,
        attempt: CallAttempt,
        handle: TurnHandle,
        channel: Channel,
        failover_policy: FailoverPolicy | None = None,
    ) -> CallResult:
        """Call the model until it answers, or no answer can be had.

        With a failover policy a refusal is retried, too, and after the second failure the policy decides
        whether the turn continues elsewhere: then the failure is returned at once.
        """
        request = attempt.request
        call = attempt.call
        new_call = attempt.new_call
        attempts = 0
        while True:
            call_result = await self._call_once(request, call, handle, channel)
            refusal = call_result.result
            has_images = any(message.images for message in request.messages)
            if has_images and isinstance(refusal, EndpointRefused):
                # A model that cannot see refuses the image, and every later prompt that holds it.
                max_images = _parse_image_limit(str(refusal))
                request = replace(request, messages=limit_images(request.messages, max_images))
                kept_images = sum(len(message.images) for message in request.messages)
                new_call = replace(new_call, again="blind", images=kept_images)
                call = await self._ledger.open(new_call, previous_closing=call_result.closing)
                call_result = await self._call_once(request, call, handle, channel)
                await self._detect_image_limit(refusal, call_result.result, max_images)
            attempts += 1
            retry = await self._decide_retry(
                call_result.result, attempts, handle, failover_policy, optional=attempt.optional
            )
            if retry is None:
                await self._detect_output_cap(call_result.result, attempt.request.max_tokens)
                return call_result
            hint = channel.translate(CONSENT_HINT) if retry.awaits_consent else ""
            await self._wait_before_retry(handle, channel, hint=hint)
            closing = call_result.closing
            if handle.stop_reason is not None:
                return CallResult(TurnInterruption(handle.stop_reason, closing.reply), closing)
            retried_call = replace(new_call, again=retry.reason)
            call = await self._ledger.open(retried_call, previous_closing=closing)

    async def _decide_retry(
        self,
        result: Reply | TurnInterruption | CallFailed,
        attempts: int,
        handle: TurnHandle,
        failover_policy: FailoverPolicy | None,
        *,
        optional: bool,
    ) -> _Retry | None:
        """Why the same is asked here once more; None: it is not."""
        is_refusal = isinstance(result, EndpointRefused)
        if not isinstance(result, EndpointAway) and not (is_refusal and failover_policy):
            handle.failures.reset()
            await self._report_availability(result)
            return None
        # A turn that begins while the endpoint is known to be away needs to find that out once, not twice.
        is_known = self._is_away and not is_refusal and handle.failures.count == 0
        is_out_of_patience = handle.failures.add(self._patience_seconds)
        if is_out_of_patience or attempts == FAILURES_UNTIL_DOWN:
            await self._report_availability(result)
        if is_out_of_patience or (optional and attempts >= FAILURES_UNTIL_DOWN):
            return None
        failover: FailoverDecision | None = None
        if failover_policy is not None and (is_known or attempts >= FAILURES_UNTIL_DOWN):
            failover = await failover_policy(is_refusal=is_refusal)
        if failover == "go" or (is_refusal and failover == "no"):
            return None
        return _Retry("refused" if is_refusal else "away", awaits_consent=failover == "wait")

    async def _call_once(
        self, request: ModelRequest, call: int, handle: TurnHandle, channel: Channel
    ) -> CallResult:
        partial_replies: list[Reply] = []
        try:
            result = await handle.run_cancellable(
                self._stream_reply(request, handle, channel, partial_replies.append)
            )
        except asyncio.CancelledError as cancelled:
            partial = next(reversed(partial_replies), None)
            reason = str(cancelled) or calls.GATEWAY_STOPPED
            await self._ledger.close_on_shutdown(CallCompletion(call, partial, "cancelled", reason))
            raise
        partial = next(reversed(partial_replies), None)
        match result:
            case None:
                _record_canvases(handle, partial)
                return CallResult(
                    TurnInterruption(handle.stop_reason or "stopped", partial),
                    CallCompletion(call, partial, "cancelled", "stopped by the person"),
                )
            case TimeoutError():
                return CallResult(
                    TurnInterruption("seconds", partial),
                    CallCompletion(call, partial, "cut", "the turn's time was up"),
                )
            case CallFailed():
                _record_canvases(handle, result.partial)
                return CallResult(result, CallCompletion(call, result.partial, "failed", str(result)))
            case Reply() if result.finish_reason == BRAKE_FINISH_REASON:
                closing = CallCompletion(call, result, "cut", "it thought too long without an answer")
            case _:
                closing = CallCompletion(call, result, "ok")
        _record_canvases(handle, result)
        return CallResult(result, closing)

    async def _stream_reply(
        self, request: ModelRequest, handle: TurnHandle, channel: Channel, on_cut: Callable[[Reply], None]
    ) -> Reply | CallFailed | TimeoutError:
        queue_notice = SeatQueueNotice(
            lambda: self._model.queue_position(request.lane), channel, self.seat_times
        )
        seat_at: float | None = None
        try:
            with handle.timer.measure("seat wait") as switch_to:
                if self.seat_times is not None and not self._model.has_free_seat:
                    await self.seat_times.refresh()
                async with handle.deadline() as start_clock:

                    def on_seat() -> None:
                        nonlocal seat_at
                        seat_at = time.time()
                        queue_notice.close()
                        start_clock()
                        switch_to("first canvas")

                    def on_block(text: str) -> None:
                        channel.show(text)
                        handle.timer.block_times.append(time.time())
                        switch_to("further canvases")  # what is shown is never the last of it

                    reply = await self._model.call(request, on_block, on_seat, on_cut)
        except TimeoutError as timed_out:
            return timed_out
        except CallFailed as failed:
            if seat_at is not None:
                handle.timer.add_span(Span("failed calls", seat_at, time.time()))
            return failed
        finally:
            queue_notice.close()
        queue_ms = (reply.server_timings or {}).get("queue_time_ms")
        if seat_at is not None and queue_ms is not None:
            queued_until = min(seat_at + queue_ms / 1000, time.time())
            handle.timer.add_span(Span("server queue", seat_at, queued_until))
        return reply

    async def _wait_before_retry(self, handle: TurnHandle, channel: Channel, *, hint: str) -> None:
        """Wait before the next attempt; a /stop ends the waiting."""
        failures = handle.failures.count
        if failures > 1:
            minutes = max(1, round(self._patience_seconds / 60))
            notice = channel.translate(AWAY_NOTICE, minutes=minutes)
            channel.show_status(f"{notice} {hint}".strip())
        with handle.timer.measure("back-off"):
            await handle.pause(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1])

    async def _report_availability(self, result: Reply | TurnInterruption | CallFailed) -> None:
        """Notify the admins when the endpoint is away or refuses, and when it answers again."""
        label = self._endpoint_label
        name = defer(ENDPOINT_NAMES[label])
        match result:
            case Reply() if self._is_away:
                self._is_away = False
                log.info("the %s answers again", label, extra={"action": "endpoint.answers"})
                if self._on_cache_lost is not None and result.usage.cached_tokens == 0:
                    self._on_cache_lost()
                await self._post(label, defer("{endpoint} answers again.", endpoint=name))
            case EndpointRefused():
                self._is_away = True
                log.warning("the %s refused a request", label, extra={"action": "endpoint.refused"})
                await self._post(
                    label, defer("{endpoint} refused a request: {reason}", endpoint=name, reason=result)
                )
            case EndpointAway() if not self._is_away:
                self._is_away = True
                reason = str(result).partition(":")[0]  # then come the server's words
                log.warning(
                    "the %s does not answer calls: %s", label, reason, extra={"action": "endpoint.away"}
                )
                await self._post(
                    label, defer("{endpoint} is not answering: {reason}", endpoint=name, reason=result)
                )

    async def _detect_image_limit(
        self, refusal: EndpointRefused, result: Reply | TurnInterruption | CallFailed, max_images: int
    ) -> None:
        """Keep the limit if a prompt was refused because of its images; admins are told if it takes none."""
        if not isinstance(result, Reply):
            return
        self.max_images = max_images
        if max_images:
            return
        await self._post(
            f"{self._endpoint_label} pictures",
            defer(
                "{endpoint} doesn't take pictures, so I won't send it any until the next start. It said: "
                "{reason}",
                endpoint=defer(ENDPOINT_NAMES[self._endpoint_label]),
                reason=refusal,
            ),
        )

    async def _detect_output_cap(
        self, result: Reply | TurnInterruption | CallFailed, max_tokens: int
    ) -> None:
        """Notify the admins once that the server cuts every reply short."""
        if isinstance(result, Reply) and self._output_caps.detect(result, max_tokens):
            await self._post("cap", DeferredText(CAP_NOTICE))

    async def _post(self, subject: str, text: Translatable) -> None:
        await retry_until_available(lambda: self._notify_admins(subject, text))


def _record_canvases(handle: TurnHandle, reply: Reply | None) -> None:
    """Add the time of the canvases after the first, where it was not measured as they came.

    Thought and tool calls are not shown as they come, so that time is known only in the end.
    """
    match reply:
        case Reply(
            blocks=blocks,
            usage=Usage(completion_tokens=tokens),
            times=CallTimes(first_block=float(first), ended=float(ended)),
        ):
            if blocks > 1 or (tokens or 0) > CANVAS_TOKENS:
                handle.timer.add_span(Span("further canvases", first, ended))


def _parse_image_limit(refusal: str) -> int:
    """The images that the server takes in a prompt, as far as its refusal says; else 0."""
    limit = _IMAGE_LIMIT.search(refusal)
    return int(limit[1]) if limit else 0


def limit_images(messages: tuple[Message, ...], max_images: int) -> tuple[Message, ...]:
    """A prompt with the images of its newest messages, and a placeholder for each of the others."""
    limited = list[Message]()
    for message in reversed(messages):
        kept = message.images[:max_images]
        max_images -= len(kept)
        rest = replace(message, images=message.images[len(kept) :])
        limited.append(replace(history.replace_images(rest, IMAGE_PLACEHOLDER), images=kept))
    return tuple(reversed(limited))

"""One model call of a turn, patient while the endpoint is away: a ledger row an attempt, a line for the
person.

Owns the waiting between attempts; what to ask and what to make of the reply is the loop's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from bot.agent import history
from bot.agent.events import TurnInterruption
from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.domain import CANVAS_TOKENS, CallTimes, Channel, LanguageModel, Message, ModelRequest, Reply, Usage
from bot.errors import CallFailed, EndpointAway, EndpointRefused
from bot.llm.output_caps import CAP_NOTICE, OutputCapDetector
from bot.turns.call_ledger import CallLedger
from bot.turns.handle import TurnHandle
from bot.usage.intervals import Span

BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds between attempts; the last one repeats
SEAT_NOTICE_SECONDS = 2.0  # seconds without a seat until the person is told, and told again
FAILURES_UNTIL_DOWN = 2  # failures in a row after which an endpoint counts as down, or a refusal as meant
IMAGE_PLACEHOLDER = "[an image that this model cannot see]"
CONSENT_HINT = " With /consent the second one may answer."

NotifyAdmins = Callable[[str, str], Awaitable[None]]
FailoverDecision = Literal["go", "wait", "no"]


class FailoverPolicy(Protocol):
    """Says whether a turn goes on at another endpoint: at once, perhaps later, or not at all."""

    async def __call__(self, *, is_refusal: bool) -> FailoverDecision:
        """`is_refusal`: this endpoint would refuse it again."""
        ...


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """What is asked, the open row of the ledger it is asked under, and what the rows of further attempts say.

    `optional`: there is an answer without it, so that two tries must do.
    """

    request: ModelRequest
    call: int
    new_call: NewCall
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call: a reply, the turn's end, or a failure; `closing` is how its row ends."""

    result: Reply | TurnInterruption | CallFailed
    closing: CallCompletion


@dataclass(frozen=True, slots=True)
class _Retry:
    """Why a call is made again; `may_change`: the chat may still let it go elsewhere."""

    reason: Literal["away", "refused"]
    awaits_consent: bool


class ModelCaller:
    """Asks the model. `wait` is how many seconds an endpoint may be away; `tell` reaches the admins' feed.

    `called` is its name in the feed; `cold` hears that it answers again and has forgotten what was in its
    cache. `blind` once it has refused a picture: then send it none.
    """

    def __init__(
        self,
        database: Database,
        model: LanguageModel,
        *,
        patience_seconds: float,
        notify_admins: NotifyAdmins,
        endpoint_label: str = "model endpoint",
        on_cache_lost: Callable[[], None] | None = None,
    ) -> None:
        self._endpoint_label = endpoint_label
        self._on_cache_lost = on_cache_lost
        self._ledger = CallLedger(database)
        self._model = model
        self._patience_seconds = patience_seconds
        self._notify_admins = notify_admins
        self._is_away = False
        self._output_caps = OutputCapDetector()
        self.images_unsupported = False

    @property
    def has_free_seat(self) -> bool:
        """Whether a person's call would have a seat at once."""
        return self._model.has_free_seat

    async def call(
        self,
        attempt: CallAttempt,
        handle: TurnHandle,
        channel: Channel,
        failover_policy: FailoverPolicy | None = None,
    ) -> CallResult:
        """Ask until there is an answer, or none can be had.

        With `seek` a refusal is tried again, too, and after the second failure it is asked whether the turn
        goes on elsewhere: then the failure is given back at once.
        """
        request = attempt.request
        call = attempt.call
        new = attempt.new_call
        tries = 0
        while True:
            asked = await self._call_once(request, call, handle, channel)
            refused = asked.result
            if isinstance(refused, EndpointRefused) and any(message.images for message in request.messages):
                # A model without eyes refuses the picture, and every later prompt that holds it.
                request = replace(request, messages=strip_images(request.messages))
                new = replace(new, again="blind", images=0)
                call = await self._ledger.open(new, previous_closing=asked.closing)
                asked = await self._call_once(request, call, handle, channel)
                await self._detect_no_image_support(refused, asked.result)
            tries += 1
            again = await self._decide_retry(
                asked.result, tries, handle, failover_policy, optional=attempt.optional
            )
            if again is None:
                await self._detect_output_cap(asked.result, attempt.request.max_tokens)
                return asked
            await self._wait_before_retry(handle, channel, hint=CONSENT_HINT if again.awaits_consent else "")
            if handle.stop_reason is not None:
                return CallResult(TurnInterruption(handle.stop_reason, asked.closing.reply), asked.closing)
            call = await self._ledger.open(replace(new, again=again.reason), previous_closing=asked.closing)

    async def _decide_retry(
        self,
        result: Reply | TurnInterruption | CallFailed,
        tries: int,
        handle: TurnHandle,
        failover_policy: FailoverPolicy | None,
        *,
        optional: bool,
    ) -> "_Retry | None":
        """Why the same is asked here once more; None: it is not."""
        refused = isinstance(result, EndpointRefused)
        if not isinstance(result, EndpointAway) and not (refused and failover_policy):
            handle.failures.reset()
            await self._report_availability(result)
            return None
        # A turn that begins while the endpoint is known to be away finds that out once, not twice.
        known = self._is_away and not refused and handle.failures.count == 0
        late = handle.failures.add(self._patience_seconds)
        if late or tries == FAILURES_UNTIL_DOWN:
            await self._report_availability(result)
        if late or (optional and tries >= FAILURES_UNTIL_DOWN):
            return None
        if failover_policy is not None and (known or tries >= FAILURES_UNTIL_DOWN):
            found = await failover_policy(is_refusal=refused)
        else:
            found = None
        if found == "go" or (refused and found == "no"):
            return None
        return _Retry("refused" if refused else "away", awaits_consent=found == "wait")

    async def _call_once(
        self, request: ModelRequest, call: int, handle: TurnHandle, channel: Channel
    ) -> CallResult:
        cut: list[Reply] = []
        try:
            given = await handle.run_cancellable(self._stream_reply(request, handle, channel, cut.append))
        except asyncio.CancelledError as cancelled:
            why = str(cancelled) or "the gateway was stopped"
            await self._ledger.close_on_shutdown(
                CallCompletion(call, cut[-1] if cut else None, "cancelled", why)
            )
            raise
        partial = cut[-1] if cut else None
        _record_canvases(handle, given.partial if isinstance(given, CallFailed) else given or partial)
        match given:
            case None:
                return CallResult(
                    TurnInterruption("stopped", partial),
                    CallCompletion(call, partial, "cancelled", "stopped by the person"),
                )
            case TimeoutError():
                return CallResult(
                    TurnInterruption("seconds", partial),
                    CallCompletion(call, partial, "cut", "the turn's time was up"),
                )
            case CallFailed():
                return CallResult(given, CallCompletion(call, given.partial, "failed", str(given)))
            case Reply(finish_reason=calls.BRAKE_FINISH_REASON):
                return CallResult(
                    given, CallCompletion(call, given, "cut", "it thought too long without an answer")
                )
            case _:
                return CallResult(given, CallCompletion(call, given, "ok"))

    async def _stream_reply(
        self, request: ModelRequest, handle: TurnHandle, channel: Channel, on_cut: Callable[[Reply], None]
    ) -> Reply | CallFailed | TimeoutError:
        queue = _SeatQueueNotice(lambda: self._model.queue_position(request.lane), channel)
        try:
            with handle.timer.measure("seat wait") as at:
                async with handle.deadline() as begin:

                    def seated() -> None:
                        queue.close()
                        begin()
                        at("first canvas")

                    def show(text: str) -> None:
                        channel.show(text)
                        at("further canvases")  # what is shown is never the last of it

                    return await self._model.call(request, show, seated, on_cut)
        except (CallFailed, TimeoutError) as failed:
            return failed
        finally:
            queue.close()

    async def _wait_before_retry(self, handle: TurnHandle, channel: Channel, *, hint: str) -> None:
        """Wait before the next attempt; a /stop ends the waiting."""
        failures = handle.failures.count
        if failures > 1:
            minutes = max(1, round(self._patience_seconds / 60))
            channel.show_status(
                f"The model is not answering. I keep trying for up to {minutes} min; /stop ends it.{hint}"
            )
        with handle.timer.measure("back-off"):
            await handle.pause(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1])

    async def _report_availability(self, result: Reply | TurnInterruption | CallFailed) -> None:
        """Tell the admins when the endpoint goes away or refuses, and when it is back."""
        if isinstance(result, Reply) and self._is_away:
            self._is_away = False
            if self._on_cache_lost is not None and result.usage.cached_tokens == 0:
                self._on_cache_lost()
            await retry_until_available(
                lambda: self._notify_admins(
                    self._endpoint_label, f"The {self._endpoint_label} answers again."
                )
            )
        elif isinstance(result, EndpointRefused) or (isinstance(result, EndpointAway) and not self._is_away):
            self._is_away = True
            if isinstance(result, EndpointAway):
                what = "is not answering"
            else:
                what = "refused a request"
            await retry_until_available(
                lambda: self._notify_admins(
                    self._endpoint_label, f"The {self._endpoint_label} {what}: {result}"
                )
            )

    async def _detect_no_image_support(
        self, refusal: EndpointRefused, result_without_images: Reply | TurnInterruption | CallFailed
    ) -> None:
        """Tell the admins if it was for its pictures that a prompt was refused."""
        if isinstance(result_without_images, Reply):
            self.images_unsupported = True
            line = f"The {self._endpoint_label} takes no pictures, and gets none until the next start. It said: {refusal}"
            await retry_until_available(lambda: self._notify_admins(f"{self._endpoint_label} pictures", line))

    async def _detect_output_cap(
        self, result: Reply | TurnInterruption | CallFailed, max_tokens: int
    ) -> None:
        """Tell the admins once that the server cuts every reply short."""
        if isinstance(result, Reply) and self._output_caps.detect(result, max_tokens):
            await retry_until_available(lambda: self._notify_admins("cap", CAP_NOTICE))


def _record_canvases(handle: TurnHandle, result: object) -> None:
    """Thought and tool calls are not shown as they come, so what follows the first block is known in the end
    only.
    """
    match result:
        case Reply(
            blocks=blocks,
            usage=Usage(completion_tokens=tokens),
            times=CallTimes(first_block=float(first), ended=float(ended)),
        ):
            if blocks > 1 or (tokens or 0) > CANVAS_TOKENS:
                handle.timer.add_span(Span("further canvases", first, ended))


def strip_images(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A prompt for a model without eyes."""
    return tuple(history.replace_images(one, IMAGE_PLACEHOLDER) for one in messages)


class _SeatQueueNotice:
    """A call in the queue for a seat: after a while the person reads where it stands, until it leaves the
    queue.
    """

    def __init__(self, get_position: Callable[[], int | None], channel: Channel) -> None:
        self._get_position = get_position
        self._channel = channel
        self._is_shown = False
        self._next_update = asyncio.get_running_loop().call_later(SEAT_NOTICE_SECONDS, self._show_position)

    def _show_position(self) -> None:
        before = self._get_position()
        if before is not None:
            self._is_shown = True
            place = f"{before} before you" if before else "you are next"
            self._channel.show_queue_place(f"Waiting for a free seat; {place}.")
            self._next_update = asyncio.get_running_loop().call_later(
                SEAT_NOTICE_SECONDS, self._show_position
            )

    def close(self) -> None:
        """The call waits no more: it has its seat, or it is over."""
        self._next_update.cancel()
        if self._is_shown:
            self._is_shown = False
            self._channel.show_queue_place(None)

"""One model call of a turn, patient while the endpoint is away: a ledger row an attempt, a line for the
person.

Owns the waiting between attempts; what to ask and what to make of the reply is the loop's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from bot.agent import history
from bot.agent.events import Ended
from bot.db.conversations import calls
from bot.db.conversations.calls import Closing, NewCall
from bot.db.engine import Database
from bot.db.retry import patiently
from bot.domain import CANVAS, CallTimes, Channel, LanguageModel, Message, ModelRequest, Reply, Usage
from bot.errors import CallFailed, EndpointAway, EndpointRefused
from bot.llm.output_caps import CAPPED, Caps
from bot.turns.call_ledger import Book
from bot.turns.handle import Running
from bot.usage.intervals import Span

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds between attempts; the last one repeats
SEAT_SIGN = 2.0  # seconds without a seat until the person is told, and told again
TRIES = 2  # failures in a row after which an endpoint counts as down, or a refusal as meant
UNSEEN = "[an image that this model cannot see]"
CONSENT = " With /consent the second one may answer."

Tell = Callable[[str, str], Awaitable[None]]
Elsewhere = Literal["go", "wait", "no"]


class Seek(Protocol):
    """Says whether a turn goes on at another endpoint: at once, perhaps later, or not at all."""

    async def __call__(self, *, refused: bool) -> Elsewhere:
        """`refused`: this endpoint would refuse it again."""
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is asked, the open row of the ledger it is asked under, and what the rows of further attempts say.

    `optional`: there is an answer without it, so that two tries must do.
    """

    request: ModelRequest
    call: int
    new: NewCall
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of a call: a reply, the turn's end, or a failure; `closing` is how its row ends."""

    given: Reply | Ended | CallFailed
    closing: Closing


@dataclass(frozen=True, slots=True)
class _Again:
    """Why a call is made again; `may_change`: the chat may still let it go elsewhere."""

    why: Literal["away", "refused"]
    may_change: bool


class Asking:
    """Asks the model. `wait` is how many seconds an endpoint may be away; `tell` reaches the admins' feed.

    `called` is its name in the feed; `cold` hears that it answers again and has forgotten what was in its
    cache. `blind` once it has refused a picture: then send it none.
    """

    def __init__(
        self,
        database: Database,
        model: LanguageModel,
        *,
        wait: float,
        tell: Tell,
        called: str = "model endpoint",
        cold: Callable[[], None] | None = None,
    ) -> None:
        self._called = called
        self._cold = cold
        self._book = Book(database)
        self._model = model
        self._wait = wait
        self._tell = tell
        self._away = False
        self._caps = Caps()
        self.blind = False

    @property
    def idle(self) -> bool:
        """Whether a person's call would have a seat at once."""
        return self._model.idle

    async def ask(
        self, first: Attempt, running: Running, channel: Channel, seek: Seek | None = None
    ) -> Asked:
        """Ask until there is an answer, or none can be had.

        With `seek` a refusal is tried again, too, and after the second failure it is asked whether the turn
        goes on elsewhere: then the failure is given back at once.
        """
        request = first.request
        call = first.call
        new = first.new
        tries = 0
        while True:
            asked = await self._once(request, call, running, channel)
            refused = asked.given
            if isinstance(refused, EndpointRefused) and any(message.images for message in request.messages):
                # A model without eyes refuses the picture, and every later prompt that holds it.
                request = replace(request, messages=unseen(request.messages))
                new = replace(new, again="blind", images=0)
                call = await self._book.open(new, after=asked.closing)
                asked = await self._once(request, call, running, channel)
                await self._look_for_eyes(refused, asked.given)
            tries += 1
            again = await self._again(asked.given, tries, running, seek, optional=first.optional)
            if again is None:
                await self._look_for_cap(asked.given, first.request.max_tokens)
                return asked
            await self._pause(running, channel, hint=CONSENT if again.may_change else "")
            if running.over is not None:
                return Asked(Ended(running.over, asked.closing.reply), asked.closing)
            call = await self._book.open(replace(new, again=again.why), after=asked.closing)

    async def _again(
        self,
        given: Reply | Ended | CallFailed,
        tries: int,
        running: Running,
        seek: Seek | None,
        *,
        optional: bool,
    ) -> "_Again | None":
        """Why the same is asked here once more; None: it is not."""
        refused = isinstance(given, EndpointRefused)
        if not isinstance(given, EndpointAway) and not (refused and seek):
            running.failures.clear()
            await self._report(given)
            return None
        # A turn that begins while the endpoint is known to be away finds that out once, not twice.
        known = self._away and not refused and running.failures.count == 0
        late = running.failures.add(self._wait)
        if late or tries == TRIES:
            await self._report(given)
        if late or (optional and tries >= TRIES):
            return None
        if seek is not None and (known or tries >= TRIES):
            found = await seek(refused=refused)
        else:
            found = None
        if found == "go" or (refused and found == "no"):
            return None
        return _Again("refused" if refused else "away", may_change=found == "wait")

    async def _once(self, request: ModelRequest, call: int, running: Running, channel: Channel) -> Asked:
        cut: list[Reply] = []
        try:
            given = await running.work(self._call(request, running, channel, cut.append))
        except asyncio.CancelledError as cancelled:
            why = str(cancelled) or "the gateway was stopped"
            await self._book.let_go(Closing(call, cut[-1] if cut else None, "cancelled", why))
            raise
        partial = cut[-1] if cut else None
        _note_canvases(running, given.partial if isinstance(given, CallFailed) else given or partial)
        match given:
            case None:
                return Asked(
                    Ended("stopped", partial), Closing(call, partial, "cancelled", "stopped by the person")
                )
            case TimeoutError():
                return Asked(
                    Ended("seconds", partial), Closing(call, partial, "cut", "the turn's time was up")
                )
            case CallFailed():
                return Asked(given, Closing(call, given.partial, "failed", str(given)))
            case Reply(finish_reason=calls.BRAKE):
                return Asked(given, Closing(call, given, "cut", "it thought too long without an answer"))
            case _:
                return Asked(given, Closing(call, given, "ok"))

    async def _call(
        self, request: ModelRequest, running: Running, channel: Channel, on_cut: Callable[[Reply], None]
    ) -> Reply | CallFailed | TimeoutError:
        queue = _Queue(lambda: self._model.waiting(request.lane), channel)
        try:
            with running.watch.at("seat wait") as at:
                async with running.clocked() as begin:

                    def seated() -> None:
                        queue.leave()
                        begin()
                        at("first canvas")

                    def show(text: str) -> None:
                        channel.show(text)
                        at("further canvases")  # what is shown is never the last of it

                    return await self._model.call(request, show, seated, on_cut)
        except (CallFailed, TimeoutError) as failed:
            return failed
        finally:
            queue.leave()

    async def _pause(self, running: Running, channel: Channel, *, hint: str) -> None:
        """Wait before the next attempt; a /stop ends the waiting."""
        failures = running.failures.count
        if failures > 1:
            minutes = max(1, round(self._wait / 60))
            channel.status(
                f"The model is not answering. I keep trying for up to {minutes} min; /stop ends it.{hint}"
            )
        with running.watch.at("back-off"):
            await running.pause(PAUSES[min(failures, len(PAUSES)) - 1])

    async def _report(self, given: Reply | Ended | CallFailed) -> None:
        """Tell the admins when the endpoint goes away or refuses, and when it is back."""
        if isinstance(given, Reply) and self._away:
            self._away = False
            if self._cold is not None and given.usage.cached_tokens == 0:
                self._cold()
            await patiently(lambda: self._tell(self._called, f"The {self._called} answers again."))
        elif isinstance(given, EndpointRefused) or (isinstance(given, EndpointAway) and not self._away):
            self._away = True
            if isinstance(given, EndpointAway):
                what = "is not answering"
            else:
                what = "refused a request"
            await patiently(lambda: self._tell(self._called, f"The {self._called} {what}: {given}"))

    async def _look_for_eyes(self, refused: EndpointRefused, without: Reply | Ended | CallFailed) -> None:
        """Tell the admins if it was for its pictures that a prompt was refused."""
        if isinstance(without, Reply):
            self.blind = True
            line = f"The {self._called} takes no pictures, and gets none until the next start. It said: {refused}"
            await patiently(lambda: self._tell(f"{self._called} pictures", line))

    async def _look_for_cap(self, given: Reply | Ended | CallFailed, allowed: int) -> None:
        """Tell the admins once that the server cuts every reply short."""
        if isinstance(given, Reply) and self._caps.sure(given, allowed):
            await patiently(lambda: self._tell("cap", CAPPED))


def _note_canvases(running: Running, came: object) -> None:
    """Thought and tool calls are not shown as they come, so what follows the first block is known in the end
    only.
    """
    match came:
        case Reply(
            blocks=blocks,
            usage=Usage(completion_tokens=tokens),
            times=CallTimes(first_block=float(first), ended=float(ended)),
        ):
            if blocks > 1 or (tokens or 0) > CANVAS:
                running.watch.add(Span("further canvases", first, ended))


def unseen(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A prompt for a model without eyes."""
    return tuple(history.without_images(one, UNSEEN) for one in messages)


class _Queue:
    """A call in the queue for a seat: after a while the person reads where it stands, until it leaves the
    queue.
    """

    def __init__(self, waiting: Callable[[], int | None], channel: Channel) -> None:
        self._waiting = waiting
        self._channel = channel
        self._told = False
        self._sign = asyncio.get_running_loop().call_later(SEAT_SIGN, self._tell)

    def _tell(self) -> None:
        before = self._waiting()
        if before is not None:
            self._told = True
            place = f"{before} before you" if before else "you are next"
            self._channel.queue(f"Waiting for a free seat; {place}.")
            self._sign = asyncio.get_running_loop().call_later(SEAT_SIGN, self._tell)

    def leave(self) -> None:
        """The call waits no more: it has its seat, or it is over."""
        self._sign.cancel()
        if self._told:
            self._told = False
            self._channel.queue(None)

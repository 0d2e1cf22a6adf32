"""What happens in the simulated Telegram and when: its clock, the log of calls, waiting for changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from bot.sim.telegram.params import Json, Params, TelegramRefusal

T = TypeVar("T")
ChatEventKind = Literal[
    "message", "edited", "deleted", "draft", "typing", "reaction", "answer", "commands", "lost"
]


class Clock:
    """The simulator's time in seconds; `advance` moves it forward, so that a test need not sleep."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._stopped_at: float | None = None

    def now(self) -> float:
        """Unix time."""
        now = time.time() if self._stopped_at is None else self._stopped_at
        return now + self._ahead

    def stop(self) -> None:
        """Let only `advance` move it from now on, so that a test need not be quick."""
        self._stopped_at = time.time()

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


@dataclass(slots=True)
class BotApiCall:
    """One call of the Bot API.

    Times are of `time.monotonic`; `answered_at` is when its answer had been written out.
    `outcome` is ok, refused, cut (connection closed without an answer) or hung; `update_ids` are those that a
    getUpdates answer carried; `refusal` is why its body could not be read.
    """

    method: str
    params: Params
    arrived_at: float
    outcome: Literal["open", "ok", "refused", "cut", "hung"] = "open"
    status: int | None = None
    description: str = ""
    result: object = None
    answered_at: float | None = None
    update_ids: tuple[int, ...] = ()
    refusal: TelegramRefusal | None = None

    @property
    def chat_id(self) -> int:
        """The chat it concerns, 0 for none."""
        return self.params.integer("chat_id")

    @property
    def text(self) -> str:
        return self.params.text("text")


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """A change in a chat.

    `data` is what a client would show: the message, the draft (None: removed), the action, the reactions or
    the answer to a tap. The kind `commands` tells that the menu may have changed, and `lost` a slow listener
    that it missed events and should read the chat again.
    """

    kind: ChatEventKind
    chat_id: int
    message_id: int | None = None
    data: Json | None = None


@dataclass(slots=True, eq=False)
class Subscription:
    """Events as they come, of one chat or of all; iterate over it.

    Holds `max_events` at most, then reports `lost`.
    """

    chat_id: int | None
    max_events: int
    _queue: asyncio.Queue[ChatEvent] = field(default_factory=asyncio.Queue)

    def put(self, event: ChatEvent) -> None:
        if self.chat_id not in (None, event.chat_id):
            return
        if self._queue.qsize() >= self.max_events:
            while not self._queue.empty():
                self._queue.get_nowait()
            event = ChatEvent("lost", event.chat_id)
        self._queue.put_nowait(event)

    async def get(self) -> ChatEvent:
        """The next event, once there is one."""
        return await self._queue.get()

    async def __aiter__(self) -> AsyncIterator[ChatEvent]:
        while True:
            yield await self.get()


class ChangeNotifier:
    """Wakes those who wait when something has changed."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self._subscriptions: set[Subscription] = set()

    def notify(self, event: ChatEvent | None = None) -> None:
        """Report a change; `event` describes it, if a listener could show it."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        if event is not None:
            for subscription in self._subscriptions:
                subscription.put(event)

    async def wait_until(self, predicate: Callable[[], T], timeout: float) -> T:  # noqa: ASYNC109 - the whole point here
        """The first true value of `predicate`, which is called after each change.

        Raises TimeoutError after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while not (result := predicate()):
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)
        return result

    @contextmanager
    def subscribe(self, chat_id: int | None, max_events: int) -> Iterator[Subscription]:
        subscription = Subscription(chat_id, max_events)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

"""What somebody who waits for a seat reads: the place in line, and about how long it takes.

How long is estimated from the ledger, by how long the endpoint's latest calls have held a seat.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from statistics import median
from time import monotonic

from bot.db.engine import Database
from bot.db.usage.seat_calls import list_seat_seconds
from bot.domain import Channel
from bot.errors import StoreUnavailable
from bot.llm.seats import Seats
from bot.translations.formats import format_span
from bot.translations.translator import Translator

SEAT_NOTICE_SECONDS = 2.0  # seconds in the queue for a seat until its place is shown, and between updates
MIN_CALLS = 12  # fewer tell too little of the next ones
REFRESH_SECONDS = 300.0
_ROUNDING = ((5, 20), (10, 50))  # seconds a wait is rounded up to, if it is at most so long; else minutes


class SeatTimes:
    """How long calls have held a seat lately; read again from time to time."""

    def __init__(self, database: Database, endpoint_url: str, seats: Seats) -> None:
        self._database = database
        self._endpoint_url = endpoint_url
        self._seats = seats
        self._seat_seconds: Sequence[float] = ()
        self._read_at = -math.inf

    async def refresh(self) -> None:
        """Read the ledger, unless that was done lately or it cannot be read."""
        if monotonic() - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = monotonic()
        with contextlib.suppress(StoreUnavailable):
            async with self._database.read_transaction() as tx:
                self._seat_seconds = await list_seat_seconds(tx, self._endpoint_url)

    def estimate_wait(self, calls_before: int) -> int | None:
        """Seconds until a call has its seat behind so many others; None: too few calls tell."""
        return estimate_wait(self._seat_seconds, calls_before + 1, self._seats.count)


class SeatQueueNotice:
    """Shows a call's place in the queue for a seat, after a while and until it leaves the queue."""

    def __init__(
        self, get_position: Callable[[], int | None], channel: Channel, seat_times: SeatTimes | None
    ) -> None:
        self._get_position = get_position
        self._channel = channel
        self._seat_times = seat_times
        self._is_shown = False
        self._next_update = asyncio.get_running_loop().call_later(SEAT_NOTICE_SECONDS, self._show_position)

    def _show_position(self) -> None:
        self._next_update = asyncio.get_running_loop().call_later(SEAT_NOTICE_SECONDS, self._show_position)
        calls_before = self._get_position()
        if calls_before is None:  # the queue of several replicas may not have it yet
            return
        self._is_shown = True
        seconds = self._seat_times.estimate_wait(calls_before) if self._seat_times else None
        self._channel.show_queue_place(format_place(self._channel.translate, calls_before, seconds))

    def close(self) -> None:
        """End the notice: the call has its seat, or it is over."""
        self._next_update.cancel()
        if self._is_shown:
            self._is_shown = False
            self._channel.show_queue_place(None)


def estimate_wait(seat_seconds: Sequence[float], place: int, seat_count: int) -> int | None:
    """Seconds until the call at this place, from 1, has a seat: rounded up, the more the longer it is.

    None: too few calls tell how long a seat is held.
    """
    if len(seat_seconds) < MIN_CALLS:
        return None
    seconds = median(seat_seconds) * place / max(1, seat_count)
    step = next((step for step, most in _ROUNDING if seconds <= most), 60)
    return max(1, math.ceil(seconds / step)) * step


def format_place(translate: Translator, calls_before: int, seconds: int | None) -> str:
    """The place in line; `seconds` until its turn comes, None where nothing tells."""
    text = translate("You're next in line.")
    if calls_before:
        text = translate.plural(
            "{count} request is ahead of yours.",
            "{count} requests are ahead of yours.",
            calls_before,
        )
    if seconds is None:
        return text
    time = format_span(translate, seconds, "second" if seconds < 60 else "minute", "long")
    wait = translate("It takes about {time}.", time=time)
    return f"{text} {wait}"

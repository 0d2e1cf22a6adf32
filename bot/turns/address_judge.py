"""Whether a message of a group is meant for the assistant, as the endpoint reads it in one step.

A read takes a seat behind all people's calls, and is a row of the ledger. Where it fails, comes late or is
unsure, the message is meant for others.
"""

import asyncio
from collections.abc import Callable

from bot.db.conversations.calls import NewCall
from bot.domain import TASKS_PRIORITY, Lane
from bot.llm.address_question import ADDRESS, MIN_CHANCE, GroupMessage, describe_message
from bot.llm.seats import Seats
from bot.llm.typed_reads import TypedReader, TypedReading
from bot.turns.call_ledger import CallLedger

MAX_SEAT_SECONDS = 5.0  # an answer that nobody asked for by name is worth little when it is late
_SAMPLE = GroupMessage("Ann", "Is anybody at home?", names=("the assistant",))


class AddressJudge:
    """Reads messages; `endpoint_name`, `model_name`: as the ledger names them."""

    def __init__(
        self,
        ledger: CallLedger,
        reader: TypedReader,
        seats: Seats,
        *,
        endpoint_name: str,
        model_name: Callable[[], str],
        max_seat_seconds: float = MAX_SEAT_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._seats = seats
        self._endpoint_name = endpoint_name
        self._model_name = model_name
        self._max_seat_seconds = max_seat_seconds

    @property
    def is_supported(self) -> bool | None:
        """Whether the endpoint can read so; None: it was not asked yet."""
        return self._reader.is_supported

    async def learn_support(self) -> None:
        """Find out whether the endpoint can read so, unless that is known."""
        if self._reader.is_supported is None:
            await self.is_meant(Lane(0), _SAMPLE)

    async def is_meant(self, lane: Lane, message: GroupMessage) -> bool:
        """Whether the message is meant for the assistant; False also if nobody says."""
        if self._reader.is_supported is False:
            return False
        try:
            async with asyncio.timeout(self._max_seat_seconds) as timeout:
                async with self._seats.hold(lane.key, TASKS_PRIORITY):
                    timeout.reschedule(None)
                    reading = await self._read(message)
        except TimeoutError:
            return False
        return reading is not None and reading.chance >= MIN_CHANCE

    async def _read(self, message: GroupMessage) -> TypedReading | None:
        state = describe_message(message)
        new_call = NewCall(
            turn=None,
            step=0,
            purpose="address",
            again=None,
            endpoint=self._endpoint_name,
            model=self._model_name(),
            thinking=False,
            tools_offered=0,
            chars_system=0,
            chars_tools=0,
            chars_history=len(state),
        )
        _, reading = await self._ledger.read_once(new_call, self._reader, ADDRESS, state)
        return reading

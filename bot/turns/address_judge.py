"""Whether a message of a group is meant for the assistant, as the endpoint reads it in one step.

A read takes a seat behind all people's calls, and is a row of the ledger. Where it fails, comes late or is
unsure, the message is meant for others. What people of a group say to each other goes to no second endpoint.
"""

import asyncio

from bot.domain import TASKS_PRIORITY, Lane
from bot.llm.address_question import ADDRESS, MIN_CHANCE, GroupMessage, describe_message
from bot.llm.seats import Seats
from bot.turns.recorded_reads import ReadSubject, RecordedReads

MAX_SEAT_SECONDS = 5.0  # an answer that nobody asked for by name is worth little when it is late
_SAMPLE = GroupMessage("Ann", "Is anybody at home?", names=("the assistant",))


class AddressJudge:
    """Reads messages; `seats` are the main endpoint's."""

    def __init__(
        self, reads: RecordedReads, seats: Seats, *, max_seat_seconds: float = MAX_SEAT_SECONDS
    ) -> None:
        self._reads = reads
        self._seats = seats
        self._max_seat_seconds = max_seat_seconds

    @property
    def is_supported(self) -> bool | None:
        """Whether the endpoint can read so; None: it was not asked yet."""
        return self._reads.is_supported

    async def learn_support(self) -> None:
        """Find out whether the endpoint can read so, unless that is known."""
        if self._reads.is_supported is None:
            await self.is_meant(Lane(0), _SAMPLE)

    async def is_meant(self, lane: Lane, message: GroupMessage) -> bool:
        """Whether the message is meant for the assistant; False also if nobody says."""
        if self._reads.is_supported is False:
            return False
        try:
            async with asyncio.timeout(self._max_seat_seconds) as timeout:
                async with self._seats.hold(lane.key, TASKS_PRIORITY):
                    timeout.reschedule(None)
                    subject = ReadSubject(lane.chat, "address", (ADDRESS,), describe_message(message))
                    _, reading = await self._reads.read(subject)
        except TimeoutError:
            return False
        return reading is not None and (reading.find_chance(ADDRESS) or 0) >= MIN_CHANCE

"""The schedules of one person in one chat, as the tool `schedule` sees them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bot import diary
from bot.db import jobs
from bot.diary import Diary, Owner, ZoneUnknown
from bot.domain import Lane
from bot.due import zones
from bot.due.unclear import Unclear
from tools.base import ToolError

if TYPE_CHECKING:
    from bot.due.understanding import When

ASK_CITY = (
    "The person's time zone is unknown. Ask in which city they are, then call this again with it at the end of when, "
    'such as "tomorrow 9:00 in Berlin".'
)
SAID = "The person was shown this with an Undo button; do not repeat it, confirm in a few words."


class ChatSchedules:
    """Adds, lists and removes; `wake_sender` is called when the person has something to read."""

    def __init__(self, diary: Diary, owner: Owner, wake_sender: Callable[[Lane], None]) -> None:
        self._diary = diary
        self._owner = owner
        self._wake_sender = wake_sender

    async def add(self, when: str, text: str, *, task: bool) -> str:
        """See Schedules."""
        try:
            understood = await self._understood(when)
            async with self._diary.database.transaction() as tx:
                kind: jobs.JobKind = "task" if task else "reminder"
                part = await self._diary.keep(tx, self._owner, kind, understood, text)
                await self._diary.tell(tx, self._owner, part)
        except ZoneUnknown:
            raise ToolError(ASK_CITY) from None
        except Unclear as error:
            raise ToolError(str(error)) from None
        self._diary.look()
        self._wake_sender(self._owner.lane)
        return f"Scheduled. {diary.told(understood)}. {SAID}"

    async def list(self) -> str:
        """See Schedules."""
        async with self._diary.database.reading() as tx:
            found = await jobs.of_person(tx, self._owner.person)
        return "\n".join(diary.line(job) for job in found) or "Nothing is scheduled."

    async def remove(self, number: int) -> str:
        """See Schedules."""
        async with self._diary.database.transaction() as tx:
            gone = await jobs.remove(tx, number, person=self._owner.person)
        if gone is None:
            raise ToolError(f"There is no #{number}. Use action list to see the numbers.")
        return f"Removed: {diary.line(gone)}"

    async def _understood(self, when: str) -> "When":
        """The time in these words; of somebody whose zone is unknown they may name a city at their end."""
        try:
            return await self._diary.understand(self._owner.person, when)
        except Unclear:
            words, _, city = when.rpartition(" in ")
            async with self._diary.database.reading() as tx:
                is_known = await self._diary.zone(tx, self._owner.person) is not None
            if is_known or not words:
                raise
            try:
                zone = zones.find(city)
            except Unclear:
                raise ZoneUnknown from None
        async with self._diary.database.transaction() as tx:
            await self._diary.move(tx, self._owner, zone)
        return await self._diary.understand(self._owner.person, words)

"""The schedules of one person in one chat, as the tool `schedule` sees them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bot.db.queues import jobs
from bot.domain import Lane
from bot.jobs import user_jobs as diary
from bot.jobs.times import zones
from bot.jobs.times.errors import Unclear
from bot.jobs.user_jobs import Diary, Owner, ZoneUnknown
from tools.base import ToolError

if TYPE_CHECKING:
    from bot.jobs.times.parser import When

ASK_CITY = (
    "The person's time zone is unknown. Ask in which city they are, then call this again with it at the end of when, "
    'such as "tomorrow 9:00 in Berlin".'
)
ELSEWHERE = "I do not know when that is: the person's times are those of {zone}. Give the time there, without a place."
MOST_NUMBER = 10**18
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
            if 0 < number < MOST_NUMBER:
                gone = await jobs.remove(tx, number, person=self._owner.person)
            else:
                gone = None
        if gone is None:
            raise ToolError(f"There is no #{number}. Call this without arguments to see the numbers.")
        return f"Removed: {diary.line(gone)}"

    async def _understood(self, when: str) -> "When":
        """The time in these words; they may name a city of the person's zone at their end, which is how it is
        told.
        """
        try:
            return await self._diary.understand(self._owner.person, when)
        except Unclear as unclear:
            words, _, city = when.rpartition(" in ")
            async with self._diary.database.reading() as tx:
                known = await self._diary.zone(tx, self._owner.person)
            if not words:
                raise
            try:
                zone = zones.find(city)
            except Unclear:
                raise (ZoneUnknown() if known is None else unclear) from None
        if known is None:
            async with self._diary.database.transaction() as tx:
                await self._diary.move(tx, self._owner, zone)
        elif known != zone:
            raise Unclear(ELSEWHERE.format(zone=known))
        return await self._diary.understand(self._owner.person, words)

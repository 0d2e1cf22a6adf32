"""The schedules of one person in one chat, as the tool `schedule` sees them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bot.db.queues import jobs
from bot.domain import Lane
from bot.jobs import user_jobs as diary
from bot.jobs.times import zones
from bot.jobs.times.errors import UnclearTime
from bot.jobs.user_jobs import JobOwner, UserJobs, ZoneUnknown
from tools.base import ToolError

if TYPE_CHECKING:
    from bot.jobs.times.parser import ParsedSchedule

ZONE_UNKNOWN_TEXT = (
    "The person's time zone is unknown. Ask in which city they are, then call this again with it at the end of when, "
    'such as "tomorrow 9:00 in Berlin".'
)
OTHER_ZONE_TEXT = "I do not know when that is: the person's times are those of {zone}. Give the time there, without a place."
MAX_NUMBER = 10**18
CONFIRMATION_SHOWN = (
    "The person was shown this with an Undo button; do not repeat it, confirm in a few words."
)


class ChatSchedules:
    """Adds, lists and removes; `wake_sender` is called when the person has something to read."""

    def __init__(self, user_jobs: UserJobs, owner: JobOwner, wake_sender: Callable[[Lane], None]) -> None:
        self._user_jobs = user_jobs
        self._owner = owner
        self._wake_sender = wake_sender

    async def add(self, when: str, text: str, *, task: bool) -> str:
        """See Schedules."""
        try:
            understood = await self._parse_when(when)
            async with self._user_jobs.database.transaction() as tx:
                kind: jobs.JobKind = "task" if task else "reminder"
                part = await self._user_jobs.add_job(tx, self._owner, kind, understood, text)
                await self._user_jobs.notify_owner(tx, self._owner, part)
        except ZoneUnknown:
            raise ToolError(ZONE_UNKNOWN_TEXT) from None
        except UnclearTime as error:
            raise ToolError(str(error)) from None
        self._user_jobs.wake_scheduler()
        self._wake_sender(self._owner.lane)
        return f"Scheduled. {diary.format_schedule(understood)}. {CONFIRMATION_SHOWN}"

    async def list(self) -> str:
        """See Schedules."""
        async with self._user_jobs.database.read_transaction() as tx:
            found = await jobs.list_of_person(tx, self._owner.person)
        return "\n".join(diary.format_job(job) for job in found) or "Nothing is scheduled."

    async def remove(self, number: int) -> str:
        """See Schedules."""
        async with self._user_jobs.database.transaction() as tx:
            if 0 < number < MAX_NUMBER:
                gone = await jobs.remove(tx, number, person=self._owner.person)
            else:
                gone = None
        if gone is None:
            raise ToolError(f"There is no #{number}. Call this without arguments to see the numbers.")
        return f"Removed: {diary.format_job(gone)}"

    async def _parse_when(self, when: str) -> "ParsedSchedule":
        """The time in these words; they may name a city of the person's zone at their end, which is how it is
        told.
        """
        try:
            return await self._user_jobs.parse_when(self._owner.person, when)
        except UnclearTime as unclear:
            words, _, city = when.rpartition(" in ")
            async with self._user_jobs.database.read_transaction() as tx:
                known = await self._user_jobs.find_zone(tx, self._owner.person)
            if not words:
                raise
            try:
                zone = zones.resolve_zone(city)
            except UnclearTime:
                raise (ZoneUnknown() if known is None else unclear) from None
        if known is None:
            async with self._user_jobs.database.transaction() as tx:
                await self._user_jobs.change_zone(tx, self._owner, zone)
        elif known != zone:
            raise UnclearTime(OTHER_ZONE_TEXT.format(zone=known))
        return await self._user_jobs.parse_when(self._owner.person, words)

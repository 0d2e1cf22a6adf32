"""The schedules of one person in one chat, as the tool `schedule` uses them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.db.queues import jobs
from bot.jobs.times.zones import UnclearTime, resolve_zone
from bot.jobs.user_jobs import JobOwner, UserJobs, ZoneUnknown, format_job, format_schedule
from bot.translations.translator import ENGLISH, Translator, translatable
from tools.base import CallPreview, ToolError

if TYPE_CHECKING:
    from bot.jobs.times.reader import ParsedSchedule

ZONE_UNKNOWN_TEXT = (
    "The person's time zone is unknown. Ask in which city they are, then call this again with it at the end "
    'of when, such as "tomorrow 9:00 in Berlin".'
)
OTHER_ZONE_TEXT = (
    "I don't know when that is: the person's times are those of {zone}. Give the time there, without a place."
)
REMINDER_QUESTION = translatable("Shall I remind you?")
TASK_QUESTION = translatable("Shall I do this at that time?")
DELETE_QUESTION = translatable("Shall I delete this?")
LINE_START = "/remind "
"""Begins a person's own words that nobody else than the model can read a time in."""

MAX_NUMBER = 10**18  # a larger one does not fit into a column of SQLite
LOST_NUMBER = "The person wrote {numbers}: keep each number, in when or in text."
CONFIRMATION_SHOWN = (
    "The person was shown this with an Undo button; do not repeat it, confirm in a few words."
)


@dataclass(frozen=True, slots=True)
class ChatSchedules:
    """Implements the tools' protocol Schedules.

    In a group only the jobs of that group are seen: its prompts are read by others.
    `translate`: into the person's language.
    `said_at`: when they asked, `own_words`: what they wrote then themselves, and nobody else.
    """

    user_jobs: UserJobs
    owner: JobOwner
    translate: Translator
    said_at: float | None = None
    own_words: str = ""

    async def add(self, when: str, text: str, *, task: bool) -> str:
        if lost := self._list_lost_numbers(when, text):
            raise ToolError(LOST_NUMBER.format(numbers=" and ".join(map(str, lost))))
        try:
            schedule = await self._parse_when(when)
            async with self.user_jobs.database.transaction() as tx:
                kind: jobs.JobKind = "task" if task else "reminder"
                part = await self.user_jobs.add_job(tx, self.owner, kind, schedule, text, self.translate)
                await self.user_jobs.notify_owner(tx, self.owner, part)
        except ZoneUnknown:
            raise ToolError(ZONE_UNKNOWN_TEXT) from None
        except UnclearTime as error:
            raise ToolError(str(error)) from None
        return f"Scheduled. {format_schedule(ENGLISH, schedule)}. {CONFIRMATION_SHOWN}"

    async def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        when, text = (arguments.get(name) or "" for name in ("when", "text"))
        if remove := arguments.get("remove"):
            async with self.user_jobs.database.read_transaction() as tx:
                job = await jobs.find(tx, remove) if 0 < remove < MAX_NUMBER else None
            is_seen = job is not None and job.person == self.owner.person
            if job is None or not is_seen or self.owner.group_chat not in {None, job.lane and job.lane.chat}:
                return CallPreview(DELETE_QUESTION, f"#{remove}")
            return CallPreview(DELETE_QUESTION, job.text)
        if not when and not text:
            return CallPreview("", "", is_own_wish=True)  # it only lists
        question = TASK_QUESTION if arguments.get("task") else REMINDER_QUESTION
        if self._list_lost_numbers(when, text):
            return CallPreview(question, f"{text}\n{when}", is_own_wish=True)  # it is refused when it runs
        try:
            schedule = await self.user_jobs.parse_when(
                self.owner.person, when, self.translate.language, self.said_at
            )
        except UnclearTime:
            return CallPreview(question, f"{text}\n{when}")
        is_own_wish = not arguments.get("task") and await self._is_own_wish(schedule, text)
        # A question shows other blanks than plain ones as escapes.
        shown = format_schedule(self.translate, schedule).replace("\u202f", " ").replace("\u00a0", " ")
        return CallPreview(question, f"{text}\n{shown}", is_own_wish)

    async def _is_own_wish(self, schedule: "ParsedSchedule", text: str) -> bool:
        """Whether the person's own words say this time, and hold this text in one piece."""
        own_words, text = (" ".join(words.lower().split()) for words in (self.own_words, text))
        if not re.search(rf"(?<!\w){re.escape(text.rstrip('.!?'))}(?!\w)", own_words):
            return False
        try:
            own_schedule, _ = await self.user_jobs.parse_line(
                self.owner.person, self.own_words, self.said_at or 0.0, self.translate.language
            )
        except UnclearTime:
            return False
        return own_schedule == schedule

    def _list_lost_numbers(self, when: str, text: str) -> list[int]:
        """The numbers of a line that was given to the model to read, as far as its call has them not."""
        if not self.own_words.startswith(LINE_START):
            return []
        return sorted(_find_numbers(self.own_words) - _find_numbers(f"{when} {text}") - {0})

    async def list(self) -> str:
        async with self.user_jobs.database.read_transaction() as tx:
            own_jobs = await jobs.list_of_person(tx, self.owner.person, chat=self.owner.group_chat)
        return "\n".join(format_job(job) for job in own_jobs) or "Nothing is scheduled."

    async def remove(self, number: int) -> str:
        removed = None
        if 0 < number < MAX_NUMBER:
            async with self.user_jobs.database.transaction() as tx:
                chat = self.owner.group_chat
                removed = await jobs.remove(tx, number, person=self.owner.person, chat=chat)
        if removed is None:
            raise ToolError(f"There is no #{number}. Call this without arguments to see the numbers.")
        return f"Removed: {format_job(removed)}"

    async def _parse_when(self, when: str) -> "ParsedSchedule":
        """Parse a time that may end with a city; this is how a person's zone becomes known here."""
        person = self.owner.person
        try:
            return await self.user_jobs.parse_when(person, when, self.translate.language, self.said_at)
        except UnclearTime as unclear:
            time_text, _, city = when.rpartition(" in ")
            async with self.user_jobs.database.read_transaction() as tx:
                known_zone = await self.user_jobs.find_zone(tx, person)
            if not time_text:
                raise
            try:
                zone = resolve_zone(city)
            except UnclearTime:
                if known_zone is None:
                    raise ZoneUnknown from None
                raise unclear from None
        if known_zone is None:
            async with self.user_jobs.database.transaction() as tx:
                await self.user_jobs.change_zone(tx, self.owner, zone)
        elif known_zone != zone:
            raise UnclearTime(OTHER_ZONE_TEXT, zone=known_zone)
        return await self.user_jobs.parse_when(person, time_text, self.translate.language, self.said_at)


def _find_numbers(text: str) -> set[int]:
    return {int(digits) for digits in re.findall(r"\d+", text)}

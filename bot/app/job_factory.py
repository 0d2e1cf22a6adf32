"""Builds scheduled work: the clock that wakes it, the jobs people keep, and what came of each run.

A part of the composition root; factory.py builds the rest.
"""

from dataclasses import dataclass

from bot.chat.access import Access
from bot.db.database_url import find_database_file
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.jobs.outcomes import JobOutcomes
from bot.jobs.schedule_tool import ChatSchedules
from bot.jobs.scheduler import JobScheduler
from bot.jobs.times.zones import is_utc
from bot.jobs.user_jobs import JobLimits, JobOwner, UserJobs
from bot.settings import Settings
from bot.turns.turn_request import TurnRequest


@dataclass(frozen=True, slots=True)
class JobComponents:
    """Scheduled work: the clock that wakes it, the jobs users keep, and what came of each run."""

    scheduler: JobScheduler
    user_jobs: UserJobs
    outcomes: JobOutcomes

    def schedules_for(self, request: TurnRequest) -> ChatSchedules:
        """The jobs that tools of this turn see and change."""
        owner = JobOwner(request.person, request.name, request.lane)
        said_at = request.sent_at[-1] if request.sent_at else None
        return ChatSchedules(
            self.user_jobs,
            owner,
            request.translate,
            said_at=said_at,
            own_words=request.own_words,
        )


async def build_job_components(settings: Settings, database: Database, access: Access) -> JobComponents:
    """Build them."""
    database_file = find_database_file(settings.database_url)
    scheduler = JobScheduler(database, database_file=database_file)
    outcomes = JobOutcomes(database, access.get_translator)
    await retry_until_available(outcomes.recover)
    is_zone_known = "time_zone" in settings.model_fields_set and not is_utc(settings.time_zone)
    limits = JobLimits(default_zone=settings.time_zone if is_zone_known else None)
    return JobComponents(scheduler, UserJobs(database, limits), outcomes)

"""Builds what keeps the house: its own jobs with their times, what hears of orders, how long texts are kept.

A part of the composition root; app.py builds the rest around it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from bot.db.engine import Database, parse_database_path
from bot.db.maintenance.backup import BackupDirectory
from bot.db.queues.admin_notices import AdminNotices
from bot.domain import Lane, Runner
from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_jobs import (
    SystemJob,
    SystemJobRunner,
    SystemJobSettings,
    SystemJobSync,
    build_daily_rule,
    build_weekly_rule,
)
from bot.jobs.times import rrules as rules
from bot.maintenance.retention import ForgetChatRunner, RetentionPolicy, RetentionTask
from bot.maintenance.tasks import (
    BackupTask,
    CacheWarmupTask,
    IntegrityCheck,
    ReadCountersTask,
    UsageSummaryTask,
)
from bot.settings import Settings
from bot.turns.cache_warmup import CacheWarmup
from bot.usage.reconcile import CountersEndpoint, Reconciliation


class MaintenanceFactory:
    """Built once. `tell` reaches the admins' feed."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        cache_warmup: CacheWarmup,
        notify_admins: Callable[[str, str], Awaitable[None]],
    ) -> None:
        file = parse_database_path(settings.database_url)
        if settings.backup_dir:
            shelf = BackupDirectory(file, settings.backup_dir, settings.backup_keep)
        else:
            shelf = None
        self.retention_policy = RetentionPolicy(file, settings.keep_text_days, shelf)
        if settings.model_api_key:
            key = settings.model_api_key.get_secret_value()
        else:
            key = None
        self.reconciliation = Reconciliation(
            database, CountersEndpoint(settings.model_url, key), notify_admins
        )
        self._settings = settings
        self._database = database
        self._system_jobs = (
            *self._build_database_jobs(),
            *self._build_endpoint_jobs(cache_warmup),
            *self._build_usage_jobs(),
        )

    def build_system_job_runner(
        self, notices: AdminNotices, other_runners: Mapping[str, Runner], wake_sender: Callable[[Lane], None]
    ) -> SystemJobRunner:
        """The runner of the house's items; `others` are those that are no routine, by name."""
        other_runners = {**other_runners, "forget": ForgetChatRunner(self._database, wake_sender)}
        return SystemJobRunner(self._database, self._system_jobs, other_runners, notices, wake_sender)

    def build_system_job_sync(
        self, scheduler: JobScheduler, wake_worker: Callable[[], None]
    ) -> SystemJobSync:
        """What keeps the rows of the house's jobs."""
        where = SystemJobSettings(self.retention_policy.database_file, self._settings.time_zone)
        return SystemJobSync(
            self._database, self._system_jobs, where, wake_scheduler=scheduler.wake, wake_worker=wake_worker
        )

    def _build_database_jobs(self) -> list[SystemJob]:
        """One after the other at night: a backup of what was found to be sound, then what is too old goes."""
        care = IntegrityCheck(self._database, self.retention_policy.database_file)
        found = [
            SystemJob(
                "database", "merges its log, looks it through for damage", build_daily_rule("03:00"), care
            )
        ]
        if self.retention_policy.backup_directory is not None:
            found.append(
                SystemJob(
                    "backup",
                    "a backup in BACKUP_DIR",
                    build_daily_rule("03:30"),
                    BackupTask(self.retention_policy.backup_directory),
                )
            )
        if self.retention_policy.is_needed:
            text = "deletes texts and copies that are too old"
            found.append(
                SystemJob(
                    "retention",
                    text,
                    build_daily_rule("04:00"),
                    RetentionTask(self._database, self.retention_policy),
                )
            )
        return found

    def _build_endpoint_jobs(self, cache_warmup: CacheWarmup) -> list[SystemJob]:
        # Readings keep a clock of their own: six an hour would fill the inbox, and one that is missed is made
        # up for by the next. As a job one is taken when it is ordered.
        found = [
            SystemJob(
                "reconciliation", "reads the endpoint's counters", None, ReadCountersTask(self.reconciliation)
            )
        ]
        if self._settings.warm_up == "on":
            warm = CacheWarmupTask(self._database, self._settings.model_url, cache_warmup.trigger)
            found.append(
                SystemJob(
                    "warm-up", "fills the endpoint's cache after idle hours", build_daily_rule("06:30"), warm
                )
            )
        return found

    def _build_usage_jobs(self) -> list[SystemJob]:
        every = self._settings.usage_summary
        if every == "off":
            return []
        tells = UsageSummaryTask(self._database, every, partial(rules.load_zone, self._settings.time_zone))
        return [
            SystemJob(
                "usage",
                "tells admins what was used",
                (build_daily_rule if every == "daily" else build_weekly_rule)("08:00"),
                tells,
            )
        ]

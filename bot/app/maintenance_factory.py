"""Builds the gateway's own jobs, their runner, and what keeps their rows.

A part of the composition root; factory.py builds the rest. When a job runs, and how long anything is kept,
stands beside its task in bot/maintenance.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from bot.db.database_url import find_database_file
from bot.db.engine import Database
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.item_bodies import FORGET_JOB
from bot.domain import NotifyAdmins, Runner
from bot.errors import BackupFailed
from bot.jobs.system_job_runner import (
    SystemJob,
    SystemJobFunction,
    SystemJobRunner,
    SystemJobSettings,
    SystemJobSync,
    build_daily_rule,
    build_hourly_rule,
    build_weekly_rule,
)
from bot.jobs.times.rrules import load_zone
from bot.maintenance.backup import (
    BACKUP_JOB,
    BackupAgeCheck,
    BackupTask,
    IntegrityCheck,
    build_backup_directory,
)
from bot.maintenance.retention import ForgetChatRunner, RetentionPolicy, RetentionTask
from bot.maintenance.system_jobs import CacheWarmupTask, DiskCheck, ReadCountersTask, UsageSummaryTask
from bot.settings import Settings, reveal
from bot.turns.cache_warmup import CacheWarmup
from bot.usage.reconcile import CountersEndpoint, Reconciliation

log = logging.getLogger(__name__)


class MaintenanceFactory:
    """Built once.

    `notify_admins` posts a subject and a text to the admins. `leave_groups` leaves groups that no admin has
    let in.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        cache_warmup: CacheWarmup,
        notify_admins: NotifyAdmins,
        leave_groups: SystemJobFunction,
    ) -> None:
        database_file = find_database_file(settings.database_url)
        backup_directory = build_backup_directory(settings)
        if backup_directory is not None:
            try:
                backup_directory.check_folder()
            except BackupFailed as error:  # its disk may come back before the night
                log.warning("%s", error, extra={"action": "backup.refused"})
        counters = CountersEndpoint(
            settings.model_url,
            reveal(settings.model_api_key),
            settings.model_metrics_urls,
            settings.model_max_tokens,
        )
        self.retention_policy = RetentionPolicy(database_file, settings.keep_text_days, backup_directory)
        self.reconciliation = Reconciliation(database, counters, notify_admins)
        self._settings = settings
        self._database = database
        self._system_jobs = (
            *self._build_database_jobs(),
            *self._build_backup_jobs(notify_admins),
            *self._build_endpoint_jobs(cache_warmup),
            *self._build_usage_jobs(),
            SystemJob("groups", "leaves groups that no admin has let in", build_hourly_rule(), leave_groups),
        )

    def build_system_job_runner(
        self, notices: AdminNotices, other_runners: Mapping[str, Runner]
    ) -> SystemJobRunner:
        """The runner of system items; `other_runners`, by name, run those that are no system job."""
        all_others = {**other_runners, FORGET_JOB: ForgetChatRunner(self._database)}
        return SystemJobRunner(self._database, self._system_jobs, all_others, notices)

    def build_system_job_sync(self, on_ordered: Callable[[], None]) -> SystemJobSync:
        """What keeps the rows of the system jobs as the settings want them."""
        return SystemJobSync(
            self._database,
            self._system_jobs,
            SystemJobSettings(self.retention_policy.database_file, self._settings.time_zone),
            on_ordered=on_ordered,
        )

    def _build_database_jobs(self) -> list[SystemJob]:
        """One after the other at night: the check, a backup of what passed it, deletion of old data."""
        jobs = [
            SystemJob(
                "retention",
                "removes deleted jobs, and texts and copies that are too old",
                build_daily_rule(RetentionTask.local_time),
                RetentionTask(self._database, self.retention_policy),
            ),
        ]
        if self.retention_policy.database_file is not None:
            check = IntegrityCheck(self._database, self.retention_policy.database_file)
            jobs = [
                SystemJob(
                    "database",
                    "merges its log, looks it through for damage",
                    build_daily_rule(IntegrityCheck.local_time),
                    check,
                ),
                *jobs,
                SystemJob(
                    "disk",
                    "tells admins when the disk is nearly full",
                    build_hourly_rule(),
                    DiskCheck(self.retention_policy.database_file.parent),
                ),
            ]
        return jobs

    def _build_backup_jobs(self, notify_admins: NotifyAdmins) -> list[SystemJob]:
        directory = self.retention_policy.backup_directory
        if directory is None:
            return []
        get_tz = partial(load_zone, self._settings.time_zone)
        return [
            SystemJob(
                BACKUP_JOB,
                "a backup in BACKUP_DIR",
                build_daily_rule(BackupTask.local_time),
                BackupTask(directory),
            ),
            SystemJob(
                "backup-age",
                "tells admins when no backup succeeds for two days",
                build_hourly_rule(),
                BackupAgeCheck(self._database, directory, notify_admins, get_tz),
            ),
        ]

    def _build_endpoint_jobs(self, cache_warmup: CacheWarmup) -> list[SystemJob]:
        # Readings have a clock of their own: six an hour would fill the inbox, and the next one makes up for
        # one that is missed. As a job one is taken only when it is ordered.
        jobs = [
            SystemJob(
                "reconciliation", "reads the endpoint's counters", None, ReadCountersTask(self.reconciliation)
            )
        ]
        if self._settings.warm_up == "on":
            jobs.append(
                SystemJob(
                    "warm-up",
                    "fills the endpoint's cache after idle hours",
                    build_daily_rule(CacheWarmupTask.local_time),
                    CacheWarmupTask(self._database, self._settings.model_url, cache_warmup.trigger),
                )
            )
        return jobs

    def _build_usage_jobs(self) -> list[SystemJob]:
        frequency = self._settings.usage_summary
        if frequency == "off":
            return []
        build_rule = build_daily_rule if frequency == "daily" else build_weekly_rule
        return [
            SystemJob(
                "usage",
                "tells admins what was used",
                build_rule(UsageSummaryTask.local_time),
                UsageSummaryTask(self._database, frequency, partial(load_zone, self._settings.time_zone)),
            )
        ]

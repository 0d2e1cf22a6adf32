"""Builds what keeps the house: its own jobs with their times, what hears of orders, how long texts are kept.

A part of the composition root; app.py builds the rest around it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from bot.db.engine import Database, file_of
from bot.db.maintenance.backup import Shelf
from bot.db.queues.admin_notices import Notices
from bot.domain import Lane, Runner
from bot.jobs.scheduler import Schedule
from bot.jobs.system_jobs import Jobs, Rota, Routine, Where, daily, weekly
from bot.jobs.times import rrules as rules
from bot.maintenance.retention import Forgetting, Keeping, Retention
from bot.maintenance.tasks import Backups, Care, Counters, UsageSummary, WarmUp
from bot.settings import Settings
from bot.turns.cache_warmup import Warming
from bot.usage.reconcile import CountersAt, Reconciliation


class Housekeeping:
    """Built once. `tell` reaches the admins' feed."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        warming: Warming,
        tell: Callable[[str, str], Awaitable[None]],
    ) -> None:
        file = file_of(settings.database_url)
        if settings.backup_dir:
            shelf = Shelf(file, settings.backup_dir, settings.backup_keep)
        else:
            shelf = None
        self.keeping = Keeping(file, settings.keep_text_days, shelf)
        if settings.model_api_key:
            key = settings.model_api_key.get_secret_value()
        else:
            key = None
        self.reconciliation = Reconciliation(database, CountersAt(settings.model_url, key), tell)
        self._settings = settings
        self._database = database
        self._routines = (*self._of_database(), *self._of_endpoint(warming), *self._of_usage())

    def jobs(
        self, notices: Notices, others: Mapping[str, Runner], wake_sender: Callable[[Lane], None]
    ) -> Jobs:
        """The runner of the house's items; `others` are those that are no routine, by name."""
        others = {**others, "forget": Forgetting(self._database, wake_sender)}
        return Jobs(self._database, self._routines, others, notices, wake_sender)

    def rota(self, schedule: Schedule, wake: Callable[[], None]) -> Rota:
        """What keeps the rows of the house's jobs."""
        where = Where(self.keeping.file, self._settings.time_zone)
        return Rota(self._database, self._routines, where, look=schedule.look, wake=wake)

    def _of_database(self) -> list[Routine]:
        """One after the other at night: a backup of what was found to be sound, then what is too old goes."""
        care = Care(self._database, self.keeping.file)
        found = [Routine("database", "merges its log, looks it through for damage", daily("03:00"), care)]
        if self.keeping.shelf is not None:
            found.append(
                Routine("backup", "a backup in BACKUP_DIR", daily("03:30"), Backups(self.keeping.shelf))
            )
        if self.keeping.is_needed:
            text = "deletes texts and copies that are too old"
            found.append(Routine("retention", text, daily("04:00"), Retention(self._database, self.keeping)))
        return found

    def _of_endpoint(self, warming: Warming) -> list[Routine]:
        # Readings keep a clock of their own: six an hour would fill the inbox, and one that is missed is made
        # up for by the next. As a job one is taken when it is ordered.
        found = [
            Routine("reconciliation", "reads the endpoint's counters", None, Counters(self.reconciliation))
        ]
        if self._settings.warm_up == "on":
            warm = WarmUp(self._database, self._settings.model_url, warming.again)
            found.append(
                Routine("warm-up", "fills the endpoint's cache after idle hours", daily("06:30"), warm)
            )
        return found

    def _of_usage(self) -> list[Routine]:
        every = self._settings.usage_summary
        if every == "off":
            return []
        tells = UsageSummary(self._database, every, partial(rules.zone, self._settings.time_zone))
        return [
            Routine(
                "usage", "tells admins what was used", (daily if every == "daily" else weekly)("08:00"), tells
            )
        ]

"""When a job runs: a pure function of the moment and of what is stored of the job."""

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from bot.jobs.times import rrules
from bot.jobs.times.rrules import RecurrenceRule

LATE_SECONDS = 300.0  # seconds after which a due time counts as missed

MissedPolicy = Literal["once", "skip"]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What happens to a job now.

    `due` is the due time to run (None: none), `next_due` the one after it (None: never again), both in epoch
    seconds. `left_out`: earlier due times were missed and are not run.
    """

    due: float | None
    next_due: float | None
    left_out: bool = False


def plan_run(
    next_due: float, rule: RecurrenceRule | None, tz: tzinfo, missed: MissedPolicy, now: float
) -> RunPlan:
    """Decide what happens to a job whose `next_due` is not later than `now`.

    Of several due times that were missed only the last is run, and only if the job's policy wants that.
    """
    if rule is None:
        return RunPlan(_choose_due(next_due, missed, now), None)
    latest = rrules.find_latest(rule, tz, next_due, now)
    following = rrules.find_next(rule, tz, max(now, latest))
    return RunPlan(_choose_due(latest, missed, now), following, left_out=latest > next_due)


def _choose_due(due: float, missed: MissedPolicy, now: float) -> float | None:
    """The due time, or None if it was missed and the job skips those."""
    if missed == "once" or now - due <= LATE_SECONDS:
        return due
    return None

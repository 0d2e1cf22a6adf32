"""What is due: a pure function of the moment and of what is stored of a job."""

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import RecurrenceRule

LATE_SECONDS = 300.0  # seconds after which a due time counts as missed

MissedPolicy = Literal["once", "skip"]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What becomes of a job now: the due time to be done (None: none), when it is due next (None: never
    again).

    `left_out`: due times before that one were missed and are not done.
    """

    due: float | None
    next_due: float | None
    left_out: bool = False


def plan_run(
    next_due: float, rule: RecurrenceRule | None, tz: tzinfo, missed: MissedPolicy, now: float
) -> RunPlan:
    """What becomes of a job whose `next_due` is not later than `now`.

    Of several due times that were missed only the last is done, and only if the job wants that.
    """
    if rule is None:
        return RunPlan(next_due if _is_wanted(next_due, missed, now) else None, None)
    last = rules.find_latest(rule, tz, next_due, now)
    following = rules.find_next(rule, tz, max(now, last))
    return RunPlan(last if _is_wanted(last, missed, now) else None, following, left_out=last > next_due)


def _is_wanted(due: float, missed: MissedPolicy, now: float) -> bool:
    return missed == "once" or now - due <= LATE_SECONDS

"""What `canvasgram jobs` answers: the state of system jobs, and running one now.

Works beside a running gateway, too.
"""

from collections.abc import Iterator
from datetime import datetime

from bot.db.engine import open_database
from bot.db.queues import jobs
from bot.db.queues.system_jobs import (
    SystemJobStatus,
    count_user_jobs,
    find_last_reading_time,
    list_statuses,
)
from bot.db.readonly import open_readonly
from bot.errors import NothingFound, QuestionRefused
from bot.jobs.times.rrules import load_zone
from bot.tables import Line, TextTable
from bot.usage.plain_text import escape_for_terminal

JOB_ORDERED = (
    "{name} is ordered. A running gateway does it within two seconds, else the next one that starts."
)
ALREADY_ORDERED = "{name} is ordered already, or at work."
COLUMNS = ("job", "next", "last", "how it went", "what it does")
_RESULT_TEXTS = {None: "never ran", "new": "waits", "running": "at work", "done": "ok", "dead": "failed"}


async def list_system_jobs(database_url: str) -> list[Line]:
    """List the system jobs, and count the jobs of users.

    Raises NothingFound, or why the database cannot be read.
    """
    async with open_readonly(database_url) as database, database.read_transaction() as tx:
        statuses = await list_statuses(tx)
        user_job_counts = await count_user_jobs(tx)
        read_at = await find_last_reading_time(tx)
    if not statuses:
        raise NothingFound("There are no jobs yet: `canvasgram run` makes them.")
    rows = [_format_row(status, read_at) for status in statuses]
    table = TextTable("", COLUMNS, rows, text_columns=len(COLUMNS))
    return [table, "", *_format_notes(statuses, user_job_counts)]


async def run_system_job(database_url: str, name: str, *, now: float) -> str:
    """Order a system job; return what to print. Raises QuestionRefused if there is none of this name."""
    async with open_readonly(database_url) as database, database.read_transaction() as tx:
        job = await jobs.find_named(tx, name)
        names = ", ".join(status.name for status in await list_statuses(tx))
    if job is None:
        raise QuestionRefused(f"There is no system job {name!r}. There are: {names or 'none yet'}.")
    async with open_database(database_url) as database, database.transaction() as tx:
        is_new = await jobs.run_now(tx, job.id, jobs.build_inbox_row(job), now=now)
    template = JOB_ORDERED if is_new else ALREADY_ORDERED
    return template.format(name=name)


def _format_row(status: SystemJobStatus, read_at: float | None) -> tuple[str, ...]:
    """A row of the table; `read_at` is when the endpoint's counters were read last (epoch seconds)."""
    last = status.last_received_at
    result = _RESULT_TEXTS[status.state]
    if result == "failed":
        result = f"failed: {escape_for_terminal(status.error or '')}"
    # The job that reads counters runs by its own clock, and leaves no item when it is not ordered.
    if status.next_due is None and read_at is not None and read_at > (last or 0.0):
        last = read_at
        result = "ok"
    return (
        status.name,
        _format_time(status, status.next_due) or "by its own clock",
        _format_time(status, last) or "–",
        result,
        status.text,
    )


def _format_time(status: SystemJobStatus, timestamp: float | None) -> str:
    if timestamp is None:
        return ""
    return f"{datetime.fromtimestamp(timestamp, load_zone(status.zone)):%Y-%m-%d %H:%M}"


def _format_notes(statuses: list[SystemJobStatus], user_job_counts: dict[str, int]) -> Iterator[str]:
    yield f"Times are of {statuses[0].zone}."
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(user_job_counts.items()))
    yield f"Jobs of people: {counts or 'none'}."

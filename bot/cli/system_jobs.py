"""What `canvasgram jobs` answers: how the jobs of the house stand; and how one is ordered, beside a running
gateway.
"""

from collections.abc import Iterator
from datetime import datetime

from bot.db.engine import open_database
from bot.db.queues import jobs
from bot.db.queues import system_jobs as routine
from bot.db.queues.system_jobs import SystemJobStatus
from bot.db.readonly import open_readonly
from bot.errors import NothingFound
from bot.jobs.times.rrules import load_zone
from bot.usage.plain_text import escape_for_terminal

JOB_ORDERED = (
    "{name} is ordered. A running gateway does it within two seconds, else the next one that starts."
)
ALREADY_ORDERED = "{name} is ordered already, or at work."
_RESULT_TEXTS = {None: "never ran", "new": "waits", "running": "at work", "done": "ok", "dead": "failed"}


async def list_system_jobs(database_url: str) -> str:
    """The house's jobs, and how many people have. Raises NothingFound, or why the database cannot be read."""
    async with open_readonly(database_url) as database, database.read_transaction() as tx:
        found = await routine.list_statuses(tx)
        people = await routine.count_user_jobs(tx)
        read_at = await routine.find_last_reading_time(tx)
    if not found:
        raise NothingFound("There are no jobs yet: `canvasgram run` makes them.")
    rows = [
        ("job", "next", "last", "how it went", "what it does"),
        *(_format_row(one, read_at) for one in found),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_format_notes(found, people)])


async def run_system_job(database_url: str, name: str, *, now: float) -> str:
    """Have a house job done now; what is to be said of it. Raises NothingFound if there is none of this name."""
    async with open_readonly(database_url) as database, database.read_transaction() as tx:
        job = await jobs.find_system_job(tx, name)
        names = ", ".join(one.name for one in await routine.list_statuses(tx))
    if job is None:
        raise NothingFound(f"There is no house job {name!r}. There are: {names or 'none yet'}.")
    async with open_database(database_url) as database, database.transaction() as tx:
        is_new = await jobs.run_now(tx, job.id, jobs.build_inbox_row(job), now=now)
    return (JOB_ORDERED if is_new else ALREADY_ORDERED).format(name=name)


def _format_row(entry: SystemJobStatus, read_at: float | None) -> tuple[str, ...]:
    by_itself = entry.next_due is None
    if by_itself:
        last = max(entry.last_received_at or 0.0, read_at or 0.0) or None
    else:
        last = entry.last_received_at
    ending = "ok" if by_itself and last != entry.last_received_at else _RESULT_TEXTS[entry.state]
    if ending == "failed":
        how = f"{ending}: {escape_for_terminal(entry.error or '')}"
    else:
        how = ending
    return (
        entry.name,
        _format_time(entry, entry.next_due) or "by its own clock",
        _format_time(entry, last) or "–",
        how,
        entry.text,
    )


def _format_time(entry: SystemJobStatus, timestamp: float | None) -> str:
    if timestamp is None:
        return ""
    return f"{datetime.fromtimestamp(timestamp, load_zone(entry.zone)):%Y-%m-%d %H:%M}"


def _format_notes(entries: list[SystemJobStatus], user_job_counts: dict[str, int]) -> Iterator[str]:
    yield f"Times are of {entries[0].zone}."
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(user_job_counts.items()))
    yield f"Jobs of people: {counts or 'none'}."

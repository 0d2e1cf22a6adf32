"""What `canvasgram jobs` answers: how the jobs of the house stand; and how one is ordered, beside a running
gateway.
"""

from collections.abc import Iterator
from datetime import datetime

from bot.db.engine import connected
from bot.db.queues import jobs
from bot.db.queues import system_jobs as routine
from bot.db.queues.system_jobs import Entry
from bot.db.readonly import looked_at
from bot.errors import NothingFound
from bot.jobs.times.rrules import zone
from bot.usage.plain_text import plain

ORDERED = "{name} is ordered. A running gateway does it within two seconds, else the next one that starts."
WAITS = "{name} is ordered already, or at work."
_ENDINGS = {None: "never ran", "new": "waits", "running": "at work", "done": "ok", "dead": "failed"}


async def listed(url: str) -> str:
    """The house's jobs, and how many people have. Raises NothingFound, or why the database cannot be read."""
    async with looked_at(url) as database, database.reading() as tx:
        found = await routine.listed(tx)
        people = await routine.of_people(tx)
        read_at = await routine.reading(tx)
    if not found:
        raise NothingFound("There are no jobs yet: `canvasgram run` makes them.")
    rows = [("job", "next", "last", "how it went", "what it does"), *(_row(one, read_at) for one in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_notes(found, people)])


async def order(url: str, name: str, *, now: float) -> str:
    """Have a house job done now; what is to be said of it. Raises NothingFound if there is none of this name."""
    async with looked_at(url) as database, database.reading() as tx:
        job = await jobs.named(tx, name)
        names = ", ".join(one.name for one in await routine.listed(tx))
    if job is None:
        raise NothingFound(f"There is no house job {name!r}. There are: {names or 'none yet'}.")
    async with connected(url) as database, database.transaction() as tx:
        is_new = await jobs.run_now(tx, job.id, jobs.inbox_row(job), now=now)
    return (ORDERED if is_new else WAITS).format(name=name)


def _row(one: Entry, read_at: float | None) -> tuple[str, ...]:
    by_itself = one.next_due is None
    if by_itself:
        last = max(one.last or 0.0, read_at or 0.0) or None
    else:
        last = one.last
    ending = "ok" if by_itself and last != one.last else _ENDINGS[one.state]
    if ending == "failed":
        how = f"{ending}: {plain(one.error or '')}"
    else:
        how = ending
    return (one.name, _when(one, one.next_due) or "by its own clock", _when(one, last) or "–", how, one.text)


def _when(one: Entry, at: float | None) -> str:
    if at is None:
        return ""
    return f"{datetime.fromtimestamp(at, zone(one.zone)):%Y-%m-%d %H:%M}"


def _notes(found: list[Entry], people: dict[str, int]) -> Iterator[str]:
    yield f"Times are of {found[0].zone}."
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(people.items()))
    yield f"Jobs of people: {counts or 'none'}."

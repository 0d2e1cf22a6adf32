"""The house's own jobs: keeps a row for each, does what an inbox item of kind `house` asks for, says how it
went.

Owns the names and times of those that come again and again; what each does is handed in. A job is an inbox
item, so that it outlives the process; one that fails is told to the admins once.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.db.engine import Database
from bot.db.queues import inbox, jobs
from bot.db.queues import system_jobs as routine
from bot.db.queues.admin_notices import Notices
from bot.db.queues.jobs import NewJob
from bot.db.retry import patiently
from bot.domain import InboxItem, Lane, Part, Runner
from bot.errors import CanvasgramError, StoreUnavailable
from bot.jobs.times import rrules as rules
from bot.jobs.times.rrules import Rule
from tools.threads import in_thread

LISTEN = 1.0  # seconds after which it is heard what other commands have written down

Work = Callable[[], Awaitable[Part | None]]
"""Does a job; what admins are to read of it, if anything. Raises an error of the house if it fails, with the
reason.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Routine:
    """A job that comes again and again, by a rule of recurrence in the house's zone; None: by a clock of its
    own.
    """

    name: str
    text: str
    rule: str | None
    work: Work


def daily(at: str) -> str:
    """The rule of a job of every day at this time, such as `03:30`."""
    return f"DTSTART:20260105T{at.replace(':', '')}00\nRRULE:FREQ=DAILY"


def weekly(at: str) -> str:
    """The rule of a job of every Monday."""
    return f"DTSTART:20260105T{at.replace(':', '')}00\nRRULE:FREQ=WEEKLY"


class Jobs:
    """The runner of the house's items: of routines, and of `others` by the name in an item's body, such as
    `forget`.

    `wake_sender` is called for each lane that has something to read.
    """

    def __init__(
        self,
        database: Database,
        routines: Sequence[Routine],
        others: Mapping[str, Runner],
        notices: Notices,
        wake_sender: Callable[[Lane], None],
    ) -> None:
        self._database = database
        self._routines = {one.name: one for one in routines}
        self._others = others
        self._notices = notices
        self._wake_sender = wake_sender

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        name = item.body["job"]
        if name in self._others:
            await self._others[name](items)
            return
        letter, why = await self._do(name)
        lanes = await patiently(lambda: self._end(item, name, letter, why))
        for lane in lanes:
            self._wake_sender(lane)

    async def _do(self, name: str) -> tuple[Part | None, str | None]:
        """What admins are to read, and why it failed."""
        if name not in self._routines:
            log.info("the job %s is not wanted any more", name, extra={"action": "house.unwanted"})
            return None, None
        try:
            return await self._routines[name].work(), None
        except StoreUnavailable:
            raise
        except CanvasgramError as error:
            log.warning("the job %s failed: %s", name, error, extra={"action": "house.failed"})
            return None, str(error)
        except (
            Exception
        ):  # the border: a job that fails must not be taken for a message that cannot be handled
            log.exception("the job %s failed", name, extra={"action": "house.broken"})
            return None, "The log says why."

    async def _end(
        self, item: InboxItem, name: str, letter: Part | None, why: str | None
    ) -> tuple[Lane, ...]:
        now = time.time()
        async with self._database.transaction() as tx:
            before = await routine.ended(tx, name, failed=why is not None, now=now)
            subject = f"job {name}"
            told = self._notices
            if why is not None:
                await inbox.dead(tx, [item.id], error=why, now=now)
                return await told.tell(tx, subject, f"The house job {name} failed: {why}", now=now)
            await inbox.done(tx, [item.id], now=now)
            if letter is not None:
                lanes = await told.send(tx, letter, now=now)
            else:
                lanes = ()
            if before:
                lanes += await told.tell(tx, subject, f"The house job {name} works again.", now=now)
            return lanes


class Rota:
    """Keeps the rows of routines as the settings want them, and hears of jobs that other commands have
    ordered.

    `look` tells the schedule that due times may have changed, `wake` the worker that something waits.
    """

    def __init__(
        self,
        database: Database,
        routines: Sequence[Routine],
        where: "Where",
        *,
        look: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._routines = routines
        self._where = where
        self._look = look
        self._wake = wake
        self._seen: tuple[int, int] | None = None

    async def run(self) -> None:
        """Until cancelled. The first moment belongs to those who have waited for the house."""
        await asyncio.sleep(LISTEN)
        await patiently(self.keep)
        self._look()
        while True:
            await asyncio.sleep(LISTEN)
            with contextlib.suppress(StoreUnavailable):
                await self.listen()

    async def keep(self) -> None:
        """Make the rows that are missing, and delete those of jobs that are not wanted any more."""
        zone = self._where.zone
        now = self._where.clock()
        async with self._database.reading() as tx:
            known = {one.name: (one.rule, one.zone) for one in await jobs.of_house(tx)}
        missing = [one for one in self._routines if known.get(one.name) != (one.rule, zone)]
        # Reckoned where it holds nobody up, and only when something has changed: the library for it is loaded
        # then.
        due = await in_thread(_first_due, missing, zone, now) if missing else []
        if not missing and len(known) == len(self._routines):
            return
        async with self._database.transaction() as tx:
            await jobs.drop_house(tx, [one.name for one in self._routines])
            for one, next_due in zip(missing, due, strict=True):
                new = NewJob("house", next_due, zone, one.rule, text=one.text, name=one.name)
                await jobs.put_house(tx, new, now=now)

    async def listen(self) -> None:
        """Wake the worker if a job waits. While nothing is written to the database, nothing is asked of it."""
        written = _written(self._where.file)
        if written == self._seen:
            return
        self._seen = written
        async with self._database.reading() as tx:
            waits = await routine.ordered(tx)
        if waits:
            self._wake()


@dataclass(frozen=True, slots=True)
class Where:
    """Where the house stands: its database, its time zone by IANA name, its clock."""

    file: Path
    zone: str = "UTC"
    clock: Callable[[], float] = time.time


def _first_due(routines: Sequence[Routine], zone: str, now: float) -> list[float | None]:
    return [
        rules.next_after(Rule.parse(one.rule), rules.zone(zone), now) if one.rule else None
        for one in routines
    ]


def _written(file: Path) -> tuple[int, int] | None:
    """What changes when anybody commits: time and size of the write-ahead log."""
    with contextlib.suppress(OSError):
        found = os.stat(f"{file}-wal")  # noqa: PTH116  # once a second
        return found.st_mtime_ns, found.st_size
    return None

"""Puts a backup in the database's place, so that nothing which was done since it was made is done again.

The house must not run meanwhile; what was there before is kept beside it, as any copy is.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bot.db import lock
from bot.db import migrate as migrating
from bot.db.engine import Database, Transaction, connected, file_of, private
from bot.db.maintenance import restore as restored
from bot.db.maintenance.backup import faults, made_at, sync
from bot.db.maintenance.restore import Settled, Since
from bot.db.readonly import looked_at
from bot.errors import RestoreRefused, SchemaUnknown, StoreUnavailable
from bot.jobs.times.rrules import Rule, next_after, zone

SIDES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of it: the backup's age (epoch seconds), where the replaced database is kept (None: there
    was none), how many due times were passed over; `known` None: the replaced database told nothing.
    """

    made_at: float
    aside: Path | None
    settled: Settled
    passed_over: int
    known: Since | None


async def restore(url: str, backup: Path, *, waiting: bool, now: float) -> Restored:
    """Restore the database at `url`; `waiting`: what waited when the backup was made is answered, too.

    Raises RestoreRefused, SchemaUnknown, GatewayRunning; the database is then as it was.
    """
    file = file_of(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.held(file), _beside(file) as fresh:
        _fetch(backup, file, fresh)
        async with connected(url.replace(str(file), str(fresh))) as database:
            settled, passed_over, known = await _tell(database, url, waiting=waiting, now=now)
            await database.scrub()
        try:
            aside = _put(fresh, file, now)
        except OSError as error:
            raise RestoreRefused(f"{file} cannot be replaced: {error.strerror}.") from error
        return Restored(made_at(backup), aside, settled, passed_over, known)


@contextmanager
def _beside(file: Path) -> Iterator[Path]:
    """A file that is made ready, and gone in the end if it has not taken its place."""
    fresh = file.with_name(f"{file.name}.restoring")
    _sweep(fresh)  # a log that a killed attempt has left would be taken for the new file's
    try:
        yield fresh
    finally:
        _sweep(fresh)


def _sweep(fresh: Path) -> None:
    for suffix in ("", *SIDES):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)


def _fetch(backup: Path, file: Path, fresh: Path) -> None:
    """A private copy of a sound backup, brought to this version's schema."""
    if file.exists() and backup.exists() and backup.samefile(file):
        raise RestoreRefused(f"{backup} is the database itself.")
    try:
        _copy(backup, fresh)
    except OSError as error:
        raise RestoreRefused(f"{backup} cannot be copied: {error.strerror}.") from None
    if found := faults(fresh):
        raise RestoreRefused(f"{backup} is not sound ({found[0]}). Take another backup.")
    at = migrating.current(fresh)
    wanted = migrating.newest()
    if at is None:
        raise RestoreRefused(f"{backup} is no database of Canvasgram.")
    if at > wanted:
        raise SchemaUnknown(
            f"{backup} has schema {at}, this version knows up to {wanted}. Use the newer version."
        )
    if at < wanted:
        migrating.upgrade(f"sqlite+aiosqlite:///{fresh}")


def _copy(backup: Path, fresh: Path) -> None:
    """Byte by byte, with a log that has not been merged: a folder that cannot be written is enough."""
    for suffix in ("", "-wal"):
        if not suffix or Path(f"{backup}{suffix}").exists():
            private(Path(f"{fresh}{suffix}"))
            shutil.copyfile(f"{backup}{suffix}", f"{fresh}{suffix}")


async def _tell(
    database: Database, url: str, *, waiting: bool, now: float
) -> tuple[Settled, int, Since | None]:
    async with database.reading() as tx:
        received, birth = await restored.newest(tx)
    try:
        async with looked_at(url) as replaced, replaced.reading() as old:
            known = await restored.since(old, received, birth)
    except (StoreUnavailable, SchemaUnknown):
        known = None
    async with database.transaction() as tx:
        settled = await restored.settle(tx, waiting=waiting, now=now)
        passed_over = 0
        if known is not None:
            await restored.carry(tx, known, now=now)
        if not waiting and (known is None or known.standing is None):
            passed_over = await _pass_over(tx, now)
    return settled, passed_over, known


async def _pass_over(tx: Transaction, now: float) -> int:
    """Whatever was due since the backup may have been done."""
    found = await restored.overdue(tx, now=now)
    for job, rule, where in found:
        await restored.pass_over(tx, job, next_after(Rule.parse(rule), zone(where), now) if rule else None)
    return len(found)


def _put(fresh: Path, file: Path, now: float) -> Path | None:
    """Let the file take its place; the one that stood there, if any, goes aside. One rename decides."""
    aside = None
    if file.exists() and file.stat().st_size:
        aside = file.with_name(
            f"{file.name}.before-restore-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S.%fZ}.bak"
        )
        _merge(file)
        os.link(file, aside)
        os.utime(aside, (now, now))
        for suffix in SIDES:  # a log that could not be merged would be taken for the new file's
            if (side := Path(f"{file}{suffix}")).exists():
                side.replace(f"{aside}{suffix}")
    sync(fresh)
    fresh.replace(file)
    sync(file.parent)
    return aside


def _merge(file: Path) -> None:
    """Merge the write-ahead log of a database, if it can be read at all."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.DatabaseError:
        return


def told(made: Restored, file: Path) -> Iterator[str]:
    """What is to be known after a restore."""
    yield f"{file} is as it was on {datetime.fromtimestamp(made.made_at, UTC):%-d %B %Y at %H:%M} UTC."
    if made.aside is not None:
        yield f"What stood there is kept for 30 days at most: {made.aside}"
    yield (
        f"Messages that waited then and are not answered again: {made.settled.dropped}. Sent or not, nobody knows, and "
        f"not sent again: {made.settled.unknown}. Due times since then, passed over: {made.passed_over}."
    )
    yield "What people wrote since then is gone: Telegram does not hand it over twice. It is in their chats still."
    if made.known is None:
        yield (
            "The database that stood there told nothing. Who was shut out since then is let in again: see /people. "
            "What was forgotten since then is there again, and the last messages may be answered twice."
        )
    elif made.known.standing is None:
        yield "The database that stood there was of another house: people, limits and jobs are those of the backup."

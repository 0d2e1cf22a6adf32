"""A random month of what else is on record: readings of the server's counters, and changes by admins."""

import json
import random

from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import audit, readings
from bot.usage.reconcile import FIRST_READING, SUMS_AGREE
from tests.support.random_month import DAYS, Row

NAMES = {11: "Ada", 12: "<b>Ben</b>", 13: "=Cleo()", 14: "Dora 🎈"}


async def fill_record(database: Database, seed: int, *, until: float) -> tuple[list[Row], list[Row]]:
    """The readings and the changes of the month that ends then, the oldest first, as they were written."""
    print(f"random record of seed {seed}")
    rng = random.Random(seed)
    reading_rows = _make_readings(rng, until - DAYS * 86_400)
    change_rows = _make_changes(rng, until)
    async with database.transaction() as tx:
        for person, name in NAMES.items():
            await people.put(tx, person, name, "member", now=until)
        await tx.execute(insert(readings), reading_rows)
        await tx.execute(insert(audit), change_rows)
    return reading_rows, change_rows


def _make_readings(rng: random.Random, begin: float) -> list[Row]:
    rows: list[Row] = []
    since = None
    for number in range(1, 90):
        read_at = begin + number * 8 * 3600 + rng.random()
        gap = rng.choice((0, 0, 0, rng.randrange(-5000, 50_000)))
        canvases = rng.randrange(1, 400)
        is_first = since is None
        row: Row = {
            "endpoint": "http://gpu:8000/v1",
            "read_at": read_at,
            "since": since,
            "totals": "{}",
            "running": 0,
            "why": FIRST_READING if is_first else _describe_gap(gap),
        }
        counts = {
            "prompt_seen": 9000 + gap,
            "prompt_own": 9000,
            "generated_seen": 800,
            "generated_own": 800,
            "requests_seen": 30,
            "requests_own": 30,
            "steps_seen": canvases * 15,
            "committed_seen": canvases * 256,
            "gap": gap,
            "steps_per_canvas": 14.0,
        }
        rows.append(row | (dict.fromkeys(counts) if is_first else counts))
        since = read_at
    return rows


def _describe_gap(gap: int) -> str:
    return "others use it, too" if gap else SUMS_AGREE


def _make_changes(rng: random.Random, until: float) -> list[Row]:
    rows: list[Row] = []
    moments = sorted(rng.uniform(until - DAYS * 86_400, until) for _ in range(120))
    for at in moments:
        person = rng.choice((None, *NAMES))
        subject = f"person {rng.choice(list(NAMES))}"
        before, after = rng.choice(((None, {"role": "member"}), ({"role": "member"}, {"role": "blocked"})))
        rows.append(
            {
                "at": at,
                "who": person,
                "via": "command" if person is None else rng.choice(("telegram", "page")),
                "what": "let in" if before is None else "blocked",
                "subject": subject,
                "before": None if before is None else json.dumps(before),
                "after": json.dumps(after),
            }
        )
    return rows

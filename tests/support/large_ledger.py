"""A ledger with very many model calls, made by chance from a fixed seed, so that reading it can be measured.

`python -m tests.support.large_ledger FILE [CALLS]` makes one; `canvasgram report` on it is what is timed.
"""

import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bot.usage.histogram import bucket_number
from tests.support.empty_database import place_empty_database

FIRST_TURN_AT = 1_780_000_000.0  # epoch seconds of the first turn
DAYS = 90
PEOPLE = 200
CALLS_PER_TURN = (1, 1, 1, 2, 3, 7)  # five of two turns: 2.5 on average
_TOOLS = ("clock", "calculate", "fetch_page", "remember", "recall")
_BATCH_TURNS = 20_000
_REPLY = (
    '{"text": "'
    + "An answer of some length. " * 30
    + '", "reasoning": "", "calls": [], "finish_reason": "stop"}'
)


def fill_database(file: Path, calls: int) -> None:
    """A migrated database at `file` with `calls` model calls, their turns, accounts and tool calls."""
    place_empty_database(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        rows: dict[str, list[dict[str, Any]]] = {
            "turns": [],
            "model_calls": [],
            "tool_calls": [],
            "accounts": [],
        }
        counts: Counter[tuple[int, str, int]] = Counter()
        step = _seconds_between_turns(calls)
        for made, turn in enumerate(_generate_turns(calls), start=1):
            for table, row in turn:
                rows[table].append(row)
                if table == "accounts":
                    counts.update(_list_durations(row, int((FIRST_TURN_AT + made * step) // 86_400)))
            if made % _BATCH_TURNS == 0:
                _insert_rows(connection, rows)
        names = ("day", "kind", "bucket", "count")
        rows["durations"] = [dict(zip(names, (*key, count), strict=True)) for key, count in counts.items()]
        _insert_rows(connection, rows)


def _seconds_between_turns(calls: int) -> float:
    """Seconds between two turns."""
    return DAYS * 86_400 / (calls / 2.5)


def _list_durations(account: dict[str, Any], day: int) -> Iterator[tuple[int, str, int]]:
    for kind, seconds in account.items():
        number = None if kind in {"turn", "settled_at"} else bucket_number(seconds)
        if number is not None:
            yield day, kind, number


def _insert_rows(connection: sqlite3.Connection, rows: dict[str, list[dict[str, Any]]]) -> None:
    connection.execute("BEGIN")
    for table, some in rows.items():
        if some:
            names = list(some[0])
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            connection.executemany(sql, [tuple(row.values()) for row in some])
        some.clear()
    connection.execute("COMMIT")


def _generate_turns(calls: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    chance = random.Random(4)
    step, left, number = _seconds_between_turns(calls), calls, 0
    while left > 0:
        number += 1
        count = min(left, chance.choice(CALLS_PER_TURN))
        left -= count
        yield list(_generate_turn(chance, number, count, FIRST_TURN_AT + number * step))


def _generate_turn(
    rng: random.Random, number: int, count: int, received_at: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    person, thinking = 1000 + rng.randrange(PEOPLE), rng.random() < 0.2
    at = received_at + 0.1
    spent = {"first_canvas": 0.0, "further_canvases": 0.0, "tools": 0.0, "seat_wait": 0.0}
    for place in range(count):
        waited, first, further = (
            rng.expovariate(5),
            rng.lognormvariate(0.3, 0.4),
            rng.expovariate(0.8),
        )
        tokens = int(rng.lognormvariate(5, 1)) + 1
        yield (
            "model_calls",
            {
                "turn": number,
                "step": place + 1,
                "purpose": "turn",
                "again": "empty" if rng.random() < 0.02 else None,
                "endpoint": "main",
                "model": "diffusiongemma",
                "thinking": thinking,
                "tools_offered": 5,
                "prompt_tokens": 900 + place * 200,
                "cached_tokens": None if rng.random() < 0.01 else 600,
                "completion_tokens": tokens,
                "reasoning_tokens": tokens // 2 if thinking else 0,
                "created_at": at,
                "seat_at": at + waited,
                "first_block_at": at + waited + first,
                "last_block_at": at + waited + first + further,
                "ended_at": at + waited + first + further,
                "blocks": 1 + tokens // 256,
                "finish_reason": "stop",
                "outcome": "ok",
                "chars_system": 800,
                "chars_tools": 2000,
                "chars_history": 1500,
                "reply": _REPLY,
            },
        )
        at += waited + first + further
        spent["seat_wait"] += waited
        spent["first_canvas"] += first
        spent["further_canvases"] += further
        if place + 1 < count:
            took = rng.expovariate(2)
            yield (
                "tool_calls",
                {
                    "turn": number,
                    "step": place + 1,
                    "call_id": f"c{place}",
                    "name": rng.choice(_TOOLS),
                    "arguments": '{"url": "https://example.org/a/page"}',
                    "state": "done",
                    "outcome": "ok" if rng.random() < 0.95 else "error",
                    "result": "What the tool found. " * 20,
                    "began_at": at,
                    "ended_at": at + took,
                },
            )
            at += took
            spent["tools"] += took
    yield (
        "turns",
        {
            "id": number,
            "item": number,
            "lane": str(person),
            "person": person,
            "conversation": 1,
            "state": "ended",
            "ending": "answered",
            "tools": '["clock"]',
            "thinking": thinking,
            "thinking_why": "two tools match: search, remind" if thinking else "no tool fits",
            "received_at": received_at,
            "began_at": received_at + 0.05,
            "ended_at": at + 0.01,
        },
    )
    yield "accounts", _build_account_row(number, at + 0.3, spent)


def _build_account_row(number: int, settled_at: float, seconds: dict[str, float]) -> dict[str, Any]:
    rest = {"intake": 0.01, "lane_wait": 0.04, "telegram": 0.25, "approval_wait": 0.0, "back_off": 0.0}
    row = seconds | rest | {"down": 0.0, "own": 0.05}
    return {"turn": number, "settled_at": settled_at, "whole": sum(row.values()), **row}


if __name__ == "__main__":
    fill_database(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)

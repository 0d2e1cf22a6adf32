"""Generates a ledger with very many model calls, random from a fixed seed, to measure how fast it is read.

`python -m tests.support.large_ledger FILE [CALLS]` makes one; `canvasgram report` on it can then be timed.
"""

import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.empty_database import place_empty_database

FIRST_TURN_AT = 1_780_000_000.0  # epoch seconds of the first turn
DAYS = 90
PEOPLE = 200
CALLS_PER_TURN = (1, 1, 1, 2, 3, 7)  # 2.5 on average
_TOOLS = ("clock", "calculate", "fetch_page", "remember", "recall")
_BATCH_TURNS = 20_000
_REPLY = (
    '{"text": "'
    + "An answer of some length. " * 30
    + '", "reasoning": "", "calls": [], "finish_reason": "stop"}'
)


def fill_database(file: Path, calls: int) -> None:
    """Create a migrated database at `file` with `calls` model calls, their turns, accounts and tool calls."""
    place_empty_database(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        rows: dict[str, list[dict[str, Any]]] = {
            "turns": [],
            "model_calls": [],
            "tool_calls": [],
            "accounts": [],
        }
        for number, turn_rows in enumerate(_generate_turns(calls), start=1):
            for table, row in turn_rows:
                rows[table].append(row)
            if number % _BATCH_TURNS == 0:
                _insert_rows(connection, rows)
        _insert_rows(connection, rows)


def _seconds_between_turns(calls: int) -> float:
    return DAYS * 86_400 / (calls / 2.5)


def _insert_rows(connection: sqlite3.Connection, rows: dict[str, list[dict[str, Any]]]) -> None:
    connection.execute("BEGIN")
    for table, table_rows in rows.items():
        if table_rows:
            names = list(table_rows[0])
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            connection.executemany(sql, [tuple(row.values()) for row in table_rows])
        table_rows.clear()
    connection.execute("COMMIT")


def _generate_turns(calls: int) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    rng = random.Random(4)
    step = _seconds_between_turns(calls)
    remaining = calls
    number = 0
    while remaining > 0:
        number += 1
        count = min(remaining, rng.choice(CALLS_PER_TURN))
        remaining -= count
        yield list(_generate_turn(rng, number, count, FIRST_TURN_AT + number * step))


def _generate_turn(
    rng: random.Random, number: int, count: int, received_at: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    person = 1000 + rng.randrange(PEOPLE)
    thinking = rng.random() < 0.2
    now = received_at + 0.1
    seconds = {"first_canvas": 0.0, "further_canvases": 0.0, "tools": 0.0, "seat_wait": 0.0}
    for index in range(count):
        seat_wait = rng.expovariate(5)
        first_canvas = rng.lognormvariate(0.3, 0.4)
        further_canvases = rng.expovariate(0.8)
        seat_at = now + seat_wait
        first_block_at = seat_at + first_canvas
        ended_at = first_block_at + further_canvases
        tokens = int(rng.lognormvariate(5, 1)) + 1
        yield (
            "model_calls",
            {
                "turn": number,
                "step": index + 1,
                "purpose": "turn",
                "again": "empty" if rng.random() < 0.02 else None,
                "endpoint": "main",
                "model": "diffusiongemma",
                "thinking": thinking,
                "tools_offered": 5,
                "prompt_tokens": 900 + index * 200,
                "cached_tokens": None if rng.random() < 0.01 else 600,
                "completion_tokens": tokens,
                "reasoning_tokens": tokens // 2 if thinking else 0,
                "created_at": now,
                "seat_at": seat_at,
                "first_block_at": first_block_at,
                "last_block_at": ended_at,
                "ended_at": ended_at,
                "blocks": 1 + tokens // 256,
                "finish_reason": "stop",
                "outcome": "ok",
                "chars_system": 800,
                "chars_tools": 2000,
                "chars_history": 1500,
                "reply": _REPLY,
            },
        )
        now = ended_at
        seconds["seat_wait"] += seat_wait
        seconds["first_canvas"] += first_canvas
        seconds["further_canvases"] += further_canvases
        if index + 1 < count:
            tool_seconds = rng.expovariate(2)
            yield (
                "tool_calls",
                {
                    "turn": number,
                    "step": index + 1,
                    "call_id": f"c{index}",
                    "name": rng.choice(_TOOLS),
                    "arguments": '{"url": "https://example.org/a/page"}',
                    "state": "done",
                    "outcome": "ok" if rng.random() < 0.95 else "error",
                    "result": "What the tool found. " * 20,
                    "began_at": now,
                    "ended_at": now + tool_seconds,
                },
            )
            now += tool_seconds
            seconds["tools"] += tool_seconds
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
            "ended_at": now + 0.01,
        },
    )
    yield "accounts", _build_account_row(number, now + 0.3, seconds)


def _build_account_row(number: int, settled_at: float, seconds: dict[str, float]) -> dict[str, Any]:
    fixed = {"intake": 0.01, "lane_wait": 0.04, "telegram": 0.25, "approval_wait": 0.0, "back_off": 0.0}
    row = seconds | fixed | {"down": 0.0, "own": 0.05}
    return {"turn": number, "settled_at": settled_at, "whole": sum(row.values()), **row}


if __name__ == "__main__":
    call_count = 1_000_000
    if len(sys.argv) > 2:
        call_count = int(sys.argv[2])
    fill_database(Path(sys.argv[1]), call_count)

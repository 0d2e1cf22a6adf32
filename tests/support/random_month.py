"""Fills a database with a random month of turns, and keeps its rows for sums that are made without SQL."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.tables import accounts, metadata, model_calls, outbox, tool_calls, turns, verdicts

DAYS = 30
TURNS = 150
INTERVALS = (
    "intake",
    "lane_wait",
    "seat_wait",
    "first_canvas",
    "further_canvases",
    "tools",
    "telegram",
    "own",
)
_ENDINGS = ("answered", "answered", "answered", "cut", "stopped", "away", "steps", "empty", None)
_OUTCOMES = ("ok", "ok", "ok", "error", "refused", "refused", "timeout", None)
REFUSAL_REASONS = ("arguments", "arguments", "denied", None)  # None: of an older row
_REASONS = ("the server sent no usage", "the call ended before the server counted")
Row = dict[str, Any]


@dataclass(frozen=True)
class RandomMonth:
    """The rows by table."""

    turns: list[Row]
    calls: list[Row]
    tools: list[Row]
    accounts: list[Row]
    verdicts: list[Row]

    def list_calls(self, turn: int) -> list[Row]:
        return [row for row in self.calls if row["turn"] == turn]

    def list_tools(self, turn: int) -> list[Row]:
        return [row for row in self.tools if row["turn"] == turn]

    def find_account(self, turn: int) -> Row | None:
        return next((row for row in self.accounts if row["turn"] == turn), None)


async def fill_month(database: Database, seed: int, *, until: float | None = None) -> RandomMonth:
    """Turns of three people, with calls, tools, accounts and verdicts; some of each unknown or not over.

    The last begin before `until`; None: an hour ago, so that none goes on in the future.
    """
    print(f"random month of seed {seed}")
    generator = _Generator(random.Random(seed), until or time.time() - 3600)
    for number in range(1, TURNS + 1):
        generator.add_turn(number)
    rows = generator.rows
    async with database.transaction() as tx:
        for table in (turns, model_calls, tool_calls, accounts, outbox, verdicts):
            await tx.execute(insert(metadata.tables[table.name]), rows[table.name])
    names = ("turns", "model_calls", "tool_calls", "accounts", "verdicts")
    return RandomMonth(*(rows[name] for name in names))


class _Generator:
    def __init__(self, rng: random.Random, until: float) -> None:
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self._rng = rng
        self._until = until

    def add_turn(self, number: int) -> None:
        rng = self._rng
        began_at = round(self._until - rng.uniform(60, DAYS * 86_400), 3)
        ending = rng.choice(_ENDINGS)
        thinking = rng.random() < 0.4
        now = began_at + 0.5
        for step in range(1, rng.choice((0, 1, 1, 2, 3, 6)) + 1):
            now = self._add_call(number, step, now, thinking=thinking)
            if rng.random() < 0.5:
                now = self._add_tool(number, step, now)
        person = rng.choice((7, 8, 9))
        turn = {
            "id": number,
            "item": number,
            "lane": rng.choice((str(person), "-100:3", "-100")),
            "person": person,
            "conversation": 1,
            "state": "running" if ending is None else "ended",
            "ending": ending,
            "tools": "[]",
            "thinking": thinking,
            "endpoint": rng.choice(("main", "main", "fallback")),
            "thinking_why": "two tools match: a, b" if thinking else "no tool fits",
            "received_at": began_at - 0.5,
            "began_at": began_at,
            "ended_at": None if ending is None else now,
        }
        self.rows["turns"].append(turn)
        if ending is not None and rng.random() < 0.9:
            self._add_account(number, now)
        if ending is not None and rng.random() < 0.3:
            self._add_verdict(turn)

    def _add_call(self, turn: int, step: int, now: float, *, thinking: bool) -> float:
        rng = self._rng
        is_known = rng.random() < 0.9
        is_open = rng.random() < 0.03
        seat_at = now + rng.expovariate(2)
        first_block_at = seat_at + rng.uniform(0.5, 2)
        ended_at = first_block_at + rng.uniform(0.1, 4)
        call = {
            "turn": turn,
            "step": step,
            "purpose": rng.choice(("turn", "turn", "turn", "task", "decision")),
            "endpoint": "http://gpu:8000/v1",
            "model": rng.choice(("diffusion", "other")),
            "thinking": thinking,
            "tools_offered": 3,
            "prompt_tokens": rng.randint(200, 3000),
            "cached_tokens": rng.choice((None, 0, 128)),
            "completion_tokens": rng.randint(1, 900) if is_known else None,
            "reasoning_tokens": 0,
            "usage_partial": rng.random() < 0.1,
            "usage_missing": None if is_known else rng.choice(_REASONS),
            "created_at": now,
            "seat_at": seat_at,
            "first_block_at": first_block_at,
            "last_block_at": None if is_open else ended_at,
            "ended_at": None if is_open else ended_at,
            "blocks": 2,
            "block_ms": rng.choice((None, _name_blocks(now, (first_block_at, ended_at)))),
            "finish_reason": None if is_open else "stop",
            "outcome": None if is_open else rng.choice(("ok", "ok", "ok", "cut", "failed")),
            "server_ms": '{"queue_time_ms": 3.0, "time_to_first_token_ms": 800.5}',
            "chars_system": 800,
            "chars_tools": 1200,
            "chars_notes": None,
            "chars_history": 400,
        }
        self.rows["model_calls"].append(call)
        return ended_at

    def _add_tool(self, turn: int, step: int, now: float) -> float:
        ended_at = now + self._rng.uniform(0.01, 2)
        outcome = self._rng.choice(_OUTCOMES)
        tool = {
            "turn": turn,
            "step": step,
            "call_id": f"c{step}",
            "name": self._rng.choice(("clock", "fetch_page", "search")),
            "arguments": "{}",
            "state": "done",
            "outcome": outcome,
            "refusal": self._rng.choice(REFUSAL_REASONS) if outcome == "refused" else None,
            "result": "noon",
            "began_at": now,
            "ended_at": None if outcome is None else ended_at,
        }
        self.rows["tool_calls"].append(tool)
        return ended_at

    def _add_account(self, turn: int, ended_at: float) -> None:
        # Eighths, so that a sum is the same in any order: 122.15 would be shown as 122.1 or 122.2.
        seconds = {name: round(8 * self._rng.expovariate(1)) / 8 for name in INTERVALS}
        nothing = (
            "starting",
            "preflight",
            "server_queue",
            "failed_calls",
            "approval_wait",
            "back_off",
            "down",
        )
        seconds |= dict.fromkeys(nothing, 0.0)
        row = {"turn": turn, "settled_at": ended_at + 1, "whole": sum(seconds.values()), **seconds}
        self.rows["accounts"].append(row)

    def _add_verdict(self, turn: Row) -> None:
        part = {"id": turn["id"], "item": turn["item"], "lane": turn["lane"], "final": True, "state": "done"}
        times = {
            "made_at": turn["ended_at"],
            "sent_at": turn["ended_at"] + 0.3,
            "done_at": turn["ended_at"] + 1,
        }
        self.rows["outbox"].append(part | times | {"body": "an answer"})
        for person in range(1, self._rng.randint(1, 2) + 1):
            value = self._rng.choice(("good", "bad", None))
            verdict = {"outbox": turn["id"], "person": person, "turn": turn["id"], "value": value}
            self.rows["verdicts"].append(verdict | {"item": turn["item"], "at": turn["ended_at"]})


def _name_blocks(created_at: float, moments: Iterable[float]) -> str:
    return json.dumps([round(1000 * (moment - created_at)) for moment in moments])

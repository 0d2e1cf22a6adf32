"""Inserts rows of the ledger; columns that a test does not name have plausible defaults."""

from typing import Any

from bot.db.engine import Database
from bot.db.tables import accounts, model_calls, tool_calls, turns
from bot.domain import DAY_SECONDS

NOON = 20_000 * DAY_SECONDS + DAY_SECONDS / 2  # epoch seconds, in the middle of 2024-10-04
INTERVALS = (
    "intake",
    "lane_wait",
    "seat_wait",
    "first_canvas",
    "further_canvases",
    "tools",
    "approval_wait",
    "telegram",
)


class UsageRows:
    """Inserts rows of the ledger and returns their ids."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._item_count = 0

    async def add_turn(self, **changes: Any) -> int:
        self._item_count += 1
        row: dict[str, Any] = {
            "item": self._item_count,
            "lane": "5",
            "person": 5,
            "conversation": 1,
            "state": "ended",
            "ending": "answered",
            "tools": "[]",
            "thinking": False,
            "thinking_why": "no tool fits",
            "received_at": NOON,
            "began_at": NOON + 0.5,
            "ended_at": NOON + 8.0,
        }
        return await self._insert(turns.insert().values(row | changes).returning(turns.c.id))

    async def add_call(self, turn: int | None, **changes: Any) -> int:
        row: dict[str, Any] = {
            "turn": turn,
            "step": 1,
            "purpose": "turn",
            "endpoint": "main",
            "model": "m",
            "thinking": False,
            "tools_offered": 0,
            "prompt_tokens": 1000,
            "cached_tokens": 250,
            "completion_tokens": 300,
            "reasoning_tokens": 0,
            "created_at": NOON + 1.0,
            "seat_at": NOON + 2.0,
            "ended_at": NOON + 5.0,
            "outcome": "ok",
            "finish_reason": "stop",
        }
        return await self._insert(model_calls.insert().values(row | changes).returning(model_calls.c.id))

    async def add_tool_call(self, turn: int, name: str = "clock", **changes: Any) -> int:
        self._item_count += 1
        row: dict[str, Any] = {
            "turn": turn,
            "step": 1,
            "call_id": f"c{self._item_count}",
            "name": name,
            "arguments": "{}",
            "state": "done",
            "outcome": "ok",
            "result": "noon",
            "began_at": NOON + 5.0,
            "ended_at": NOON + 5.5,
        }
        return await self._insert(tool_calls.insert().values(row | changes).returning(tool_calls.c.id))

    async def add_account(self, turn: int, **seconds: float) -> None:
        row: dict[str, float] = dict.fromkeys((*INTERVALS, "back_off", "down", "own"), 0.0) | seconds
        total = sum(row.values())
        await self._execute(accounts.insert().values(**row, turn=turn, settled_at=NOON + 9, whole=total))

    async def _insert(self, statement: Any) -> int:
        """Run an INSERT … RETURNING id."""
        async with self._database.transaction() as tx:
            return int((await tx.execute(statement)).scalar_one())

    async def _execute(self, statement: Any) -> None:
        async with self._database.transaction() as tx:
            await tx.execute(statement)

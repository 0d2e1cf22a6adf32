"""What a large ledger costs: a turn of the gateway on an empty database beside one on a million model calls,
in turns; and a report of all of it.

The rows are written straight into the file, for no gateway could answer so much before the measurement.
"""

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bot.bench.harness.stage import FIRST_CHAT, Timed, staged
from bot.bench.harness.statistics import Row, at_most, percentile
from bot.bench.harness.workload import Model
from bot.bench.load.latency import CHATS, SLICE, in_a_row
from bot.db.migrate import migrate
from bot.sim.vllm.server import Endpoint
from bot.usage import report_command as telling
from tools.threads import in_thread

CALLS = 1_000_000
A_TURN = 4  # model calls of a turn
OLD_CHATS = 500  # the bench's own are among them
DAYS = 90
SLOWER = 1.10
REPORTED = 2.0  # seconds
FIRST_QUESTION = 300_000

_AT = ":begin + i * :step"
_LANE = "CAST(:chat + i % :chats AS TEXT)"
_BEGUN = {"kind": "'update'", "shape": "'text'", "state": "'done'", "received_at": _AT, "taken_at": _AT}
_SENT = {"final": "1", "state": "'done'", "message_id": "i", "made_at": _AT, "sent_at": _AT, "done_at": _AT}
_ENDED = {"conversation": "1", "state": "'ended'", "ending": "'answered'", "tools": "'[]'", "thinking": "0"}
_TIMES = {"received_at": _AT, "began_at": _AT, "ended_at": f"{_AT} + 9"}
_WAITS = ("lane_wait", "seat_wait", "tools", "approval_wait", "back_off", "down")
_SPENT = {
    "whole": "9",
    "intake": "0.1",
    "first_canvas": "6",
    "further_canvases": "2",
    "telegram": "0.5",
    "own": "0.4",
}
_WHO = {"endpoint": "'main'", "model": "'m'", "purpose": "'turn'", "thinking": "0", "tools_offered": "5"}
_USAGE = {
    "prompt_tokens": "900",
    "cached_tokens": "600",
    "completion_tokens": "100 + i % 400",
    "reasoning_tokens": "0",
}
_BLOCKS = dict.fromkeys(("first_block_at", "last_block_at", "ended_at"), f"{_AT} + 2")
_REPLY = {"blocks": "2", "finish_reason": "'stop'", "outcome": "'ok'", "reply": ":words"}
_PLACE = {"turn": "1 + (i - 1) / :a_turn", "step": "(i - 1) % :a_turn", "created_at": _AT, "seat_at": _AT}

Columns = Mapping[str, str]
"""The expression, by column, of row `i` of a table."""

_A_TURN: tuple[tuple[str, Columns], ...] = (
    (
        "inbox",
        {"id": "i", "update_id": "-i", "lane": _LANE, "body": ":words", "turn": "i", "done_at": _AT} | _BEGUN,
    ),
    (
        "turns",
        {"id": "i", "item": "i", "lane": _LANE, "person": "i", "thinking_why": "'no'"} | _ENDED | _TIMES,
    ),
    ("messages", {"turn": "i", "role": "'user'", "text": ":words", "made_at": _AT}),
    ("messages", {"turn": "i", "role": "'assistant'", "text": ":words", "made_at": f"{_AT} + 9"}),
    ("outbox", {"item": "i", "lane": _LANE, "body": ":words"} | _SENT),
    ("accounts", {"turn": "i", "settled_at": f"{_AT} + 9"} | _SPENT | dict.fromkeys(_WAITS, "0")),
)
_A_CALL: Columns = _PLACE | _WHO | _USAGE | _BLOCKS | _REPLY
_A_CHAT: Columns = {"lane": "CAST(:chat + i - 1 AS TEXT)", "conversation": "2"}


async def measure(folder: Path, messages: int, calls: int = CALLS) -> list[Row]:
    """Rows of own time over `messages` on each database, there and back again, so that a drift meets both
    alike.
    """
    empty = folder / "empty"
    full = folder / "full"
    await in_thread(
        fill, full / "ours" / "canvasgram.db", calls
    )  # half a minute, in which Ctrl-C must be heard
    _made(empty / "ours" / "canvasgram.db")  # a gateway that has to migrate keeps what it loaded for that
    taken: dict[str, list[Timed]] = {"empty": [], "full": []}
    cpu = {"empty": 0.0, "full": 0.0}
    async with (
        staged("ours", empty, Endpoint(brain=Model())) as small,
        staged("ours", full, Endpoint(brain=Model())) as large,
    ):
        stages = {"empty": small, "full": large}
        for stage in stages.values():
            await stage.start()
            await in_a_row(stage, range(FIRST_QUESTION - CHATS, FIRST_QUESTION))
        for place in range(max(1, messages // SLICE)):
            first = FIRST_QUESTION + place * SLICE
            for name in ("empty", "full") if place % 2 else ("full", "empty"):
                before = stages[name].running.cpu() or 0.0
                taken[name] += await in_a_row(stages[name], range(first, first + SLICE))
                cpu[name] += (stages[name].running.cpu() or 0.0) - before
    told = await reported(full / "ours" / "canvasgram.db")
    report = Row(
        "ledger_report", f"report of {calls:,} calls", "s", {"ours": told}, at_most(REPORTED), digits=2
    )
    return [*rows(taken, cpu, calls), report]


async def reported(file: Path) -> float:
    """Seconds until `canvasgram report` has summed up all of it; its start is left out."""
    began = time.monotonic()
    await telling.report(f"sqlite+aiosqlite:///{file}", telling.Wish(), now=time.time())
    return time.monotonic() - began


def rows(taken: dict[str, list[Timed]], cpu: dict[str, float], calls: int) -> list[Row]:
    """Own time on both, and what the large one is of the small one; also in processor time, which others
    disturb less.

    `cpu` is in seconds over all of `taken`; 0 is unknown.
    """
    p50, p95 = (
        {name: percentile([one.own for one in timed], share) or 0.0 for name, timed in taken.items()}
        for share in (0.5, 0.95)
    )
    slower = p50["full"] / p50["empty"]
    busier = cpu["full"] / cpu["empty"] if cpu["empty"] else None
    return [
        Row("ledger_empty", "empty ledger: own time a reply, p50", "ms", {"ours": 1000 * p50["empty"]}),
        Row("ledger_full", f"ledger of {calls:,} calls: own time, p50", "ms", {"ours": 1000 * p50["full"]}),
        Row("ledger_full_p95", "the same, p95", "ms", {"ours": 1000 * p95["full"]}),
        Row(
            "ledger_slower",
            "the full one, of the empty one",
            "x",
            {"ours": slower},
            at_most(SLOWER),
            digits=2,
        ),
        Row("ledger_cpu", "the same in processor time", "x", {"ours": busier}, digits=2),
    ]


def fill(file: Path, calls: int) -> None:
    """A migrated database with so many model calls in ended turns of ended conversations."""
    _made(file)
    turns = calls // A_TURN
    known = {
        "begin": time.time() - DAYS * 86_400,
        "chat": FIRST_CHAT,
        "chats": OLD_CHATS,
        "a_turn": A_TURN,
        "words": '{"text": "' + "The boats carry wood and salt to market. " * 5 + '"}',
    }
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table, columns in _A_TURN:
            connection.execute(
                _insert(table, columns), known | {"last": turns, "step": DAYS * 86_400 / turns}
            )
        connection.execute(
            _insert("model_calls", _A_CALL), known | {"last": calls, "step": DAYS * 86_400 / calls}
        )
        connection.execute(_insert("lanes", _A_CHAT), known | {"last": OLD_CHATS})
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("rb+") as written:
        os.fsync(written)  # else the gateway's first commits would wait for all of it


def _made(file: Path) -> None:
    file.parent.mkdir(parents=True)
    migrate(f"sqlite+aiosqlite:///{file}")


def _insert(table: str, columns: Columns) -> str:
    """A statement that writes rows 1 to :last."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
    names = ", ".join(columns)
    values = ", ".join(columns.values())
    return f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM n"  # noqa: S608 - nothing of it is from outside

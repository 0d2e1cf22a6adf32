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

from bot.bench.harness.stage import FIRST_CHAT_ID, AnswerTimes, open_stage
from bot.bench.harness.statistics import FigureRow, limit_to, percentile
from bot.bench.harness.workload import ProseBrain
from bot.bench.load.latency import CHATS, SLICE_MESSAGES, ask_in_a_row
from bot.db.migrate import migrate
from bot.sim.vllm.server import SimulatedEndpoint
from bot.usage import report_command as telling
from tools.threads import run_in_thread

MODEL_CALLS = 1_000_000
CALLS_PER_TURN = 4  # model calls of a turn
OLD_CHATS = 500  # the bench's own are among them
DAYS = 90
MAX_SLOWDOWN = 1.10
MAX_REPORT_SECONDS = 2.0  # seconds
FIRST_QUESTION = 300_000

_ROW_TIME = ":begin + i * :step"
_ROW_LANE = "CAST(:chat + i % :chats AS TEXT)"
_INBOX_COLUMNS = {
    "kind": "'update'",
    "shape": "'text'",
    "state": "'done'",
    "received_at": _ROW_TIME,
    "taken_at": _ROW_TIME,
}
_OUTBOX_COLUMNS = {
    "final": "1",
    "state": "'done'",
    "message_id": "i",
    "made_at": _ROW_TIME,
    "sent_at": _ROW_TIME,
    "done_at": _ROW_TIME,
}
_TURN_COLUMNS = {
    "conversation": "1",
    "state": "'ended'",
    "ending": "'answered'",
    "tools": "'[]'",
    "thinking": "0",
}
_TURN_TIME_COLUMNS = {"received_at": _ROW_TIME, "began_at": _ROW_TIME, "ended_at": f"{_ROW_TIME} + 9"}
_WAIT_COLUMNS = ("lane_wait", "seat_wait", "tools", "approval_wait", "back_off", "down")
_INTERVAL_COLUMNS = {
    "whole": "9",
    "intake": "0.1",
    "first_canvas": "6",
    "further_canvases": "2",
    "telegram": "0.5",
    "own": "0.4",
}
_CALL_SOURCE_COLUMNS = {
    "endpoint": "'main'",
    "model": "'m'",
    "purpose": "'turn'",
    "thinking": "0",
    "tools_offered": "5",
}
_USAGE_COLUMNS = {
    "prompt_tokens": "900",
    "cached_tokens": "600",
    "completion_tokens": "100 + i % 400",
    "reasoning_tokens": "0",
}
_BLOCK_TIME_COLUMNS = dict.fromkeys(("first_block_at", "last_block_at", "ended_at"), f"{_ROW_TIME} + 2")
_REPLY_COLUMNS = {"blocks": "2", "finish_reason": "'stop'", "outcome": "'ok'", "reply": ":words"}
_CALL_POSITION_COLUMNS = {
    "turn": "1 + (i - 1) / :a_turn",
    "step": "(i - 1) % :a_turn",
    "created_at": _ROW_TIME,
    "seat_at": _ROW_TIME,
}

Columns = Mapping[str, str]
"""The expression, by column, of row `i` of a table."""

_TURN_ROWS: tuple[tuple[str, Columns], ...] = (
    (
        "inbox",
        {"id": "i", "update_id": "-i", "lane": _ROW_LANE, "body": ":words", "turn": "i", "done_at": _ROW_TIME}
        | _INBOX_COLUMNS,
    ),
    (
        "turns",
        {"id": "i", "item": "i", "lane": _ROW_LANE, "person": "i", "thinking_why": "'no'"}
        | _TURN_COLUMNS
        | _TURN_TIME_COLUMNS,
    ),
    ("messages", {"turn": "i", "role": "'user'", "text": ":words", "made_at": _ROW_TIME}),
    ("messages", {"turn": "i", "role": "'assistant'", "text": ":words", "made_at": f"{_ROW_TIME} + 9"}),
    ("outbox", {"item": "i", "lane": _ROW_LANE, "body": ":words"} | _OUTBOX_COLUMNS),
    (
        "accounts",
        {"turn": "i", "settled_at": f"{_ROW_TIME} + 9"}
        | _INTERVAL_COLUMNS
        | dict.fromkeys(_WAIT_COLUMNS, "0"),
    ),
)
_CALL_ROW: Columns = (
    _CALL_POSITION_COLUMNS | _CALL_SOURCE_COLUMNS | _USAGE_COLUMNS | _BLOCK_TIME_COLUMNS | _REPLY_COLUMNS
)
_CHAT_ROW: Columns = {"lane": "CAST(:chat + i - 1 AS TEXT)", "conversation": "2"}


async def measure_large_ledger(
    folder: Path, messages: int, model_calls: int = MODEL_CALLS
) -> list[FigureRow]:
    """Rows of own time over `messages` on each database, there and back again, so that a drift meets both
    alike.
    """
    empty = folder / "empty"
    full = folder / "full"
    await run_in_thread(
        fill_database, full / "ours" / "canvasgram.db", model_calls
    )  # half a minute, in which Ctrl-C must be heard
    _create_database(
        empty / "ours" / "canvasgram.db"
    )  # a gateway that has to migrate keeps what it loaded for that
    taken: dict[str, list[AnswerTimes]] = {"empty": [], "full": []}
    cpu = {"empty": 0.0, "full": 0.0}
    async with (
        open_stage("ours", empty, SimulatedEndpoint(brain=ProseBrain())) as small,
        open_stage("ours", full, SimulatedEndpoint(brain=ProseBrain())) as large,
    ):
        stages = {"empty": small, "full": large}
        for stage in stages.values():
            await stage.start()
            await ask_in_a_row(stage, range(FIRST_QUESTION - CHATS, FIRST_QUESTION))
        for place in range(max(1, messages // SLICE_MESSAGES)):
            first = FIRST_QUESTION + place * SLICE_MESSAGES
            for name in ("empty", "full") if place % 2 else ("full", "empty"):
                before = stages[name].process.read_cpu_seconds() or 0.0
                taken[name] += await ask_in_a_row(stages[name], range(first, first + SLICE_MESSAGES))
                cpu[name] += (stages[name].process.read_cpu_seconds() or 0.0) - before
    told = await measure_report(full / "ours" / "canvasgram.db")
    report = FigureRow(
        "ledger_report",
        f"report of {model_calls:,} calls",
        "s",
        {"ours": told},
        limit_to(MAX_REPORT_SECONDS),
        digits=2,
    )
    return [*build_rows(taken, cpu, model_calls), report]


async def measure_report(file: Path) -> float:
    """Seconds until `canvasgram report` has summed up all of it; its start is left out."""
    began = time.monotonic()
    await telling.render_report(f"sqlite+aiosqlite:///{file}", telling.ReportOptions(), now=time.time())
    return time.monotonic() - began


def build_rows(
    times_by_ledger: dict[str, list[AnswerTimes]], cpu_by_ledger: dict[str, float], model_calls: int
) -> list[FigureRow]:
    """Own time on both, and what the large one is of the small one; also in processor time, which others
    disturb less.

    `cpu` is in seconds over all of `taken`; 0 is unknown.
    """
    p50, p95 = (
        {
            name: percentile([one.own_seconds for one in timed], share) or 0.0
            for name, timed in times_by_ledger.items()
        }
        for share in (0.5, 0.95)
    )
    slower = p50["full"] / p50["empty"]
    busier = cpu_by_ledger["full"] / cpu_by_ledger["empty"] if cpu_by_ledger["empty"] else None
    return [
        FigureRow("ledger_empty", "empty ledger: own time a reply, p50", "ms", {"ours": 1000 * p50["empty"]}),
        FigureRow(
            "ledger_full",
            f"ledger of {model_calls:,} calls: own time, p50",
            "ms",
            {"ours": 1000 * p50["full"]},
        ),
        FigureRow("ledger_full_p95", "the same, p95", "ms", {"ours": 1000 * p95["full"]}),
        FigureRow(
            "ledger_slower",
            "the full one, of the empty one",
            "x",
            {"ours": slower},
            limit_to(MAX_SLOWDOWN),
            digits=2,
        ),
        FigureRow("ledger_cpu", "the same in processor time", "x", {"ours": busier}, digits=2),
    ]


def fill_database(file: Path, model_calls: int) -> None:
    """A migrated database with so many model calls in ended turns of ended conversations."""
    _create_database(file)
    turns = model_calls // CALLS_PER_TURN
    known = {
        "begin": time.time() - DAYS * 86_400,
        "chat": FIRST_CHAT_ID,
        "chats": OLD_CHATS,
        "a_turn": CALLS_PER_TURN,
        "words": '{"text": "' + "The boats carry wood and salt to market. " * 5 + '"}',
    }
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table, columns in _TURN_ROWS:
            connection.execute(
                _insert_statement(table, columns), known | {"last": turns, "step": DAYS * 86_400 / turns}
            )
        connection.execute(
            _insert_statement("model_calls", _CALL_ROW),
            known | {"last": model_calls, "step": DAYS * 86_400 / model_calls},
        )
        connection.execute(_insert_statement("lanes", _CHAT_ROW), known | {"last": OLD_CHATS})
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("rb+") as written:
        os.fsync(written)  # else the gateway's first commits would wait for all of it


def _create_database(file: Path) -> None:
    file.parent.mkdir(parents=True)
    migrate(f"sqlite+aiosqlite:///{file}")


def _insert_statement(table: str, columns: Columns) -> str:
    """A statement that writes rows 1 to :last."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
    names = ", ".join(columns)
    values = ", ".join(columns.values())
    return f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM n"  # noqa: S608 - nothing of it is from outside

"""The cost of a large ledger: turns on an empty database compared with turns on a million model calls.

Also the time of a report of all of it. The rows are written straight into the file, since no gateway could
answer so much before the measurement.
"""

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bot.bench.harness.statistics import percentile
from bot.db.migrate import migrate
from bot.usage import report_command
from tests.bench.harness.figures import FigureRow, limit_to
from tests.bench.harness.stage import FIRST_CHAT_ID, AnswerTimes, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load.latency import CHATS, SLICE_MESSAGES, ask_in_a_row
from tests.support.endpoint.server import ScriptedEndpoint
from tools.threads import run_in_thread

MODEL_CALLS = 1_000_000
CALLS_PER_TURN = 4
TOOL_CALLS_PER_TURN = 2
TURNS_PER_APPROVAL = 15
TURNS_PER_CHANGE = 50
READINGS_A_DAY = 144
OLD_CHATS = 500  # the chats of the bench are among them
PEOPLE = 300
DAYS = 90
MAX_SLOWDOWN = 1.10
MAX_REPORT_SECONDS = 2.0
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
# Three digits that repeat only after a thousand rows, so that no two neighbours are alike.
_DIGITS = "(i * 617 % 1000)"
_ENDING = (
    f"CASE {_DIGITS} % 50 WHEN 0 THEN 'stopped' WHEN 1 THEN 'cut' WHEN 2 THEN 'failed' ELSE 'answered' END"
)
_TURN_COLUMNS = {
    "conversation": "1",
    "state": "'ended'",
    "ending": _ENDING,
    "tools": "'[]'",
    "thinking": "i % 4 = 0",
}
_TURN_TIME_COLUMNS = {"received_at": _ROW_TIME, "began_at": _ROW_TIME, "ended_at": f"{_ROW_TIME} + 9"}
_INTERVAL_COLUMNS = {
    "intake": "0.1",
    "lane_wait": f"{_DIGITS} % 7 / 5.0",
    "seat_wait": f"{_DIGITS} % 9 / 3.0",
    "first_canvas": f"2 + {_DIGITS} / 100.0",
    "further_canvases": f"{_DIGITS} % 300 / 100.0",
    "tools": f"{_DIGITS} % 20 / 10.0",
    "approval_wait": f"{_DIGITS} % 11 / 10 * 30.0",
    "telegram": "0.5",
    "back_off": f"{_DIGITS} % 101 / 100 * 5.0",
    "down": "0",
    "own": "0.4",
}
_CALL_SOURCE_COLUMNS = {
    "endpoint": "'main'",
    "model": "'model ' || (i % 3)",
    "purpose": "'turn'",
    "again": f"CASE {_DIGITS} % 40 WHEN 0 THEN 'away' WHEN 1 THEN 'more' END",
    "thinking": "i % 4 = 0",
    "tools_offered": "5",
}
# Of a hundred calls one has no usage, two have only what had been counted when they were broken off, and of
# three the cached tokens are unknown.
_HAS_USAGE = f"{_DIGITS} % 100 <> 0"
_USAGE_COLUMNS = {
    "prompt_tokens": f"CASE WHEN {_HAS_USAGE} THEN 900 + 7 * {_DIGITS} END",
    "cached_tokens": f"CASE WHEN {_HAS_USAGE} AND {_DIGITS} % 50 <> 7 THEN 600 + 5 * {_DIGITS} END",
    "completion_tokens": f"CASE WHEN {_HAS_USAGE} THEN 1 + {_DIGITS} END",
    "reasoning_tokens": f"CASE WHEN {_HAS_USAGE} THEN (i % 4 = 0) * {_DIGITS} / 2 END",
    "usage_partial": f"{_DIGITS} % 100 IN (1, 2)",
    "usage_missing": f"CASE {_DIGITS} % 100 WHEN 0 THEN 'no usage' WHEN 1 THEN 'broken off' END",
}
_BLOCK_TIME_COLUMNS = {
    "first_block_at": f"{_ROW_TIME} + 1 + {_DIGITS} / 1000.0",
    "last_block_at": f"{_ROW_TIME} + 2 + {_DIGITS} / 300.0",
    "ended_at": f"{_ROW_TIME} + 2 + {_DIGITS} / 300.0",
}
_OUTCOME = (
    f"CASE {_DIGITS} % 100 WHEN 0 THEN 'failed' WHEN 1 THEN 'cancelled' WHEN 2 THEN 'cut' ELSE 'ok' END"
)
_REPLY_COLUMNS = {"blocks": "2", "finish_reason": "'stop'", "outcome": _OUTCOME, "reply": ":words"}
_CALL_POSITION_COLUMNS = {
    "turn": "1 + (i - 1) / :a_turn",
    "step": "(i - 1) % :a_turn",
    "created_at": _ROW_TIME,
    "seat_at": f"{_ROW_TIME} + {_DIGITS} % 9 / 10.0",
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
        {"id": "i", "item": "i", "lane": _ROW_LANE, "person": f"i % {PEOPLE}", "thinking_why": "'no'"}
        | _TURN_COLUMNS
        | _TURN_TIME_COLUMNS,
    ),
    ("messages", {"turn": "i", "role": "'user'", "text": ":words", "made_at": _ROW_TIME}),
    ("messages", {"turn": "i", "role": "'assistant'", "text": ":words", "made_at": f"{_ROW_TIME} + 9"}),
    ("outbox", {"item": "i", "lane": _ROW_LANE, "body": ":words"} | _OUTBOX_COLUMNS),
    (
        "accounts",
        {"turn": "i", "settled_at": f"{_ROW_TIME} + 9", "whole": " + ".join(_INTERVAL_COLUMNS.values())}
        | _INTERVAL_COLUMNS,
    ),
)
_CALL_ROW: Columns = (
    _CALL_POSITION_COLUMNS | _CALL_SOURCE_COLUMNS | _USAGE_COLUMNS | _BLOCK_TIME_COLUMNS | _REPLY_COLUMNS
)
_TOOL_CALL_ROW: Columns = {
    "turn": "1 + (i - 1) / :tools_a_turn",
    "step": "1",
    "call_id": "'c' || i",
    "name": "'tool ' || (i % 12)",
    "arguments": ":words",
    "state": "'done'",
    "outcome": f"CASE {_DIGITS} % 25 WHEN 0 THEN 'error' WHEN 1 THEN 'unknown' ELSE 'ok' END",
    "result": ":words",
    "began_at": _ROW_TIME,
    "ended_at": f"{_ROW_TIME} + {_DIGITS} / 500.0",
}
_APPROVAL_ROW: Columns = {
    "turn": "i * :turns_an_approval",
    "step": "1",
    "call_id": "'c' || i",
    "tool": "'tool ' || (i % 12)",
    "arguments": ":words",
    "hash": "'h'",
    "asker": f"i % {PEOPLE}",
    "lane": _ROW_LANE,
    "who": "'asker'",
    "why": "'it changes something'",
    "asked_at": _ROW_TIME,
    "expires_at": f"{_ROW_TIME} + 900",
    "answer": "CASE i % 5 WHEN 0 THEN 'denied' WHEN 1 THEN 'expired' ELSE 'once' END",
    "answered_at": f"{_ROW_TIME} + {_DIGITS} / 10.0",
}
_READING_ROW: Columns = {
    "endpoint": "'main'",
    "read_at": _ROW_TIME,
    "since": f"{_ROW_TIME} - :step",
    "totals": "'{}'",
    "running": "0",
    **dict.fromkeys(("prompt_seen", "prompt_own", "generated_seen", "generated_own"), "9000"),
    "steps_seen": "150",
    "committed_seen": "2560",
    "gap": "i % 7 / 6 * 500",
    "why": "'others use it, too'",
}
_CHANGE_ROW: Columns = {
    "at": _ROW_TIME,
    "who": f"i % {PEOPLE}",
    "via": "'telegram'",
    "what": "'blocked'",
    "subject": f"'person ' || (i % {PEOPLE})",
    "after": """'{"role": "blocked"}'""",
}
_CHAT_ROW: Columns = {"lane": "CAST(:chat + i - 1 AS TEXT)", "conversation": "2"}


async def measure_large_ledger(
    folder: Path, messages: int, model_calls: int = MODEL_CALLS
) -> list[FigureRow]:
    """Rows of own time over `messages` on each database.

    The databases take turns, forwards and backwards, so that drift of the machine affects both alike.
    """
    empty = folder / "empty"
    full_file = await provide_full_ledger(folder, model_calls)
    # Created here, since a gateway that has to migrate keeps in memory what it loaded for that.
    _create_database(empty / "ours" / "canvasgram.db")
    times_by_ledger: dict[str, list[AnswerTimes]] = {"empty": [], "full": []}
    cpu = {"empty": 0.0, "full": 0.0}
    async with (
        open_stage("ours", empty, ScriptedEndpoint(brain=ProseBrain())) as empty_stage,
        open_stage("ours", folder / "full", ScriptedEndpoint(brain=ProseBrain())) as full_stage,
    ):
        stages = {"empty": empty_stage, "full": full_stage}
        for stage in stages.values():
            await stage.start()
            await ask_in_a_row(stage, range(FIRST_QUESTION - CHATS, FIRST_QUESTION))
        for round_number in range(max(1, messages // SLICE_MESSAGES)):
            first = FIRST_QUESTION + round_number * SLICE_MESSAGES
            order = ("empty", "full") if round_number % 2 else ("full", "empty")
            for name in order:
                before = stages[name].process.read_cpu_seconds() or 0.0
                times_by_ledger[name] += await ask_in_a_row(
                    stages[name], range(first, first + SLICE_MESSAGES)
                )
                cpu[name] += (stages[name].process.read_cpu_seconds() or 0.0) - before
    report_seconds = await measure_report(full_file)
    report = FigureRow(
        "ledger_report",
        f"report of {model_calls:,} calls",
        "s",
        {"ours": report_seconds},
        limit_to(MAX_REPORT_SECONDS),
        digits=2,
    )
    return [*build_rows(times_by_ledger, cpu, model_calls), report]


async def provide_full_ledger(folder: Path, model_calls: int) -> Path:
    """The database for a stage in `folder / "full"`, filled with so many model calls unless it is there."""
    file = folder / "full" / "ours" / "canvasgram.db"
    if not file.exists():
        # In a thread: it takes half a minute, in which Ctrl-C must work.
        await run_in_thread(fill_database, file, model_calls)
    return file


async def measure_report(file: Path) -> float:
    """Seconds in which `canvasgram report` sums up all of it, without its start."""
    started_at = time.monotonic()
    await report_command.render_report(
        f"sqlite+aiosqlite:///{file}", report_command.ReportOptions(), now=time.time()
    )
    return time.monotonic() - started_at


def build_rows(
    times_by_ledger: dict[str, list[AnswerTimes]], cpu_by_ledger: dict[str, float], model_calls: int
) -> list[FigureRow]:
    """Own time on both, and the ratio of the large one to the empty one, also in processor time.

    Processor time is disturbed less by other processes.
    `cpu_by_ledger` is in seconds over all of `times_by_ledger`; 0 is unknown.
    """
    p50 = {name: _own_percentile(times, 0.5) for name, times in times_by_ledger.items()}
    p95 = {name: _own_percentile(times, 0.95) for name, times in times_by_ledger.items()}
    time_ratio = p50["full"] / p50["empty"]
    cpu_ratio = None
    if cpu_by_ledger["empty"]:
        cpu_ratio = cpu_by_ledger["full"] / cpu_by_ledger["empty"]
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
            {"ours": time_ratio},
            limit_to(MAX_SLOWDOWN),
            digits=2,
        ),
        FigureRow("ledger_cpu", "the same in processor time", "x", {"ours": cpu_ratio}, digits=2),
    ]


def _own_percentile(times: list[AnswerTimes], fraction: float) -> float:
    return percentile([answer_times.own_seconds for answer_times in times], fraction) or 0.0


def fill_database(file: Path, model_calls: int) -> None:
    """A migrated database with so many model calls, in ended turns of ended conversations.

    As in use, calls go to several models and belong to turns of many people and chats; some are cut, failed,
    asked again or without usage, and there are tool calls and approvals.
    """
    _create_database(file)
    turns = model_calls // CALLS_PER_TURN
    counts = {
        "model_calls": (_CALL_ROW, model_calls),
        "tool_calls": (_TOOL_CALL_ROW, turns * TOOL_CALLS_PER_TURN),
        "approvals": (_APPROVAL_ROW, turns // TURNS_PER_APPROVAL),
        "lanes": (_CHAT_ROW, OLD_CHATS),
        "readings": (_READING_ROW, DAYS * READINGS_A_DAY),
        "audit": (_CHANGE_ROW, turns // TURNS_PER_CHANGE),
    }
    parameters = {
        "begin": time.time() - DAYS * 86_400,
        "chat": FIRST_CHAT_ID,
        "chats": OLD_CHATS,
        "a_turn": CALLS_PER_TURN,
        "tools_a_turn": TOOL_CALLS_PER_TURN,
        "turns_an_approval": TURNS_PER_APPROVAL,
        "words": '{"text": "' + "The boats carry wood and salt to market. " * 5 + '"}',
    }
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table, (columns, last) in [
            *((table, (columns, turns)) for table, columns in _TURN_ROWS),
            *counts.items(),
        ]:
            step = DAYS * 86_400 / max(1, last)
            connection.execute(_insert_statement(table, columns), parameters | {"last": last, "step": step})
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("rb+") as written:
        os.fsync(written)  # else the gateway's first commits would wait for it


def _create_database(file: Path) -> None:
    file.parent.mkdir(parents=True)
    migrate(f"sqlite+aiosqlite:///{file}")


def _insert_statement(table: str, columns: Columns) -> str:
    """A statement that writes rows 1 to :last."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
    names = ", ".join(columns)
    values = ", ".join(columns.values())
    return f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM n"

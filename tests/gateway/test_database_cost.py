"""What a reply costs the database: statements, commits and syncs, none of which may grow unnoticed."""

from collections import Counter
from pathlib import Path

import pytest

from bot.llm import connection
from bot.telegram.delivery import progress
from tests.support.cache_warmup import wait_until
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.sql_trace import SqlTrace, trace_sql

REPLIES = 5
# Of what runs every second or two or once a measurement, and not for a reply.
BACKGROUND = (
    "lives",
    "accounts",
    "revisions",
    "jobs",
    "kept_files",
    "SET spans=",
    "AS turn",
    "'system'",
    "min(outbox.id)",
)
STORE_SHOWN = "UPDATE outbox SET state=CASE WHEN (outbox.final"

# The update is stored; claimed; its conversation read; its turn begun; ended, and taken to be sent; shown.
STATEMENTS = {
    "INSERT inbox": 1,
    "SELECT inbox": 2,
    "UPDATE inbox": 3,
    "SELECT lanes": 2,
    "SELECT turns": 1,
    "SELECT messages": 1,
    "INSERT turns": 1,
    "INSERT messages": 2,
    "INSERT model_calls": 1,
    "UPDATE model_calls": 1,
    "UPDATE turns": 1,
    "INSERT outbox": 1,
    "UPDATE outbox": 1,
}


@pytest.mark.sqlite
async def test_a_reply_costs_17_statements_in_five_commits_two_of_them_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Of an answer that takes long, a typing sign and what there is so far are shown before it.
    monkeypatch.setattr(progress, "_ANNOUNCE_AFTER_SECONDS", 300.0)
    monkeypatch.setattr(connection, "SHOW_SECONDS", 300.0)
    with trace_sql() as trace:
        async with running_gateway(tmp_path) as gateway:
            await answer(gateway, trace, "first")  # opens connections, stores the person, begins the lane
            await wait_until(lambda: any("readings" in commit.last_statement for commit in trace.commits))
            trace.clear()
            for number in range(REPLIES):
                await answer(gateway, trace, f"reply {number}")
    kinds = Counter(describe(statement) for statement in trace.statements if not is_background(statement))
    assert kinds == {kind: count * REPLIES for kind, count in STATEMENTS.items()}
    commits = [commit for commit in trace.commits if not is_background(commit.last_statement)]
    assert len(commits) == 5 * REPLIES
    synced = Counter(describe(commit.last_statement) for commit in commits if commit.is_synced)
    assert synced == {"INSERT inbox": REPLIES, "UPDATE inbox": REPLIES}
    assert trace.thread_count == 0


async def answer(gateway: GatewayHarness, trace: SqlTrace, text: str) -> None:
    """Have the bot say this; return once it is stored that it was shown."""
    shown = count_shown(trace)
    gateway.ann.send(f"@@say:{text}@@")
    await gateway.api.wait_until(lambda: gateway.is_finished() and gateway.texts()[-1] == text)
    await wait_until(lambda: count_shown(trace) > shown)


def count_shown(trace: SqlTrace) -> int:
    return sum(commit.last_statement.startswith(STORE_SHOWN) for commit in trace.commits)


def is_background(statement: str) -> bool:
    return any(word in statement for word in BACKGROUND)


def describe(statement: str) -> str:
    """Its verb and its table."""
    verb, table, *_ = statement.replace("INTO ", "").split()
    return f"{verb} {table.partition('.')[0]}"

"""Sums over the ledger are correct in every grouping; unknown values are counted, never taken for zero."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies

from bot.canvases import TYPED_READ_PURPOSES
from bot.db.engine import Database, open_database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.tables import readings
from bot.db.tools import approvals
from bot.db.tools.approvals import NewApprovalQuestion
from bot.db.usage import counter_readings, report_sums, tool_sums
from bot.db.usage.usage_sums import (
    ApprovalSums,
    BreakdownColumn,
    CallSums,
    GroupBy,
    RetrySums,
    Scope,
    ServerSums,
    ToolSums,
    TurnCounts,
    TurnSums,
)
from bot.domain import DAY_SECONDS, Lane
from tests.support.empty_database import place_empty_database
from tests.support.usage_rows import NOON, UsageRows

TODAY = int(NOON // DAY_SECONDS)


@pytest.fixture
def ledger(database: Database) -> UsageRows:
    return UsageRows(database)


async def sum_calls(
    database: Database, scope: Scope | None = None, group: GroupBy | None = None
) -> dict[Any, CallSums]:
    async with database.read_transaction() as tx:
        return {sums.key: sums for sums in await report_sums.sum_calls(tx, scope or Scope(), group)}


async def sum_turns(
    database: Database, scope: Scope | None = None, group: GroupBy | None = None
) -> dict[Any, TurnSums]:
    async with database.read_transaction() as tx:
        return {sums.key: sums for sums in await report_sums.sum_turns(tx, scope or Scope(), group)}


async def test_an_empty_ledger_has_no_group(database: Database):
    assert await sum_calls(database) == {}
    assert await sum_turns(database) == {}
    async with database.read_transaction() as tx:
        assert await tool_sums.sum_tool_calls(tx, Scope(), None) == []
        assert await report_sums.sum_retries(tx, Scope(), None) == []
        assert await counter_readings.sum_server_counters(tx, Scope()) == ServerSums(0, None, None, None)


async def test_a_call_with_all_its_counts(database: Database, ledger: UsageRows):
    await ledger.add_call(await ledger.add_turn(), thinking=True, reasoning_tokens=90)
    assert await sum_calls(database) == {
        None: CallSums(
            key=None,
            calls=1,
            input=1000,
            input_known=1,
            cached=250,
            cached_known=1,
            cached_of=1000,
            output=300,
            output_known=1,
            partial=0,
            reasoning=90,
            reasoning_known=1,
            reasoning_of=300,
            canvases=2,
            canvases_known=1,
            costing=1,
            thinking=1,
            thinking_canvases=2,
            busy=3.0,
            waited=1.0,
            timed=1,
            timed_canvases=2,
            timed_seconds=3.0,
            cut=0,
            cancelled=0,
            failed=0,
        )
    }


async def test_unknown_counts_of_calls_are_counted_and_not_summed(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_call(turn)
    unknown = dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"))
    await ledger.add_call(turn, **unknown, outcome="failed", seat_at=None)
    await ledger.add_call(turn, cached_tokens=None, reasoning_tokens=None, usage_partial=True, outcome="cut")
    await ledger.add_call(turn, outcome="cancelled", usage_partial=True)
    await ledger.add_call(turn, **unknown, outcome="cancelled", usage_partial=True)
    (sums,) = (await sum_calls(database)).values()
    assert (sums.calls, sums.input, sums.input_known) == (5, 3000, 3)
    assert (sums.cached, sums.cached_known, sums.cached_of) == (500, 2, 2000)
    assert (sums.output, sums.output_known, sums.partial) == (900, 3, 2)
    assert (sums.reasoning_known, sums.reasoning_of) == (2, 600)
    assert (sums.canvases, sums.canvases_known, sums.costing) == (6, 3, 5)
    assert (sums.cut, sums.cancelled, sums.failed) == (1, 2, 1)
    assert sums.busy == 12.0


async def test_seconds_of_a_canvas_are_over_calls_that_ended_by_themselves_with_a_known_count(
    database: Database, ledger: UsageRows
):
    turn = await ledger.add_turn()
    await ledger.add_call(turn, completion_tokens=512, ended_at=NOON + 5.2)
    await ledger.add_call(turn, completion_tokens=256, ended_at=NOON + 3.6, finish_reason="length")
    await ledger.add_call(turn, completion_tokens=256, ended_at=NOON + 9, outcome="cancelled")
    await ledger.add_call(turn, completion_tokens=256, ended_at=NOON + 9, usage_partial=True)
    await ledger.add_call(turn, completion_tokens=256, ended_at=NOON + 9, outcome="cut")
    await ledger.add_call(turn, completion_tokens=256, ended_at=None, outcome=None)
    await ledger.add_call(turn, completion_tokens=None, ended_at=NOON + 9, outcome="failed")
    await ledger.add_call(turn, completion_tokens=4, seat_at=None, purpose="decision")
    (sums,) = (await sum_calls(database)).values()
    assert (sums.timed, sums.timed_canvases) == (2, 3)
    assert sums.timed_seconds == pytest.approx(3.2 + 1.6)


async def test_a_typed_read_costs_no_canvas(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_call(turn)
    await ledger.add_call(turn, purpose="decision", completion_tokens=4, thinking=True, seat_at=None)
    sums = await sum_calls(database, group="purpose")
    assert (sums["decision"].canvases, sums["decision"].costing, sums["decision"].thinking) == (0, 0, 0)
    assert (sums["turn"].canvases, sums["turn"].costing) == (2, 1)


async def test_calls_without_a_turn_belong_to_their_day_and_to_nobody(database: Database, ledger: UsageRows):
    await ledger.add_call(await ledger.add_turn())
    await ledger.add_call(None, purpose="warmup")
    await ledger.add_call(None, purpose="warmup", created_at=NOON - DAY_SECONDS)
    by_day = await sum_calls(database, group="day")
    by_user = await sum_calls(database, group="user")
    of_user = await sum_calls(database, Scope(user=5), "user")
    assert {day: sums.calls for day, sums in by_day.items()} == {TODAY: 2, TODAY - 1: 1}
    assert {user: sums.calls for user, sums in by_user.items()} == {5: 1, None: 2}
    assert {user: sums.calls for user, sums in of_user.items()} == {5: 1}
    assert (await sum_calls(database, Scope(since=NOON - 1)))[None].calls == 2
    assert (await sum_calls(database, Scope(model="m", until=NOON)))[None].calls == 1
    assert await sum_calls(database, Scope(model="another")) == {}


async def test_a_chat_includes_its_topics(database: Database, ledger: UsageRows):
    for lane in ("5", "5:7", "55", "6"):
        await ledger.add_call(await ledger.add_turn(lane=lane))
    assert set(await sum_calls(database, Scope(chat="5"), "chat")) == {"5", "5:7"}
    assert set(await sum_calls(database, Scope(chat="5:7"), "chat")) == {"5:7"}


async def test_a_group_is_found_by_each_of_its_numbers(database: Database, ledger: UsageRows):
    async with database.transaction() as tx:
        await groups.put(tx, Group(-5, "Family", "in", 1.0, other_chat=-1005))
    for lane in ("-5", "-5:7", "-55"):
        await ledger.add_call(await ledger.add_turn(lane=lane))
    for number in ("-5", "-1005"):
        assert set(await sum_calls(database, Scope(chat=number), "chat")) == {"-5", "-5:7"}
        assert set(await sum_calls(database, Scope(chat=f"{number}:7"), "chat")) == {"-5:7"}
        assert set(await sum_calls(database, Scope(chat=f"{number}:0"), "chat")) == {"-5"}


async def test_a_turn_belongs_to_its_day_with_all_its_calls(database: Database, ledger: UsageRows):
    late = await ledger.add_turn(received_at=TODAY * DAY_SECONDS - 0.5)
    await ledger.add_call(late, created_at=TODAY * DAY_SECONDS + 1.0)
    assert set(await sum_calls(database, group="day")) == {TODAY - 1}
    assert await sum_calls(database, Scope(since=TODAY * DAY_SECONDS)) == {}


async def test_reasons_are_counted_by_group(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    for reason in ("empty", "empty", "brake", None):
        await ledger.add_call(turn, again=reason)
    await ledger.add_call(None, again="away")
    async with database.read_transaction() as tx:
        by_user = await report_sums.sum_retries(tx, Scope(), "user")
        together = await report_sums.sum_retries(tx, Scope(), None)
    assert set(by_user) == {RetrySums(5, "empty", 2), RetrySums(5, "brake", 1), RetrySums(None, "away", 1)}
    assert {sums.again: sums.calls for sums in together} == {"empty": 2, "brake": 1, "away": 1}


async def test_turns_are_summed_with_their_accounts(database: Database, ledger: UsageRows):
    await ledger.add_account(await ledger.add_turn(thinking=True), first_canvas=2.0, own=0.5)
    await ledger.add_account(await ledger.add_turn(ending="empty"), first_canvas=1.0, telegram=0.25)
    await ledger.add_turn(thinking=True, ending="cut", person=6)
    sums = (await sum_turns(database))[None]
    assert (sums.turns, sums.thinking, sums.empty, sums.cut) == (3, 2, 1, 1)
    assert (sums.settled, sums.thinking_settled, sums.thinking_seconds) == (2, 1, 2.5)
    seconds = dict(zip(get_args(BreakdownColumn), sums.seconds, strict=True))
    known = {"whole": 3.75, "first_canvas": 3.0, "telegram": 0.25, "own": 0.5}
    assert {name: value for name, value in seconds.items() if value} == known
    by_user = await sum_turns(database, group="user")
    assert (by_user[5].turns, by_user[6].turns, by_user[6].settled) == (2, 1, 0)
    assert set(await sum_turns(database, group="purpose")) == {None}


async def test_turns_that_answered_are_told_from_those_that_failed_and_those_nobody_wanted(
    database: Database, ledger: UsageRows
):
    for ending in ("answered", "cut", "failed", "empty", "seconds", "steps", "stopped", "limit", None):
        await ledger.add_turn(ending=ending)
    sums = (await sum_turns(database))[None]
    assert (sums.turns, sums.answered, sums.failed) == (9, 2, 4)


async def test_turns_are_counted_alone_as_they_are_with_their_sums(database: Database, ledger: UsageRows):
    await ledger.add_account(await ledger.add_turn(ending="failed"))
    await ledger.add_turn(person=6)
    await ledger.add_account(await ledger.add_turn())
    async with database.read_transaction() as tx:
        counts = {sums.key: sums for sums in await report_sums.count_turns(tx, Scope(), "user")}
    assert counts == {5: TurnCounts(5, turns=2, failed=1, settled=2), 6: TurnCounts(6, 1, 0, 0)}
    assert counts == {
        key: TurnCounts(key, sums.turns, sums.failed, sums.settled)
        for key, sums in (await sum_turns(database, group="user")).items()
    }


async def test_the_canvases_of_thinking_turns_are_those_of_all_their_calls(
    database: Database, ledger: UsageRows
):
    thought = await ledger.add_turn(thinking=True)
    await ledger.add_call(thought, thinking=True, completion_tokens=512)
    await ledger.add_call(thought, thinking=False, completion_tokens=700)  # after the brake
    await ledger.add_call(thought, purpose="decision", completion_tokens=4, seat_at=None)
    other = await ledger.add_turn(thinking=True, person=6)
    await ledger.add_call(other, usage_partial=True, completion_tokens=256)
    await ledger.add_call(other, usage_partial=True, completion_tokens=None)
    await ledger.add_call(await ledger.add_turn(), completion_tokens=300)
    await ledger.add_call(None, thinking=True, purpose="warmup")
    sums = await sum_turns(database, group="user")
    assert (sums[5].thinking_canvases, sums[5].thinking_calls, sums[5].thinking_calls_known) == (5, 2, 2)
    assert (sums[6].thinking_canvases, sums[6].thinking_calls, sums[6].thinking_calls_known) == (1, 2, 1)
    assert (sums[5].thinking_calls_partial, sums[6].thinking_calls_partial) == (0, 1)
    together = (await sum_turns(database, group="model"))[None]
    assert (together.thinking_canvases, together.thinking_calls) == (6, 4)


async def test_the_scope_of_a_model_is_the_turns_that_called_it(database: Database, ledger: UsageRows):
    first = await ledger.add_turn()
    second = await ledger.add_turn()
    await ledger.add_call(first, model="one")
    await ledger.add_call(second, model="two")
    await ledger.add_tool_call(first)
    scope = Scope(model="one")
    assert (await sum_turns(database, scope))[None].turns == 1
    assert set(await sum_calls(database, scope, "model")) == {"one"}
    async with database.read_transaction() as tx:
        assert [sums.calls for sums in await tool_sums.sum_tool_calls(tx, scope, None)] == [1]
        assert await tool_sums.sum_tool_calls(tx, Scope(model="two"), None) == []


async def test_calls_that_asked_a_person_are_summed_by_tool_and_answer(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    for number, answered_at in enumerate((NOON + 4.0, NOON + 6.0, None)):
        new_question = NewApprovalQuestion(
            turn, number, "c", "clock", "{}", "h", 5, Lane(5), "admins", "its rule", None, NOON + 900
        )
        async with database.transaction() as tx:
            question = await approvals.insert_question(tx, new_question, now=NOON)
            if answered_at is not None:
                await approvals.store_answer(tx, question, "once", 1, now=answered_at)
    async with database.read_transaction() as tx:
        by_name = await tool_sums.sum_approvals(tx, Scope(), "tool")
        by_user = await tool_sums.sum_approvals(tx, Scope(user=5), "user")
        total = await tool_sums.sum_approvals(tx, Scope(), None)
        assert await tool_sums.sum_approvals(tx, Scope(user=6), None) == []
    assert set(by_name) == {ApprovalSums("clock", "once", 2, 10.0), ApprovalSums("clock", None, 1, 0.0)}
    assert {sums.key for sums in by_user} == {5}
    assert {sums.key for sums in total} == {None}


async def test_tools_are_summed_by_name_and_outcome(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_tool_call(turn, "clock")
    await ledger.add_tool_call(turn, "clock", outcome="error", ended_at=NOON + 7.0)
    await ledger.add_tool_call(turn, "fetch_page", outcome=None, ended_at=None)
    async with database.read_transaction() as tx:
        by_name = await tool_sums.sum_tool_calls(tx, Scope(), "tool")
        by_user = await tool_sums.sum_tool_calls(tx, Scope(), "user")
        seconds = await tool_sums.list_tool_seconds(tx, Scope())
    assert set(by_name) == {
        ToolSums("clock", "ok", 1, 1, 0.5),
        ToolSums("clock", "error", 1, 1, 2.0),
        ToolSums("fetch_page", None, 1, 0, 0.0),
    }
    assert {sums.key for sums in by_user} == {5}
    assert sorted(seconds) == [("clock", 0.5), ("clock", 2.0)]


async def test_the_servers_own_counters_are_added_up_where_they_are_known(database: Database):
    row = {"endpoint": "main", "totals": "{}", "running": 0, "why": ""}
    async with database.transaction() as tx:
        await tx.execute(readings.insert().values(**row, read_at=NOON))
        counts = {"since": NOON, "steps_seen": 98, "committed_seen": 512, "gap": 3}
        await tx.execute(readings.insert().values(**row, read_at=NOON + 60, **counts))
        await tx.execute(readings.insert().values(**row, read_at=NOON + 120, since=NOON + 60))
    async with database.read_transaction() as tx:
        assert await counter_readings.sum_server_counters(tx, Scope()) == ServerSums(2, 98, 512, 3)
        assert await counter_readings.sum_server_counters(tx, Scope(since=NOON + 100)) == ServerSums(
            1, None, None, None
        )


rows = strategies.fixed_dictionaries(
    {
        "turn": strategies.sampled_from([None, 1, 2, 3]),
        "purpose": strategies.sampled_from(["turn", "decision", "address", "warmup"]),
        "model": strategies.sampled_from(["a", "b"]),
        "thinking": strategies.booleans(),
        "prompt_tokens": strategies.none() | strategies.integers(0, 9000),
        "cached_tokens": strategies.none() | strategies.integers(0, 9000),
        "completion_tokens": strategies.none() | strategies.integers(0, 3000),
        "reasoning_tokens": strategies.none() | strategies.integers(0, 3000),
        "usage_partial": strategies.booleans(),
        "finish_reason": strategies.sampled_from([None, "stop", "length"]),
        "outcome": strategies.sampled_from([None, "ok", "cut", "cancelled", "failed"]),
        "created_at": strategies.sampled_from([NOON, NOON + DAY_SECONDS]),
    }
)


def add_up_by_hand(call_rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up these calls one by one."""

    def total(name: str, where_known: str | None = None) -> int:
        rows = [row for row in call_rows if where_known is None or row[where_known] is not None]
        return sum(row[name] or 0 for row in rows)

    def known(name: str) -> int:
        return sum(row[name] is not None for row in call_rows)

    def canvases(row: dict[str, Any]) -> int:
        return -(-int(row["completion_tokens"]) // 256)

    costing = [row for row in call_rows if row["purpose"] not in TYPED_READ_PURPOSES]
    counted = [row for row in costing if row["completion_tokens"] is not None]
    timed = [row for row in counted if row["outcome"] == "ok" and not row["usage_partial"]]
    return {
        "calls": len(call_rows),
        "input": total("prompt_tokens"),
        "input_known": known("prompt_tokens"),
        "cached": total("cached_tokens"),
        "cached_known": known("cached_tokens"),
        "cached_of": total("prompt_tokens", where_known="cached_tokens"),
        "output": total("completion_tokens"),
        "output_known": known("completion_tokens"),
        "partial": sum(row["usage_partial"] and row["completion_tokens"] is not None for row in call_rows),
        "reasoning": total("reasoning_tokens"),
        "reasoning_known": known("reasoning_tokens"),
        "reasoning_of": total("completion_tokens", where_known="reasoning_tokens"),
        "canvases": sum(map(canvases, counted)),
        "canvases_known": len(counted),
        "costing": len(costing),
        "thinking": sum(row["thinking"] for row in costing),
        "thinking_canvases": sum(canvases(row) for row in counted if row["thinking"]),
        "timed": len(timed),
        "timed_canvases": sum(map(canvases, timed)),
        "cut": sum(row["outcome"] == "cut" or row["finish_reason"] == "length" for row in call_rows),
        "cancelled": sum(row["outcome"] == "cancelled" for row in call_rows),
        "failed": sum(row["outcome"] == "failed" for row in call_rows),
    }


LANES_BY_TURN = {1: "5", 2: "5:1", 3: "6"}
PEOPLE_BY_TURN = {1: 5, 2: 5, 3: 6}
KEYS: dict[Any, Callable[[dict[str, Any]], Any]] = {
    None: lambda row: None,
    "model": lambda row: row["model"],
    "purpose": lambda row: row["purpose"],
    "user": lambda row: PEOPLE_BY_TURN.get(row["turn"]),
    "chat": lambda row: LANES_BY_TURN.get(row["turn"]),
    "day": lambda row: TODAY if row["turn"] else int(row["created_at"] // DAY_SECONDS),
}


@settings(max_examples=60)
@given(
    call_rows=strategies.lists(rows, max_size=12),
    group=strategies.sampled_from(list(KEYS)),
    model=strategies.sampled_from([None, "a"]),
)
async def test_sums_equal_those_added_up_by_hand(
    tmp_path_factory: pytest.TempPathFactory,
    call_rows: list[dict[str, Any]],
    group: GroupBy | None,
    model: str | None,
):
    async with open_database(place_empty_database(tmp_path_factory.getbasetemp() / "by_hand.db")) as database:
        ledger = UsageRows(database)
        for turn, lane in LANES_BY_TURN.items():
            await ledger.add_turn(id=turn, lane=lane, person=PEOPLE_BY_TURN[turn])
        for row in call_rows:
            await ledger.add_call(**row)
        sums_by_key = await sum_calls(database, Scope(model=model), group)
    rows_by_key: dict[Any, list[dict[str, Any]]] = {}
    for row in call_rows:
        if model in {None, row["model"]}:
            rows_by_key.setdefault(KEYS[group](row), []).append(row)
    names = {field.name for field in fields(CallSums)} - {"key", "busy", "waited", "timed_seconds"}
    computed = {key: {name: getattr(sums, name) for name in names} for key, sums in sums_by_key.items()}
    assert computed == {key: add_up_by_hand(key_rows) for key, key_rows in rows_by_key.items()}

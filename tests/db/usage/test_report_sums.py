"""Sums over the ledger are what one adds up by hand, however they are told apart; unknown is counted, never
nought.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.db.engine import Database, open_database
from bot.db.tables import readings
from bot.db.tools import approvals
from bot.db.tools.approvals import NewApprovalQuestion
from bot.db.usage import report_sums as reports
from bot.db.usage.usage_sums import (
    DAY_SECONDS,
    ApprovalSums,
    CallSums,
    GroupBy,
    RetrySums,
    Scope,
    ServerSums,
    ToolSums,
    TurnSums,
)
from bot.domain import Lane
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
        return {one.key: one for one in await reports.sum_calls(tx, scope or Scope(), group)}


async def sum_turns(
    database: Database, scope: Scope | None = None, group: GroupBy | None = None
) -> dict[Any, TurnSums]:
    async with database.read_transaction() as tx:
        return {one.key: one for one in await reports.sum_turns(tx, scope or Scope(), group)}


async def test_an_empty_ledger_has_no_group(database: Database):
    assert await sum_calls(database) == {}
    assert await sum_turns(database) == {}
    async with database.read_transaction() as tx:
        assert await reports.sum_tool_calls(tx, Scope(), None) == []
        assert await reports.sum_retries(tx, Scope(), None) == []
        assert await reports.sum_server_counters(tx, Scope()) == ServerSums(0, None, None, None)


async def test_a_call_that_told_everything(database: Database, ledger: UsageRows):
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
            cut=0,
            cancelled=0,
            failed=0,
        )
    }


async def test_what_a_call_did_not_tell_is_counted_and_summed_nowhere(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_call(turn)
    nothing = {
        "prompt_tokens": None,
        "cached_tokens": None,
        "completion_tokens": None,
        "reasoning_tokens": None,
    }
    await ledger.add_call(turn, **nothing, outcome="failed", seat_at=None)
    await ledger.add_call(turn, cached_tokens=None, reasoning_tokens=None, usage_partial=True, outcome="cut")
    await ledger.add_call(turn, outcome="cancelled", usage_partial=True)
    (found,) = (await sum_calls(database)).values()
    assert (found.calls, found.input, found.input_known) == (4, 3000, 3)
    assert (found.cached, found.cached_known, found.cached_of) == (500, 2, 2000)
    assert (found.output, found.output_known, found.partial) == (900, 3, 2)
    assert (found.reasoning_known, found.reasoning_of) == (2, 600)
    assert (found.canvases, found.canvases_known, found.costing) == (6, 3, 4)
    assert (found.cut, found.cancelled, found.failed) == (1, 1, 1)
    assert found.busy == 9.0


async def test_a_reading_of_the_endpoint_costs_no_canvas(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_call(turn)
    await ledger.add_call(turn, purpose="decision", completion_tokens=4, thinking=True, seat_at=None)
    found = await sum_calls(database, group="purpose")
    assert (found["decision"].canvases, found["decision"].costing, found["decision"].thinking) == (0, 0, 0)
    assert (found["turn"].canvases, found["turn"].costing) == (2, 1)


async def test_calls_without_a_turn_belong_to_their_day_and_to_nobody(database: Database, ledger: UsageRows):
    await ledger.add_call(await ledger.add_turn())
    await ledger.add_call(None, purpose="warmup")
    await ledger.add_call(None, purpose="warmup", created_at=NOON - DAY_SECONDS)
    by_day = await sum_calls(database, group="day")
    assert {day: one.calls for day, one in by_day.items()} == {TODAY: 2, TODAY - 1: 1}
    assert {key: one.calls for key, one in (await sum_calls(database, group="user")).items()} == {
        5: 1,
        None: 2,
    }
    assert {key: one.calls for key, one in (await sum_calls(database, Scope(user=5), "user")).items()} == {
        5: 1
    }
    assert (await sum_calls(database, Scope(since=NOON - 1)))[None].calls == 2
    assert (await sum_calls(database, Scope(model="m", until=NOON)))[None].calls == 1
    assert await sum_calls(database, Scope(model="another")) == {}


async def test_a_chat_is_meant_with_its_topics(database: Database, ledger: UsageRows):
    for lane in ("5", "5:7", "55", "6"):
        await ledger.add_call(await ledger.add_turn(lane=lane))
    assert set(await sum_calls(database, Scope(chat="5"), "chat")) == {"5", "5:7"}
    assert set(await sum_calls(database, Scope(chat="5:7"), "chat")) == {"5:7"}


async def test_a_turn_belongs_to_its_day_with_all_its_calls(database: Database, ledger: UsageRows):
    late = await ledger.add_turn(received_at=TODAY * DAY_SECONDS - 0.5)
    await ledger.add_call(late, created_at=TODAY * DAY_SECONDS + 1.0)
    assert set(await sum_calls(database, group="day")) == {TODAY - 1}
    assert await sum_calls(database, Scope(since=TODAY * DAY_SECONDS)) == {}


async def test_reasons_are_counted_by_group(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    for why in ("empty", "empty", "brake", None):
        await ledger.add_call(turn, again=why)
    await ledger.add_call(None, again="away")
    async with database.read_transaction() as tx:
        by_user = await reports.sum_retries(tx, Scope(), "user")
        together = await reports.sum_retries(tx, Scope(), None)
    assert set(by_user) == {RetrySums(5, "empty", 2), RetrySums(5, "brake", 1), RetrySums(None, "away", 1)}
    assert {one.again: one.calls for one in together} == {"empty": 2, "brake": 1, "away": 1}


async def test_turns_stand_with_their_accounts(database: Database, ledger: UsageRows):
    await ledger.add_account(await ledger.add_turn(thinking=True), first_canvas=2.0, own=0.5)
    await ledger.add_account(await ledger.add_turn(ending="empty"), first_canvas=1.0, telegram=0.25)
    await ledger.add_turn(thinking=True, ending="cut", person=6)
    found = (await sum_turns(database))[None]
    assert (found.turns, found.thinking, found.empty, found.cut) == (3, 2, 1, 1)
    assert (found.settled, found.thinking_settled, found.thinking_seconds) == (2, 1, 2.5)
    assert found.seconds == (3.75, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.5)
    by_user = await sum_turns(database, group="user")
    assert (by_user[5].turns, by_user[6].turns, by_user[6].settled) == (2, 1, 0)
    assert set(await sum_turns(database, group="purpose")) == {None}


async def test_a_model_stands_for_the_turns_that_asked_it(database: Database, ledger: UsageRows):
    first, second = await ledger.add_turn(), await ledger.add_turn()
    await ledger.add_call(first, model="one")
    await ledger.add_call(second, model="two")
    await ledger.add_tool_call(first)
    scope = Scope(model="one")
    assert (await sum_turns(database, scope))[None].turns == 1
    assert set(await sum_calls(database, scope, "model")) == {"one"}
    async with database.read_transaction() as tx:
        assert [one.calls for one in await reports.sum_tool_calls(tx, scope, None)] == [1]
        assert await reports.sum_tool_calls(tx, Scope(model="two"), None) == []


async def test_calls_that_asked_a_person_are_told_by_tool_and_answer(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    for number, answered in enumerate((NOON + 4.0, NOON + 6.0, None)):
        new = NewApprovalQuestion(
            turn, number, "c", "clock", "{}", "h", 5, Lane(5), "admins", "its rule", None, NOON + 900
        )
        async with database.transaction() as tx:
            made = await approvals.insert_question(tx, new, now=NOON)
            if answered is not None:
                await approvals.store_answer(tx, made, "once", 1, now=answered)
    async with database.read_transaction() as tx:
        by_name = await reports.sum_approvals(tx, Scope(), "tool")
        by_user = await reports.sum_approvals(tx, Scope(user=5), "user")
        whole = await reports.sum_approvals(tx, Scope(), None)
        assert await reports.sum_approvals(tx, Scope(user=6), None) == []
    assert set(by_name) == {ApprovalSums("clock", "once", 2, 10.0), ApprovalSums("clock", None, 1, 0.0)}
    assert {one.key for one in by_user} == {5}
    assert {one.key for one in whole} == {None}


async def test_tools_are_told_by_name_and_outcome(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    await ledger.add_tool_call(turn, "clock")
    await ledger.add_tool_call(turn, "clock", outcome="error", ended_at=NOON + 7.0)
    await ledger.add_tool_call(turn, "fetch_page", outcome=None, ended_at=None)
    async with database.read_transaction() as tx:
        by_name = await reports.sum_tool_calls(tx, Scope(), "tool")
        by_user = await reports.sum_tool_calls(tx, Scope(), "user")
        took = await reports.list_tool_seconds(tx, Scope())
    assert set(by_name) == {
        ToolSums("clock", "ok", 1, 1, 0.5),
        ToolSums("clock", "error", 1, 1, 2.0),
        ToolSums("fetch_page", None, 1, 0, 0.0),
    }
    assert {one.key for one in by_user} == {5}
    assert sorted(took) == [("clock", 0.5), ("clock", 2.0)]


async def test_counted_durations_are_added_up_over_days(database: Database, ledger: UsageRows):
    for day in (TODAY - 2, TODAY - 1, TODAY):
        await ledger.add_duration(day, "whole", 7, 3)
    scope = Scope(since=(TODAY - 1) * DAY_SECONDS, until=(TODAY + 1) * DAY_SECONDS)
    assert scope.is_whole_days
    async with database.read_transaction() as tx:
        assert await reports.count_durations(tx, scope, daily=False) == [(None, "whole", 7, 6)]
        assert len(await reports.count_durations(tx, scope, daily=True)) == 2
        assert len(await reports.count_durations(tx, Scope(), daily=True)) == 3
    assert not Scope(since=NOON).is_whole_days
    assert not Scope(user=5).is_whole_days


async def test_the_servers_own_counters_are_added_up_where_they_are_told(database: Database):
    row = {"endpoint": "main", "totals": "{}", "running": 0, "why": ""}
    async with database.transaction() as tx:
        await tx.execute(readings.insert().values(**row, read_at=NOON))
        grown = {"since": NOON, "steps_seen": 98, "committed_seen": 512, "gap": 3}
        await tx.execute(readings.insert().values(**row, read_at=NOON + 60, **grown))
        await tx.execute(readings.insert().values(**row, read_at=NOON + 120, since=NOON + 60))
    async with database.read_transaction() as tx:
        assert await reports.sum_server_counters(tx, Scope()) == ServerSums(2, 98, 512, 3)
        assert await reports.sum_server_counters(tx, Scope(since=NOON + 100)) == ServerSums(
            1, None, None, None
        )


rows = st.fixed_dictionaries(
    {
        "turn": st.sampled_from([None, 1, 2, 3]),
        "purpose": st.sampled_from(["turn", "decision", "warmup"]),
        "model": st.sampled_from(["a", "b"]),
        "thinking": st.booleans(),
        "prompt_tokens": st.none() | st.integers(0, 9000),
        "cached_tokens": st.none() | st.integers(0, 9000),
        "completion_tokens": st.none() | st.integers(0, 3000),
        "reasoning_tokens": st.none() | st.integers(0, 3000),
        "usage_partial": st.booleans(),
        "finish_reason": st.sampled_from([None, "stop", "length"]),
        "outcome": st.sampled_from([None, "ok", "cut", "cancelled", "failed"]),
        "created_at": st.sampled_from([NOON, NOON + DAY_SECONDS]),
    }
)


def add_up_by_hand(call_rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums over these calls, added up one by one."""

    def total(name: str, when: str | None = None) -> int:
        return sum(one[name] or 0 for one in call_rows if when is None or one[when] is not None)

    def known(name: str) -> int:
        return sum(one[name] is not None for one in call_rows)

    costing = [one for one in call_rows if one["purpose"] != "decision"]
    told = [one for one in costing if one["completion_tokens"] is not None]
    canvases = {id(one): -(-one["completion_tokens"] // 256) for one in told}
    return {
        "calls": len(call_rows),
        "input": total("prompt_tokens"),
        "input_known": known("prompt_tokens"),
        "cached": total("cached_tokens"),
        "cached_known": known("cached_tokens"),
        "cached_of": total("prompt_tokens", when="cached_tokens"),
        "output": total("completion_tokens"),
        "output_known": known("completion_tokens"),
        "partial": sum(one["usage_partial"] for one in call_rows),
        "reasoning": total("reasoning_tokens"),
        "reasoning_known": known("reasoning_tokens"),
        "reasoning_of": total("completion_tokens", when="reasoning_tokens"),
        "canvases": sum(canvases.values()),
        "canvases_known": len(told),
        "costing": len(costing),
        "thinking": sum(one["thinking"] for one in costing),
        "thinking_canvases": sum(canvases[id(one)] for one in told if one["thinking"]),
        "cut": sum(one["outcome"] == "cut" or one["finish_reason"] == "length" for one in call_rows),
        **{
            outcome: sum(one["outcome"] == outcome for one in call_rows)
            for outcome in ("cancelled", "failed")
        },
    }


LANES, PEOPLE = {1: "5", 2: "5:1", 3: "6"}, {1: 5, 2: 5, 3: 6}
KEYS: dict[Any, Callable[[dict[str, Any]], Any]] = {
    None: lambda one: None,
    "model": lambda one: one["model"],
    "purpose": lambda one: one["purpose"],
    "user": lambda one: PEOPLE.get(one["turn"]),
    "chat": lambda one: LANES.get(one["turn"]),
    "day": lambda one: TODAY if one["turn"] else int(one["created_at"] // DAY_SECONDS),
}


@settings(max_examples=60)
@given(some=st.lists(rows, max_size=12), by=st.sampled_from(list(KEYS)), model=st.sampled_from([None, "a"]))
async def test_sums_are_what_one_adds_up_by_hand(
    tmp_path_factory: pytest.TempPathFactory,
    some: list[dict[str, Any]],
    by: GroupBy | None,
    model: str | None,
):
    async with open_database(place_empty_database(tmp_path_factory.getbasetemp() / "by_hand.db")) as database:
        ledger = UsageRows(database)
        for turn, lane in LANES.items():
            await ledger.add_turn(id=turn, lane=lane, person=PEOPLE[turn])
        for row in some:
            await ledger.add_call(**row)
        found = await sum_calls(database, Scope(model=model), by)
    meant = [row for row in some if model in {None, row["model"]}]
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in meant:
        groups.setdefault(KEYS[by](row), []).append(row)
    sums = {
        key: {
            one.name: getattr(sum_, one.name)
            for one in fields(CallSums)
            if one.name not in {"key", "busy", "waited"}
        }
        for key, sum_ in found.items()
    }
    assert sums == {key: add_up_by_hand(group) for key, group in groups.items()}

"""What took the most comes first; unknown values rank last."""

import pytest

from bot.db.engine import Database
from bot.db.usage import rankings
from bot.db.usage.rankings import RankedCall, RankedTurn, Sort
from bot.db.usage.usage_sums import Scope
from tests.support.usage_rows import NOON, UsageRows


@pytest.fixture
def ledger(database: Database) -> UsageRows:
    return UsageRows(database)


async def rank_calls(
    database: Database, sort: Sort, scope: Scope | None = None, top: int = 9
) -> list[RankedCall]:
    async with database.read_transaction() as tx:
        return await rankings.rank_calls(tx, scope or Scope(), sort, top)


async def rank_turns(
    database: Database, sort: Sort, scope: Scope | None = None, top: int = 9
) -> list[RankedTurn]:
    async with database.read_transaction() as tx:
        return await rankings.rank_turns(tx, scope or Scope(), sort, top)


async def test_the_call_that_took_the_most_is_first_with_its_turn_and_chat(
    database: Database, ledger: UsageRows
):
    turn = await ledger.add_turn(lane="5:7")
    await ledger.add_call(turn)
    big = await ledger.add_call(turn, prompt_tokens=1_000_000, again="empty", usage_partial=True)
    unknown = await ledger.add_call(None, prompt_tokens=None, seat_at=None, outcome=None, ended_at=None)
    first, second, last = await rank_calls(database, "tokens")
    assert (first.id, first.turn, first.chat, first.user, first.prompt_tokens) == (
        big,
        turn,
        "5:7",
        5,
        1_000_000,
    )
    assert (first.again, first.usage_partial, first.canvases, first.waited, first.seat_seconds) == (
        "empty",
        True,
        2,
        1.0,
        3.0,
    )
    assert second.prompt_tokens == 1000
    assert (last.id, last.turn, last.user, last.seat_seconds, last.outcome) == (
        unknown,
        None,
        None,
        None,
        None,
    )
    assert [call.id for call in await rank_calls(database, "tokens", top=1)] == [big]


@pytest.mark.parametrize(
    "sort", ["input", "cached", "output", "reasoning", "canvases", "seconds", "waited", "when"]
)
async def test_calls_are_ranked_by_each_of_their_numbers(database: Database, ledger: UsageRows, sort: Sort):
    turn = await ledger.add_turn()
    small = await ledger.add_call(turn)
    more = {"prompt_tokens": 2000, "cached_tokens": 900, "completion_tokens": 900, "reasoning_tokens": 9}
    large = await ledger.add_call(
        turn, **more, created_at=NOON + 1.5, seat_at=NOON + 3.0, ended_at=NOON + 9.0
    )
    assert [call.id for call in await rank_calls(database, sort)] == [large, small]


async def test_a_call_with_one_known_count_ranks_by_that(database: Database, ledger: UsageRows):
    turn = await ledger.add_turn()
    complete = await ledger.add_call(turn)
    input_only = await ledger.add_call(turn, prompt_tokens=9000, completion_tokens=None)
    output_only = await ledger.add_call(turn, prompt_tokens=None, completion_tokens=8000)
    unknown = await ledger.add_call(turn, prompt_tokens=None, completion_tokens=None)
    ranked = [call.id for call in await rank_calls(database, "tokens")]
    assert ranked == [input_only, output_only, complete, unknown]


async def test_calls_are_chosen_by_person_model_and_time(database: Database, ledger: UsageRows):
    of_user = await ledger.add_call(await ledger.add_turn())
    await ledger.add_call(await ledger.add_turn(person=6, lane="6"), model="other")
    without_turn = await ledger.add_call(None, purpose="warmup")
    assert [call.id for call in await rank_calls(database, "input", Scope(user=5))] == [of_user]
    assert {call.id for call in await rank_calls(database, "input", Scope(model="m"))} == {
        of_user,
        without_turn,
    }
    assert await rank_calls(database, "input", Scope(since=NOON + 100)) == []


async def test_a_turn_is_ranked_with_the_sums_of_its_calls(database: Database, ledger: UsageRows):
    complete = await ledger.add_turn()
    for _ in range(2):
        await ledger.add_call(complete)
    await ledger.add_tool_call(complete)
    await ledger.add_account(complete, lane_wait=0.5, seat_wait=1.0, own=2.0)
    running = await ledger.add_turn(ended_at=None, ending=None)
    await ledger.add_call(running, prompt_tokens=None, completion_tokens=None)
    without_calls = await ledger.add_turn()
    first, second, third = await rank_turns(database, "tokens")
    assert (first.turn, first.calls, first.input, first.output, first.canvases) == (complete, 2, 2000, 600, 4)
    assert (first.counted, first.tools, first.waited, first.seconds) == (True, 1, 1.5, 3.5)
    assert (second.turn, second.calls, second.input, second.counted) == (without_calls, 0, None, True)
    assert (third.turn, third.calls, third.counted, third.ending, third.seconds) == (
        running,
        1,
        False,
        None,
        None,
    )


async def test_a_turn_says_whether_the_cached_tokens_of_all_its_calls_are_known(
    database: Database, ledger: UsageRows
):
    complete = await ledger.add_turn()
    partial = await ledger.add_turn()
    for turn in (complete, partial):
        await ledger.add_call(turn)
    await ledger.add_call(partial, purpose="decision", cached_tokens=None)
    first, second = await rank_turns(database, "tokens")
    assert (first.turn, first.counted, first.cached, first.cached_counted) == (partial, True, 250, False)
    assert (second.turn, second.cached_counted) == (complete, True)


@pytest.mark.parametrize(
    "sort", ["tokens", "input", "cached", "output", "reasoning", "canvases", "seconds", "waited", "when"]
)
async def test_turns_are_ranked_by_each_of_their_numbers(database: Database, ledger: UsageRows, sort: Sort):
    small = await ledger.add_turn()
    large = await ledger.add_turn(received_at=NOON + 1)
    without_calls = await ledger.add_turn(received_at=NOON - 1)
    await ledger.add_call(small)
    await ledger.add_account(small, own=1.0)
    more = {"prompt_tokens": 2000, "cached_tokens": 900, "completion_tokens": 900, "reasoning_tokens": 9}
    await ledger.add_call(large, **more)
    await ledger.add_account(large, own=1.0, seat_wait=1.0)
    assert [turn.turn for turn in await rank_turns(database, sort)] == [large, small, without_calls]


async def test_turns_are_chosen_by_the_model_they_called(database: Database, ledger: UsageRows):
    of_model = await ledger.add_turn()
    await ledger.add_call(of_model, model="big")
    await ledger.add_call(await ledger.add_turn())
    assert [turn.turn for turn in await rank_turns(database, "tokens", Scope(model="big"))] == [of_model]

"""Items are claimed in the order of their lane, and messages that wait together are claimed together."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.queues import inbox, incoming_updates, stop_requests
from bot.db.queues.claim import OVERFLOW_SECONDS
from bot.db.queues.inbox import ClaimResult
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.queues.stop_requests import StopCommand, StopResult
from bot.db.queues.waiting_messages import load_waiting
from bot.db.tables import inbox as inbox_table
from bot.domain import Lane
from tests.support.groups import read_private_envelope
from tests.support.sql_trace import trace_sql

LANE = Lane(1)
OTHER = Lane(2, 7)


def build_update(number: int, **changes: Any) -> IncomingUpdate:
    fields = {"update_id": number, "shape": "text", "lane": LANE, "sender": 5, "body": "{}", "stale": False}
    return IncomingUpdate(**{**fields, "not_before": None, **changes})


async def store(database: Database, *incoming: IncomingUpdate) -> None:
    async with database.transaction() as tx:
        await incoming_updates.store(tx, incoming, now=100.0)


async def claim(database: Database, now: float = 100.0) -> ClaimResult:
    async with database.transaction() as tx:
        return await inbox.claim(tx, now=now)


def list_ids(result: ClaimResult) -> list[list[int]]:
    return [[item.id for item in group] for group in result.groups]


async def finish(database: Database, *ids: int) -> None:
    async with database.transaction() as tx:
        await inbox.mark_done(tx, ids, now=101.0)


async def test_messages_that_wait_in_a_lane_are_claimed_together_and_lanes_separately(database: Database):
    await store(database, build_update(1), build_update(2, lane=OTHER), build_update(3))
    assert list_ids(await claim(database)) == [[1, 3], [2]]


async def test_a_busy_lane_waits_and_control_items_do_not(database: Database):
    await store(database, build_update(1))
    await claim(database)
    await store(database, build_update(2), build_update(3, shape="stop", lane=None))
    assert list_ids(await claim(database)) == [[3]]
    await finish(database, 1, 3)
    assert list_ids(await claim(database)) == [[2]]


async def test_a_duplicate_update_is_skipped(database: Database):
    await store(database, build_update(1, body='{"n": 1}'))
    await store(database, build_update(1, body='{"n": 2}'), build_update(2, body='{"n": 3}'))
    [group] = (await claim(database)).groups
    assert [item.body for item in group] == [{"n": 1}, {"n": 3}]


async def test_different_shapes_and_ages_are_not_grouped(database: Database):
    await store(
        database,
        build_update(1, stale=True),
        build_update(2),
        build_update(3, shape="command"),
        build_update(4),
    )
    for group in ([1], [2], [3], [4]):
        assert list_ids(await claim(database)) == [group]
        await finish(database, *group)


async def test_what_is_claimed_together_fits_into_a_prompt_and_the_rest_is_next(database: Database):
    bodies = ['{"message": {"text": "%s"}}' % ("é" * 200), '{"message": {"caption": "%s"}}' % ("a" * 400)]
    await store(database, *(build_update(number, body=bodies[number % 2]) for number in range(1, 5)))
    for expected in ([1, 2], [3, 4]):
        async with database.transaction() as tx:
            assert list_ids(await inbox.claim(tx, now=100.0, max_group_bytes=1000)) == [expected]
        await finish(database, *expected)
    await store(database, build_update(5, body=bodies[0]), build_update(6))
    async with database.transaction() as tx:
        assert list_ids(await inbox.claim(tx, now=100.0, max_group_bytes=10)) == [[5]]  # never none at all


@pytest.mark.sqlite
async def test_texts_are_read_only_of_what_may_start(database: Database):
    """After an outage thousands wait: to read all their texts would hold the event loop."""
    updates = [build_update(number, body='{"message": {}}') for number in range(1, 61)]
    with trace_sql() as trace:
        await store(database, *updates)
        trace.clear()
        async with database.transaction() as tx:
            claimed = await inbox.claim(tx, now=100.0, max_group_bytes=1000)
    assert list_ids(claimed) == [list(range(1, 11))]
    reading = [sql for sql in trace.statements if "body" in sql]
    assert [sql.split()[0] for sql in reading] == ["SELECT", "UPDATE"]
    assert all("'1,2,3,4,5,6,7,8,9,10'" in sql for sql in reading)


async def test_a_paste_is_answered_as_one_however_long(database: Database):
    body = '{"message": {"text": "%s"}}' % ("字" * 4096)
    parts = [build_update(number, body=body, not_before=101.5) for number in (2, 3)]
    await store(database, build_update(1), *parts, build_update(4), build_update(5))
    for expected in ([1], [2, 3, 4], [5]):  # what came with the end of the paste belongs to it
        assert list_ids(await claim(database, now=102.0)) == [expected]
        await finish(database, *expected)
    await store(
        database, build_update(6, lane=OTHER, not_before=99.0, body=body), build_update(7, lane=OTHER)
    )
    async with database.transaction() as tx:
        claimed = await inbox.claim(tx, now=102.0, max_group_bytes=1000)
    assert list_ids(claimed) == [[6]]  # the other was sent later


async def test_a_part_of_a_paste_waits_for_the_rest(database: Database):
    await store(database, build_update(1, not_before=101.5))
    held = await claim(database, now=100.0)
    assert (held.groups, held.held_until) == ((), 101.5)
    assert list_ids(await claim(database, now=101.5)) == [[1]]
    await store(database, build_update(2, lane=OTHER, not_before=103.0), build_update(3, lane=OTHER))
    assert list_ids(await claim(database, now=102.0)) == [[2, 3]]


async def test_a_waiting_new_cuts_into_its_busy_lane(database: Database):
    await store(database, build_update(1))
    await claim(database)
    await store(database, build_update(2), build_update(3, shape="new"))
    assert (await claim(database)).cutting_items == ((LANE, 3),)


async def test_what_ran_at_a_crash_is_new_again_in_the_same_group(database: Database):
    await store(database, build_update(1), build_update(2))
    await claim(database)
    async with database.transaction() as tx:
        await tx.execute(inbox_table.update().where(inbox_table.c.id <= 2).values(turn=9))
    await store(database, build_update(3))
    async with database.transaction() as tx:
        await inbox.recover(tx, now=101.0)
    again = await claim(database)
    assert list_ids(again) == [[1, 2]]
    assert {item.attempt for item in again.groups[0]} == {2}


async def test_a_message_stored_long_before_a_start_is_stale(database: Database):
    await store(database, build_update(1))
    async with database.transaction() as tx:
        await inbox.recover(tx, now=701.0)
    [[item]] = (await claim(database)).groups
    assert item.stale


async def test_stop_marks_what_runs_and_leaves_what_waits(database: Database):
    await store(database, build_update(1))
    await claim(database)
    await store(database, build_update(2), build_update(3, shape="stop", lane=None))
    async with database.transaction() as tx:
        assert await stop_requests.stop(tx, LANE, before=3, now=101.0) == StopResult(
            running=True, dropped=0, waiting=1, last_item=1
        )
        assert await stop_requests.drop_waiting(tx, LANE, before=3, now=101.0) == 1


async def test_stop_with_nothing_running_drops_what_came_before_it_only(database: Database):
    await store(database, build_update(1), build_update(2, shape="stop", lane=None), build_update(3))
    async with database.transaction() as tx:
        assert await stop_requests.stop(tx, LANE, before=2, now=101.0) == StopResult(
            running=False, dropped=1, waiting=1
        )
        await inbox.mark_done(tx, [2], now=101.0)
    assert list_ids(await claim(database)) == [[3]]


@pytest.mark.parametrize("is_claimed", [True, False])
async def test_a_stop_for_a_turn_that_has_just_ended_spares_what_waited_behind_it(
    database: Database, is_claimed: bool
):
    await store(database, build_update(1), build_update(2))
    async with database.transaction() as tx:
        ended = update(inbox_table).where(inbox_table.c.id == 1)
        await tx.execute(ended.values(state="done", turn=1, done_at=101.7))
        await incoming_updates.store(tx, [build_update(3, shape="stop", lane=None)], now=101.9)
        if is_claimed:
            await tx.execute(update(inbox_table).where(inbox_table.c.id == 2).values(state="running"))
    async with database.transaction() as tx:
        late = await stop_requests.stop(tx, LANE, before=3, now=102.0, command=StopCommand(sent_at=101.0))
        assert late == StopResult(running=False, dropped=0, waiting=int(not is_claimed), was_late=True)
    async with database.transaction() as tx:
        meant = await stop_requests.stop(tx, LANE, before=3, now=104.0, command=StopCommand(sent_at=102.0))
        assert (meant.running, meant.dropped, meant.was_late) == (is_claimed, int(not is_claimed), False)


async def test_a_second_stop_ends_what_runs_after_the_first(database: Database):
    await store(database, build_update(1), build_update(2))
    async with database.transaction() as tx:
        ended = update(inbox_table).where(inbox_table.c.id == 1)
        await tx.execute(ended.values(state="done", turn=1, done_at=101.7, stopped=True))
        await incoming_updates.store(tx, [build_update(3, shape="stop", lane=None)], now=101.9)
        await tx.execute(update(inbox_table).where(inbox_table.c.id == 2).values(state="running"))
        second = await stop_requests.stop(tx, LANE, before=3, now=102.0, command=StopCommand(sent_at=101.0))
    assert second.running


async def test_a_stop_ends_what_was_asked_after_the_last_answer_whatever_the_clocks_say(database: Database):
    await store(database, build_update(1), build_update(2))
    async with database.transaction() as tx:
        ended = update(inbox_table).where(inbox_table.c.id == 1)
        await tx.execute(ended.values(state="done", turn=1, done_at=101.7))
        await tx.execute(update(inbox_table).where(inbox_table.c.id == 2).values(state="running"))
        await incoming_updates.store(tx, [build_update(3, shape="stop", lane=None)], now=110.0)
        assert (
            await stop_requests.stop(tx, LANE, before=3, now=110.0, command=StopCommand(sent_at=50.0))
        ).running
        await tx.execute(update(inbox_table).where(inbox_table.c.id == 2).values(received_at=101.8))
        assert (
            await stop_requests.stop(tx, LANE, before=3, now=110.0, command=StopCommand(sent_at=101.0))
        ).running


async def test_messages_wait_until_it_is_known_which_of_them_a_stop_drops(database: Database):
    await store(
        database,
        build_update(1),
        build_update(2, shape="stop", lane=None),
        build_update(3),
        build_update(4, lane=OTHER, sender=6),
    )
    assert list_ids(await claim(database)) == [[2], [4]]
    assert list_ids(await claim(database)) == []
    await finish(database, 2)
    assert list_ids(await claim(database)) == [[1, 3]]


async def test_waiting_messages_are_known_by_person(database: Database):
    await store(
        database,
        build_update(1),
        build_update(2, sender=6),
        build_update(3),
        build_update(4, shape="command"),
    )
    async with database.transaction() as tx:
        waiting = await load_waiting(tx, {5, 6, 7})
    assert {sender: len(messages) for sender, messages in waiting.items()} == {5: 2, 6: 1, 7: 0}


async def test_refused_messages_of_a_person_are_one_group_once_no_more_come(database: Database):
    refused = [build_update(number, shape="overflow", lane=None, not_before=102.0) for number in (1, 2, 3)]
    await store(database, *refused, build_update(4, shape="overflow", lane=None, sender=6))
    claimed = await claim(database, now=101.0)
    assert (list_ids(claimed), claimed.held_until) == ([[4]], 102.0)
    assert list_ids(await claim(database, now=102.0)) == [[1, 2, 3]]


async def test_of_messages_refused_the_last_of_a_chat_or_topic_is_known(database: Database):
    def refuse(number: int, **changes: object) -> IncomingUpdate:
        body = json.dumps({"message": {"chat": {"id": 1}, "text": str(number), **changes}})
        return build_update(number, shape="overflow", lane=None, body=body)

    await store(database, build_update(1), refuse(2), refuse(3), refuse(4, message_thread_id=9))
    await store(database, build_update(5), refuse(6, message_thread_id=9))
    async with database.transaction() as tx:
        waiting = await load_waiting(tx, {5})
    texts = [body.get("message", {}).get("text") for _, body in waiting[5]]
    assert texts == [None, "3", None, "6"]


async def test_refused_messages_are_told_about_though_more_and_more_come(database: Database):
    late = 100.0 + OVERFLOW_SECONDS
    await store(database, build_update(1, shape="overflow", lane=None, not_before=102.0))
    await store(database, build_update(2, shape="overflow", lane=None, not_before=late + 2))
    assert list_ids(await claim(database, now=late - 1)) == []
    assert list_ids(await claim(database, now=late)) == [[1, 2]]


async def test_the_gateway_can_add_items_of_its_own(database: Database):
    async with database.transaction() as tx:
        added = await inbox.add(tx, kind="task", lane=LANE, sender=5, body={"texts": ["ü"]}, now=100.0)
        await inbox.forget_body(tx, [])
    [[item]] = (await claim(database)).groups
    assert (item.id, item.kind, item.body) == (added, "task", {"texts": ["ü"]})
    async with database.transaction() as tx:
        await inbox.forget_body(tx, [added])
        await inbox.mark_dead(tx, [added], error="why", now=102.0)
        row = (await tx.execute(select(inbox_table))).one()
    assert (row.state, row.error, row.body) == ("dead", "why", None)


json_values = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False)
    | strategies.text(max_size=8),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(
                ["update_id", "message", "chat", "id", "from", "text", "type", "date", "message_thread_id"]
            )
            | strategies.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_update_can_be_read_for_storing(update: object):
    incoming = read_private_envelope(update, 1000.0)
    assert incoming is None or json.loads(incoming.body) == update


async def test_updates_with_values_that_no_column_can_hold_are_stored(database: Database):
    message = {
        "chat": {"id": 2**70, "type": "private"},
        "from": {"id": -(2**70)},
        "text": "half a pair \ud800",
    }
    incoming = read_private_envelope({"update_id": 5, "message": message}, 1000.0)
    assert incoming is not None
    assert read_private_envelope({"update_id": 2**70}, 1000.0) is None
    await store(database, incoming)
    [[item]] = (await claim(database)).groups
    assert item.body["message"] == message


def test_an_envelope_has_lane_shape_and_age():
    def message(**changes: object) -> dict[str, object]:
        chat = {"id": 5, "type": "private"}
        return {
            "update_id": 1,
            "message": {"chat": chat, "from": {"id": 6}, "date": 1000, "text": "hi"} | changes,
        }

    def shape(now: float = 1000.0, **changes: object) -> tuple[object, ...]:
        incoming = read_private_envelope(message(**changes), now)
        assert incoming is not None
        return incoming.shape, incoming.lane, incoming.stale, incoming.not_before

    lane = Lane(5)
    assert shape() == ("text", lane, False, None)
    assert shape(now=1601.0) == ("text", lane, True, None)
    assert shape(text="/stop@my_bot") == ("stop", None, False, None)
    assert shape(text="/new") == ("new", lane, False, None)
    assert shape(text="/retry now") == ("command", lane, False, None)
    assert shape(text="/usage") == ("command", None, False, None)
    assert shape(text="/home/me is full") == ("text", lane, False, None)
    assert shape(text="x" * 4001) == ("text", lane, False, 1001.5)
    assert shape(message_thread_id=9, is_topic_message=True) == ("text", Lane(5, 9), False, None)
    assert shape(text=None, photo=[]) == ("other", lane, False, None)
    assert shape(text=None, photo=[{"file_id": "p"}]) == ("text", lane, False, None)
    assert shape(text=None, photo=[{"file_id": "p"}], media_group_id="m") == ("text", lane, False, 1001.0)
    assert shape(chat={"id": -7, "type": "group"}) == ("other", None, False, None)
    assert read_private_envelope(
        {"update_id": 1, "callback_query": {"from": {"id": 6}}}, 0.0
    ) == IncomingUpdate(
        1, "tap", None, 6, '{"update_id":1,"callback_query":{"from":{"id":6}}}', stale=False, not_before=None
    )

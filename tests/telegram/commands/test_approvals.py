"""Taps under questions about tools, late or by others, and the list of what is allowed for a while."""

import json

import pytest

from bot.agent.taint import RequireApproval
from bot.agent.tool_calls import CheckedCall
from bot.db.conversations import calls, turns
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.queues import parked_items as parking
from bot.db.tools import approvals, audit
from bot.db.tools.approvals import AllowanceKey
from bot.domain import Lane, Message, ToolCall
from bot.turns.approvals import NOT_YOURS, TOO_LATE, PendingCall, Requester
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness
from tools.base import Rule, tool

TOO_OLD = "This button is too old."


@tool(rule=Rule("always"))
async def ring(bell: str) -> str:
    """Ring a bell.

    Args:
        bell: Which.
    """
    return bell


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    front = UpdateHarness(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    await front.let_in(BOB)
    return front


async def park_with_question(
    front: UpdateHarness, who: approvals.ApproverKind = "asker", binding: str | None = "*", person: int = ANNA
) -> int:
    """A turn of somebody is parked with one question; its number."""
    item = await front.start_turn(person)
    call = CheckedCall(ToolCall("a", "ring", '{"bell": "door"}'), {"bell": "door"})
    new = NewTurn(item, Lane(person), person, 1, ("ring",), False, "", received_at=front.now)
    async with front.database.transaction() as tx:
        turn = await turns.open_turn(tx, new, [item], [Message("user", "ring")], now=front.now)
        assert turn is not None
        await calls.hold_tool_calls(tx, turn.id, 1, [call.call])
        asker = Requester(turn.id, person, "Anna", Lane(person))
        waiting = PendingCall(call, ring, RequireApproval("Because.", who, binding))
        await front.approvals.request(tx, asker, 1, [waiting], now=front.now)
        await parking.park(tx, turn.id, [item], spans="[]", now=front.now)
        (question,) = await approvals.list_open(tx, turns=[turn.id])
    await front.read_sent()
    return question.id


@pytest.mark.parametrize("data", ["allow:", "allow:once:x", "allow:expired:1", "allow:once:99", "revoke:x"])
async def test_a_forged_button_is_too_old(front: UpdateHarness, data: str):
    await park_with_question(front)
    assert await front.tap(data) == (TOO_OLD, [])


async def test_a_tap_by_somebody_else_changes_nothing_and_the_first_answer_wins(front: UpdateHarness):
    number = await park_with_question(front)
    for person in (BOB, ADMIN):
        assert (await front.tap(f"allow:once:{number}", person))[0] == NOT_YOURS
    assert front.worker_wakes == 0
    assert (await front.tap(f"allow:once:{number}"))[0] == "Allowed once."
    assert front.worker_wakes == 1
    assert Lane(ANNA) in front.woken_lanes
    [item] = [row for row in await front.load_items() if row.shape == "text"]
    assert (item.state, item.attempt, item.agreed_at) == ("new", 1, front.now)
    assert (await front.tap(f"allow:denied:{number}"))[0] == "You have answered this."


async def test_what_admins_decide_is_theirs_alone(front: UpdateHarness):
    number = await park_with_question(front, "admins")
    assert (await front.tap(f"allow:once:{number}"))[0] == NOT_YOURS
    await front.let_in(BOB, "admin")
    assert (await front.tap(f"allow:denied:{number}", BOB))[0] == "Denied."
    assert (await front.tap(f"allow:once:{number}", ADMIN))[0] == "Denied by another admin."


async def test_an_answer_that_comes_too_late_is_a_denial(front: UpdateHarness):
    number = await park_with_question(front)
    front.now += 901
    assert (await front.tap(f"allow:once:{number}"))[0] == TOO_LATE
    async with front.database.read_transaction() as tx:
        question = await approvals.find(tx, number)
    assert question is not None
    assert question.answer == "expired"
    assert (await front.tap(f"allow:once:{number}"))[0] == "Nobody answered in time; it is not run."


async def test_what_asked_because_of_strangers_words_cannot_be_allowed_here(front: UpdateHarness):
    number = await park_with_question(front, binding=None)
    assert (await front.tap(f"allow:here:{number}"))[0] == TOO_OLD


async def test_allowances_are_listed_and_taken_back_by_whose_they_are(front: UpdateHarness):
    number = await park_with_question(front)
    assert (await front.tap(f"allow:here:{number}"))[0] == "Allowed here."
    second = await park_with_question(front, "admins", person=BOB)
    [mine] = await front.send_text("/approvals")
    assert "ring whatever the arguments, for Anna, until" in mine.text
    assert "Nothing waits" in mine.text
    [theirs] = await front.send_text("/approvals", BOB)
    assert "ring, for Bob: an admin may answer until" in theirs.text
    assert "Nothing is allowed ahead." in theirs.text
    [all_of_it] = await front.send_text("/approvals", ADMIN)
    assert "for Anna" in all_of_it.text
    assert "ring, for Bob" in all_of_it.text
    assert list(all_of_it.buttons.values()) == ["revoke:1"]
    assert (await front.tap("revoke:1", BOB))[0] == "This is not allowed any more."
    assert (await front.tap("revoke:1"))[0] == "It asks again."
    assert (await front.tap("revoke:1", ADMIN))[0] == "This is not allowed any more."
    assert second == 2


async def test_that_an_admin_takes_back_what_somebody_else_may_do_is_written_down(front: UpdateHarness):
    async with front.database.transaction() as tx:
        for person in (ANNA, ADMIN):
            call = AllowanceKey(person, person, "ring", "hash", "*")
            await approvals.allow(tx, call, until=front.now + 10, given_by=person, now=front.now)
    for number in (1, 1, 2):
        await front.tap(f"revoke:{number}", ADMIN)
    async with front.database.read_transaction() as tx:
        [change] = await audit.list_entries(tx)
    assert (change.who, change.what, change.subject) == (
        ADMIN,
        "took back what was allowed",
        f"person {ANNA}",
    )
    assert change.before["tool"] == "ring"


async def test_an_allowance_ends_with_the_person_the_chat_and_the_day(front: UpdateHarness):
    call = AllowanceKey(ANNA, ANNA, "ring", "hash", "*")
    for ending in ("/people remove", "/forget", "the day"):
        await front.let_in(ANNA)
        async with front.database.transaction() as tx:
            await approvals.allow(tx, call, until=front.now + 10, given_by=ANNA, now=front.now)
            assert await approvals.find_giver(tx, call, now=front.now) == ANNA
        if ending == "/people remove":
            await front.send_text(f"/people remove {ANNA}", ADMIN)
        elif ending == "/forget":
            await front.tap("forget:yes")
        else:
            front.now += 11
        async with front.database.read_transaction() as tx:
            assert await approvals.find_giver(tx, call, now=front.now) is None, ending


async def test_a_removed_person_leaves_no_question_and_no_turn_behind(front: UpdateHarness):
    number = await park_with_question(front)
    await front.send_text(f"/people remove {ANNA}", ADMIN)
    async with front.database.read_transaction() as tx:
        question = await approvals.find(tx, number)
        assert await parking.list_parked_turns(tx, Lane(ANNA), before=99) == []
    assert question is not None
    assert question.answer == "stopped"
    assert [(one.lane, json.loads(one.spans or "")) for one in front.ended_items] == [(Lane(ANNA), [])]
    [item] = [row for row in await front.load_items() if row.shape == "text"]
    assert (item.state, item.error) == ("done", "the person is not let in any more")


async def test_a_stop_means_what_waits_where_nothing_runs(front: UpdateHarness):
    await park_with_question(front)
    assert await front.send_text("/stop") == []
    [item] = [row for row in await front.load_items() if row.shape == "text"]
    assert (item.state, item.stopped) == ("new", True)

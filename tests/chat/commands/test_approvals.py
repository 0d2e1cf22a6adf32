"""Taps under questions about tools, late or by others, and the list of what is allowed for a while."""

import json

import pytest

from bot.agent.approval_policy import RequireApproval
from bot.agent.tool_calls import CheckedCall
from bot.db.conversations import calls, turns
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues import parked_items as parking
from bot.db.tools import approvals, audit
from bot.db.tools.approvals import AllowanceKey
from bot.domain import Lane, Message, ToolCall
from bot.turns.approval_questions import PendingCall, Requester
from bot.turns.approvals import TOO_LATE
from tests.support.groups import build_group_chat
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness, build_user
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
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


async def park_with_question(
    harness: UpdateHarness,
    who: approvals.ApproverKind = "asker",
    binding: str | None = "*",
    person: int = ANNA,
) -> int:
    """Park a turn of a person with one question; return the question's id."""
    item = await harness.start_turn(person)
    call = CheckedCall(ToolCall("a", "ring", '{"bell": "door"}'), {"bell": "door"})
    new = NewTurn(item, Lane(person), person, 1, ("ring",), False, "", received_at=harness.now)
    async with harness.database.transaction() as tx:
        turn = await turns.open_turn(tx, new, [item], [Message("user", "ring")], now=harness.now)
        assert turn is not None
        await calls.hold_tool_calls(tx, turn.id, 1, [call.call])
        asker = Requester(turn.id, person, "Anna", Lane(person))
        waiting = PendingCall(call, ring, RequireApproval("Because.", who, binding))
        await harness.approvals.request(tx, asker, 1, [waiting], now=harness.now)
        await parking.park(tx, turn.id, [item], spans="[]", now=harness.now)
        (question,) = await approvals.list_open(tx, turns=[turn.id])
    await harness.read_sent()
    return question.id


@pytest.mark.parametrize("data", ["allow:", "allow:once:x", "allow:expired:1", "allow:once:99", "revoke:x"])
async def test_a_forged_button_is_too_old(harness: UpdateHarness, data: str):
    await park_with_question(harness)
    assert await harness.tap(data) == (TOO_OLD, [])


async def test_a_tap_by_somebody_else_changes_nothing_and_the_first_answer_wins(harness: UpdateHarness):
    number = await park_with_question(harness)
    for person in (BOB, ADMIN):
        assert (await harness.tap(f"allow:once:{number}", person))[0] == "Only Anna can answer this."
    assert harness.commits.inbox_count == 0
    assert (await harness.tap(f"allow:once:{number}"))[0] == "Allowed once."
    assert harness.commits.inbox_count == 1
    assert Lane(ANNA) in harness.commits.lanes
    [item] = [row for row in await harness.load_items() if row.shape == "text"]
    assert (item.state, item.attempt, item.agreed_at) == ("new", 1, harness.now)
    assert (await harness.tap(f"allow:denied:{number}"))[0] == "You've already answered this."


async def test_administrators_of_a_group_answer_what_it_asked_under_its_own_name(harness: UpdateHarness):
    family = Group(-100, "Family", "in", harness.now)
    async with harness.database.transaction() as tx:
        await groups.put(tx, family)
    harness.groups.remember(family)
    number = await park_with_question(harness, person=family.chat)
    message = harness.build_message(text="…", chat=build_group_chat(family.chat, "Family"))
    query = {"id": "1", "chat_instance": "1", "data": f"allow:once:{number}", **message}
    toasts = ["Only the person who asked can answer this.", "Allowed once."]
    for administrators, toast in zip((set[int](), {BOB}), toasts, strict=True):
        harness.administrators.people = administrators
        await harness.store_updates({"callback_query": query | {"from": build_user(BOB)}})
        await harness.handle_claimed()
        assert harness.bot.calls_of("answer_callback_query")[-1]["text"] == toast


async def test_what_admins_decide_is_theirs_alone(harness: UpdateHarness):
    number = await park_with_question(harness, "admins")
    assert (await harness.tap(f"allow:once:{number}"))[0] == "Only another admin can answer this."
    await harness.let_in(BOB, "admin")
    assert (await harness.tap(f"allow:denied:{number}", BOB))[0] == "Denied."
    assert (await harness.tap(f"allow:once:{number}", ADMIN))[0] == "Denied by another admin."


async def test_an_answer_that_comes_too_late_is_a_denial(harness: UpdateHarness):
    number = await park_with_question(harness)
    harness.now += 901
    assert (await harness.tap(f"allow:once:{number}"))[0] == TOO_LATE
    async with harness.database.read_transaction() as tx:
        question = await approvals.find(tx, number)
    assert question is not None
    assert question.answer == "expired"
    assert (await harness.tap(f"allow:once:{number}"))[0] == "Nobody answered in time, so I won't run it."


async def test_what_asked_because_of_strangers_words_cannot_be_allowed_here(harness: UpdateHarness):
    number = await park_with_question(harness, binding=None)
    assert (await harness.tap(f"allow:here:{number}"))[0] == TOO_OLD


async def test_allowances_are_listed_and_revoked_by_their_persons(harness: UpdateHarness):
    number = await park_with_question(harness)
    assert (await harness.tap(f"allow:here:{number}"))[0] == "Allowed here."
    second = await park_with_question(harness, "admins", person=BOB)
    [annas] = await harness.send_text("/approvals")
    assert "ring with any values, for Anna, until" in annas.text
    [bobs] = await harness.send_text("/approvals", BOB)
    assert "ring, for Bob: an admin can answer until" in bobs.text
    [all_of_it] = await harness.send_text("/approvals", ADMIN)
    assert "for Anna" in all_of_it.text
    assert "ring, for Bob" in all_of_it.text
    assert list(all_of_it.buttons.values()) == ["revoke:1"]
    assert (await harness.tap("revoke:1", BOB))[0] == "This is no longer allowed."
    assert (await harness.tap("revoke:1"))[0] == "I'll ask again."
    assert (await harness.tap("revoke:1", ADMIN))[0] == "This is no longer allowed."
    assert second == 2


async def test_that_an_admin_takes_back_what_somebody_else_may_do_is_written_down(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        for person in (ANNA, ADMIN):
            call = AllowanceKey(person, person, "ring", "hash", "*")
            await approvals.allow(tx, call, until=harness.now + 10, given_by=person, now=harness.now)
    for number in (1, 1, 2):
        await harness.tap(f"revoke:{number}", ADMIN)
    async with harness.database.read_transaction() as tx:
        [change] = await audit.list_entries(tx)
    assert (change.who, change.what, change.subject) == (
        ADMIN,
        "took back what was allowed",
        f"person {ANNA}",
    )
    assert change.before["tool"] == "ring"


async def test_an_allowance_ends_with_the_person_the_chat_and_the_day(harness: UpdateHarness):
    call = AllowanceKey(ANNA, ANNA, "ring", "hash", "*")
    for ending in ("/people remove", "/forget", "the day"):
        await harness.let_in(ANNA)
        async with harness.database.transaction() as tx:
            await approvals.allow(tx, call, until=harness.now + 10, given_by=ANNA, now=harness.now)
            assert await approvals.find_giver(tx, call, now=harness.now) == ANNA
        if ending == "/people remove":
            await harness.send_text(f"/people remove {ANNA}", ADMIN)
        elif ending == "/forget":
            await harness.tap("forget:yes")
        else:
            harness.now += 11
        async with harness.database.read_transaction() as tx:
            assert await approvals.find_giver(tx, call, now=harness.now) is None, ending


async def test_a_removed_person_leaves_no_question_and_no_turn_behind(harness: UpdateHarness):
    number = await park_with_question(harness)
    await harness.send_text(f"/people remove {ANNA}", ADMIN)
    async with harness.database.read_transaction() as tx:
        question = await approvals.find(tx, number)
        assert await parking.list_parked_turns(tx, Lane(ANNA), before=99) == []
    assert question is not None
    assert question.answer == "stopped"
    assert [(ended.lane, json.loads(ended.spans or "")) for ended in harness.ended_items] == [
        (Lane(ANNA), [])
    ]
    [item] = [row for row in await harness.load_items() if row.shape == "text"]
    assert (item.state, item.error) == ("done", "the person is not let in any more")


async def test_a_stop_means_what_waits_where_nothing_runs(harness: UpdateHarness):
    await park_with_question(harness)
    assert await harness.send_text("/stop") == []
    [item] = [row for row in await harness.load_items() if row.shape == "text"]
    assert (item.state, item.stopped) == ("new", True)

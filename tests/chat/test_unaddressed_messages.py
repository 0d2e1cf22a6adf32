"""Messages of a group that name nobody: judged where an admin wants that, answered, or forgotten."""

import time
from functools import partial
from typing import Any, cast

import pytest
from sqlalchemy import insert, select
from telegram import Bot

from bot.chat.unaddressed_messages import ANSWER_SECONDS, MAX_READS_A_MINUTE
from bot.db.conversations import turns
from bot.db.engine import Database
from bot.db.maintenance import restore
from bot.db.people import groups as group_rows
from bot.db.people.groups import Group
from bot.db.queues import inbox
from bot.db.queues.admin_notices import AdminNotices
from bot.db.tables import group_texts
from bot.domain import Lane, Message
from bot.queue import DeadLetters
from bot.telegram.incoming.envelope import read_envelope
from bot.telegram.incoming.poll_watch import AdminAlarm
from bot.telegram.incoming.polling import PollerCallbacks, UpdatePoller
from tests.support.groups import BOT_ID, BOT_USERNAME, address, build_group_chat
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")
OTHER_BOT = {"id": 77, "is_bot": True, "first_name": "Weather"}
FORWARD = {"type": "user", "date": 1, "sender_user": {"id": 9, "is_bot": False, "first_name": "Eve"}}


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    """A bot that judges the messages of the group; Anna may ask there, Bob is a stranger."""
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await put_group(harness, judges=True)
    return harness


async def put_group(harness: UpdateHarness, chat: int = CHAT, **settings: Any) -> None:
    group = Group(chat, "Family", "in", harness.now, hears_all=True, **settings)
    async with harness.database.transaction() as tx:
        await group_rows.put(tx, group)
    harness.groups.remember(group)


async def say(harness: UpdateHarness, text: str, person: int = ANNA, **more: Any) -> None:
    await harness.store_updates(harness.build_message(person, text=text, chat=FAMILY, **more))
    await harness.handle_claimed()  # judged
    await harness.handle_claimed()  # answered, if it is for the assistant


async def test_a_message_that_is_meant_becomes_a_turn_in_its_topic(harness: UpdateHarness):
    harness.address_judge.is_for_assistant = True
    await say(harness, "when does it open?", message_thread_id=7, is_topic_message=True)
    [request] = harness.turns.requests
    assert (request.lane, request.texts, request.person) == (Lane(CHAT, 7), ("when does it open?",), ANNA)
    [item] = request.items
    assert (item.shape, item.attempt) == ("text", 1)
    assert request.reply_to == request.message_id == item.body["message"]["message_id"]
    [row] = await harness.load_items()
    assert (row.state, row.lane, row.message_id) == ("done", f"{CHAT}:7", request.message_id)
    assert harness.commits.inbox_count == 1


async def test_of_a_message_for_others_nothing_is_kept(harness: UpdateHarness):
    await say(harness, "lunch at noon?")
    assert [message.text for message in harness.address_judge.messages] == ["lunch at noon?"]
    assert harness.turns.requests == []
    [row] = await harness.load_items()
    assert (row.state, row.body, row.sender, row.lane) == ("done", None, None, None)


async def test_a_judgement_that_a_crash_cuts_is_made_again(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(ANNA, text="lunch?", chat=FAMILY))
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)
        await inbox.recover(tx, now=harness.now)
    await harness.handle_claimed()
    assert len(harness.address_judge.messages) == 1
    assert [row.body for row in await harness.load_items()] == [None]


async def test_one_that_cannot_be_judged_at_all_is_forgotten_too(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(ANNA, text="lunch?", chat=FAMILY))
    async with harness.database.transaction() as tx:
        claimed = await inbox.claim(tx, now=harness.now)
    give_up = DeadLetters(harness.database, AdminNotices(frozenset()))
    await give_up(claimed.groups[0], "The process ended 3 times while this was handled.")
    [row] = await harness.load_items()
    assert (row.state, row.body, row.sender) == ("dead", None, None)


async def test_in_a_restored_database_nothing_is_left_of_one_that_was_not_judged_yet(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(ANNA, text="lunch?", chat=FAMILY))
    async with harness.database.transaction() as tx:
        await restore.discard_pending(tx, answer_waiting=False, now=harness.now)
    [row] = await harness.load_items()
    assert (row.state, row.body, row.sender) == ("done", None, None)


async def test_an_edit_that_names_the_assistant_meanwhile_is_the_question_and_the_only_one(
    harness: UpdateHarness,
):
    read = partial(read_envelope, groups=harness.groups)
    callbacks = PollerCallbacks(lambda _: None, cast(AdminAlarm, None), read)
    poller = UpdatePoller(cast(Bot, None), harness.database, callbacks)
    first, second = (
        harness.build_message(ANNA, text="open?", chat=FAMILY, message_id=number, date=int(time.time()))
        for number in (1, 2)
    )
    edits = [{"edited_message": update["message"] | address("is it open?")} for update in (first, second)]
    await poller._store_batch([{"update_id": 1, **first}])
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)  # it is being judged
    await poller._store_batch([{"update_id": 2, **edits[0]}])
    await poller._store_batch([{"update_id": 3, **second}, {"update_id": 4, **edits[1]}])
    rows = [(row.shape, row.state, row.body is None) for row in await harness.load_items()]
    assert rows == [("unaddressed", "done", True), ("text", "new", False)] * 2


async def test_a_message_of_a_group_that_moves_meanwhile_is_answered_where_it_is_now(harness: UpdateHarness):
    family = build_group_chat(-5, "Family") | {"type": "group"}
    await put_group(harness, chat=-5, judges=True)

    async def move() -> None:
        async with harness.database.transaction() as tx:
            await group_rows.move(tx, -5, CHAT)

    harness.address_judge.is_for_assistant = True
    harness.address_judge.meanwhile = move
    await harness.store_updates(harness.build_message(ANNA, text="open?", chat=family))
    await harness.handle_claimed()
    [row] = await harness.load_items()
    assert (row.state, row.lane, row.message_id) == ("new", "-5", 100)


@pytest.mark.parametrize(
    "message",
    [
        {"text": "hi", "from": OTHER_BOT},
        {"text": "hi", "via_bot": OTHER_BOT},
        {"text": "hi", "forward_origin": FORWARD},
        {"text": "/stop@other_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 15}]},
        {"text": "  "},
        {"new_chat_title": "Home"},
        {"photo": []},
    ],
)
async def test_what_no_person_says_is_not_even_stored(harness: UpdateHarness, message: dict[str, Any]):
    await harness.store_updates({"message": harness.build_message(chat=FAMILY)["message"] | message})
    assert await harness.load_items() == []


async def test_nothing_is_stored_or_read_where_it_is_off(harness: UpdateHarness):
    await put_group(harness)
    for number in range(20):
        await say(harness, f"message {number}")
    assert await harness.load_items() == []
    assert harness.address_judge.messages == []


async def test_what_would_not_be_answered_is_not_read(harness: UpdateHarness):
    await say(harness, "hello?", person=BOB)
    harness.is_within_quota = False
    await say(harness, "hello?")
    harness.is_within_quota = True
    await say(harness, "hello?", date=int(harness.now) - 700)
    await harness.store_updates(harness.build_message(ANNA, text="hello?", chat=FAMILY))
    await put_group(harness)  # turned off meanwhile
    await harness.handle_claimed()
    assert harness.address_judge.messages == []
    assert {row.body for row in await harness.load_items()} == {None}


async def test_a_group_has_so_many_reads_a_minute(harness: UpdateHarness):
    for number in range(2 * MAX_READS_A_MINUTE):
        await say(harness, f"message {number}")
    assert len(harness.address_judge.messages) == MAX_READS_A_MINUTE
    harness.now += 61
    await say(harness, "one more")
    assert harness.address_judge.messages[-1].text == "one more"


async def test_the_read_knows_what_was_said_before(harness: UpdateHarness):
    await put_group(harness, judges=True, reads_along=True)
    turn = await harness.store_answered_turn("hi", lane=Lane(CHAT))
    async with harness.database.transaction() as tx:
        await turns.append_messages(tx, turn, [Message("assistant", "It rains.")], now=harness.now)
    row = {"lane": str(CHAT), "person": BOB, "name": "Bob", "text": "tea?", "written_at": harness.now + 3}
    async with harness.database.transaction() as tx:
        await tx.execute(insert(group_texts).values(row | {"message_id": 1}))
    quoted = {"message_id": 90, "date": 1, "chat": FAMILY, "text": "Rain."}
    mine = {"id": BOT_ID, "is_bot": True, "first_name": "Bot", "username": BOT_USERNAME}
    await say(harness, "why?", reply_to_message=quoted | {"from": OTHER_BOT})
    [message] = harness.address_judge.messages
    assert message.said_before == ("the assistant: It rains.", "Bob: tea?")
    assert (message.speaker, message.quoted) == ("Anna", "Weather: Rain.")
    assert message.names == [f"@{BOT_USERNAME}"]
    await say(harness, "why?", reply_to_message=quoted | {"from": mine})  # a reply to it is addressed
    assert len(harness.address_judge.messages) == 1
    harness.now += ANSWER_SECONDS + 3
    await say(harness, "and now?")
    assert "rains" not in str(harness.address_judge.messages[-1].said_before)


async def test_what_is_read_along_leaves_its_place_when_it_is_a_question_itself(harness: UpdateHarness):
    await put_group(harness, judges=True, reads_along=True)

    async def load_texts() -> list[str]:
        async with harness.database.read_transaction() as tx:
            return list((await tx.execute(select(group_texts.c.text))).scalars())

    await say(harness, "lunch?")
    assert await load_texts() == ["lunch?"]
    harness.address_judge.is_for_assistant = True
    await say(harness, "when does it open?")
    assert await load_texts() == ["lunch?"]
    assert [request.texts for request in harness.turns.requests] == [("when does it open?",)]


async def test_an_admin_turns_it_on_where_the_endpoint_can_read_and_the_group_is_told(harness: UpdateHarness):
    await put_group(harness)
    harness.address_judge.is_supported = False
    toast, sent = await harness.tap(f"group:judge:{CHAT}", person=ADMIN)
    assert (toast, sent) == ("Your model server can't do that: canvasgram check says why.", [])
    harness.address_judge.is_supported = None
    toast, sent = await harness.tap(f"group:judge:{CHAT}", person=ADMIN)
    assert str(toast).endswith("Tap again in a moment.")
    assert sent == []
    _, [notice, hint] = await harness.tap(f"group:judge:{CHAT}", person=ADMIN)
    assert (notice.lane, notice.text[:21]) == (str(CHAT), "From now on I also lo")
    assert (hint.lane, "Nobody has measured" in hint.text) == (str(ADMIN), True)
    group = harness.groups.find_open(CHAT)
    assert group is not None
    assert group.judges
    assert (await harness.tap(f"group:judge:{CHAT}", person=ADMIN))[1] == []
    await harness.tap(f"group:wait:{CHAT}", person=ADMIN)
    await harness.tap(f"group:judge:{CHAT}", person=ANNA)
    group = harness.groups.find_open(CHAT)
    assert group is not None
    assert not group.judges


async def test_it_is_said_that_it_sees_little(harness: UpdateHarness):
    group = Group(CHAT, "Family", "in", harness.now, hears_all=False)
    harness.groups.remember(group)
    toast, _ = await harness.tap(f"group:judge:{CHAT}", person=ADMIN)
    assert toast == "But I can't see what people write to each other there."

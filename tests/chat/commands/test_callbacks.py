"""Buttons: late, twice, forged or from the wrong chat, every tap is answered and does no more than it may."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.chat.commands import callbacks
from bot.chat.commands.callbacks import CONTINUE_PROMPT
from bot.chat.commands.welcome import EXAMPLES
from bot.db.engine import Database
from bot.db.queues import edited_messages, inbox, outbox
from bot.db.queues.edited_messages import Revision
from bot.db.tables import inbox as inbox_table
from bot.domain import Lane, Part
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

TOO_OLD = "This button is too old."


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


@pytest.mark.parametrize(
    "data",
    [
        "",
        "nothing:1",
        "stop",
        "stop:",
        "stop:x",
        "stop:-1",
        "stop:" + "9" * 40,
        "ask:3",
        "a:1",
        "people:block:1",
    ],
)
async def test_a_button_of_an_older_version_or_a_forged_one_is_answered(harness: UpdateHarness, data: str):
    assert await harness.tap(data) == (TOO_OLD, [])


async def test_stop_ends_the_turn_it_belongs_to(harness: UpdateHarness):
    item = await harness.start_turn()
    toast, sent = await harness.tap(f"stop:{item}")
    assert (toast, sent) == ("Stopped.", [])
    tap = (await harness.load_items(shape="tap"))[0].id
    assert harness.turns.stops == [(Lane(ANNA), tap)]
    assert (await harness.load_item(item)).stopped


async def test_stop_of_messages_answered_together_ends_their_turn(harness: UpdateHarness):
    first, second = await harness.store_updates(
        harness.build_message(text="one"), harness.build_message(text="two")
    )
    await harness.start_turn()
    toast, _ = await harness.tap(f"stop:{first}")
    assert toast == "Stopped."
    assert (await harness.load_item(second)).state == "running"
    ((_, before),) = harness.turns.stops
    assert before is not None
    assert before > second


async def test_what_waited_is_dropped_also_if_it_was_stored_again_behind_an_edited_message(
    harness: UpdateHarness,
):
    running = await harness.start_turn()
    (waiting,) = await harness.store_updates(harness.build_message(text="/deep two"))
    [offer] = await harness.send_text("/stop")
    turn = await harness.store_answered_turn("one", item=running)
    async with harness.database.transaction() as tx:
        answered = inbox_table.update().where(inbox_table.c.id == running)
        await tx.execute(answered.values(state="done", turn=turn))
        again = await edited_messages.requeue(tx, turn, Revision(1, False, turn), now=harness.now)
        assert again is not None
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)
    assert again > waiting
    assert (await harness.tap(offer.buttons["Skip it"]))[0] == "Skipped."
    assert [row.error for row in await harness.load_items(shape="deep")] == ["dropped by the person"]
    assert not (await harness.load_item(again)).stopped


async def test_an_old_stop_does_not_touch_the_next_turn(harness: UpdateHarness):
    await harness.send_text("one")
    (old,) = await harness.load_items(shape="text")
    running = await harness.start_turn()
    assert await harness.tap(f"stop:{old.id}") == ("This has already ended.", [])
    assert len(harness.bot.calls_of("edit_message_reply_markup")) == 1
    assert harness.turns.stops == []
    assert not (await harness.load_item(running)).stopped


async def test_nobody_stops_the_turn_of_another_chat(harness: UpdateHarness):
    item = await harness.start_turn()
    assert await harness.tap(f"stop:{item}", person=BOB) == ("This has already ended.", [])
    assert harness.turns.stops == []
    assert not (await harness.load_item(item)).stopped


async def test_an_example_is_asked_as_if_it_had_been_written(harness: UpdateHarness):
    toast, sent = await harness.tap("ask:0")
    assert toast is None
    assert [message.text for message in sent] == [f"You asked: {EXAMPLES[0]}"]
    (task,) = await harness.load_items(kind="task")
    assert json.loads(task.body) == {"person": ANNA, "name": "Anna", "texts": [EXAMPLES[0]]}
    assert (task.lane, harness.commits.inbox_count) == (str(ANNA), 1)


async def test_what_may_not_have_arrived_is_sent_again_once(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        (row,) = await outbox.add(tx, item=50, lane=Lane(ANNA), parts=(Part("the answer"),), now=harness.now)
        await outbox.mark_unknown(tx, row, "lost", now=harness.now)
    await harness.read_sent()
    assert (await harness.tap(f"again:{row}", person=BOB))[0] == "I've already sent it again."
    toast, sent = await harness.tap(f"again:{row}")
    assert (toast, [message.text for message in sent]) == ("I'll send it again.", ["the answer"])
    assert harness.commits.lanes == [Lane(ANNA)]
    assert await harness.tap(f"again:{row}") == ("I've already sent it again.", [])


async def test_a_stranger_and_a_blocked_person_have_no_buttons(harness: UpdateHarness):
    await harness.let_in(7, "blocked")
    assert await harness.tap("ask:0", person=8) == ("You don't have access to this bot.", [])
    assert (await harness.tap("ask:0", person=7))[1] == []
    assert await harness.load_items(kind="task") == []
    assert [row.body for row in await harness.load_items(shape="tap")] == [None, None]


async def test_a_tap_in_a_group_is_answered_and_does_nothing(harness: UpdateHarness):
    message = harness.build_message(text="x", chat={"id": -100, "type": "group", "title": "G"})["message"]
    query = {"id": "q", "from": message["from"], "chat_instance": "1", "data": "ask:0", "message": message}
    await harness.store_updates({"callback_query": query})
    assert await harness.handle_claimed() == []
    assert len(harness.bot.calls_of("answer_callback_query")) == 1
    assert await harness.load_items(kind="task") == []


async def test_a_tap_on_a_message_of_long_ago_works_without_it(harness: UpdateHarness):
    inaccessible = {"chat": {"id": ANNA, "type": "private"}, "message_id": 3, "date": 0}
    sender = harness.build_message()["message"]["from"]
    query = {"id": "q", "from": sender, "chat_instance": "1", "data": "drop:5", "message": inaccessible}
    await harness.store_updates({"callback_query": query})
    await harness.handle_claimed()
    assert harness.bot.calls_of("answer_callback_query")[0]["text"] == "Nothing is waiting anymore."
    inline = {"id": "q", "from": sender, "chat_instance": "1", "data": "ask:0", "inline_message_id": "7"}
    await harness.store_updates({"callback_query": inline})
    assert await harness.handle_claimed() == []
    assert len(harness.bot.calls_of("answer_callback_query")) == 2


async def test_a_tap_counts_although_our_answer_does_not_reach_telegram(harness: UpdateHarness):
    item = await harness.start_turn()
    harness.bot.is_offline = True
    assert await harness.tap(f"stop:{item}") == (None, [])
    assert len(harness.turns.stops) == 1
    assert (await harness.load_items(shape="tap"))[0].state == "done"


@given(data=st.text(max_size=64))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_any_data_is_answered(harness: UpdateHarness, data: str):
    answered = len(harness.bot.calls_of("answer_callback_query"))
    await harness.tap(data)
    assert len(harness.bot.calls_of("answer_callback_query")) == answered + 1


def test_only_admins_have_the_buttons_of_the_list_of_people():
    assert callbacks.choose_button_action("people:block:5", "member")[1] == ""
    assert callbacks.choose_button_action("people:block:5", "admin")[1] == "block:5"


async def test_more_is_asked_for_once_and_the_button_goes(harness: UpdateHarness):
    turn = await harness.store_answered_turn("tell me a long story")
    toast, sent = await harness.tap(f"more:{turn}")
    assert (toast, sent) == ("I'll go on.", [])
    (task,) = await harness.load_items(kind="task")
    assert json.loads(task.body)["texts"] == [CONTINUE_PROMPT]
    assert harness.commits.inbox_count == 1
    (stripped,) = harness.bot.calls_of("edit_message_reply_markup")
    assert stripped["given"][0] == ANNA
    assert await harness.tap(f"more:{turn}") == ("I'm already working on something newer.", [])
    assert len(await harness.load_items(kind="task")) == 1
    assert len(harness.bot.calls_of("edit_message_reply_markup")) == 2


async def test_more_of_what_is_not_the_last_answer_is_not_asked_for(harness: UpdateHarness):
    turn = await harness.store_answered_turn("tell me a long story", item=1)
    await harness.store_answered_turn("and now?", item=2)
    await harness.store_updates(harness.build_message(text="x"), harness.build_message(text="y"))
    await harness.handle_claimed()
    assert await harness.tap(f"more:{turn}") == ("This is no longer the last answer.", [])
    assert await harness.load_items(kind="task") == []
    assert len(harness.bot.calls_of("edit_message_reply_markup")) == 1
    assert await harness.tap("more:999") == ("This is no longer the last answer.", [])


async def test_more_is_not_asked_for_while_a_newer_message_waits_or_after_a_new_conversation(
    harness: UpdateHarness,
):
    turn = await harness.store_answered_turn("tell me a long story")
    await harness.start_turn()
    assert await harness.tap(f"more:{turn}") == ("I'm already working on something newer.", [])
    await harness.send_text("/new", person=BOB)
    bobs_turn = await harness.store_answered_turn("tell me a long story", person=BOB, item=1)
    await harness.send_text("/new", person=BOB)
    assert (await harness.tap(f"more:{bobs_turn}", person=BOB))[0] == "This is no longer the last answer."
    assert await harness.load_items(kind="task") == []


async def test_more_of_a_message_of_long_ago_is_answered_without_it(harness: UpdateHarness):
    turn = await harness.store_answered_turn("tell me a long story")
    sender = harness.build_message()["message"]["from"]
    query = {
        "id": "q",
        "from": sender,
        "chat_instance": "1",
        "data": f"more:{turn}",
        "inline_message_id": "7",
    }
    await harness.store_updates({"callback_query": query})
    assert await harness.handle_claimed() == []
    assert harness.bot.calls_of("edit_message_reply_markup") == []

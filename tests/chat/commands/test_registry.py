"""What commands do and say, and who may use them."""

import json

import pytest
from sqlalchemy import case, update

from bot.chat.commands import registry
from bot.chat.commands.conversation import STOP_CAME_LATE
from bot.chat.commands.welcome import EXAMPLES
from bot.db.conversations import conversations, notes, turns
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tables import inbox as inbox_table
from bot.domain import Lane
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

LANE = Lane(ANNA)


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


def test_a_members_menu_has_what_people_use_and_nothing_of_an_admins():
    menu = [name for name, _ in registry.build_menu("member", "en")]
    assert menu == [
        *("new", "stop", "retry", "find", "files", "notes"),
        *("remind", "jobs", "usage", "language", "help"),
    ]
    admin_menu = {name for name, _ in registry.build_menu("admin", "en")}
    assert admin_menu - set(menu) == {"invite", "people", "tools"}


async def test_help_has_groups_with_examples_to_copy(harness: UpdateHarness):
    (sent,) = await harness.send_text("/help")
    assert "photos, PDFs" in sent.text
    assert "\n\nTalk with me\n/new – start a new conversation\n" in sent.text
    assert "\n\nReminders and tasks\n/remind – set a reminder: /remind tomorrow at 9 call Anna\n" in sent.text
    assert "\n\nYou and this chat\n/usage – how much you have used\n" in sent.text
    assert "/people" not in sent.text
    assert "For admins" not in sent.text
    copied = [sent.text[entity["offset"] :][: entity["length"]] for entity in sent.entities]
    assert "Remind me tomorrow at 9 to call Anna" in copied
    assert "/zone Berlin" in copied
    (sent,) = await harness.send_text("/help", person=ADMIN)
    assert "/people – members and requests" in sent.text


@pytest.mark.parametrize("text", ["/HELP", "/help@canvas_bot", "/help me please"])
async def test_a_command_is_known_however_it_is_written(harness: UpdateHarness, text: str):
    (sent,) = await harness.send_text(text)
    assert "/new" in sent.text


async def test_an_unknown_command_names_help(harness: UpdateHarness):
    (sent,) = await harness.send_text("/frobnicate now")
    assert sent.text == "I don't know /frobnicate. /help shows what I can do."


@pytest.mark.parametrize(("typed", "meant"), [("/stopp", "stop"), ("/Usgae@canvas_bot", "usage")])
async def test_a_mistyped_command_offers_the_nearest(harness: UpdateHarness, typed: str, meant: str):
    (sent,) = await harness.send_text(typed)
    assert sent.text.endswith(f"Did you mean /{meant}?")
    assert not sent.entities


async def test_what_stands_behind_a_mistyped_command_is_copied_with_the_nearest(harness: UpdateHarness):
    (sent,) = await harness.send_text("/remnd tomorrow at 9 call Zoë 🙂")
    (code,) = sent.entities
    units = sent.text.encode("utf-16-le")[2 * code["offset"] :][: 2 * code["length"]]
    assert units.decode("utf-16-le") == "/remind tomorrow at 9 call Zoë 🙂"
    (sent,) = await harness.send_text("/remnd " + "x" * 4000)
    assert sent.text == "I don't know /remnd. Did you mean /remind?"


def test_only_commands_that_somebody_may_use_are_offered():
    assert registry.find_near_command("peopel", "admin", in_group=False) == "people"
    assert registry.find_near_command("peopel", "member", in_group=False) is None
    assert registry.find_near_command("langage", "member", in_group=True) is None


@pytest.mark.parametrize("command", ["invite", "people"])
async def test_what_is_for_admins_says_so(harness: UpdateHarness, command: str):
    (sent,) = await harness.send_text(f"/{command}")
    assert sent.text == f"/{command} is for admins."


async def test_the_greeting_has_three_examples_to_tap(harness: UpdateHarness):
    (sent,) = await harness.send_text("/start")
    assert sent.text.startswith("Hello Anna.")
    assert sent.buttons == {example: f"ask:{number}" for number, example in enumerate(EXAMPLES)}
    assert len(EXAMPLES) == 3
    (sent,) = await harness.send_text("/start", person=ADMIN)
    assert "/invite" in sent.text


async def test_id_shows_ones_number_to_be_copied(harness: UpdateHarness):
    (sent,) = await harness.send_text("/id")
    assert sent.text == "Your Telegram ID is 5."
    assert sent.entities == [{"type": "code", "offset": 20, "length": 1}]


async def test_new_begins_another_conversation(harness: UpdateHarness):
    (sent,) = await harness.send_text("/new")
    assert sent.text.startswith("New conversation.")
    async with harness.database.read_transaction() as tx:
        assert (await conversations.find(tx, LANE)).number == 2


async def test_stop_with_nothing_to_stop_says_so(harness: UpdateHarness):
    assert [message.text for message in await harness.send_text("/stop")] == ["Nothing is running."]


async def test_a_stop_for_an_answer_that_has_just_ended_says_that_what_waited_goes_on(harness: UpdateHarness):
    ended, _ = await harness.store_updates(
        harness.build_message(text="a story"), harness.build_message(text="and this?")
    )
    async with harness.database.transaction() as tx:
        states = case((inbox_table.c.id == ended, "done"), else_="running")
        await tx.execute(
            update(inbox_table).values(state=states, turn=inbox_table.c.id, done_at=harness.now + 0.5)
        )
    (sent,) = await harness.send_text("/stop")
    assert sent.text == STOP_CAME_LATE
    assert harness.turns.stops == []


async def test_stop_cuts_the_running_turn_and_leaves_the_last_word_to_it(harness: UpdateHarness):
    item = await harness.start_turn()
    (stop,) = await harness.store_updates(harness.build_message(text="/stop"))
    assert await harness.handle_claimed() == []
    assert harness.turns.stops == [(LANE, stop)]
    assert (await harness.load_item(item)).stopped


async def test_stop_offers_to_drop_what_waits(harness: UpdateHarness):
    await harness.start_turn()
    waiting = await harness.store_updates(
        harness.build_message(text="one"), harness.build_message(text="two")
    )
    (sent,) = await harness.send_text("/stop")
    assert sent.text == "2 more messages of yours are waiting; I'll answer them next."
    assert [(await harness.load_item(item)).state for item in waiting] == ["new", "new"]
    toast, _ = await harness.tap(sent.buttons["Skip them"])
    assert toast == "Skipped."
    assert {(await harness.load_item(item)).state for item in waiting} == {"done"}
    assert harness.bot.calls_of("edit_message_text")[0]["given"][:2] == ("Skipped.", ANNA)


async def test_what_waited_can_be_dropped_after_it_began_to_run(harness: UpdateHarness):
    first = await harness.start_turn()
    (waiting,) = await harness.store_updates(harness.build_message(text="one"))
    (sent,) = await harness.send_text("/stop")
    assert sent.text == "One more message of yours is waiting; I'll answer it next."
    async with harness.database.transaction() as tx:
        await inbox.mark_done(tx, [first], now=harness.now)
        await inbox.claim(tx, now=harness.now)
    harness.turns.stops.clear()
    (later,) = await harness.store_updates(harness.build_message(text="later"))
    toast, _ = await harness.tap(sent.buttons["Skip it"])
    assert toast == "Skipped."
    assert (await harness.load_item(waiting)).stopped
    assert (await harness.load_item(later)).state == "new"
    ((_, before),) = harness.turns.stops
    assert waiting < (before or 0) < later
    async with harness.database.transaction() as tx:
        await inbox.mark_done(tx, [waiting], now=harness.now)
    toast, _ = await harness.tap(sent.buttons["Skip it"])
    assert toast == "Nothing is waiting anymore."


async def test_stop_drops_what_waits_when_nothing_runs(harness: UpdateHarness):
    update = harness.build_message(text="a" * 4050)  # waits for the rest of its paste
    await harness.store_updates(update)
    (sent,) = await harness.send_text("/stop")
    assert sent.text == "I won't answer the message that was waiting."
    assert harness.turns.requests == []


async def test_a_draft_stopped_in_telegram_stops_the_turn(harness: UpdateHarness):
    item = await harness.start_turn()
    chat = {"id": ANNA, "type": "private"}
    (stop,) = await harness.store_updates({"stopped_message_generation": {"chat": chat, "draft_id": 3}})
    assert await harness.handle_claimed() == []
    assert harness.turns.stops == [(LANE, stop)]
    assert (await harness.load_item(item)).stopped


async def test_a_draft_stopped_in_a_topic_stops_that_topic(harness: UpdateHarness):
    await harness.start_turn(message_thread_id=7, is_topic_message=True)
    chat = {"id": ANNA, "type": "private"}
    (stop,) = await harness.store_updates(
        {"stopped_message_generation": {"chat": chat, "draft_id": 3, "message_thread_id": 7}}
    )
    await harness.handle_claimed()
    assert harness.turns.stops == [(Lane(ANNA, 7), stop)]


async def test_retry_replaces_the_last_turn_by_a_new_one(harness: UpdateHarness):
    await harness.store_answered_turn("first", item=1)
    turn = await harness.store_answered_turn("second", "third", item=2)
    await harness.store_updates(harness.build_message(text="x"), harness.build_message(text="y"))
    await harness.handle_claimed()
    assert await harness.send_text("/retry") == []
    (task,) = await harness.load_items(kind="task")
    assert (task.lane, task.sender) == ("5", ANNA)
    assert json.loads(task.body) == {
        "person": ANNA,
        "name": "Anna",
        "texts": ["second", "third"],
        "turn": turn,
    }
    assert harness.commits.inbox_count == 1
    async with harness.database.read_transaction() as tx:
        assert turn not in [past_turn.id for past_turn in await turns.list_past_turns(tx, LANE, 1)]


async def test_retry_without_a_last_turn_says_so(harness: UpdateHarness):
    (sent,) = await harness.send_text("/retry")
    assert sent.text == "There's nothing in this conversation to try again."


async def test_retry_asks_first_when_a_tool_ran_that_may_not_run_twice(harness: UpdateHarness):
    turn = await harness.store_answered_turn("remember it", tool="remember")
    (sent,) = await harness.send_text("/retry")
    assert "remember" in sent.text
    assert sent.buttons == {"Try again anyway": f"retry:{turn}"}
    assert await harness.load_items(kind="task") == []
    toast, _ = await harness.tap(f"retry:{turn}")
    assert toast == "Trying again."
    assert len(await harness.load_items(kind="task")) == 1
    toast, _ = await harness.tap(f"retry:{turn}")
    assert toast == "This is no longer the last answer."
    assert len(await harness.load_items(kind="task")) == 1


async def test_retry_does_not_ask_about_tools_that_do_no_harm_twice(harness: UpdateHarness):
    await harness.store_answered_turn("what time", tool="clock")
    assert await harness.send_text("/retry") == []
    assert len(await harness.load_items(kind="task")) == 1


async def add_note(harness: UpdateHarness, text: str, lane: Lane = LANE) -> int:
    async with harness.database.transaction() as tx:
        return await notes.add(tx, lane, text, author="Anna", person=ANNA, now=harness.now)


async def test_notes_are_listed_with_author_and_date_and_deleted_by_a_button(harness: UpdateHarness):
    assert [message.text for message in await harness.send_text("/notes")] == [
        "No notes yet. Ask me to remember something."
    ]
    (hint,) = await harness.send_text("/notes add milk")
    assert hint.text.startswith("To keep a note, just ask, for example remember that")
    await add_note(harness, "likes tea")
    await add_note(harness, "hates rain")
    (sent,) = await harness.send_text("/notes")
    assert "1. likes tea (Anna, 14 Nov 2023)\n2. hates rain (Anna, 14 Nov 2023)" in sent.text
    await harness.send_text("/language русский")
    (in_russian,) = await harness.send_text("/notes")
    assert "1. likes tea (Anna, 14 нояб. 2023" in in_russian.text
    await harness.send_text("/language English")
    toast, _ = await harness.tap(sent.buttons["Delete 1"])
    assert toast == "Note 1 is deleted."
    redrawn = harness.bot.calls_of("edit_message_text")[0]
    assert "tea" not in redrawn["given"][0]
    assert "rain" in redrawn["given"][0]
    toast, _ = await harness.tap(sent.buttons["Delete 1"])
    assert toast == "This note is already gone."


async def test_a_note_of_another_chat_is_not_deleted(harness: UpdateHarness):
    await add_note(harness, "secret", Lane(BOB))
    async with harness.database.read_transaction() as tx:
        (note,) = await notes.list_stored(tx, Lane(BOB))
    toast, _ = await harness.tap(f"note:{note.id}")
    assert toast == "This note is already gone."
    async with harness.database.read_transaction() as tx:
        assert len(await notes.list_stored(tx, Lane(BOB))) == 1


async def test_the_longest_list_of_notes_fits_messages_and_every_note_has_its_button(harness: UpdateHarness):
    for number in range(notes.MAX_NOTES):
        await add_note(harness, f"{number} " + "🦊" * 200)
    sent = await harness.send_text("/notes")
    assert all(len(message.text.encode("utf-16-le")) // 2 <= 4096 for message in sent)
    assert [label for message in sent for label in message.buttons] == [
        f"Delete {number}" for number in range(1, 31)
    ]
    assert [message.silent for message in sent] == [False] + [True] * (len(sent) - 1)
    toast, _ = await harness.tap(sent[0].buttons["Delete 1"])
    assert toast == "Note 1 is deleted."
    assert harness.bot.calls_of("edit_message_text") == []


@pytest.mark.parametrize("second", [False, True])
def test_help_and_menus_name_every_command_once_and_fit(second: bool):
    for standing in ("member", "admin"):
        offered = registry.list_commands(standing, has_fallback=second)
        names = [command.name for command in offered]
        assert len(names) == len(set(names))
        assert {"think", "usage", "context"} <= set(names)
        assert {name for name, _ in registry.build_menu(standing, "en", has_fallback=second)} <= set(names)
        assert sum(len(f"/{command.name} – {command.help}\n") for command in offered) < 2000
        assert all(len(command.help) <= 60 for command in offered)

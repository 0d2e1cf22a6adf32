"""Who may do what in a group, and what admins set about it with /groups."""

import asyncio
import json

import pytest
from sqlalchemy import insert, select, update

from bot.chat.reminders import GROUP_ZONE_QUESTION
from bot.db.conversations import conversations, notes
from bot.db.engine import Database
from bot.db.people import groups as group_rows
from bot.db.people import limits
from bot.db.people.groups import Group
from bot.db.people.limits import QuotaRule
from bot.db.queues import inbox, jobs
from bot.db.queues.jobs import NewJob
from bot.db.tables import attachments, group_texts, messages, turns
from bot.db.tables import inbox as inbox_table
from bot.domain import Lane
from bot.turns.endpoints import ModelEndpoint
from tests.support.groups import address, build_group_chat
from tests.support.turn_harness import ScriptedModel
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness, build_user
from tools.base import ToolQuestion

CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")
LANE = Lane(CHAT)
CARL = 8


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    """A bot in the group Family; Ada is its admin, Anna and Bob are members."""
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    await put_group(harness, Group(CHAT, "Family", "in", harness.now, let_in_by=ADMIN, hears_all=False))
    return harness


async def put_group(harness: UpdateHarness, group: Group) -> None:
    async with harness.database.transaction() as tx:
        await group_rows.put(tx, group)
    harness.groups.remember(group)


async def write(harness: UpdateHarness, text: str, person: int) -> list[SentMessage]:
    """Write a command in the group; return what is sent there."""
    command = {"type": "bot_command", "offset": 0, "length": len(text.split()[0])}
    message = harness.build_message(person, text=text, entities=[command], chat=FAMILY)
    await harness.store_updates(message)
    return await harness.handle_claimed()


async def tap(harness: UpdateHarness, data: str, person: int) -> tuple[str | None, list[SentMessage]]:
    """Tap a button in the group; return the toast, and what is sent."""
    message = harness.build_message(chat=FAMILY, text="…")["message"]
    query = {"id": "1", "from": build_user(person), "chat_instance": "1", "data": data, "message": message}
    await harness.store_updates({"callback_query": query})
    sent = await harness.handle_claimed()
    return harness.bot.calls_of("answer_callback_query")[-1]["text"], sent


async def ask(harness: UpdateHarness, person: int) -> int:
    """Ask something in the group that is then being answered; return its inbox item."""
    return await harness.start_turn(person, **address("why?"), chat=FAMILY)


async def find_conversation(harness: UpdateHarness) -> int:
    async with harness.database.read_transaction() as tx:
        return (await conversations.find(tx, LANE)).number


async def is_stopped(harness: UpdateHarness, item: int) -> bool:
    return bool((await harness.load_item(item)).stopped)


async def test_whoever_asked_stops_their_own_turn(harness: UpdateHarness):
    item = await ask(harness, ANNA)
    [refusal] = await write(harness, "/stop", BOB)
    assert refusal.text == "Only the person who asked or a group administrator can stop this."
    assert await tap(harness, f"stop:{item}", BOB) == (refusal.text, [])
    assert not await is_stopped(harness, item)
    assert await write(harness, "/stop", ANNA) == []
    assert await is_stopped(harness, item)


@pytest.mark.parametrize(("person", "by_button"), [(BOB, True), (BOB, False), (ADMIN, True), (ADMIN, False)])
async def test_administrators_of_the_group_and_of_the_bot_stop_any_turn(
    harness: UpdateHarness, person: int, by_button: bool
):
    harness.administrators.people.add(BOB)
    item = await ask(harness, ANNA)
    if by_button:
        assert await tap(harness, f"stop:{item}", person) == ("Stopped.", [])
    else:
        assert await write(harness, "/stop", person) == []
    assert await is_stopped(harness, item)


async def store_document(harness: UpdateHarness) -> int:
    """Store an ended turn to which Anna sent a document; return its number."""
    async with harness.database.transaction() as tx:
        turn = {
            "item": 1,
            "lane": LANE.key,
            "person": ANNA,
            "conversation": 1,
            "state": "ended",
            "tools": "[]",
        }
        turn |= {"thinking": False, "thinking_why": "", "received_at": 1.0, "began_at": 1.0}
        [number] = (await tx.execute(insert(turns).values(turn).returning(turns.c.id))).one()
        message = {"turn": number, "role": "user", "text": "", "made_at": 1.0}
        [row] = (await tx.execute(insert(messages).values(message).returning(messages.c.id))).one()
        document = {"message": row, "kind": "document", "name": "plan.txt", "media_type": "text/plain"}
        await tx.execute(insert(attachments).values(**document, text="May", size=3, person=ANNA))
    return int(number)


async def test_the_sender_keeps_a_file_and_they_or_an_administrator_delete_it(harness: UpdateHarness):
    turn = await store_document(harness)
    assert await tap(harness, f"keep:{turn}", BOB) == ("Only the person who sent it can do that.", [])
    _, [kept] = await tap(harness, f"keep:{turn}", ANNA)
    assert kept.text.startswith("Kept without a time limit: “plan.txt”.")
    [listed] = await write(harness, "/files", BOB)
    assert listed.text.endswith("1. “plan.txt”, 1 kB")
    delete = listed.buttons["Delete 1"]
    refusal = "Only the person who sent it or a group administrator can delete this."
    assert await tap(harness, delete, BOB) == (refusal, [])
    harness.administrators.people.add(BOB)
    assert await tap(harness, delete, BOB) == ("“plan.txt” is deleted.", [])
    assert await tap(harness, delete, ANNA) == ("I no longer have this.", [])
    assert await tap(harness, f"keep:{turn}", ANNA) == ("I no longer have this.", [])


async def test_a_stop_drops_only_messages_of_the_one_who_sent_it(harness: UpdateHarness):
    await harness.store_updates(
        harness.build_message(ANNA, **address("one"), chat=FAMILY),
        harness.build_message(BOB, **address("two"), chat=FAMILY),
    )
    [dropped] = await write(harness, "/stop", BOB)
    assert dropped.text == "I won't answer the message that was waiting."
    assert [row.sender for row in await harness.load_items(error="dropped by the person")] == [BOB]


async def test_a_new_conversation_is_asked_about_while_somebody_else_waits(harness: UpdateHarness):
    number = await find_conversation(harness)
    await write(harness, "/new", BOB)
    assert await find_conversation(harness) == number + 1
    item = await ask(harness, ANNA)
    assert await write(harness, "/new", BOB) == []  # it waits: only /stop interrupts
    assert not await is_stopped(harness, item)
    await harness.store_updates(harness.build_message(ANNA, **address("and?"), chat=FAMILY))
    async with harness.database.transaction() as tx:
        await inbox.mark_done(tx, [item], now=harness.now)
    [question] = await harness.handle_claimed()
    assert question.text == "Somebody else here is waiting for an answer. Start a new conversation now?"
    assert await find_conversation(harness) == number + 1
    await tap(harness, question.buttons["Start it"], BOB)
    assert await find_conversation(harness) == number + 2


async def test_only_administrators_have_a_group_forgotten_with_its_jobs_alone(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        for lane, person in ((LANE, ANNA), (Lane(CHAT, 7), BOB), (Lane(BOB), BOB)):
            job = NewJob("reminder", 9e9, "UTC", person=person, lane=lane, text="tea")
            await jobs.add(tx, job, now=harness.now)
    [refusal] = await write(harness, "/forget", ANNA)
    assert refusal.text == "Only administrators of this group can make me forget it."
    assert await tap(harness, "forget:yes", ANNA) == (refusal.text, [])
    harness.administrators.people.add(BOB)
    [question] = await write(harness, "/forget", BOB)
    await tap(harness, question.buttons["Forget it all"], BOB)
    async with harness.database.read_transaction() as tx:
        kept = [*await jobs.list_of_person(tx, ANNA), *await jobs.list_of_person(tx, BOB)]
    assert [job.lane for job in kept] == [Lane(BOB)]
    assert [row.lane for row in await harness.load_items(kind="system")] == [str(CHAT)]


async def test_nobody_has_the_question_of_somebody_else_answered_again(harness: UpdateHarness):
    await harness.store_answered_turn("why?", person=ANNA, lane=LANE)
    [refusal] = await write(harness, "/retry", BOB)
    assert refusal.text == "Only the person who asked can get a new answer."
    assert await write(harness, "/retry", ANNA) == []
    assert [row.sender for row in await harness.load_items(kind="task")] == [ANNA]


@pytest.mark.parametrize("command", ["people", "invite", "tools", "grant", "groups", "limits", "language"])
async def test_what_is_personal_or_for_admins_is_not_done_in_a_group(harness: UpdateHarness, command: str):
    [refusal] = await write(harness, f"/{command}", ADMIN)
    assert refusal.text == f"/{command} works only in our private chat: @canvas_bot"
    for button in (f"people:block:{ANNA}", f"group:quit:{CHAT}", "language:de", "consent:yes"):
        assert await tap(harness, button, ADMIN) == ("That works only in our private chat.", [])


async def test_usage_and_help_in_a_group_are_about_the_group(harness: UpdateHarness):
    await harness.store_answered_turn("private", person=ADMIN)
    await harness.store_answered_turn("why?", person=ANNA, lane=LANE, item=1)
    await harness.store_answered_turn("how?", person=BOB, lane=Lane(CHAT, 7), item=2)
    [usage] = await write(harness, "/usage", ADMIN)
    assert "Today: 2 answers" in usage.text
    [refusal] = await write(harness, "/usage all", ADMIN)
    assert refusal.text == "That works only in our private chat."
    [text] = await write(harness, "/help", ANNA)
    assert "/people" not in text.text
    assert "`" not in text.text
    copied = [text.text[entity["offset"] :][: entity["length"]] for entity in text.entities]
    assert "/ask what is a tide?" in copied


async def send(harness: UpdateHarness, text: str) -> str:
    [sent] = await harness.send_text(text, person=ADMIN)
    return sent.text


async def press(harness: UpdateHarness, data: str) -> str:
    """Tap a button of /groups in private; return the toast."""
    toast, _ = await harness.tap(data, person=ADMIN)
    return toast or ""


def find_card(harness: UpdateHarness) -> str:
    """The text that the last tapped message has become."""
    return str(harness.bot.calls_of("edit_message_text")[-1]["given"][0])


async def test_a_supergroup_is_shown_and_found_by_its_number(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        await group_rows.move(tx, CHAT, CHAT - 10**12)
    harness.groups.move(CHAT, CHAT - 10**12)
    for number in (CHAT, CHAT - 10**12):
        limited = await send(harness, f"/groups {number} limit 200")
        assert limited == f"Family · {CHAT - 10**12}: 200 canvases a day."
    [card] = await harness.send_text("/groups family", person=ADMIN)
    assert f"/groups {CHAT - 10**12} limit" in card.text
    assert card.buttons["Let everybody ask"] == f"group:everyone:{CHAT}"


async def test_an_admin_sees_the_groups_and_changes_what_holds_there(harness: UpdateHarness):
    await put_group(harness, Group(-200, "Work", "asked", harness.now, hears_all=True))
    [listed] = await harness.send_text("/groups", person=ADMIN)
    assert listed.text == "Groups:\nFamily: people with access may ask\nWork: waiting for your OK"
    assert listed.buttons["Give access: Work"] == "group:in:-200"
    await press(harness, listed.buttons["Family"])
    assert "I read only what is meant for me" in find_card(harness)
    assert "/setprivacy at @BotFather" in find_card(harness)
    assert await press(harness, f"group:everyone:{CHAT}") == "The group needs a limit first."
    assert await send(harness, "/groups family limit 200") == f"Family · {CHAT}: 200 canvases a day."
    await press(harness, f"group:everyone:{CHAT}")
    assert find_card(harness).startswith("Family: everybody may ask\n200 canvases a day for the group")
    assert (await send(harness, f"/groups {CHAT} limit none")).startswith("Everybody may ask in this group")
    named = await send(harness, "/groups Family name Canvas")
    assert named.startswith(
        "People in “Family” can call me Canvas. I see only commands and replies to me there."
    )
    assert harness.groups.get_identity(CHAT).name == "Canvas"
    [card] = await harness.send_text("/groups family", person=ADMIN)
    assert card.text.startswith("Family: everybody may ask\n200 canvases")
    await press(harness, card.buttons["Only with access"])
    assert await send(harness, "/groups Family name none") == "I don't have another name in “Family”."
    async with harness.database.read_transaction() as tx:
        stored = await group_rows.list_groups(tx)
        assert await limits.list_rules(tx) == [QuotaRule(CHAT, 200)]
    assert stored[1] == harness.groups.find(CHAT)
    assert stored[1] == Group(CHAT, "Family", "in", harness.now, let_in_by=ADMIN, hears_all=False)


async def test_reading_along_is_said_in_the_group_and_ends_with_what_was_read(harness: UpdateHarness):
    toast, [notice] = await harness.tap(f"group:along:{CHAT}", person=ADMIN)
    assert toast == "But I can't see what people write to each other there."
    assert (notice.lane, notice.text[:23]) == (str(CHAT), "From now on I also read")
    text = {"lane": f"{CHAT}:7", "person": BOB, "name": "Bob", "text": "lunch?", "written_at": 1.0}
    async with harness.database.transaction() as tx:
        await tx.execute(insert(group_texts).values(text))
    await press(harness, f"group:apart:{CHAT}")
    async with harness.database.read_transaction() as tx:
        assert (await tx.execute(select(group_texts))).all() == []


async def test_a_group_that_is_left_by_its_card_gets_nothing_more(harness: UpdateHarness):
    item = await ask(harness, ANNA)
    assert await press(harness, f"group:quit:{CHAT}") == "I've left “Family”."
    assert [call["given"] for call in harness.bot.calls_of("leave_chat")] == [(CHAT,)]
    assert await is_stopped(harness, item)
    assert await press(harness, f"group:show:{CHAT}") == "I'm not in this group."
    assert (await send(harness, "/groups")).startswith("I'm not in any group yet.")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/groups what is this", "I'm not in a group called what is this."),
        ("/groups Nobody limit 2", "I'm not in a group called Nobody."),
        ("/groups Family limit many", "/groups lists my groups."),
        ("/groups Family name <b>", "Names use letters and digits"),
        ("/groups Family name " + "x" * 33, "Names use letters and digits"),
    ],
)
async def test_what_groups_does_not_understand_is_explained(harness: UpdateHarness, text: str, answer: str):
    assert (await send(harness, text)).startswith(answer)


@pytest.mark.parametrize("data", ["group:", "group:show:5", "group:show:-7", "group:no:-100", "group:quit:x"])
async def test_no_button_of_a_group_does_harm(harness: UpdateHarness, data: str):
    await press(harness, data)
    assert harness.groups.find_open(CHAT) is not None


async def test_a_limit_of_a_group_is_listed_under_its_title(harness: UpdateHarness):
    await send(harness, "/groups Family limit 1")
    assert f"Family · {CHAT}: 1 canvas a day" in await send(harness, "/limits")


@pytest.fixture
async def open_group(harness: UpdateHarness) -> UpdateHarness:
    """The group, where everybody may speak; nobody has let Carl in."""
    await put_group(harness, Group(CHAT, "Family", "in", harness.now, speakers="everyone"))
    return harness


async def test_strangers_who_may_speak_change_nothing_for_the_others(open_group: UpdateHarness):
    async with open_group.database.transaction() as tx:
        await notes.add(tx, LANE, "the key", author="person", person=ANNA, now=1.0)
        [note] = await notes.list_stored(tx, LANE)
    [shown] = await write(open_group, "/think", CARL)
    assert shown.text.startswith("Thinking here")
    [refusal] = await write(open_group, "/think on", CARL)
    assert refusal.text == "Only people with access and administrators of this group can do that."
    assert [sent.text for sent in await write(open_group, "/new", CARL)] == [refusal.text]
    for button in ("think:on", f"note:{note.id}", "again:1", "new:yes"):
        assert await tap(open_group, button, CARL) == (refusal.text, [])
    open_group.administrators.people.add(CARL)
    assert "think before every answer" in (await write(open_group, "/think on", CARL))[0].text
    assert "New conversation" in (await write(open_group, "/new", CARL))[0].text
    assert await tap(open_group, f"note:{note.id}", ANNA) == ("Note 1 is deleted.", [])


async def test_only_who_asked_has_an_answer_continued(harness: UpdateHarness):
    turn = await harness.store_answered_turn("why?", person=ANNA, lane=LANE)
    assert await tap(harness, f"more:{turn}", BOB) == ("Only the person who asked can do that.", [])
    assert await tap(harness, f"more:{turn}", ANNA) == ("I'll go on.", [])


async def test_the_second_model_is_asked_in_private_alone(database: Database):
    second = ModelEndpoint("fallback", "http://spark:8001/v1", ScriptedModel(), lambda: "gemma")
    harness = UpdateHarness(database, fallback_endpoint=second)
    await harness.let_in(ANNA)
    await put_group(harness, Group(CHAT, "Family", "in", harness.now))
    [refusal] = await write(harness, "/deep why?", ANNA)
    assert refusal.text == "/deep works only in our private chat: @canvas_bot"
    assert harness.turns.requests == []


async def test_a_reminder_of_a_group_waits_for_the_zone_that_its_person_names_in_private(
    harness: UpdateHarness,
):
    await write(harness, "/remind tomorrow at 9 tea", ANNA)
    [question] = await harness.handle_claimed()
    assert question.text == GROUP_ZONE_QUESTION.replace("`", "")
    await harness.send_text("/zone Berlin", person=ANNA)
    [confirmation] = await harness.handle_claimed()
    assert (confirmation.lane, confirmation.text.splitlines()[0]) == (LANE.key, "⏰ I'll remind you: tea")


async def test_an_anonymous_administrator_taps_the_buttons_of_what_they_asked(harness: UpdateHarness):
    turn = await harness.store_answered_turn("why?", person=CHAT, lane=LANE)
    async with harness.database.transaction() as tx:
        job = NewJob("reminder", 9e9, "UTC", person=CHAT, lane=LANE, text="tea")
        await jobs.add(tx, job, now=harness.now)
        [stored] = await jobs.list_of_person(tx, CHAT)
    assert await tap(harness, f"redo:{turn}", BOB) == ("Only the person who asked can get a new answer.", [])
    assert await tap(harness, f"job:undo:{stored.id}", BOB) == (
        "Only the person who set this can change it.",
        [],
    )
    assert await tap(harness, f"redo:{turn}", CARL) == ("You don't have access to this bot.", [])
    harness.administrators.people.add(CARL)  # whom nobody has let in
    assert await tap(harness, f"redo:{turn}", CARL) == ("Trying again.", [])
    assert await tap(harness, f"job:undo:{stored.id}", CARL) == ("Undone.", [])


async def list_as_the_group(harness: UpdateHarness) -> list[tuple[str, str]]:
    """What an anonymous administrator is shown later: data of a button, and what a tap on it says."""
    reminder = NewJob("reminder", harness.now, "UTC", person=CHAT, lane=LANE, text="tea")
    account = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    anonymous = {"from": account, "sender_chat": FAMILY, "chat": FAMILY, "message_id": 50}
    message = harness.build_message(**address("why?"))["message"] | anonymous
    async with harness.database.transaction() as tx:
        job = await jobs.add(tx, reminder, now=harness.now)
        row = {"kind": "update", "lane": LANE.key, "sender": CHAT, "message_id": 50, "received_at": 1.0}
        asked = insert(inbox_table).values(
            row | {"shape": "text", "state": "done", "body": json.dumps({"message": message})}
        )
        item = (await tx.execute(asked.returning(inbox_table.c.id))).scalar_one()
        due = {"kind": "reminder", "shape": "other", "state": "done", "job": job, "due_at": harness.now}
        shown = insert(inbox_table).values(row | due | {"message_id": None, "body": '{"texts": ["tea"]}'})
        reminded = (await tx.execute(shown.returning(inbox_table.c.id))).scalar_one()
    turn = await harness.store_answered_turn("why?", tool="ring", person=CHAT, lane=LANE, item=item)
    edit = {"update_id": 900, "edited_message": message | {"text": "who?", "entities": []}}
    async with harness.database.transaction() as tx:
        await tx.execute(update(inbox_table).where(inbox_table.c.id == item).values(turn=turn))
        await tx.execute(insert(inbox_table).values(row | {"shape": "edit", "body": json.dumps(edit)}))
    [card] = await harness.handle_claimed()
    return [
        (f"snooze:10m:{reminded}", "Again at"),
        (card.buttons["Leave as is"], ""),
        (f"more:{turn}", "I'll go on."),
    ]


async def test_an_anonymous_administrator_taps_what_they_are_shown_later(harness: UpdateHarness):
    harness.administrators.people.add(CARL)
    refusals = []
    for data, line in await list_as_the_group(harness):
        refusals.append((await tap(harness, data, BOB))[0])
        toast, _ = await tap(harness, data, CARL)
        assert (toast or "").startswith(line), data
    assert refusals == [
        "This reminder no longer exists.",
        "Only the person who edited the message can answer this.",
        "Only the person who asked can do that.",
    ]


async def test_an_anonymous_administrator_answers_what_a_tool_asks_them(harness: UpdateHarness):
    harness.administrators.people.add(CARL)
    question = ToolQuestion("shop", "Which colour?", ("red", "blue"))
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(harness.tool_questions.ask(LANE, CHAT, question))
        while not harness.commits.lanes:  # noqa: ASYNC110  # no event says that the question is stored
            await asyncio.sleep(0)
        [shown] = await harness.read_sent()
        assert (await tap(harness, shown.buttons["blue"], BOB))[0] == "This button is too old."
        assert (await tap(harness, shown.buttons["blue"], CARL))[0] == "Thank you."
    assert asking.result().text == "blue"

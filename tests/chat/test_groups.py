"""How the bot gets into a group, whom it answers there, and what follows when it is removed."""

import inspect
from typing import Any, cast

import pytest
from sqlalchemy import select
from telegram import ChatMember, ChatMemberAdministrator, ChatMemberRestricted

from bot.chat.commands.groups import HEARING_HINT, LeaveGroupsTask
from bot.db.conversations import notes
from bot.db.engine import Database
from bot.db.people import groups as group_rows
from bot.db.people import people
from bot.db.queues import inbox
from bot.db.tables import outbox
from bot.db.tools import audit
from bot.domain import Lane
from bot.telegram.best_effort_calls import BestEffortCalls
from tests.support.groups import address, build_group_chat, build_membership
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness, build_user

CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")


@pytest.fixture
def harness(database: Database) -> UpdateHarness:
    return UpdateHarness(database)


@pytest.fixture
async def in_group(harness: UpdateHarness) -> UpdateHarness:
    """A harness whose bot is in the group, let in by its admin; Anna may speak, Bob is a stranger."""
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await change_membership(harness, "member", by=ADMIN)
    return harness


async def change_membership(
    harness: UpdateHarness,
    status: str,
    by: int,
    old: str = "left",
    chat: dict[str, Any] = FAMILY,
    **rights: Any,
) -> list[SentMessage]:
    await harness.store_updates(build_membership(chat, status, build_user(by), old, **rights))
    return await harness.handle_claimed()


def list_rights(kind: type[ChatMember]) -> list[str]:
    """Return the rights that Telegram names for such a member."""
    return [name for name in inspect.signature(kind).parameters if name.startswith(("can_", "is_"))]


async def ask(harness: UpdateHarness, text: str, person: int = ANNA, **more: Any) -> list[SentMessage]:
    """Ask the bot something in the group; return what it sends beside the answer of a turn."""
    message = harness.build_message(person, **address(text), chat=FAMILY)["message"] | more
    await harness.store_updates({"message": message})
    return await harness.handle_claimed()


async def test_an_admin_who_adds_the_bot_lets_the_group_in(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    [introduction] = await change_membership(harness, "member", by=ADMIN)
    assert introduction.lane == str(CHAT)
    assert introduction.text.startswith("Hello! To ask me something, reply to a message of mine")
    assert "make me an administrator" in introduction.text
    group = harness.groups.find_open(CHAT)
    assert group is not None
    assert (group.added_by, group.let_in_by) == (ADMIN, ADMIN)
    async with harness.database.read_transaction() as tx:
        [entry] = await audit.list_entries(tx)
    assert (entry.who, entry.what, entry.subject) == (ADMIN, "let in", f"group {CHAT}")


async def test_admins_are_asked_about_a_group_that_somebody_else_adds_the_bot_to(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    [card] = await change_membership(harness, "member", by=ANNA)
    assert (card.lane, card.text) == (str(ADMIN), f"Anna added me to the group “Family”.\n{HEARING_HINT}")
    await harness.let_in(ANNA)
    assert await ask(harness, "hi") == []
    assert harness.turns.requests == []
    toast, [introduction] = await harness.tap(card.buttons["Give access"], person=ADMIN)
    assert (toast, introduction.lane) == ("I'm in the group “Family” now.", str(CHAT))
    await ask(harness, "hi")
    assert [request.lane for request in harness.turns.requests] == [Lane(CHAT)]
    assert await harness.tap(card.buttons["Leave"], person=ADMIN) == ("“Family” got access from Ada.", [])


async def test_only_admins_decide_about_a_group(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    [card] = await change_membership(harness, "member", by=ANNA)
    await harness.tap(card.buttons["Give access"], person=ANNA)
    assert harness.groups.find_open(CHAT) is None


async def test_the_bot_leaves_a_group_that_an_admin_does_not_want(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    [card] = await change_membership(harness, "member", by=ANNA)
    assert await harness.tap(card.buttons["Leave"], person=ADMIN) == ("I've left “Family”.", [])
    assert [call["given"] for call in harness.bot.calls_of("leave_chat")] == [(CHAT,)]
    assert await harness.tap(card.buttons["Give access"], person=ADMIN) == ("I'm no longer in “Family”.", [])


async def test_a_group_that_the_gateway_knows_nothing_of_is_asked_about_once(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    [card] = await ask(harness, "hello?", person=BOB)
    assert (card.lane, card.text) == (
        str(ADMIN),
        f"I'm in the group “Family”, and somebody there has asked me something.\n{HEARING_HINT}",
    )
    assert await ask(harness, "hello?", person=BOB) == []


async def test_strangers_are_not_answered_in_a_group_and_admins_hear_of_each_once(in_group: UpdateHarness):
    [card] = await ask(in_group, "hi", person=BOB)
    assert (card.lane, card.text) == (str(ADMIN), "“Bob” (6) has asked me something in the group “Family”.")
    assert card.buttons == {"Give access": "stranger:add:6", "Block": "stranger:block:6"}
    assert await ask(in_group, "hello?", person=BOB) == []
    [listed] = await in_group.send_text("/people", person=ADMIN)
    assert listed.text.endswith("\n\nWaiting for access:\nBob · 6 · a minute ago"), "without a code yet"
    assert in_group.turns.requests == []
    assert [row.body for row in await in_group.load_items(sender=BOB)] == [None, None]


async def test_who_asked_in_a_group_gets_their_code_as_soon_as_they_write_alone(in_group: UpdateHarness):
    [_] = await ask(in_group, "hi", person=BOB)
    [reply] = await in_group.send_text("hi", person=BOB)  # admins have their card
    assert "To get access, give an admin this code: " in reply.text


async def test_a_group_that_was_left_for_who_is_blocked_is_asked_about_for_others(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    async with harness.database.transaction() as tx:
        await people.put(tx, BOB, "Bob", "blocked", now=harness.now)
    await harness.access.load(harness.database)
    assert await change_membership(harness, "member", by=BOB) == []
    await change_membership(harness, "left", by=BOB)
    [card] = await change_membership(harness, "member", by=ANNA)
    assert card.text.startswith("Anna added me")


async def test_cards_about_groups_count_among_those_that_strangers_cause(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    cards = []
    for number in range(8):
        chat = {**FAMILY, "id": CHAT - number, "title": f"https://evil.example/{number} \u202egnp.exe"}
        cards += await change_membership(harness, "member", by=BOB, chat=chat)
    assert len(cards) == 5
    assert cards[0].text.startswith("Bob added me to the group “https evil example 0 gnp exe”.")


async def test_admins_are_asked_about_a_group_once_a_day(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    cards = await change_membership(harness, "member", by=BOB)
    for _ in range(3):
        await change_membership(harness, "left", by=BOB)
        cards += await change_membership(harness, "member", by=BOB)
    assert len(cards) == 1
    harness.now += 86_401
    await change_membership(harness, "left", by=BOB)
    harness.now += 86_401
    assert len(await change_membership(harness, "member", by=BOB)) == 1


async def test_a_group_that_somebody_blocked_adds_it_to_is_left_at_once(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        await people.put(tx, BOB, "Bob", "blocked", now=harness.now)
    await harness.access.load(harness.database)
    assert await change_membership(harness, "member", by=BOB) == []
    assert [call["given"] for call in harness.bot.calls_of("leave_chat")] == [(CHAT,)]


async def test_an_anonymous_administrator_counts_as_the_group(in_group: UpdateHarness):
    anonymous = {"from": {"id": 1087968824, "is_bot": True, "first_name": "Group"}, "sender_chat": FAMILY}
    message = in_group.build_message()["message"] | address("hi", chat=FAMILY) | anonymous
    await in_group.store_updates({"message": message})
    await in_group.handle_claimed()
    [request] = in_group.turns.requests
    assert (request.person, request.name) == (CHAT, "Family")


async def test_the_group_itself_is_no_guest_of_an_open_bot(database: Database):
    harness = UpdateHarness(database, mode="open")
    await change_membership(harness, "member", by=BOB)
    anonymous: dict[str, Any] = {
        "from": {"id": 1087968824, "is_bot": True, "first_name": "Group"},
        "sender_chat": FAMILY,
    }
    await ask(harness, "hi", **anonymous)
    await ask(harness, "hi", BOB)
    assert [request.person for request in harness.turns.requests] == [CHAT, BOB]
    async with database.read_transaction() as tx:
        assert [person.id for person in await people.list_people(tx)] == [BOB]


async def test_what_is_for_others_is_not_even_stored(in_group: UpdateHarness):
    known = len(await in_group.load_items())
    await in_group.store_updates(
        in_group.build_message(ANNA, text="lunch?", chat=FAMILY),
        in_group.build_message(ANNA, text="/stop@other_bot", chat=FAMILY),
        in_group.build_message(ANNA, new_chat_title="Home", chat=FAMILY),
    )
    assert len(await in_group.load_items()) == known


async def test_a_request_says_who_asks_and_does_not_repeat_the_mention(in_group: UpdateHarness):
    await in_group.let_in(BOB)
    weather = {"id": 77, "is_bot": True, "first_name": "Weather"}
    quoted = {"message_id": 1, "date": 1, "chat": FAMILY, "from": weather, "text": "Rain."}
    for person, name, text in ((ANNA, "Anna", "when?"), (ANNA, "Ann", "who?"), (BOB, "Anna", "and me?")):
        update = in_group.build_message(person, **address(text), chat=FAMILY)
        update["message"]["from"]["first_name"] = name
        await in_group.store_updates(update)
        await in_group.handle_claimed()
    await ask(in_group, "so?", reply_to_message=quoted)
    await in_group.send_text("hi")
    requests = in_group.turns.requests
    assert [request.speaker for request in requests] == ["Anna", "Anna", "Anna 2", "Anna", ""]
    assert [request.texts[0] for request in requests[:3]] == ["when?", "who?", "and me?"]
    assert "written by Weather]\nRain." in requests[3].texts[0]


async def test_each_topic_is_a_lane_of_its_own(in_group: UpdateHarness):
    await ask(in_group, "hi", message_thread_id=7, is_topic_message=True)
    assert [request.lane for request in in_group.turns.requests] == [Lane(CHAT, 7)]


async def test_a_removed_bot_does_nothing_more_for_the_group(in_group: UpdateHarness):
    await in_group.store_updates(in_group.build_message(ANNA, **address("hi"), chat=FAMILY))
    async with in_group.database.transaction() as tx:
        await inbox.claim(tx, now=in_group.now)
    await in_group.store_updates(in_group.build_message(ANNA, **address("and?"), chat=FAMILY))
    assert await change_membership(in_group, "kicked", by=BOB, old="member") == []
    assert [lane for lane, _ in in_group.turns.stops] == [Lane(CHAT)]
    assert [row.error for row in await in_group.load_items(state="done", shape="text")] == [
        "removed from the group"
    ]
    assert in_group.groups.find_open(CHAT) is None


async def test_a_muted_bot_knows_that_it_cannot_send(in_group: UpdateHarness):
    rights = dict.fromkeys(list_rights(ChatMemberRestricted), False) | {"is_member": True}
    await change_membership(in_group, "restricted", by=ADMIN, old="member", chat=FAMILY, **rights)
    group = in_group.groups.find_open(CHAT)
    assert group is not None
    assert not group.can_send
    in_group.group_sight.sees_all = True
    rights = dict.fromkeys(list_rights(ChatMemberAdministrator), False)
    await change_membership(in_group, "administrator", by=ADMIN, old="member", chat=FAMILY, **rights)
    group = in_group.groups.find_open(CHAT)
    assert group is not None
    assert group.can_send
    assert group.hears_all


@pytest.mark.parametrize("status", ["administrator", "restricted", "kicked"])
async def test_a_membership_is_read_without_rights_that_telegram_does_not_name(
    in_group: UpdateHarness, status: str
):
    await change_membership(in_group, status, by=ADMIN, old="member")
    group = in_group.groups.find(CHAT)
    assert group is not None
    expected = {"administrator": ("in", True), "restricted": ("in", False), "kicked": ("left", True)}
    assert (group.state, group.can_send) == expected[status]
    assert await ask(in_group, "hi") == []
    assert len(in_group.turns.requests) == (status == "administrator")


async def test_a_group_that_becomes_a_supergroup_keeps_what_it_has(in_group: UpdateHarness):
    async with in_group.database.transaction() as tx:
        await notes.add(tx, Lane(CHAT), "Pizza on Friday", author="Anna", person=ANNA, now=1.0)
    new_chat = build_group_chat(-1000000000100, "Family")
    await in_group.store_updates(
        in_group.build_message(ANNA, chat=FAMILY, migrate_to_chat_id=new_chat["id"]),
        in_group.build_message(ANNA, chat=new_chat, migrate_from_chat_id=CHAT),
    )
    assert await in_group.handle_claimed() == []
    async with in_group.database.read_transaction() as tx:
        assert [note.text for note in await notes.list_all(tx, Lane(CHAT))] == ["Pizza on Friday"]
    await in_group.store_updates(in_group.build_message(ANNA, **address("hi"), chat=new_chat))
    await in_group.handle_claimed()
    assert [request.lane for request in in_group.turns.requests] == [Lane(CHAT)]


SUPERGROUP = build_group_chat(-1000000000100, "Family")


async def move_elsewhere(harness: UpdateHarness) -> None:
    """Have another replica note that the group has become a supergroup."""
    async with harness.database.transaction() as tx:
        assert await group_rows.move(tx, CHAT, SUPERGROUP["id"])


async def test_what_comes_from_the_supergroup_before_this_replica_knows_of_it_is_answered(
    in_group: UpdateHarness,
):
    await move_elsewhere(in_group)
    await in_group.store_updates(in_group.build_message(ANNA, **address("hi"), chat=SUPERGROUP))
    assert await in_group.handle_claimed() == []
    await in_group.handle_claimed()
    assert [request.lane for request in in_group.turns.requests] == [Lane(CHAT)]
    async with in_group.database.read_transaction() as tx:
        [group] = await group_rows.list_groups(tx)
    assert (group.chat, group.number, group.state) == (CHAT, SUPERGROUP["id"], "in")


async def test_what_was_written_in_the_supergroup_first_joins_the_group(in_group: UpdateHarness):
    await change_membership(in_group, "member", by=ADMIN, chat=SUPERGROUP)
    await in_group.store_updates(in_group.build_message(ANNA, **address("hi"), chat=SUPERGROUP))
    await move_elsewhere(in_group)
    in_group.groups.move(CHAT, SUPERGROUP["id"])
    await in_group.handle_claimed()
    assert [request.lane for request in in_group.turns.requests] == [Lane(CHAT)]
    async with in_group.database.read_transaction() as tx:
        assert set((await tx.execute(select(outbox.c.lane))).scalars()) == {str(CHAT)}


async def test_the_bot_comes_and_goes_in_the_supergroup_and_not_in_what_it_was(in_group: UpdateHarness):
    await move_elsewhere(in_group)
    in_group.groups.move(CHAT, SUPERGROUP["id"])
    await change_membership(in_group, "left", by=ADMIN, old="member", chat=FAMILY | {"type": "group"})
    assert in_group.groups.can_answer(CHAT)
    for status, state in (("left", "left"), ("member", "in")):
        await change_membership(in_group, status, by=ADMIN, chat=SUPERGROUP)
        group = in_group.groups.find(SUPERGROUP["id"])
        assert group is not None
        assert (group.chat, group.number, group.state) == (CHAT, SUPERGROUP["id"], state)


class SilentTelegram:
    """Does not answer when the bot leaves a group."""

    def __init__(self, left: list[int]) -> None:
        self._left = left

    async def leave_chat(self, chat: int) -> bool:
        self._left.append(chat)
        return False


def build_leave_groups_task(harness: UpdateHarness, left: list[int]) -> LeaveGroupsTask:
    """The task, which notes in `left` what it leaves."""
    calls = cast(BestEffortCalls, SilentTelegram(left))
    return LeaveGroupsTask(harness.database, harness.groups, calls, clock=lambda: harness.now)


async def test_the_bot_leaves_a_group_after_a_day_without_an_answer(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    left = list[int]()

    leave_groups = build_leave_groups_task(harness, left)
    await change_membership(harness, "member", by=ANNA)
    harness.now += 86_000
    await leave_groups()
    assert left == []
    harness.now += 1000
    await leave_groups()
    assert left == [CHAT]


async def test_a_group_is_left_again_for_a_day_unless_the_bot_is_added_again(harness: UpdateHarness):
    left = list[int]()

    leave_groups = build_leave_groups_task(harness, left)
    await harness.let_in(ADMIN, "admin")
    await change_membership(harness, "member", by=ADMIN)
    await harness.tap(f"group:quit:{CHAT}", person=ADMIN)
    for hours in (1, 22):
        harness.now += hours * 3600
        await leave_groups()
    assert left == [CHAT, CHAT]
    harness.now += 2 * 3600
    await leave_groups()
    assert left == [CHAT, CHAT]
    await change_membership(harness, "member", by=ADMIN)
    await harness.tap(f"group:quit:{CHAT}", person=ADMIN)
    await change_membership(harness, "member", by=ADMIN)
    harness.now += 3600
    await leave_groups()
    assert left == [CHAT, CHAT]

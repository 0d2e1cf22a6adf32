"""Who gets in, how strangers are told, and what admins do about people."""

import re

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import inbox as inbox_table
from bot.db.tables import invites
from bot.domain import Lane
from bot.telegram.access import Access
from bot.telegram.rate_limit import RateLimiter
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness

STRANGER = 77


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    front = UpdateHarness(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


def extract_code(sent: SentMessage) -> str:
    (entity,) = sent.entities
    return sent.text[entity["offset"] : entity["offset"] + entity["length"]]


async def test_a_stranger_gets_one_line_with_a_code_and_then_silence(front: UpdateHarness):
    (sent,) = await front.send_text("let me in", person=STRANGER)
    assert (
        sent.text
        == f"This is a private bot. Give an admin this code to be let in: {extract_code(sent)} (good for an hour)."
    )
    assert await front.send_text("hello?", person=STRANGER) == []
    front.now += 11 * 60
    (again,) = await front.send_text("hello??", person=STRANGER)
    assert again.text == "An admin has not let you in yet. The code you have is good for 49 more minutes."
    assert front.turns.requests == []


async def test_what_strangers_and_the_blocked_write_is_not_kept(front: UpdateHarness):
    await front.let_in(BOB, "blocked")
    for person in (STRANGER, BOB):
        await front.send_text("my secret", person=person)
        await front.send_text("/start wrong-code", person=person)
        await front.send_text("/stop", person=person)
    async with front.database.read_transaction() as tx:
        rows = (await tx.execute(select(inbox_table.c.body, inbox_table.c.state))).all()
    assert {tuple(row) for row in rows} == {(None, "done")}


async def test_the_blocked_hear_nothing_not_even_their_number(front: UpdateHarness):
    await front.let_in(BOB, "blocked")
    for text in ("hi", "/id", "/start", "/stop", "/nonsense"):
        assert await front.send_text(text, person=BOB) == []
    assert front.turns.requests == []


async def test_a_stranger_may_ask_for_their_number(front: UpdateHarness):
    (sent,) = await front.send_text("/id", person=STRANGER)
    assert sent.text == "Your number is 77."


@pytest.mark.parametrize("text", ["/start", "/help", "/people", "/stop", "/nonsense", "/new"])
async def test_for_strangers_every_other_command_is_a_knock(front: UpdateHarness, text: str):
    (sent,) = await front.send_text(text, person=STRANGER)
    assert "code" in sent.text


async def test_admins_hear_nothing_of_a_stranger_but_find_them_in_people(front: UpdateHarness):
    assert {one.lane for one in await front.send_text("hi", person=STRANGER)} == {str(STRANGER)}
    front.now += 300
    (listed,) = await front.send_text("/people", person=ADMIN)
    assert "P77 · 77 · 5 min ago" in listed.text
    assert listed.buttons["Let in P77"] == "people:add:77"


async def test_a_code_lets_its_stranger_in_and_greets_them(front: UpdateHarness):
    (sent,) = await front.send_text("hi", person=STRANGER)
    told = await front.send_text(f"/people add {extract_code(sent).lower()}", person=ADMIN)
    assert [(one.lane, one.text.split(".")[0]) for one in told] == [("77", "Hello P77"), ("1", "P77 is in")]
    assert Lane(STRANGER) in front.woken_lanes
    await front.send_text("hello", person=STRANGER)
    assert front.turns.requests[0].person == STRANGER


async def test_an_old_code_lets_nobody_in(front: UpdateHarness):
    (sent,) = await front.send_text("hi", person=STRANGER)
    front.now += 3601
    (told,) = await front.send_text(f"/people add {extract_code(sent)}", person=ADMIN)
    assert told.text.startswith("No stranger has this code.")
    assert front.access.get_role(STRANGER) is None


async def test_somebody_is_let_in_by_number_before_they_ever_wrote(front: UpdateHarness):
    await front.send_text("/people add 77", person=ADMIN)
    assert front.access.get_role(STRANGER) == "member"
    (told,) = await front.send_text("/people add 77", person=ADMIN)
    assert told.text == "Person 77 is in already."


async def test_in_allowlist_mode_a_stranger_is_refused_once_an_hour(database: Database):
    front = UpdateHarness(database, mode="allowlist")
    (sent,) = await front.send_text("hi", person=STRANGER)
    assert (sent.text.startswith("This is a private bot."), extract_code(sent)) == (True, "77")
    assert await front.send_text("hi", person=STRANGER) == []
    front.now += 3601
    assert len(await front.send_text("hi", person=STRANGER)) == 1


async def create_invite(front: UpdateHarness, words: str = "") -> str:
    (sent,) = await front.send_text(f"/invite {words}", person=ADMIN)
    found = re.search(r"https://t\.me/canvas_bot\?start=([A-Za-z0-9_-]{1,64})$", sent.text)
    assert found is not None
    assert "24 hours" in sent.text
    return found[1]


async def test_an_invite_lets_one_person_in_and_admins_hear_of_it(front: UpdateHarness):
    code = await create_invite(front)
    greeting, notice = sorted(
        await front.send_text(f"/start {code}", person=STRANGER), key=lambda sent: sent.silent
    )
    assert (greeting.lane, greeting.text.split(".")[0], len(greeting.buttons)) == ("77", "Hello P77", 3)
    assert (notice.lane, notice.silent, notice.text) == ("1", True, "P77 (77) came in by a link, as member.")
    assert front.access.get_role(STRANGER) == "member"
    (other,) = await front.send_text(f"/start {code}", person=88)
    assert other.text == "This link has been used, or it is too old. Ask for a new one."
    assert front.access.get_role(88) is None


async def test_an_invite_of_an_admin_makes_one_and_shows_them_their_menu(front: UpdateHarness):
    code = await create_invite(front, "admin")
    sent = await front.send_text(f"/start {code}", person=ANNA)
    assert "/invite" in next(one.text for one in sent if one.lane == str(ANNA))
    assert front.access.get_role(ANNA) == "admin"
    (menu,) = front.bot.calls_of("set_my_commands")
    assert menu["scope"].chat_id == ANNA
    assert [command.command for command in menu["given"][0]][-3:] == ["invite", "people", "tools"]


async def test_an_admin_who_opens_a_link_does_not_use_it_up(front: UpdateHarness):
    code = await create_invite(front)
    await front.send_text(f"/start {code}", person=ADMIN)
    await front.send_text(f"/start {code}", person=STRANGER)
    assert front.access.get_role(STRANGER) == "member"


async def test_invite_with_other_words_says_how(front: UpdateHarness):
    (sent,) = await front.send_text("/invite everybody", person=ADMIN)
    assert "/invite admin" in sent.text


async def test_codes_can_be_tried_five_times_an_hour(front: UpdateHarness):
    code = await create_invite(front)
    for _ in range(5):
        (sent,) = await front.send_text("/start wrong", person=STRANGER)
        assert sent.text.startswith("This link")
    (sent,) = await front.send_text(f"/start {code}", person=STRANGER)
    assert "private bot" in sent.text
    for _ in range(5):
        await front.send_text("/start wrong", person=ANNA)
    (sent,) = await front.send_text("/start wrong", person=ANNA)
    assert sent.text.startswith("That were too many")
    front.now += 3601
    await front.send_text(f"/start {code}", person=STRANGER)
    assert front.access.get_role(STRANGER) == "member"


async def test_the_link_of_the_first_run_makes_an_admin(database: Database):
    front = UpdateHarness(database)
    code = await people.create_invite(database, role="admin", minutes=15)
    async with database.read_transaction() as tx:
        front.now = (await tx.execute(select(invites.c.made_at))).scalar_one() + 60
    (greeting,) = [
        one for one in await front.send_text(f"/start {code}", person=STRANGER) if len(one.buttons) == 3
    ]
    assert "You are an admin here" in greeting.text
    assert front.access.get_role(STRANGER) == "admin"


async def test_people_lists_roles_and_has_no_buttons_for_oneself(front: UpdateHarness):
    await front.let_in(BOB, "blocked")
    (sent,) = await front.send_text("/people", person=ADMIN)
    assert sent.text.splitlines() == [
        "People:",
        "Ada · 1 · admin · you",
        "Anna · 5 · member",
        "Bob · 6 · blocked",
    ]
    assert sent.buttons == {
        "Remove Anna": "people:remove:5",
        "Block Anna": "people:block:5",
        "Unblock Bob": "people:remove:6",
    }


async def test_who_is_removed_is_a_stranger_and_what_runs_for_them_ends(front: UpdateHarness):
    item = await front.start_turn()
    toast, _ = await front.tap("people:remove:5", person=ADMIN)
    assert toast == "Anna is out."
    assert front.access.get_role(ANNA) is None
    assert (await front.load_item(item)).stopped
    assert [lane for lane, _ in front.turns.stops] == [Lane(ANNA)]
    assert "Anna" not in front.bot.calls_of("edit_message_text")[0]["given"][0]
    toast, _ = await front.tap("people:remove:5", person=ADMIN)
    assert toast == "Nobody with this number is in."


async def test_who_is_blocked_is_not_heard_until_unblocked(front: UpdateHarness):
    await front.store_updates(front.build_message(text="waits"))
    toast, _ = await front.tap("people:block:5", person=ADMIN)
    assert toast == "Anna is blocked."
    await front.send_text("hi")
    assert await front.send_text("/start") == []
    toast, _ = await front.tap("people:remove:5", person=ADMIN)
    assert toast == "Anna is blocked no more."
    assert "code" in (await front.send_text("hi"))[0].text


async def test_a_stranger_can_be_blocked_from_the_list(front: UpdateHarness):
    await front.send_text("spam", person=STRANGER)
    await front.tap("people:block:77", person=ADMIN)
    front.now += 3601
    assert await front.send_text("spam", person=STRANGER) == []
    async with front.database.read_transaction() as tx:
        assert await people.list_strangers(tx) == []


async def test_the_last_admin_stays(front: UpdateHarness):
    for words in ("remove 1", "block 1"):
        (sent,) = await front.send_text(f"/people {words}", person=ADMIN)
        assert sent.text == "The last admin stays. Make another one first, with /invite admin."
    assert front.access.get_role(ADMIN) == "admin"


async def test_of_two_admins_one_may_go_and_loses_the_menu(front: UpdateHarness):
    await front.let_in(BOB, "admin")
    (sent,) = await front.send_text("/people remove 6", person=ADMIN)
    assert sent.text == "Bob is out."
    assert front.bot.calls_of("delete_my_commands")[0]["scope"].chat_id == BOB
    (sent,) = await front.send_text("/people remove 1", person=ADMIN)
    assert sent.text.startswith("The last admin stays.")


async def test_admins_named_by_the_settings_stay(database: Database):
    front = UpdateHarness(database, configured_admins=frozenset({ADMIN}))
    await front.let_in(BOB, "admin")
    for words in ("remove 1", "block 1"):
        (sent,) = await front.send_text(f"/people {words}", person=BOB)
        assert sent.text == "ADMIN_IDS names this person as an admin; change it there."
    (sent,) = await front.send_text("/people", person=BOB)
    assert "Person 1 · 1 · admin (ADMIN_IDS)" in sent.text
    assert sent.buttons == {}
    (sent,) = await front.send_text("/people remove 6", person=ADMIN)
    assert sent.text == "Bob is out."


@pytest.mark.parametrize("words", ["dance", "block", "block anna", "remove -5", "remove 5 6", "block ٣"])
async def test_people_with_other_words_says_how(front: UpdateHarness, words: str):
    (sent,) = await front.send_text(f"/people {words}", person=ADMIN)
    assert sent.text.startswith("Use /people")


async def test_a_forged_button_of_an_admin_is_too_old(front: UpdateHarness):
    assert await front.tap("people:dance:5", person=ADMIN) == ("This button is too old.", [])
    assert await front.tap("people:block:x", person=ADMIN) == ("This button is too old.", [])


async def test_a_long_list_is_several_messages_and_bounded(front: UpdateHarness):
    for person in range(100, 200):
        await front.let_in(person)
    for person in range(200, 260):
        await front.send_text("hi", person=person)
    sent = await front.send_text("/people", person=ADMIN)
    assert all(len(one.buttons) <= 100 and len(one.text) <= 4096 for one in sent)
    assert "… and 42 more" in "".join(one.text for one in sent)
    assert sum("Let in" in label for one in sent for label in one.buttons) == 50
    toast, _ = await front.tap("people:block:100", person=ADMIN)
    assert toast == "P100 is blocked."
    assert front.bot.calls_of("edit_message_text") == []


async def test_a_guest_of_an_open_bot_can_be_let_in_for_good(database: Database):
    front = UpdateHarness(database, mode="open", configured_admins=frozenset({ADMIN}))
    await front.send_text("hi", person=STRANGER)
    (sent,) = await front.send_text("/people", person=ADMIN)
    assert "P77 · 77 · guest" in sent.text


async def test_an_allowance_forgets_whom_it_has_not_seen_for_long():
    allowance = RateLimiter(max_calls=1, window_seconds=100, max_keys=2)
    assert [allowance.try_acquire(key, 0) for key in ("a", "a", "b", "c", "a")] == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert allowance.try_acquire("c", 99) is False
    assert allowance.try_acquire("c", 100) is True


def test_nobody_is_known_before_anybody_was_let_in():
    access = Access("pairing")
    assert (access.get_role(5), access.list_admins()) == (None, ())
    assert Access("pairing", {7}).list_admins() == (7,)

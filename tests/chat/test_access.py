"""Who gets access, what strangers read, and what admins do about people."""

import re

import pytest
from sqlalchemy import select

from bot.chat.access import Access
from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import inbox as inbox_table
from bot.domain import Lane
from bot.rate_limit import RateLimiter
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness

STRANGER = 77


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


def extract_code(sent: SentMessage) -> str:
    (entity,) = sent.entities
    return sent.text[entity["offset"] : entity["offset"] + entity["length"]]


async def ask(
    harness: UpdateHarness, text: str = "hi", person: int = STRANGER
) -> tuple[SentMessage, list[SentMessage]]:
    """Write as a stranger; return the answer, and the cards that admins get."""
    messages = await harness.send_text(text, person=person)
    [answer] = [message for message in messages if message.lane == str(person)]
    return answer, [message for message in messages if message is not answer]


async def test_a_stranger_gets_one_line_with_a_code_and_then_silence(harness: UpdateHarness):
    sent, _ = await ask(harness, "let me in")
    assert (
        sent.text
        == f"This is a private bot. To get access, give an admin this code: {extract_code(sent)} (valid "
        "for an hour)."
    )
    assert await harness.send_text("hello?", person=STRANGER) == []
    harness.now += 11 * 60
    (again,) = await harness.send_text("hello??", person=STRANGER)
    assert again.text == "You don't have access yet. Your code is valid for another 49 minutes."
    assert harness.turns.requests == []


async def test_what_strangers_and_the_blocked_write_is_not_kept(harness: UpdateHarness):
    await harness.let_in(BOB, "blocked")
    for person in (STRANGER, BOB):
        await harness.send_text("my secret", person=person)
        await harness.send_text("/start wrong-code", person=person)
        await harness.send_text("/stop", person=person)
    async with harness.database.read_transaction() as tx:
        rows = (await tx.execute(select(inbox_table.c.body, inbox_table.c.state))).all()
    assert {tuple(row) for row in rows} == {(None, "done")}


async def test_blocked_people_get_no_answer_not_even_their_number(harness: UpdateHarness):
    await harness.let_in(BOB, "blocked")
    for text in ("hi", "/id", "/start", "/stop", "/nonsense"):
        assert await harness.send_text(text, person=BOB) == []
    assert harness.turns.requests == []


async def test_a_stranger_may_ask_for_their_number(harness: UpdateHarness):
    (sent,) = await harness.send_text("/id", person=STRANGER)
    assert sent.text == "Your Telegram ID is 77."


@pytest.mark.parametrize("text", ["/start", "/help", "/people", "/stop", "/nonsense", "/new"])
async def test_for_strangers_every_other_command_is_a_knock(harness: UpdateHarness, text: str):
    sent, _ = await ask(harness, text)
    assert "code" in sent.text


async def test_admins_get_a_card_about_a_stranger_once_and_find_them_in_people(harness: UpdateHarness):
    await harness.let_in(BOB, "admin")
    await harness.send_text("/language deutsch", person=BOB)
    sent, cards = await ask(harness)
    code = extract_code(sent)
    assert [card.lane for card in cards] == [str(ADMIN), str(BOB)]
    assert [card.text for card in cards] == [
        f"“P77” (77) asks for access, with the code {code}.",
        f"„P77“ (77) bittet um Zugang; der Code ist {code}.",
    ]
    assert all(card.silent for card in cards)
    assert cards[0].buttons == {"Give access": "stranger:add:77", "Block": "stranger:block:77"}
    harness.now += 300
    (listed,) = await harness.send_text("/people", person=ADMIN)
    assert f"P77 · 77 · {code} · 5 minutes ago" in listed.text
    assert listed.buttons["Give P77 access"] == "people:add:77"
    harness.now += 3600
    again, cards = await ask(harness)
    assert (extract_code(again), cards) == (code, [])  # so the card holds good
    harness.now += 3599
    await harness.send_text(code, person=ADMIN)
    assert harness.access.get_role(STRANGER) == "member"


async def test_the_second_admin_who_taps_a_card_sees_what_the_first_one_did(harness: UpdateHarness):
    await harness.let_in(BOB, "admin")
    await ask(harness)
    assert (await harness.tap("stranger:add:77", person=ANNA))[0] == "This button is too old."
    toast, (greeting,) = await harness.tap("stranger:add:77", person=ADMIN)
    assert (toast, greeting.lane) == ("P77 now has access.", str(STRANGER))
    toast, sent = await harness.tap("stranger:block:77", person=BOB)
    assert (toast, sent) == ("P77 got access from Ada.", [])
    assert harness.access.get_role(STRANGER) == "member"
    edits = [call["given"][0] for call in harness.bot.calls_of("edit_message_text")]
    assert edits == ["P77 now has access.", "P77 got access from Ada."]


async def test_a_stranger_is_blocked_by_a_card_and_cards_are_few(harness: UpdateHarness):
    await ask(harness)
    assert (await harness.tap("stranger:block:77", person=ADMIN))[0] == "P77 is blocked."
    assert (await harness.tap("stranger:add:77", person=ADMIN))[0] == "P77 has been blocked by Ada."
    for data in ("stranger:dance:77", "stranger:add:x", "stranger:add"):
        assert (await harness.tap(data, person=ADMIN))[0] == "This button is too old."
    assert (await harness.tap("people:unblock:77", person=ADMIN))[0] == "P77 is no longer blocked."
    toast, (greeting,) = await harness.tap("stranger:add:77", person=ADMIN)  # the card of another admin
    assert toast == "P77 now has access."
    assert greeting.text.startswith("Hello P77.")
    cards = [len((await ask(harness, person=person))[1]) for person in range(100, 107)]
    assert cards == [1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("data", "toast", "role"),
    [
        ("stranger:add:77", "P77 now has access.", "member"),
        ("stranger:block:77", "P77 is blocked.", "blocked"),
    ],
)
async def test_a_guest_of_the_once_open_bot_is_decided_about_by_a_card(
    harness: UpdateHarness, data: str, toast: str, role: str
):
    async with harness.database.transaction() as tx:
        await people.put(tx, STRANGER, "P77", "member", now=harness.now)
    await harness.access.load(harness.database)
    _, (card,) = await ask(harness)
    assert data in card.buttons.values()
    assert (await harness.tap(data, person=ADMIN))[0] == toast
    assert harness.access.get_role(STRANGER) == role


@pytest.mark.parametrize(
    ("data", "role", "toast"),
    [
        ("people:unblock:6", "member", "Bob got access from Ada."),
        ("people:remove:6", "blocked", "Bob has been blocked by Ada."),
        ("people:add:6", "blocked", "Bob has been blocked by Ada."),
    ],
)
async def test_a_button_of_an_old_list_does_not_undo_what_an_admin_did_since(
    harness: UpdateHarness, data: str, role: str, toast: str
):
    await harness.send_text("hi", person=BOB)
    verb = {"member": "add", "blocked": "block"}[role]
    await harness.send_text(f"/people {verb} {BOB}", person=ADMIN)
    assert (await harness.tap(data, person=ADMIN))[0] == toast
    assert harness.access.get_role(BOB) == role


async def test_who_set_a_limit_is_not_taken_for_who_decided(harness: UpdateHarness):
    await harness.let_in(BOB, "admin")
    await ask(harness)
    await harness.tap("stranger:add:77", person=ADMIN)
    for limit in (5, 6):
        await harness.send_text(f"/limits 77 {limit}", person=BOB)
    assert (await harness.tap("stranger:add:77", person=BOB))[0] == "P77 got access from Ada."
    await harness.send_text("/people remove 77", person=ADMIN)
    await harness.send_text("/limits 77 7", person=BOB)
    _, reply = await harness.send_text("/people add 77", person=ADMIN)
    assert reply.text == "P77 now has access."


async def test_an_admin_pastes_a_bare_code(harness: UpdateHarness):
    sent, _ = await ask(harness)
    code = extract_code(sent)
    await harness.send_text(code, person=ANNA)  # a member's message is for the model
    await harness.send_text("ABCDEFGH", person=ADMIN)  # nobody's code
    assert len(harness.turns.requests) == 2
    greeting, reply = await harness.send_text(f" {code.lower()} ", person=ADMIN)
    assert (greeting.lane, reply.text) == (str(STRANGER), "P77 now has access.")
    assert len(harness.turns.requests) == 2


async def test_codes_pasted_together_or_behind_a_text_let_their_strangers_in(harness: UpdateHarness):
    codes = [extract_code((await ask(harness, person=person))[0]) for person in (77, 78)]
    texts = ("Good morning", *codes)
    await harness.store_updates(*(harness.build_message(text=text, person=ADMIN) for text in texts))
    await harness.handle_claimed()
    assert [harness.access.get_role(person) for person in (77, 78)] == ["member", "member"]
    assert [request.texts for request in harness.turns.requests] == [("Good morning",)]


async def test_people_are_removed_and_blocked_by_name(harness: UpdateHarness):
    await harness.let_in(BOB)
    await harness.let_in(8)
    (sent,) = await harness.send_text("/people block bob", person=ADMIN)
    assert sent.text == "Bob is blocked."
    (sent,) = await harness.send_text("/people remove @P8", person=ADMIN)
    assert sent.text == "P8 has been removed."
    (sent,) = await harness.send_text("/people remove P8", person=ADMIN)
    assert sent.text == "Nobody with access is called P8. /people lists names and numbers."


async def test_a_code_lets_its_stranger_in_and_greets_them(harness: UpdateHarness):
    sent, _ = await ask(harness)
    messages = await harness.send_text(f"/people add {extract_code(sent).lower()}", person=ADMIN)
    assert [(message.lane, message.text.split(".")[0]) for message in messages] == [
        ("77", "Hello P77"),
        ("1", "P77 now has access"),
    ]
    assert Lane(STRANGER) in harness.commits.lanes
    await harness.send_text("hello", person=STRANGER)
    assert harness.turns.requests[0].person == STRANGER


async def test_an_old_code_lets_nobody_in(harness: UpdateHarness):
    sent, _ = await ask(harness)
    harness.now += 3601
    (reply,) = await harness.send_text(f"/people add {extract_code(sent)}", person=ADMIN)
    assert reply.text.startswith("Nobody is waiting with this code.")
    assert harness.access.get_role(STRANGER) is None


async def test_somebody_is_let_in_by_number_before_they_ever_wrote(harness: UpdateHarness):
    await harness.send_text("/people add 77", person=ADMIN)
    assert harness.access.get_role(STRANGER) == "member"
    (reply,) = await harness.send_text("/people add 77", person=ADMIN)
    assert reply.text == "Person 77 already has access."


async def test_in_allowlist_mode_a_stranger_is_refused_once_an_hour(database: Database):
    harness = UpdateHarness(database, mode="allowlist")
    (sent,) = await harness.send_text("hi", person=STRANGER)
    assert (sent.text.startswith("This is a private bot."), extract_code(sent)) == (True, "77")
    assert await harness.send_text("hi", person=STRANGER) == []
    harness.now += 3601
    assert len(await harness.send_text("hi", person=STRANGER)) == 1


async def create_invite(harness: UpdateHarness, args: str = "") -> str:
    (sent,) = await harness.send_text(f"/invite {args}", person=ADMIN)
    match = re.search(r"https://t\.me/canvas_bot\?start=([A-Za-z0-9_-]{1,64})$", sent.text)
    assert match is not None
    assert "24 hours" in sent.text
    return match[1]


async def test_an_invite_lets_one_person_in_and_admins_are_notified(harness: UpdateHarness):
    code = await create_invite(harness)
    greeting, notice = sorted(
        await harness.send_text(f"/start {code}", person=STRANGER), key=lambda sent: sent.silent
    )
    assert (greeting.lane, greeting.text.split(".")[0], len(greeting.buttons)) == ("77", "Hello P77", 3)
    assert (notice.lane, notice.silent, notice.text) == (
        "1",
        True,
        "P77 (77) joined with an invite link, as a member.",
    )
    assert harness.access.get_role(STRANGER) == "member"
    (refusal,) = await harness.send_text(f"/start {code}", person=88)
    assert refusal.text == "This link no longer works. Ask an admin for a new one."
    assert harness.access.get_role(88) is None


async def test_an_invite_of_an_admin_makes_one_and_shows_them_their_menu(harness: UpdateHarness):
    code = await create_invite(harness, "admin")
    sent = await harness.send_text(f"/start {code}", person=ANNA)
    assert "/invite" in next(message.text for message in sent if message.lane == str(ANNA))
    assert harness.access.get_role(ANNA) == "admin"
    (menu,) = harness.bot.calls_of("set_my_commands")
    assert menu["scope"].chat_id == ANNA
    assert [command.command for command in menu["given"][0]][-3:] == ["invite", "people", "tools"]


async def test_an_admin_who_opens_a_link_does_not_use_it_up(harness: UpdateHarness):
    code = await create_invite(harness)
    await harness.send_text(f"/start {code}", person=ADMIN)
    await harness.send_text(f"/start {code}", person=STRANGER)
    assert harness.access.get_role(STRANGER) == "member"


async def test_invite_with_other_words_says_how(harness: UpdateHarness):
    (sent,) = await harness.send_text("/invite everybody", person=ADMIN)
    assert "/invite admin" in sent.text


async def test_codes_can_be_tried_five_times_an_hour(harness: UpdateHarness):
    code = await create_invite(harness)
    for _ in range(5):
        (sent,) = await harness.send_text("/start wrong", person=STRANGER)
        assert sent.text.startswith("This link")
    sent, _ = await ask(harness, f"/start {code}")
    assert "private bot" in sent.text
    for _ in range(5):
        await harness.send_text("/start wrong", person=ANNA)
    (sent,) = await harness.send_text("/start wrong", person=ANNA)
    assert sent.text.startswith("That was too many")
    harness.now += 3601
    await harness.send_text(f"/start {code}", person=STRANGER)
    assert harness.access.get_role(STRANGER) == "member"


async def test_the_link_of_the_first_run_makes_an_admin(database: Database):
    harness = UpdateHarness(database)
    async with database.transaction() as tx:
        code = await people.insert_first_admin_invite(tx, now=harness.now - 60)
    (greeting,) = [
        message
        for message in await harness.send_text(f"/start {code}", person=STRANGER)
        if len(message.buttons) == 3
    ]
    assert "You're an admin here" in greeting.text
    assert harness.access.get_role(STRANGER) == "admin"


async def test_people_lists_roles_and_has_no_buttons_for_oneself(harness: UpdateHarness):
    await harness.let_in(BOB, "blocked")
    (sent,) = await harness.send_text("/people", person=ADMIN)
    assert sent.text.splitlines() == [
        "People:",
        "Ada · 1 · admin · you",
        "Anna · 5 · member",
        "Bob · 6 · blocked",
    ]
    assert sent.buttons == {
        "Remove Anna": "people:remove:5",
        "Block Anna": "people:block:5",
        "Unblock Bob": "people:unblock:6",
    }


async def test_a_name_from_right_to_left_does_not_turn_its_line_around(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        await people.put(tx, BOB, "דנה", "member", let_in_by=ADMIN, now=harness.now)
    (sent,) = await harness.send_text("/people", person=ADMIN)
    assert sent.text.splitlines()[-1] == "\u2068דנה\u2069 · 6 · member"
    assert sent.buttons["Block \u2068דנה\u2069"] == "people:block:6"


async def test_who_is_removed_is_a_stranger_and_what_runs_for_them_ends(harness: UpdateHarness):
    item = await harness.start_turn()
    toast, _ = await harness.tap("people:remove:5", person=ADMIN)
    assert toast == "Anna has been removed."
    assert harness.access.get_role(ANNA) is None
    assert (await harness.load_item(item)).stopped
    assert [lane for lane, _ in harness.turns.stops] == [Lane(ANNA)]
    assert "Anna" not in harness.bot.calls_of("edit_message_text")[0]["given"][0]
    toast, _ = await harness.tap("people:remove:5", person=ADMIN)
    assert toast == "Nobody with this Telegram ID has access."


async def test_who_is_blocked_is_not_heard_until_unblocked(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(text="waits"))
    toast, _ = await harness.tap("people:block:5", person=ADMIN)
    assert toast == "Anna is blocked."
    await harness.send_text("hi")
    assert await harness.send_text("/start") == []
    toast, _ = await harness.tap("people:unblock:5", person=ADMIN)
    assert toast == "Anna is no longer blocked."
    assert "code" in (await harness.send_text("hi"))[0].text


async def test_a_stranger_can_be_blocked_from_the_list(harness: UpdateHarness):
    await harness.send_text("spam", person=STRANGER)
    await harness.tap("people:block:77", person=ADMIN)
    harness.now += 3601
    assert await harness.send_text("spam", person=STRANGER) == []
    async with harness.database.read_transaction() as tx:
        assert await people.list_strangers(tx) == []


async def test_the_last_admin_stays(harness: UpdateHarness):
    for args in ("remove 1", "block 1"):
        (sent,) = await harness.send_text(f"/people {args}", person=ADMIN)
        assert sent.text == "This is the last admin. First make another one, with /invite admin."
    assert harness.access.get_role(ADMIN) == "admin"


async def test_of_two_admins_one_may_go_and_loses_the_menu(harness: UpdateHarness):
    await harness.let_in(BOB, "admin")
    for args in ("remove 1", "block 1"):
        (sent,) = await harness.send_text(f"/people {args}", person=ADMIN)
        assert sent.text == "This is you: only another admin can remove or block you."
    (sent,) = await harness.send_text("/people remove 6", person=ADMIN)
    assert sent.text == "Bob has been removed."
    assert harness.bot.calls_of("delete_my_commands")[0]["scope"].chat_id == BOB
    (sent,) = await harness.send_text("/people remove 1", person=ADMIN)
    assert sent.text.startswith("This is the last admin.")


async def test_admins_named_by_the_settings_stay(database: Database):
    harness = UpdateHarness(database, configured_admins=frozenset({ADMIN}))
    await harness.let_in(BOB, "admin")
    for args in ("remove 1", "block 1"):
        (sent,) = await harness.send_text(f"/people {args}", person=BOB)
        assert sent.text == "This person is an admin through the setting ADMIN_IDS; change it there."
    (sent,) = await harness.send_text("/people", person=BOB)
    assert "Person 1 · 1 · admin (ADMIN_IDS)" in sent.text
    assert sent.buttons == {}
    (sent,) = await harness.send_text("/people remove 6", person=ADMIN)
    assert sent.text == "Bob has been removed."


@pytest.mark.parametrize("args", ["dance", "block", "remove ", "dance Anna"])
async def test_people_with_other_words_says_how(harness: UpdateHarness, args: str):
    (sent,) = await harness.send_text(f"/people {args}", person=ADMIN)
    assert sent.text.startswith("/people lists")


@pytest.mark.parametrize("name", ["nobody", "-5", "5 6", "٣", "x" * 4000])
async def test_a_name_that_nobody_has_is_said(harness: UpdateHarness, name: str):
    (sent,) = await harness.send_text(f"/people block {name}", person=ADMIN)
    assert sent.text == f"Nobody with access is called {name[:40]}. /people lists names and numbers."


async def test_a_forged_button_of_an_admin_is_too_old(harness: UpdateHarness):
    assert await harness.tap("people:dance:5", person=ADMIN) == ("This button is too old.", [])
    assert await harness.tap("people:block:x", person=ADMIN) == ("This button is too old.", [])


async def test_a_long_list_is_several_messages_and_bounded(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        for person in range(100, 200):
            await people.put(tx, person, f"P{person}", "member", let_in_by=ADMIN, now=harness.now)
    await harness.access.load(harness.database)
    for person in range(200, 260):
        await harness.send_text("hi", person=person)
    sent = await harness.send_text("/people", person=ADMIN)
    assert all(len(message.buttons) <= 100 and len(message.text) <= 4096 for message in sent)
    assert "… and 42 more" in "".join(message.text for message in sent)
    assert sum(label.startswith("Give ") for message in sent for label in message.buttons) == 50
    toast, _ = await harness.tap("people:block:100", person=ADMIN)
    assert toast == "P100 is blocked."
    assert harness.bot.calls_of("edit_message_text") == []


async def test_a_guest_of_an_open_bot_can_be_let_in_for_good(database: Database):
    harness = UpdateHarness(database, mode="open", configured_admins=frozenset({ADMIN}))
    await harness.send_text("hi", person=STRANGER)
    (sent,) = await harness.send_text("/people", person=ADMIN)
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

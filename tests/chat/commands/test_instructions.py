"""/instructions: its bounds, who may change what, and buttons that are tapped late."""

import pytest

from bot.db.conversations import conversations, instructions
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.instructions import MAX_CHARACTERS, MAX_PERSONAS, Instructions
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.domain import Lane
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness

LANE = Lane(ANNA)


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


async def say(harness: UpdateHarness, text: str, person: int = ANNA) -> str:
    """Write a command; return the reply."""
    [reply] = await harness.send_text(text, person)
    return reply.text


async def find(harness: UpdateHarness, lane: Lane = LANE) -> Instructions:
    async with harness.database.read_transaction() as tx:
        return await instructions.find(tx, lane)


async def test_a_text_of_a_thousand_characters_is_taken_and_a_longer_one_is_not(harness: UpdateHarness):
    [too_long] = await harness.send_text(f"/instructions {'x' * (MAX_CHARACTERS + 1)}")
    assert too_long.text == "That's 1,001 characters; the limit is 1,000. Please shorten it."
    assert (await find(harness)).text == ""
    [taken] = await harness.send_text(f"/instructions {'x' * MAX_CHARACTERS}")
    assert taken.text == "From your next message on, I'll follow this in every answer here."
    assert (await find(harness)).text == "x" * MAX_CHARACTERS
    [shown] = await harness.send_text("/instructions")
    assert shown.text.endswith("x" * MAX_CHARACTERS)


async def test_a_button_removes_only_the_text_it_was_shown_with(harness: UpdateHarness):
    await harness.send_text("/instructions one")
    [shown] = await harness.send_text("/instructions")
    harness.now += 1
    await harness.send_text("/instructions two")
    await harness.tap(shown.buttons["Remove"])
    assert (await find(harness)).text == "two"
    for data in ("instructions:", "instructions:x", "instructions:" + "9" * 40):
        await harness.tap(data)
    [shown] = await harness.send_text("/instructions")
    await harness.tap(shown.buttons["Remove"])
    assert (await find(harness)) == Instructions()
    await harness.tap(shown.buttons["Remove"])  # twice
    await harness.tap("instructions:")


async def test_a_conversation_that_has_not_begun_needs_no_new_one(harness: UpdateHarness):
    async with harness.database.transaction() as tx:
        await conversations.begin(tx, LANE, Conversation(), ())
    [asked] = await harness.send_text("/instructions one")
    assert list(asked.buttons) == ["Start it"]
    async with harness.database.transaction() as tx:
        await conversations.start_new(tx, LANE)
    [told] = await harness.send_text("/instructions two")
    assert not told.buttons


async def test_the_text_of_a_topic_comes_before_its_groups_and_both_move_with_it(database: Database):
    async with database.transaction() as tx:
        await instructions.put(tx, Lane(-5), "of all", person=1, now=1.0)
        await instructions.put(tx, Lane(-5, 2), "of one", person=1, now=2.0)
        assert await instructions.find(tx, Lane(-5, 2)) == Instructions("of one", 2.0)
        assert await instructions.find(tx, Lane(-5, 3)) == Instructions("of all", 1.0, is_inherited=True)
        assert await instructions.find(tx, Lane(-50)) == Instructions()
        await groups.put(tx, Group(-5, "Family", "in", 1.0))
        await instructions.put(tx, Lane(-1005), "of the supergroup", person=1, now=3.0)
        await instructions.put(tx, Lane(-1005, 4), "of its topic", person=1, now=4.0)
        await groups.move(tx, -5, -1005)
        assert await instructions.find(tx, Lane(-5)) == Instructions("of all", 1.0)
        assert await instructions.find(tx, Lane(-5, 4)) == Instructions("of its topic", 4.0)
        assert await instructions.find(tx, Lane(-1005)) == Instructions()


async def test_admins_name_ten_personas_at_most_and_replace_and_delete_them(harness: UpdateHarness):
    assert await say(harness, "/instructions save Tutor Ask.", ADMIN) == (
        "Saved. /instructions offers Tutor to everybody."
    )
    too_long = await say(harness, f"/instructions save Poet {'x' * 1001}", ADMIN)
    assert too_long == "That's 1,001 characters; the limit is 1,000. Please shorten it."
    for number in range(1, MAX_PERSONAS):
        await say(harness, f"/instructions save P{number} Rhyme\nin lines.", ADMIN)
    full = (
        "There are already 10 personas, the most there can be. "
        "Delete one first, with /instructions delete NAME: Tutor, P1, P2,"
    )
    assert (await say(harness, "/instructions save More Sing.", ADMIN)).startswith(full)
    replaced = await say(harness, "/instructions save TUTOR Only ask.", ADMIN)
    assert replaced == "Saved. /instructions offers Tutor to everybody."
    assert (await say(harness, "/instructions delete Nobody", ADMIN)).startswith(
        "There is no persona called Nobody. Choose from: Tutor, P1, P2,"
    )
    assert (await say(harness, "/instructions delete p1", ADMIN)).startswith("I've deleted P1.")
    async with harness.database.read_transaction() as tx:
        stored = await instructions.list_personas(tx)
    assert [(stored[0].name, stored[0].text), len(stored)] == [("Tutor", "Only ask."), MAX_PERSONAS - 1]


async def test_only_a_name_that_is_there_makes_instructions_a_persona(harness: UpdateHarness):
    for words in ("use Tutor", "save Tutor Ask.", "delete Tutor"):
        await say(harness, f"/instructions {words}")
        assert (await find(harness)).text == words  # Anna is no admin, and no persona is there
    await say(harness, "/instructions save Tutor Ask.", ADMIN)
    for words in ("use short sentences", "use emojis", "delete tutor"):
        await say(harness, f"/instructions {words}")
        assert (await find(harness)).text == words
    assert await say(harness, "/instructions use Tutr") == (
        "There is no persona called Tutr. Choose from: Tutor."
    )
    assert await say(harness, "/instructions use tutor") == "I'll answer as Tutor from your next message on."
    assert await find(harness) == Instructions("Ask.", harness.now, persona="Tutor")


async def test_a_persona_is_left_as_easily_and_the_own_text_counts_again(harness: UpdateHarness):
    await say(harness, "/instructions save Tutor Ask.", ADMIN)
    [shown] = await harness.send_text("/instructions")
    for _ in range(5):
        await harness.tap(shown.buttons["Tutor"])
    [used] = await harness.send_text("/instructions")
    assert (used.text, list(used.buttons)) == ("I answer here as Tutor:\n\nAsk.", ["Remove"])
    await harness.tap(used.buttons["Remove"])
    assert await find(harness) == Instructions()
    await say(harness, "/instructions be kind")
    await harness.tap(shown.buttons["Tutor"])
    [used] = await harness.send_text("/instructions")
    await harness.tap(used.buttons["Remove"])
    assert (await find(harness)).text == "be kind"
    await harness.tap(shown.buttons["Tutor"])
    await say(harness, "/instructions delete Tutor", ADMIN)
    assert (await find(harness)).text == "be kind"
    assert (await harness.tap(shown.buttons["Tutor"]))[0] == "This persona no longer exists."
    for data in ("instructions:use:", "instructions:use:x", "instructions:use:" + "9" * 40):
        assert (await harness.tap(data))[0] == "This persona no longer exists."


async def test_in_a_group_its_administrators_choose_the_persona(harness: UpdateHarness):
    group = Group(-5, "Family", "in", 1.0)
    async with harness.database.transaction() as tx:
        await groups.put(tx, group)
        await instructions.put_persona(tx, "Tutor", "Ask.")
    harness.groups.remember(group)
    chat = {"id": -5, "type": "supergroup", "title": "Family"}

    async def write(text: str, person: int) -> str:
        entities = [{"type": "bot_command", "offset": 0, "length": len("/instructions")}]
        [reply] = await harness.send_text(text, person, chat=chat, entities=entities)
        return reply.text

    refusal = "Only administrators of this group can change my instructions here."
    assert await write("/instructions use Tutor", ANNA) == refusal
    harness.administrators.people.add(ANNA)
    assert (await write("/instructions use Tutor", ANNA)).startswith("I'll answer as Tutor")
    assert await find(harness, Lane(-5, 3)) == Instructions("Ask.", harness.now, True, "Tutor")

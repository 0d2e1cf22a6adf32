"""/instructions: its bounds, who may change what, and buttons that are tapped late."""

import pytest

from bot.db.conversations import conversations, instructions
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.instructions import MAX_CHARACTERS, Instructions
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.domain import Lane
from tests.support.update_harness import ANNA, UpdateHarness

LANE = Lane(ANNA)


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    return harness


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

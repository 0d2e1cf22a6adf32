"""The buttons of /find show an exchange of their own chat only, as long as it is kept."""

from sqlalchemy import update

from bot.db.engine import Database
from bot.db.tables import turns
from tests.support.update_harness import ANNA, BOB, UpdateHarness


async def test_a_button_shows_an_exchange_of_its_own_chat_only_and_as_long_as_it_is_kept(database: Database):
    harness = UpdateHarness(database)
    for person in (ANNA, BOB):
        await harness.let_in(person)
    turn = await harness.store_answered_turn("hi")
    assert (await harness.tap(f"found:{turn}", person=BOB))[0] == "I no longer have this."
    assert not (await harness.tap(f"found:{turn}"))[0]
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="forgotten"))
    assert (await harness.tap(f"found:{turn}"))[0] == "I no longer have this."
    assert (await harness.tap("found:x"))[0] == "This button is too old."

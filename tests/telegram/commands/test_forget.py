"""/forget asks first, says what goes and what stays, and does nothing for a button it has never shown."""

from bot.db.engine import Database
from bot.telegram.actions import BUTTON_EXPIRED
from tests.support.update_harness import ANNA, UpdateHarness


async def test_it_asks_and_says_what_goes_and_what_stays(database: Database):
    front = UpdateHarness(database)
    await front.let_in(ANNA)
    (sent,) = await front.send_text("/forget")
    assert sent.buttons == {"Forget it all": "forget:yes", "Keep it": "forget:no"}
    assert "all notes" in sent.text
    assert "figures without words" in sent.text
    assert "There is no copy of my database" in sent.text
    assert await front.load_items(kind="house") == []


async def test_each_topic_is_forgotten_by_a_job_of_its_own_and_one_of_them_tells(database: Database):
    front = UpdateHarness(database)
    await front.let_in(ANNA)
    await front.store_updates(
        front.build_message(text="hi", message_thread_id=3, is_topic_message=True, person=ANNA)
    )
    toast, _ = await front.tap("forget:yes")
    assert toast == "I forget this chat."
    jobs = await front.load_items(kind="house")
    assert [(job.lane, '"tell": true' in job.body) for job in jobs] == [
        (str(ANNA), True),
        (f"{ANNA}:3", False),
    ]
    assert (await front.tap("forget:yes"))[0] == "I am at it."
    assert len(await front.load_items(kind="house")) == 2


async def test_a_button_that_was_never_shown_is_too_old(database: Database):
    front = UpdateHarness(database)
    await front.let_in(ANNA)
    assert (await front.tap("forget:maybe"))[0] == BUTTON_EXPIRED.toast

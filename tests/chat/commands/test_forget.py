"""/forget asks first, says what goes and what stays, and does nothing for a button it has never shown."""

from bot.db.engine import Database
from tests.support.update_harness import ANNA, UpdateHarness


async def test_it_asks_and_says_what_goes_and_what_stays(database: Database):
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    (sent,) = await harness.send_text("/forget")
    assert sent.buttons == {"Forget it all": "forget:yes", "Keep it": "forget:no"}
    assert "all notes" in sent.text
    assert "statistics without text" in sent.text
    assert "I don't have backups of this" in sent.text
    assert await harness.load_items(kind="system") == []


async def test_each_topic_is_forgotten_by_its_own_job_and_one_of_them_reports(database: Database):
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    await harness.store_updates(
        harness.build_message(text="hi", message_thread_id=3, is_topic_message=True, person=ANNA)
    )
    toast, _ = await harness.tap("forget:yes")
    assert toast == "I'm forgetting this chat."
    jobs = await harness.load_items(kind="system")
    assert [(job.lane, '"tell": true' in job.body) for job in jobs] == [
        (str(ANNA), True),
        (f"{ANNA}:3", False),
    ]
    assert (await harness.tap("forget:yes"))[0] == "I'm already deleting it."
    assert len(await harness.load_items(kind="system")) == 2


async def test_a_button_that_was_never_shown_is_too_old(database: Database):
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    assert (await harness.tap("forget:maybe"))[0] == "This button is too old."

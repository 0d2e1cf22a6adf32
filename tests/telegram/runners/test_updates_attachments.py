"""What is done about messages that something came with: fetched once, in an album together, or one line."""

from typing import Any

import pytest
from sqlalchemy import update as update_rows

from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tables import inbox as inbox_table
from tests.support import attachment_files as made
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    front = UpdateHarness(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


VIDEO = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 1}


async def test_a_kind_not_read_yet_is_answered_each_time(front: UpdateHarness):
    for _ in range(2):
        await front.store_updates(front.build_message(video=VIDEO))
        (sent,) = await front.handle_claimed()
        assert sent.text == "I cannot read videos yet. Please write it to me as text."


async def test_an_album_of_what_cannot_be_read_is_answered_once(front: UpdateHarness):
    answers = []
    for _ in range(3):
        await front.store_updates(front.build_message(video=VIDEO, media_group_id="m1"))
        answers += await front.handle_claimed()
    assert len(answers) == 1
    assert {row.state for row in await front.load_items()} == {"done"}


def build_photo(file: str = "p") -> list[dict[str, Any]]:
    return [{"file_id": file, "file_unique_id": file, "width": 64, "height": 48}]


async def test_an_album_waits_for_its_last_photo_and_is_one_message(front: UpdateHarness):
    front.downloader.files = {"a": made.make_image(), "b": made.make_image(form="PNG")}
    await front.store_updates(
        front.build_message(photo=build_photo("a"), media_group_id="m1", caption="Which?")
    )
    assert await front.handle_claimed() == []
    front.now += 0.9
    await front.store_updates(front.build_message(photo=build_photo("b"), media_group_id="m1"))
    front.now += 0.9
    assert await front.handle_claimed() == []
    front.now += 0.2
    await front.handle_claimed()
    (ask,) = front.turns.requests
    assert (ask.texts, len(ask.items), len(ask.sent_at)) == (("Which?",), 2, 1)
    assert [[one.kind for one in several] for several in ask.attachments] == [["image", "image"]]


async def test_what_telegram_does_not_have_is_one_line_and_no_turn(front: UpdateHarness):
    await front.store_updates(front.build_message(photo=build_photo()))
    (sent,) = await front.handle_claimed()
    assert (
        sent.text == "I could not use your photo: Telegram does not have it any more; please send it again."
    )
    assert front.turns.requests == []
    assert [row.state for row in await front.load_items()] == ["done"]


async def test_a_text_that_waits_with_it_is_answered(front: UpdateHarness):
    await front.store_updates(front.build_message(photo=build_photo()), front.build_message(text="See?"))
    assert await front.handle_claimed() == []
    (ask,) = front.turns.requests
    assert ask.texts[0].startswith(
        "[data: photo]\n(photo not shown to you: Telegram does not have it any more"
    )
    assert (ask.texts[1], ask.attachments, ask.preface) == ("See?", ((), ()), "")


async def test_an_empty_caption_is_nothing_to_answer(front: UpdateHarness):
    await front.store_updates(front.build_message(photo=build_photo(), caption=" \n"))
    (sent,) = await front.handle_claimed()
    assert sent.text.startswith("I could not use your photo")


async def test_what_is_known_before_is_said_before_the_answer_too(front: UpdateHarness):
    sent_at = front.now
    front.now += 3 * 3600
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    old = {"date": int(sent_at)}
    await front.store_updates(
        front.build_message(voice=voice, **old), front.build_message(text="Well?", **old)
    )
    await front.handle_claimed()
    (ask,) = front.turns.requests
    late, known = ask.preface.split("\n\n")[:2]
    assert "3 hours ago" in late
    assert (
        known
        == "(I could not use your voice message: sound is not understood here; please write it as text.)"
    )
    assert front.downloader.fetched_ids == []


async def test_nothing_is_fetched_again_once_the_turn_has_begun(front: UpdateHarness):
    front.downloader.files = {"p": made.make_image()}
    (item,) = await front.store_updates(front.build_message(photo=build_photo(), caption="Look"))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=front.now)
    await front.handle_claimed()
    assert front.downloader.fetched_ids == []
    assert len(front.turns.requests) == 1


async def test_a_turn_that_has_begun_goes_on_though_what_came_with_it_would_be_refused_now(
    front: UpdateHarness,
):
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    (item,) = await front.store_updates(front.build_message(voice=voice))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=front.now)
    assert await front.handle_claimed() == []
    assert len(front.turns.requests) == 1


async def test_what_was_not_fetched_before_a_restart_is_fetched_after_it(front: UpdateHarness):
    front.downloader.files = {"p": made.make_image()}
    await front.store_updates(front.build_message(photo=build_photo(), caption="Look"))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await inbox.recover(tx, now=front.now)
    await front.handle_claimed()
    assert front.downloader.fetched_ids == ["p"]
    assert front.turns.requests[0].attachment_count == 1


async def test_a_stop_before_anything_is_fetched_ends_the_turn_with_what_was_written(front: UpdateHarness):
    front.turns.handle.stop()
    await front.store_updates(front.build_message(photo=build_photo(), caption="Look"))
    await front.handle_claimed()
    (ask,) = front.turns.requests
    assert ask.texts[0].endswith(
        "(photo not shown to you: it was not fetched, for the turn was stopped)\n[end of data]\nLook"
    )
    assert (front.downloader.fetched_ids, ask.attachment_count) == ([], 0)

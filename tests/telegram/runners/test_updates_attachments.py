"""What is done about messages that something came with: fetched once, in an album together, or one line."""

from typing import Any

import pytest
from sqlalchemy import update as update_rows

from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tables import inbox as inbox_table
from tests.support import attachment_files as made
from tests.support.update_harness import ADMIN, ANNA, Front


@pytest.fixture
async def front(database: Database) -> Front:
    front = Front(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


VIDEO = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 1}


async def test_a_kind_not_read_yet_is_answered_each_time(front: Front):
    for _ in range(2):
        await front.store(front.message(video=VIDEO))
        (sent,) = await front.handle()
        assert sent.text == "I cannot read videos yet. Please write it to me as text."


async def test_an_album_of_what_cannot_be_read_is_answered_once(front: Front):
    answers = []
    for _ in range(3):
        await front.store(front.message(video=VIDEO, media_group_id="m1"))
        answers += await front.handle()
    assert len(answers) == 1
    assert {row.state for row in await front.items()} == {"done"}


def photo(file: str = "p") -> list[dict[str, Any]]:
    return [{"file_id": file, "file_unique_id": file, "width": 64, "height": 48}]


async def test_an_album_waits_for_its_last_photo_and_is_one_message(front: Front):
    front.files.kept = {"a": made.image(), "b": made.image(form="PNG")}
    await front.store(front.message(photo=photo("a"), media_group_id="m1", caption="Which?"))
    assert await front.handle() == []
    front.now += 0.9
    await front.store(front.message(photo=photo("b"), media_group_id="m1"))
    front.now += 0.9
    assert await front.handle() == []
    front.now += 0.2
    await front.handle()
    (ask,) = front.turns.asks
    assert (ask.texts, len(ask.items), len(ask.sent)) == (("Which?",), 2, 1)
    assert [[one.kind for one in several] for several in ask.attachments] == [["image", "image"]]


async def test_what_telegram_does_not_have_is_one_line_and_no_turn(front: Front):
    await front.store(front.message(photo=photo()))
    (sent,) = await front.handle()
    assert (
        sent.text == "I could not use your photo: Telegram does not have it any more; please send it again."
    )
    assert front.turns.asks == []
    assert [row.state for row in await front.items()] == ["done"]


async def test_a_text_that_waits_with_it_is_answered(front: Front):
    await front.store(front.message(photo=photo()), front.message(text="See?"))
    assert await front.handle() == []
    (ask,) = front.turns.asks
    assert ask.texts[0].startswith(
        "[data: photo]\n(photo not shown to you: Telegram does not have it any more"
    )
    assert (ask.texts[1], ask.attachments, ask.preface) == ("See?", ((), ()), "")


async def test_an_empty_caption_is_nothing_to_answer(front: Front):
    await front.store(front.message(photo=photo(), caption=" \n"))
    (sent,) = await front.handle()
    assert sent.text.startswith("I could not use your photo")


async def test_what_is_known_before_is_said_before_the_answer_too(front: Front):
    sent_at = front.now
    front.now += 3 * 3600
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    old = {"date": int(sent_at)}
    await front.store(front.message(voice=voice, **old), front.message(text="Well?", **old))
    await front.handle()
    (ask,) = front.turns.asks
    late, known = ask.preface.split("\n\n")[:2]
    assert "3 hours ago" in late
    assert (
        known
        == "(I could not use your voice message: sound is not understood here; please write it as text.)"
    )
    assert front.files.fetched == []


async def test_nothing_is_fetched_again_once_the_turn_has_begun(front: Front):
    front.files.kept = {"p": made.image()}
    (item,) = await front.store(front.message(photo=photo(), caption="Look"))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=front.now)
    await front.handle()
    assert front.files.fetched == []
    assert len(front.turns.asks) == 1


async def test_a_turn_that_has_begun_goes_on_though_what_came_with_it_would_be_refused_now(front: Front):
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    (item,) = await front.store(front.message(voice=voice))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=front.now)
    assert await front.handle() == []
    assert len(front.turns.asks) == 1


async def test_what_was_not_fetched_before_a_restart_is_fetched_after_it(front: Front):
    front.files.kept = {"p": made.image()}
    await front.store(front.message(photo=photo(), caption="Look"))
    async with front.database.transaction() as tx:
        await inbox.claim(tx, now=front.now)
        await inbox.recover(tx, now=front.now)
    await front.handle()
    assert front.files.fetched == ["p"]
    assert front.turns.asks[0].attached == 1


async def test_a_stop_before_anything_is_fetched_ends_the_turn_with_what_was_written(front: Front):
    front.turns.running.stop()
    await front.store(front.message(photo=photo(), caption="Look"))
    await front.handle()
    (ask,) = front.turns.asks
    assert ask.texts[0].endswith(
        "(photo not shown to you: it was not fetched, for the turn was stopped)\n[end of data]\nLook"
    )
    assert (front.files.fetched, ask.attached) == ([], 0)

"""What is done about messages that something came with: fetched once, in an album together, or one line."""

from typing import Any

import pytest
from sqlalchemy import update as update_rows

from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.tables import inbox as inbox_table
from bot.telegram.incoming.attachment_loader import NO_FRAME
from bot.translations.translator import load_translator
from tests.support import attachment_files
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


VIDEO = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 34}
NO_FRAME_SAID = load_translator("en")(NO_FRAME)
STORY = {"chat": {"id": -1, "type": "channel"}, "id": 1}


async def test_a_kind_not_read_yet_is_answered_each_time(harness: UpdateHarness):
    for _ in range(2):
        await harness.store_updates(harness.build_message(story=STORY))
        (sent,) = await harness.handle_claimed()
        assert sent.text == "I can't read this kind of message yet. Please type it."


async def test_an_album_of_videos_is_answered_once(harness: UpdateHarness):
    for _ in range(3):
        await harness.store_updates(harness.build_message(video=VIDEO, media_group_id="m1"))
    harness.now += 1.1
    (sent,) = await harness.handle_claimed()
    assert sent.text == f"I couldn't use 3 of your videos: {NO_FRAME_SAID}."
    assert {row.state for row in await harness.load_items()} == {"done"}


@pytest.mark.parametrize("kind", ["video", "animation"])
async def test_the_caption_of_a_video_is_answered_and_that_no_frame_of_it_came_is_said(
    harness: UpdateHarness, kind: str
):
    message: dict[str, Any] = {kind: VIDEO | {"file_size": 2 << 30}, "caption": "Is it safe?"}
    await harness.store_updates(harness.build_message(**message))
    assert await harness.handle_claimed() == []
    (request,) = harness.turns.requests
    noun = "GIF" if kind == "animation" else "video"
    (text,) = request.texts
    assert text == (
        f"[data: {noun}, 34 s]\n({noun} not shown to you: {NO_FRAME})\n[end of data]\nIs it safe?"
    )
    assert request.preface == f"(I couldn't use your {noun}: {NO_FRAME_SAID}.)\n\n"


def build_photo(file: str = "p") -> list[dict[str, Any]]:
    return [{"file_id": file, "file_unique_id": file, "width": 64, "height": 48}]


async def test_an_album_waits_for_its_last_photo_and_is_one_message(harness: UpdateHarness):
    harness.downloader.files = {
        "a": attachment_files.make_image(),
        "b": attachment_files.make_image(image_format="PNG"),
    }
    await harness.store_updates(
        harness.build_message(photo=build_photo("a"), media_group_id="m1", caption="Which?")
    )
    assert await harness.handle_claimed() == []
    harness.now += 0.9
    await harness.store_updates(harness.build_message(photo=build_photo("b"), media_group_id="m1"))
    harness.now += 0.9
    assert await harness.handle_claimed() == []
    harness.now += 0.2
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    assert (request.texts, len(request.items), len(request.sent_at)) == (("Which?",), 2, 1)
    assert [[attachment.kind for attachment in attachments] for attachments in request.attachments] == [
        ["image", "image"]
    ]


async def test_what_telegram_does_not_have_is_one_line_and_no_turn(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(photo=build_photo()))
    (sent,) = await harness.handle_claimed()
    assert sent.text == "I couldn't use your photo: Telegram no longer has it; please send it again."
    assert harness.turns.requests == []
    assert [row.state for row in await harness.load_items()] == ["done"]


async def test_a_text_that_waits_with_it_is_answered(harness: UpdateHarness):
    await harness.store_updates(
        harness.build_message(photo=build_photo()), harness.build_message(text="See?")
    )
    assert await harness.handle_claimed() == []
    (request,) = harness.turns.requests
    assert request.texts[0].startswith(
        "[data: photo]\n(photo not shown to you: Telegram does not have it any more"
    )
    assert (request.texts[1], request.attachments) == ("See?", ((), ()))
    assert request.preface.startswith("(I couldn't use your photo: Telegram no longer has it")


async def test_an_empty_caption_is_nothing_to_answer(harness: UpdateHarness):
    await harness.store_updates(harness.build_message(photo=build_photo(), caption=" \n"))
    (sent,) = await harness.handle_claimed()
    assert sent.text.startswith("I couldn't use your photo")


async def test_what_is_rejected_before_a_download_is_named_before_the_answer_too(harness: UpdateHarness):
    sent_at = harness.now
    harness.now += 3 * 3600
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    old = {"date": int(sent_at)}
    await harness.store_updates(
        harness.build_message(voice=voice, **old), harness.build_message(text="Well?", **old)
    )
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    late, unusable = request.preface.split("\n\n")[:2]
    assert "3 hours ago" in late
    assert (
        unusable
        == "(I couldn't use your voice message: I can't listen to audio here; please write it as text.)"
    )
    assert harness.downloader.fetched_ids == []


async def test_nothing_is_fetched_again_once_the_turn_has_begun(harness: UpdateHarness):
    harness.downloader.files = {"p": attachment_files.make_image()}
    (item,) = await harness.store_updates(harness.build_message(photo=build_photo(), caption="Look"))
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=harness.now)
    await harness.handle_claimed()
    assert harness.downloader.fetched_ids == []
    assert len(harness.turns.requests) == 1


async def test_a_turn_that_has_begun_continues_though_its_attachments_would_be_refused_now(
    harness: UpdateHarness,
):
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 9}
    (item,) = await harness.store_updates(harness.build_message(voice=voice))
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)
        await tx.execute(update_rows(inbox_table).where(inbox_table.c.id == item).values(turn=1))
        await inbox.recover(tx, now=harness.now)
    assert await harness.handle_claimed() == []
    assert len(harness.turns.requests) == 1


async def test_what_was_not_fetched_before_a_restart_is_fetched_after_it(harness: UpdateHarness):
    harness.downloader.files = {"p": attachment_files.make_image()}
    await harness.store_updates(harness.build_message(photo=build_photo(), caption="Look"))
    async with harness.database.transaction() as tx:
        await inbox.claim(tx, now=harness.now)
        await inbox.recover(tx, now=harness.now)
    await harness.handle_claimed()
    assert harness.downloader.fetched_ids == ["p"]
    assert harness.turns.requests[0].attachment_count == 1


async def test_a_stop_before_anything_is_fetched_ends_the_turn_with_what_was_written(harness: UpdateHarness):
    harness.turns.handle.stop()
    await harness.store_updates(harness.build_message(photo=build_photo(), caption="Look"))
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    assert request.texts[0].endswith(
        "(photo not shown to you: it was not fetched, for the turn was stopped)\n[end of data]\nLook"
    )
    assert (harness.downloader.fetched_ids, request.attachment_count) == ([], 0)

"""Files on their way: what is uploaded, what is refused as a photo, and what a kill leaves."""

import time
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from bot.attachments.outgoing_files import plan_file_parts, prepare_file
from bot.db.maintenance import retention
from bot.db.queues import outbox, outbox_files
from bot.db.queues.outbox import UNSURE_TEXT
from bot.db.tables import outbox as outbox_table
from bot.db.tables import outbox_files as files_table
from bot.domain import Lane, OutgoingFile, Part
from bot.telegram.delivery.sender import Sender
from bot.translations.translator import ENGLISH
from tests.support.attachment_files import make_image
from tests.support.delivery_harness import ANN, GENEROUS_LIMITS, DeliveryHarness
from tests.support.sql_trace import trace_sql
from tests.support.telegram.server import BotApiFault
from tests.support.usage_rows import UsageRows

GROUP = -1001000000300
DAY_SECONDS = 86_400.0
PHOTO = prepare_file("chart.png", make_image(), "The chart")
# What our judgement may take for a photo and Telegram does not: a truncated one, and one of a bad ratio.
BROKEN = prepare_file("chart.png", make_image(image_format="PNG")[:40])
NARROW = replace(prepare_file("chart.png", make_image(421, 20, "PNG")), kind="photo")
DOCUMENT = prepare_file("notes.txt", b"Some notes.")


async def store_files(
    harness: DeliveryHarness, *files: OutgoingFile, lane: Lane = ANN, turn: int | None = None
) -> list[int]:
    """Store the answer "Here:" and files after it, as the end of a turn does; returns the rows."""
    async with harness.database.transaction() as tx:
        await outbox.add(tx, item=1, lane=lane, parts=(Part("Here:"),), now=time.time())
        stored = await outbox_files.store(tx, files, turn=turn, now=time.time())
        parts = plan_file_parts(stored, ENGLISH)
        await outbox_files.add_parts(tx, parts, item=1, lane=lane, now=time.time())
    return [row.id for row in await harness.load_rows()]


async def deliver(harness: DeliveryHarness, *files: OutgoingFile) -> None:
    async with harness.run_sender() as sender:
        await store_files(harness, *files)
        await wake_and_wait(sender)


async def wake_and_wait(sender: Sender) -> None:
    await sender.wait_until_idle()


def list_sends(harness: DeliveryHarness) -> list[str]:
    return [method for method in harness.list_methods() if method != "sendChatAction"]


async def load_files(harness: DeliveryHarness) -> list[tuple[str, str | None, bytes | None]]:
    async with harness.database.read_transaction() as tx:
        columns = (files_table.c.kind, files_table.c.file_id, files_table.c.data)
        rows = await tx.execute(select(*columns).order_by(files_table.c.id))
        return [(kind, file_id, data) for kind, file_id, data in rows]


async def test_files_follow_the_text(harness: DeliveryHarness):
    await deliver(harness, DOCUMENT, PHOTO)
    text, photo, document = harness.api.chat(7).bot_messages
    assert text.text == "Here:"
    assert photo.raw["caption"] == "The chart"
    assert document.raw["document"]["file_name"] == "notes.txt"
    assert list_sends(harness) == ["sendMessage", "sendPhoto", "sendDocument"]
    actions = [call.params["action"] for call in harness.list_calls() if call.method == "sendChatAction"]
    assert set(actions) <= {"upload_photo", "upload_document"}
    assert await harness.load_states() == ["done"] * 3
    assert [file_id for _, file_id, _ in await load_files(harness)] == [
        document.raw["document"]["file_id"],
        photo.raw["photo"][-1]["file_id"],
    ]


async def test_bytes_are_not_read_in_the_event_loop(harness: DeliveryHarness):
    with trace_sql() as trace:
        await deliver(harness, PHOTO)
    assert await harness.load_states() == ["done"] * 2
    assert [sql for sql in trace.statements if "SELECT" in sql and "outbox_files.data" in sql] == []
    assert trace.thread_count


async def test_the_upload_is_shown_in_the_general_topic(harness: DeliveryHarness):
    """An action names thread 1 there, a message must name none."""
    harness.limits = GENEROUS_LIMITS
    group = harness.api.add_group(GROUP, "Forum", owner=harness.api.person(7, "Ann"), is_forum=True)
    async with harness.run_sender() as sender:
        await store_files(harness, PHOTO, lane=Lane(group.id))
        await sender.wait_until_idle()
    text, action, photo = harness.list_calls(group.id)
    assert (action.params["action"], action.params["message_thread_id"]) == ("upload_photo", "1")
    assert "message_thread_id" not in text.params | photo.params


async def test_an_album_has_its_caption_once(harness: DeliveryHarness):
    await deliver(harness, PHOTO, PHOTO, DOCUMENT, DOCUMENT)
    assert list_sends(harness) == ["sendMessage", "sendMediaGroup", "sendMediaGroup"]
    _, first, second, *documents = harness.api.chat(7).bot_messages
    assert (first.raw["caption"], second.raw.get("caption")) == ("The chart\nThe chart", None)
    assert [message.raw["document"]["file_name"] for message in documents] == ["notes.txt"] * 2
    assert all(file_id for _, file_id, _ in await load_files(harness))


@pytest.mark.parametrize("files", [(BROKEN,), (NARROW,), (PHOTO, BROKEN), (NARROW, PHOTO, PHOTO)])
async def test_a_refused_photo_goes_once_as_a_document(
    harness: DeliveryHarness, files: tuple[OutgoingFile, ...]
):
    """An album of which Telegram refuses one goes as documents whole."""
    await deliver(harness, *files)
    method = ["sendPhoto", "sendDocument"] if len(files) == 1 else ["sendMediaGroup"] * 2
    assert list_sends(harness) == ["sendMessage", *method]
    assert [kind for kind, _, _ in await load_files(harness)] == ["document"] * len(files)
    _, *documents = harness.api.chat(7).bot_messages
    assert [document.raw["document"]["file_name"] for document in documents] == ["chart.png"] * len(files)
    assert (await harness.load_states(), harness.problems) == (["done"] * 2, [])


async def test_a_lost_answer_is_not_sent_again_by_itself(harness: DeliveryHarness):
    harness.limits = GENEROUS_LIMITS
    harness.api.inject_fault(BotApiFault.accept_then_drop(), "sendPhoto")
    async with harness.run_sender() as sender:
        _, row = await store_files(harness, PHOTO)
        await wake_and_wait(sender)
        assert list_sends(harness) == ["sendMessage", "sendPhoto", "sendMessage"]
        assert harness.list_texts()[-1] == UNSURE_TEXT
        async with harness.database.transaction() as tx:
            assert await outbox.send_again(tx, row, lane=ANN, now=time.time())
        await wake_and_wait(sender)
    assert list_sends(harness)[-1] == "sendPhoto"
    assert await harness.load_states() == ["done", "unknown", "done", "done"]


async def test_telegrams_id_costs_no_upload(harness: DeliveryHarness):
    await deliver(harness, PHOTO)
    async with harness.database.transaction() as tx:
        photos = outbox_table.c.id == 2
        await tx.execute(update(outbox_table).where(photos).values(state="new", message_id=None))
        await tx.execute(update(files_table).values(data=None))
    async with harness.run_sender() as sender:
        await wake_and_wait(sender)
    first, second = [message for message in harness.api.chat(7).bot_messages if "photo" in message.raw]
    assert first.raw["photo"] == second.raw["photo"]


@pytest.mark.parametrize("state", ["stored", "sending", "sent"])
async def test_a_kill_at_each_step_sends_a_file_at_most_once(harness: DeliveryHarness, state: str):
    rows = await store_files(harness, PHOTO)
    if state != "stored":
        is_sending = state == "sending"
        fault = BotApiFault.hang(after_effect=True) if is_sending else BotApiFault.slow(0.0)
        harness.api.inject_fault(fault, "sendPhoto")
        async with harness.run_sender(kill=True) as sender:
            if is_sending:
                await harness.api.wait_until(lambda: "sendPhoto" in harness.list_methods())
            else:
                await sender.wait_until_idle()
    async with harness.run_sender() as sender:
        await sender.wait_until_idle()
    photos = [message for message in harness.api.chat(7).bot_messages if "photo" in message.raw]
    assert len(photos) == 1
    assert (UNSURE_TEXT in harness.list_texts()) is (state == "sending")
    assert len(await harness.load_rows()) == len(rows) + (state == "sending")


async def test_the_bytes_of_a_turn_are_kept_a_week_beyond_their_message(harness: DeliveryHarness):
    await store_files(harness, PHOTO, turn=await UsageRows(harness.database).add_turn())
    later = time.time() + 8 * DAY_SECONDS
    await retention.expire_files(harness.database, now=later)
    assert [data for _, _, data in await load_files(harness)] == [PHOTO.data]  # it was not sent yet
    async with harness.run_sender() as sender:
        await wake_and_wait(sender)
    await retention.expire_files(harness.database, now=time.time() + 6 * DAY_SECONDS)
    assert [data for _, _, data in await load_files(harness)] == [PHOTO.data]
    await retention.expire_files(harness.database, now=later)
    [(_, file_id, data)] = await load_files(harness)
    assert (data, bool(file_id)) == (None, True)


async def test_the_bytes_of_a_command_go_once_telegram_has_them(harness: DeliveryHarness):
    await deliver(harness, PHOTO)
    [(_, file_id, data)] = await load_files(harness)
    assert (data, bool(file_id)) == (None, True)


async def test_forgotten_files_are_not_sent(harness: DeliveryHarness):
    await store_files(harness, PHOTO)
    await retention.forget(harness.database, retention.build_age_scope(time.time() + 1))
    assert len(await load_files(harness)) == 1  # what waits to be sent is not over
    async with harness.run_sender() as sender:
        await wake_and_wait(sender)
    await retention.forget(harness.database, retention.build_age_scope(time.time() + 1))
    assert await load_files(harness) == []

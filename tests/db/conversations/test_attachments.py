"""Attachments are stored with their messages, in order, and their images are loaded with the messages."""

from bot.db.conversations import attachments, turns
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.queues import inbox, incoming_updates, stop_requests
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.domain import Attachment, Image, Lane, Message

LANE = Lane(7)
RED = Attachment("image", "", "image/jpeg", data=b"red")
BLUE = Attachment("image", "b.png", "image/png", data=b"blue")
PAPER = Attachment("document", "a.pdf", "application/pdf", text="all of it")


async def open_turn_with(
    database: Database,
    user_messages: tuple[Message, ...],
    attachments_by_message: tuple[tuple[Attachment, ...], ...],
) -> int:
    new_turn = NewTurn(1, LANE, 7, 1, (), False, "", 0.0)
    async with database.transaction() as tx:
        turn = await turns.open_turn(tx, new_turn, [1], user_messages, now=0.0)
        assert turn is not None
        await attachments.store(tx, turn.id, 7, attachments_by_message)
        await turns.append_messages(tx, turn.id, [Message("assistant", "I see.")], now=0.0)
    return turn.id


async def test_attachments_are_loaded_with_their_messages(database: Database):
    by_message = ((RED, BLUE), (), (PAPER,))
    user_messages = (Message("user", "look"), Message("user", "hm"), Message("user", "read"))
    turn = await open_turn_with(database, user_messages, by_message)
    async with database.read_transaction() as tx:
        assert await attachments.load_of_turn(tx, turn) == by_message
        [messages] = await turns.load_messages(tx, [turn])
    images = (Image("image/jpeg", b"red"), Image("image/png", b"blue"))
    assert [message.images for message in messages] == [images, (), (), ()]
    assert [message.text for message in messages] == ["look", "hm", "read", "I see."]


async def test_the_texts_of_a_turn_are_stored_up_to_a_bound_they_share(database: Database):
    emoji = Attachment("document", "a.docx", "text/plain", text="😀" * 1_000_000)
    user_messages = (Message("user", "read"), Message("user", "these"))
    turn = await open_turn_with(database, user_messages, ((emoji,) * 5, (emoji,) * 5))
    async with database.read_transaction() as tx:
        by_message = await attachments.load_of_turn(tx, turn)
    sizes = [len((stored.text or "").encode()) for of_message in by_message for stored in of_message]
    assert len(sizes) == 10
    assert attachments.MAX_TEXT_BYTES - 40 <= sum(sizes) <= attachments.MAX_TEXT_BYTES


async def test_a_message_without_attachments_has_none(database: Database):
    turn = await open_turn_with(database, (Message("user", "hi"),), ((),))
    async with database.read_transaction() as tx:
        assert await attachments.load_of_turn(tx, turn) == ((),)
        assert [message.images for message in (await turns.load_messages(tx, [turn]))[0]] == [(), ()]


async def test_a_stored_turn_has_its_images(database: Database):
    await open_turn_with(database, (Message("user", "look"),), ((RED,),))
    async with database.read_transaction() as tx:
        turn = await turns.find(tx, 1)
        assert turn is not None
        assert turn.user_messages == (Message("user", "look", images=(Image("image/jpeg", b"red"),)),)


async def test_nothing_is_fetched_for_items_that_have_begun_or_are_stopped(database: Database):
    updates = [
        IncomingUpdate(number, "text", LANE, 7, "{}", stale=False, not_before=None) for number in range(3)
    ]
    async with database.transaction() as tx:
        await incoming_updates.store(tx, updates, now=1.0)
        await inbox.claim(tx, now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [False, False, False]
        await turns.open_turn(tx, NewTurn(1, LANE, 7, 1, (), False, "", 0.0), [1], (), now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [True, False, False]
        await stop_requests.stop(tx, LANE, before=9, now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [True, True, True]

"""What came with messages is kept with them, in their order, and its images come back with them."""

from bot.db.conversations import attachments, turns
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.queues import stop_requests as stopping
from bot.db.queues.inbox import IncomingUpdate
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
    new = NewTurn(1, LANE, 7, 1, (), False, "", 0.0)
    async with database.transaction() as tx:
        turn = await turns.open_turn(tx, new, [1], user_messages, now=0.0)
        assert turn is not None
        await attachments.store(tx, turn.id, attachments_by_message)
        await turns.append_messages(tx, turn.id, [Message("assistant", "I see.")], now=0.0)
    return turn.id


async def test_what_came_is_found_again_with_its_message(database: Database):
    came = ((RED, BLUE), (), (PAPER,))
    turn = await open_turn_with(
        database, (Message("user", "look"), Message("user", "hm"), Message("user", "read")), came
    )
    async with database.read_transaction() as tx:
        assert await attachments.load_of_turn(tx, turn) == came
        [messages] = await turns.load_messages(tx, [turn])
    images = (Image("image/jpeg", b"red"), Image("image/png", b"blue"))
    assert [message.images for message in messages] == [images, (), (), ()]
    assert [message.text for message in messages] == ["look", "hm", "read", "I see."]


async def test_nothing_came_and_nothing_is_kept(database: Database):
    turn = await open_turn_with(database, (Message("user", "hi"),), ((),))
    async with database.read_transaction() as tx:
        assert await attachments.load_of_turn(tx, turn) == ((),)
        assert [message.images for message in (await turns.load_messages(tx, [turn]))[0]] == [(), ()]


async def test_a_turn_found_again_has_its_images(database: Database):
    await open_turn_with(database, (Message("user", "look"),), ((RED,),))
    async with database.read_transaction() as tx:
        assert (await turns.find(tx, 1)).user_messages == (
            Message("user", "look", images=(Image("image/jpeg", b"red"),)),
        )


async def test_nothing_is_fetched_for_what_has_begun_or_is_stopped(database: Database):
    arrivals = [
        IncomingUpdate(number, "text", LANE, 7, "{}", stale=False, not_before=None) for number in range(3)
    ]
    async with database.transaction() as tx:
        await inbox.store(tx, arrivals, now=1.0)
        await inbox.claim(tx, now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [False, False, False]
        await turns.open_turn(tx, NewTurn(1, LANE, 7, 1, (), False, "", 0.0), [1], (), now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [True, False, False]
        await stopping.stop(tx, LANE, before=9, now=1.0)
        assert [await attachments.can_skip_fetch(tx, item) for item in (1, 2, 3)] == [True, True, True]

"""A person's files have a share of what is stored; the oldest ones make space."""

from sqlalchemy import func, select

from bot.db.conversations import attachments, conversations, stored_files, turns
from bot.db.conversations.stored_files import DELETED_TEXT, MAX_BYTES
from bot.db.conversations.turns import NewTurn, TurnEnd
from bot.db.engine import Database
from bot.db.tables import attachments as attachment_table
from bot.domain import Attachment, Lane, Message

LANE = Lane(7)
MEGABYTE = 1024**2


class FileShelf:
    """Stores files as if each were of a size that the tests choose."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._items = 0

    async def store(
        self, name: str, megabytes: float, *, kind: str = "document", person: int = 7, ended: bool = True
    ) -> None:
        """Store one file with a turn of its own."""
        self._items += 1
        stored = Attachment("document", name, "text/plain", text="words")
        if kind == "image":
            stored = Attachment("image", name, "image/jpeg", data=b"red")
        async with self._database.transaction() as tx:
            number = (await conversations.find(tx, LANE)).number
            new_turn = NewTurn(self._items, LANE, person, number, (), False, "", 0.0)
            turn = await turns.open_turn(tx, new_turn, [self._items], (Message("user", "read"),), now=0.0)
            assert turn is not None
            await attachments.store(tx, turn.id, person, ((stored,),))
            size = int(megabytes * MEGABYTE)
            await tx.execute(
                attachment_table.update().where(attachment_table.c.name == name).values(size=size)
            )
            if ended:
                await turns.end(tx, turn.id, TurnEnd("answered", 1, 0, 0, None, ()), now=0.0)

    async def begin_conversation(self) -> None:
        async with self._database.transaction() as tx:
            await conversations.start_new(tx, LANE)

    async def free_space(self, person: int = 7) -> None:
        async with self._database.transaction() as tx:
            await stored_files.free_space(tx, person)

    async def has_space(self, person: int = 7) -> bool:
        async with self._database.read_transaction() as tx:
            return await stored_files.has_space(tx, person)

    async def list_whole(self) -> list[str]:
        """The names of the files that are still as they were."""
        columns = attachment_table.c
        async with self._database.read_transaction() as tx:
            is_deleted = func.coalesce(columns.text, "").endswith(DELETED_TEXT)
            query = select(columns.name).where(~is_deleted)
            return list((await tx.execute(query.order_by(columns.id))).scalars())


async def test_the_size_of_a_file_is_stored_in_bytes(database: Database):
    picture = Attachment("image", "b.jpg", "image/jpeg", data=b"\xff" * 1000)
    umlauts = Attachment("document", "c.txt", "text/plain", text="ä" * 100)
    async with database.transaction() as tx:
        new_turn = NewTurn(1, LANE, 7, 1, (), False, "", 0.0)
        turn = await turns.open_turn(tx, new_turn, [1], (Message("user", "read"),), now=0.0)
        assert turn is not None
        await attachments.store(tx, turn.id, 7, ((picture, umlauts),))
        total = await tx.execute(select(func.sum(attachment_table.c.size)))
        assert total.scalar_one() == 1200


async def test_much_more_than_the_share_goes_a_part_at_a_time(database: Database):
    shelf = FileShelf(database)
    for number in range(10):
        await shelf.store(f"{number}.txt", 10)
    await shelf.free_space()
    assert await shelf.list_whole() == [f"{number}.txt" for number in range(2, 10)]
    for _ in range(3):
        await shelf.free_space()
    assert await shelf.list_whole() == [f"{number}.txt" for number in range(5, 10)]


async def test_past_conversations_lose_theirs_first_and_only_as_much_as_is_needed(database: Database):
    shelf = FileShelf(database)
    await shelf.store("first.txt", 10)
    await shelf.store("photo.jpg", 10, kind="image")
    await shelf.store("second.txt", 10)
    await shelf.begin_conversation()
    await shelf.store("current.txt", 15)
    await shelf.store("current.jpg", 15, kind="image")
    await shelf.free_space()
    assert await shelf.list_whole() == ["photo.jpg", "second.txt", "current.txt", "current.jpg"]
    await shelf.store("next.txt", 10)
    await shelf.free_space()
    assert await shelf.list_whole() == ["second.txt", "current.txt", "current.jpg", "next.txt"]
    await shelf.store("last.txt", 20)
    await shelf.free_space()
    assert await shelf.list_whole() == ["current.jpg", "next.txt", "last.txt"]


async def test_a_chat_full_of_pictures_has_space_after_a_new_conversation(database: Database):
    shelf = FileShelf(database)
    await shelf.store("current.jpg", MAX_BYTES / MEGABYTE, kind="image")
    await shelf.free_space()
    assert await shelf.list_whole() == ["current.jpg"]
    assert not await shelf.has_space()
    await shelf.begin_conversation()
    assert await shelf.has_space()


async def test_a_turn_under_way_keeps_its_files(database: Database):
    shelf = FileShelf(database)
    await shelf.store("read now.txt", 60, ended=False)
    await shelf.free_space()
    assert await shelf.list_whole() == ["read now.txt"]


async def test_the_files_of_others_make_no_room(database: Database):
    shelf = FileShelf(database)
    await shelf.store("of Bob.txt", 49, person=8)
    await shelf.store("of Ann.txt", 60)
    await shelf.free_space()
    assert await shelf.list_whole() == ["of Bob.txt"]
    assert await shelf.has_space(8)

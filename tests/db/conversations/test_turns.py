"""What is read of a conversation stays bounded, however long it grows."""

from bot.db.conversations import turns
from bot.db.conversations.turns import Done, NewTurn
from bot.db.engine import Database
from bot.domain import Lane

LANE = Lane(7)


async def converse(database: Database, first: int, last: int) -> None:
    async with database.transaction() as tx:
        for number in range(first, last):
            new = NewTurn(number, LANE, 7, 1, (), False, "", float(number))
            opened = await turns.open_turn(tx, new, [], (), now=float(number))
            assert opened is not None
            await turns.end(tx, opened.id, Done("answered", 1, 10, 10, None, ()), now=float(number))


async def read(database: Database) -> list[float]:
    async with database.reading() as tx:
        return [turn.received_at for turn in await turns.past(tx, LANE, 1)]


async def test_old_turns_leave_a_long_conversation_in_big_steps(database: Database):
    window = turns.WINDOW
    await converse(database, 0, 2 * window - 1)
    assert await read(database) == list(range(2 * window - 1))
    await converse(database, 2 * window - 1, 2 * window)
    assert await read(database) == list(range(window, 2 * window))
    await converse(database, 2 * window, 3 * window - 1)
    assert await read(database) == list(range(window, 3 * window - 1))

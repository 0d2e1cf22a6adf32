"""What is read from a conversation is bounded, however long it grows, and so are the statements for it."""

from sqlalchemy import event
from sqlalchemy.engine import Engine

from bot.db.conversations import calls, turns
from bot.db.conversations.turns import NewTurn, TurnEnd
from bot.db.engine import Database
from bot.domain import Lane

LANE = Lane(7)


async def store_turns(database: Database, first: int, last: int) -> None:
    async with database.transaction() as tx:
        for number in range(first, last):
            new_turn = NewTurn(number, LANE, 7, 1, (), False, "", float(number))
            turn = await turns.open_turn(tx, new_turn, [], (), now=float(number))
            assert turn is not None
            await turns.end(tx, turn.id, TurnEnd("answered", 1, 10, 10, None, ()), now=float(number))


async def list_received_times(database: Database) -> list[float]:
    async with database.read_transaction() as tx:
        return [turn.received_at for turn in await turns.list_past_turns(tx, LANE, 1)]


async def test_old_turns_leave_a_long_conversation_in_big_steps(database: Database):
    window = turns.MIN_WINDOW_TURNS
    await store_turns(database, 0, 2 * window - 1)
    assert await list_received_times(database) == list(range(2 * window - 1))
    await store_turns(database, 2 * window - 1, 2 * window)
    assert await list_received_times(database) == list(range(window, 2 * window))
    await store_turns(database, 2 * window, 3 * window - 1)
    assert await list_received_times(database) == list(range(window, 3 * window - 1))


async def test_a_conversation_is_read_by_the_same_statements_however_long_it_is(database: Database):
    """Connections keep each statement: those of all lengths took 8 MiB."""
    await store_turns(database, 0, 6)
    statements: list[str] = []

    def record(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    try:
        async with database.read_transaction() as tx:
            for last in (2, 5, 7):
                await turns.load_messages(tx, range(1, last))
                await calls.load_successes(tx, range(1, last), limit=10)
    finally:
        event.remove(Engine, "before_cursor_execute", record)
    assert len(statements) == 6
    assert len(set(statements)) == 2

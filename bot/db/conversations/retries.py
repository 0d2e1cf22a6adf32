"""The newest turn of a conversation, for /retry and for continuing it.

Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import select, update

from bot.db.conversations import conversations
from bot.db.conversations.turns import DEEP_REASON, load_messages
from bot.db.tables import tool_calls, turns
from bot.db.transaction import Transaction
from bot.domain import Lane


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The turn a /retry is about.

    `person`: who asked. `texts`: what they wrote. `ran_tools`: names of tools that ran in it, which may
    not be repeatable.
    `deep`: the person had it answered by the second endpoint. `thinking`: it thought first.
    `ending`: how it ended.
    """

    id: int
    person: int
    texts: tuple[str, ...]
    ran_tools: tuple[str, ...]
    deep: bool
    thinking: bool
    ending: str


async def find_last_turn(tx: Transaction, lane: Lane, *, before_item: int) -> LastTurn | None:
    """The conversation's newest ended turn that an earlier item began."""
    number = (await conversations.find(tx, lane)).number
    query = (
        select(turns.c.id, turns.c.person)
        .where(turns.c.lane == lane.key, turns.c.conversation == number, turns.c.state == "ended")
        .where(turns.c.item < before_item)
        .order_by(turns.c.ended_at.desc(), turns.c.id.desc())
        .limit(1)
    )
    row = (await tx.execute(query)).one_or_none()
    if row is not None:
        return await _load_last_turn(tx, row.id, row.person)
    return None


async def _load_last_turn(tx: Transaction, turn: int, person: int) -> LastTurn:
    stored = (await load_messages(tx, [turn]))[0]
    of_turn = select(turns.c.thinking, turns.c.endpoint, turns.c.endpoint_why, turns.c.ending).where(
        turns.c.id == turn
    )
    row = (await tx.execute(of_turn)).one()
    return LastTurn(
        id=turn,
        person=person,
        texts=tuple(message.text for message in stored if message.role == "user"),
        ran_tools=await load_ran_tools(tx, turn),
        deep=row.endpoint == "fallback" and row.endpoint_why == DEEP_REASON,
        thinking=row.thinking,
        ending=row.ending,
    )


async def load_ran_tools(tx: Transaction, turn: int) -> tuple[str, ...]:
    """Names of the tools that ran in a turn."""
    ran = (
        select(tool_calls.c.name)
        .distinct()
        .where(
            tool_calls.c.turn == turn,
            tool_calls.c.state != "wanted",
            tool_calls.c.outcome.is_distinct_from("refused"),
        )
    )
    return tuple((await tx.execute(ran.order_by(tool_calls.c.name))).scalars())


async def mark_replaced(tx: Transaction, turn: int) -> None:
    """Remove a turn that a /retry replaces from its conversation; its rows stay."""
    await tx.execute(
        update(turns).where(turns.c.id == turn, turns.c.state == "ended").values(state="replaced")
    )

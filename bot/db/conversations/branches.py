"""Going back to an earlier turn of a conversation, to answer its messages again.

What came after it leaves the conversation; its rows stay, and so do notes and jobs that were made there.
Functions work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from sqlalchemy import func, select, update

from bot.db.conversations import conversations, retries
from bot.db.conversations import turns as turn_rows
from bot.db.tables import inbox, jobs, notes, turns
from bot.db.transaction import Transaction
from bot.domain import Lane


@dataclass(frozen=True, slots=True)
class Branch:
    """A turn to go back to.

    `item`, `last_item`: the first and the last inbox item that it answers.
    `is_waiting`: it has not ended, but waits for a person or to be continued.
    `was_cut`: it ended because its message was edited.
    `ran_tools`: names of tools that ran in it.
    `later_turns`: those that leave the conversation, `kept_turns` those that stay, both the oldest first.
    """

    turn: int
    item: int
    last_item: int
    began_at: float
    is_waiting: bool
    was_cut: bool
    ran_tools: tuple[str, ...]
    later_turns: tuple[int, ...]
    kept_turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MadeThere:
    """What a chat keeps of turns that leave its conversation."""

    notes: int
    reminders: int
    tasks: int


async def find(tx: Transaction, lane: Lane, turn: int) -> Branch | None:
    """The branch at this turn; None if the prompt no longer holds it, or it has left the conversation."""
    conversation = await conversations.find(tx, lane)
    row = (await tx.execute(select(turns).where(turns.c.id == turn, turns.c.lane == lane.key))).one_or_none()
    is_over = row is None or row.conversation != conversation.number
    if row is None or is_over or row.state in {"replaced", "forgotten"}:
        return None
    past_turns = await turn_rows.list_past_turns(tx, lane, conversation.number)
    past = [past_turn.id for past_turn in past_turns]
    position = past.index(turn) if turn in past else sum(other < turn for other in past)
    if position < turn_rows.index_after(past_turns, conversation.cut):
        return None
    later_parked = select(turns.c.id).where(
        turns.c.lane == lane.key, turns.c.state == "parked", turns.c.id > turn, turns.c.person == row.person
    )
    last_item = select(func.max(inbox.c.id)).where(inbox.c.turn == turn)
    return Branch(
        turn,
        row.item,
        (await tx.execute(last_item)).scalar_one() or row.item,
        row.began_at,
        is_waiting=row.state in {"running", "parked"},
        was_cut=row.ending == "edited",
        ran_tools=await retries.load_ran_tools(tx, turn),
        later_turns=(
            *(other for other in past[position:] if other != turn),
            *(await tx.execute(later_parked)).scalars(),
        ),
        kept_turns=tuple(past[:position]),
    )


async def replace_turns(tx: Transaction, lane: Lane, branch: Branch) -> None:
    """Remove the turn and what came after it from the conversation; the rows stay."""
    removed = update(turns).where(turns.c.id.in_((branch.turn, *branch.later_turns)))
    await tx.execute(removed.values(state="replaced"))
    if branch.is_waiting:
        await tx.execute(update(turns).where(turns.c.id == branch.turn).values(ending="edited"))
    await conversations.set_back(tx, lane, await conversations.find(tx, lane), branch.kept_turns)


async def count_made(tx: Transaction, lane: Lane, since: float) -> MadeThere:
    """What has been noted and planned in a lane since then (epoch seconds)."""
    noted = select(func.count()).where(notes.c.lane == lane.key, notes.c.made_at >= since)
    planned = (
        select(jobs.c.kind, func.count())
        .where(jobs.c.lane == lane.key, jobs.c.made_at >= since, jobs.c.state != "deleted")
        .group_by(jobs.c.kind)
    )
    counts = {row[0]: int(row[1]) for row in await tx.execute(planned)}
    note_count = int((await tx.execute(noted)).scalar_one())
    return MadeThere(note_count, counts.get("reminder", 0), counts.get("task", 0))

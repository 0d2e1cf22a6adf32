"""Where a branch goes back to: what was cut, shortened or summarized never covers a turn that has left."""

import pytest

from bot.db.conversations import conversations
from bot.db.conversations.conversations import Conversation
from bot.db.engine import Database
from bot.domain import Lane

LANE = Lane(5)


@pytest.mark.parametrize(
    ("kept", "shortened", "summary_ahead"),
    [((1, 2, 3, 4, 5), 3, "ahead"), ((1, 2, 3), 3, None), ((1, 2), 2, None), ((1,), 1, None)],
)
async def test_marks_are_set_back_to_the_last_turn_that_is_kept(
    database: Database, kept: tuple[int, ...], shortened: int, summary_ahead: str | None
):
    async with database.transaction() as tx:
        await conversations.begin(tx, LANE, Conversation(), ())
        stored = Conversation(
            1, "", cut=1, shortened=3, summary="cut", summary_ahead="ahead", summary_upto=4, tools=()
        )
        await conversations.store_cut(tx, LANE, stored)
        await conversations.set_back(tx, LANE, stored, kept)
        after = await conversations.find(tx, LANE)
    assert (after.cut, after.shortened, after.summary) == (1, shortened, "cut")
    assert (after.summary_ahead, after.summary_upto) == (summary_ahead, summary_ahead and 4)

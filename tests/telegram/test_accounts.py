"""/usage and its details, drawn in place by their buttons."""

import pytest
from sqlalchemy import update

from bot.db import calls
from bot.db.calls import Closing, NewCall
from bot.db.engine import Database
from bot.db.tables import turns
from bot.domain import CallTimes, Reply, Usage
from tests.telegram.front import ANNA, BOB, Front


@pytest.fixture
async def front(database: Database) -> Front:
    front = Front(database)
    await front.let_in(ANNA)
    await front.let_in(BOB)
    return front


async def called(front: Front, turn: int, cached: int | None = 480) -> None:
    """A model call of the turn that waited 1 s and took 2 s."""
    new = NewCall(turn, 1, "turn", None, "main", "diffusiongemma", True, 2, 1, 1, 1)
    now = front.now
    times = CallTimes(now, now + 1, now + 2, now + 3, now + 3)
    reply = Reply("It is four.", "", (), "stop", Usage(512, cached, 300, 0), times, blocks=2)
    async with front.database.transaction() as tx:
        call = await calls.open_call(tx, new, now=now)
        await calls.close_call(tx, Closing(call, reply, "ok"), now=now + 3)
        thought = {"thinking": True, "thinking_why": "two tools match: search, remind"}
        await tx.execute(update(turns).where(turns.c.id == turn).values(thought))


async def test_the_details_of_the_last_turn_are_behind_a_button_and_back_again(front: Front):
    turn = await front.answered("what time is it")
    await called(front, turn)
    (sent,) = await front.write("/usage")
    assert sent.text.splitlines()[0] == "Last: 2 canvases est., 2.0 s"
    assert sent.buttons == {"Details": f"details:{turn}", "Picture": "picture"}
    toast, sent_more = await front.tap(f"details:{turn}")
    assert (toast, sent_more) == (None, [])
    assert await front.tap("usage") == (None, [])
    details, summary = front.bot.of("edit_message_text")
    assert details["given"][0].splitlines() == [
        f"Turn {turn}: 2.0 s",
        "Thinking: on",
        "Why: two tools match: search, remind",
        "Model calls, canvases estimated:",
        "1. 2 canvases, 2.0 s",
        "    512 in, 480 cached, waited 1.0 s",
        "Cached: 94 % of the input",
        "Model: diffusiongemma",
    ]
    assert "Back" in str(details["reply_markup"])
    assert summary["given"][0] == sent.text
    assert "Details" in str(summary["reply_markup"])


async def test_without_a_turn_there_is_nothing_to_detail(front: Front):
    (sent,) = await front.write("/usage")
    assert (sent.text, sent.buttons) == ("Nothing yet. Ask me something.", {})


@pytest.mark.parametrize("data", ["details:99", "details:1"])
async def test_the_turn_of_another_chat_is_not_told(front: Front, data: str):
    assert await front.answered("a secret", person=BOB) == 1
    assert await front.tap(data) == ("This turn is not known here.", [])
    assert front.bot.of("edit_message_text") == []

"""The calls of the house itself: whatever becomes of one, its row says it, and none holds its seat forever."""

import asyncio
from typing import Any

import pytest

from bot.db.conversations.calls import NewCall
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import WARMUP_PRIORITY, Message, ModelRequest
from bot.errors import EndpointAway
from bot.turns import call_ledger as booking
from bot.turns.call_ledger import CallLedger
from tests.support.turn_harness import ScriptedModel, TurnHarness, hang_forever, make_reply

REQUEST = ModelRequest(
    messages=(Message("user", "Ready?"),),
    tools=(),
    tool_choice="none",
    thinking=False,
    max_tokens=256,
    session="own",
    lane="own",
    priority=WARMUP_PRIORITY,
)
NEW = NewCall(None, 1, "warmup", None, "http://here/v1", "model", False, 0, 0, 0, 6)


async def rows(database: Database) -> list[tuple[Any, ...]]:
    return await TurnHarness(database, ScriptedModel()).load_rows(
        model_calls, "outcome", "error", "completion_tokens"
    )


async def test_a_reply_is_given_with_the_row_still_open(database: Database) -> None:
    book, reply = CallLedger(database), make_reply("Yes.")
    came = await book.call_once(ScriptedModel([reply]), REQUEST, NEW)
    assert came.result is reply
    assert await rows(database) == [(None, None, None)]
    await book.close(came.closing)
    assert await rows(database) == [("ok", None, 5)]


async def test_one_without_end_gives_its_seat_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booking, "MAX_CALL_SECONDS", 0.01)
    came = await (book := CallLedger(database)).call_once(ScriptedModel([hang_forever]), REQUEST, NEW)
    assert isinstance(came.result, EndpointAway)
    assert came.result.partial.text == "so far"
    await book.close(came.closing)
    assert await rows(database) == [("failed", "The endpoint took longer than 0.01 s.", 5)]


async def test_the_wait_for_a_seat_has_no_end_of_its_own(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booking, "MAX_CALL_SECONDS", 0.0)
    free = asyncio.Event()
    model = ScriptedModel([hang_forever], wait_for_seat=free.wait)
    async with asyncio.TaskGroup() as tasks:
        errand = tasks.create_task(CallLedger(database).call_once(model, REQUEST, NEW))
        await model.was_called.wait()
        assert not errand.done()
        free.set()
    assert isinstance(errand.result().result, EndpointAway)

"""The gateway's own calls: the row of each says how it ended, and none holds its seat forever."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from bot.db.conversations import calls
from bot.db.conversations.calls import NewCall
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import WARMUP_PRIORITY, Message, ModelRequest
from bot.errors import EndpointAway
from bot.llm.heavy_work import HEAVY_WORK
from bot.llm.typed_reads import TypedQuestions, TypedReader
from bot.turns.call_ledger import CallLedger
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness, hang_forever, make_reply

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
NEW_CALL = NewCall(None, 1, "warmup", None, "http://here/v1", "model", False, 0, 0, 0, 6)


async def load_rows(database: Database) -> list[tuple[Any, ...]]:
    return await TurnHarness(database, ScriptedModel()).load_rows(
        model_calls, "outcome", "error", "completion_tokens"
    )


async def test_a_reply_is_returned_while_the_row_is_still_open(database: Database) -> None:
    ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
    reply = make_reply("Yes.")
    call_result = await ledger.call_once(ScriptedModel([reply]), REQUEST, NEW_CALL)
    assert call_result.result is reply
    assert await load_rows(database) == [(None, None, None)]
    await ledger.close(call_result.closing)
    assert await load_rows(database) == [("ok", None, 5)]


async def test_a_call_that_never_ends_gives_up_its_seat(database: Database) -> None:
    ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS, max_call_seconds=0.01)
    call_result = await ledger.call_once(ScriptedModel([hang_forever]), REQUEST, NEW_CALL)
    assert isinstance(call_result.result, EndpointAway)
    assert call_result.result.partial.text == "so far"
    await ledger.close(call_result.closing)
    assert await load_rows(database) == [("failed", "The endpoint took longer than 0.01 s.", 5)]


async def test_the_wait_for_a_seat_is_not_limited(database: Database) -> None:
    ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS, max_call_seconds=0.0)
    free = asyncio.Event()
    model = ScriptedModel([hang_forever], wait_for_seat=free.wait)
    async with asyncio.TaskGroup() as tasks:
        call_task = tasks.create_task(ledger.call_once(model, REQUEST, NEW_CALL))
        await model.was_called.wait()
        assert not call_task.done()
        free.set()
    assert isinstance(call_task.result().result, EndpointAway)


class SilentReader:
    """Never gives a reading."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()

    async def read(self, _questions: TypedQuestions, _state: str, *, timeout_seconds: float) -> None:
        self.was_asked.set()
        await asyncio.Event().wait()


async def test_a_read_that_is_cancelled_does_not_stay_open(database: Database) -> None:
    ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
    reader = SilentReader()
    async with asyncio.TaskGroup() as tasks:
        read = ledger.read_once(NEW_CALL, cast(TypedReader, reader), (HEAVY_WORK,), "a state", 60.0)
        reading = tasks.create_task(read)
        await reader.was_asked.wait()
        reading.cancel()
    assert await load_rows(database) == [("cancelled", "the gateway was stopped", None)]


async def test_calls_of_a_process_that_is_gone_are_closed_and_no_others(
    database: Database,
) -> None:
    for life in (3, 4, None):
        await CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS, life=life).open(NEW_CALL)
    await CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS, life=4).open(replace(NEW_CALL, turn=1))
    async with database.transaction() as tx:
        await calls.abandon_calls_without_turn(tx, [3], now=9.0)
    lost = ("cancelled", "the process ended", None)
    assert await load_rows(database) == [(None, None, None), lost, lost, (None, None, None)]
    async with database.transaction() as tx:
        await calls.abandon_calls_without_turn(tx, now=9.0)
        await calls.abandon_model_calls(tx, 1, now=9.0)
    assert await load_rows(database) == [lost] * 4

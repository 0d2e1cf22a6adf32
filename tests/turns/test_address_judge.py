"""A read of a group's message: its row in the ledger, its place behind people's calls, silence in doubt."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import Lane
from bot.http_server import serve
from bot.llm.address_question import MIN_CHANCE, GroupMessage
from bot.llm.seats import SeatLimiter
from bot.turns.address_judge import AddressJudge
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint
from bot.turns.recorded_reads import RecordedReads
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.recorded_endpoint import PatientReader, connect_client
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness

LANE = Lane(-100)
MESSAGE = GroupMessage("Ann", "when does the museum open?", ("Canvas",))


@contextlib.asynccontextmanager
async def open_judge(
    database: Database, endpoint: ScriptedEndpoint, *, max_seat_seconds: float = 30.0
) -> AsyncIterator[tuple[AddressJudge, SeatLimiter]]:
    """A judge with one seat."""
    seats = SeatLimiter(1)
    async with serve(endpoint.app) as url, connect_client(url) as client:
        main = ModelEndpoint("main", "http://there/v1", client, lambda: "model", PatientReader(client))
        ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
        reads = RecordedReads(database, ledger, main)
        yield AddressJudge(reads, seats, max_seat_seconds=max_seat_seconds), seats


async def load_rows(database: Database) -> list[tuple[object, ...]]:
    columns = ("turn", "purpose", "outcome", "completion_tokens")
    return await TurnHarness(database, ScriptedModel()).load_rows(model_calls, *columns)


@pytest.mark.parametrize(
    ("chance", "expected"), [(0.99, True), (MIN_CHANCE, True), (0.79, False), (0.5, False), (0.0, False)]
)
async def test_only_a_sure_read_makes_a_message_one_for_the_assistant(
    database: Database, chance: float, expected: bool
) -> None:
    endpoint = ScriptedEndpoint(judge=lambda question: (chance, 1 - chance))
    async with open_judge(database, endpoint) as (judge, _):
        assert await judge.is_meant(LANE, MESSAGE) is expected
        assert judge.is_supported is True
    assert await load_rows(database) == [(None, "address", "ok", 2)]
    [question] = endpoint.typed_questions
    assert (question.name, "Ann: when does the museum open?" in question.state) == ("addressed", True)


async def test_a_read_waits_behind_people_and_not_for_long(database: Database) -> None:
    endpoint = ScriptedEndpoint(judge=lambda question: (1, 0))
    async with open_judge(database, endpoint, max_seat_seconds=0.05) as (judge, seats), seats.hold("7"):
        assert not await judge.is_meant(LANE, MESSAGE)
    assert await load_rows(database) == []
    order: list[str] = []

    async def read() -> None:
        assert await judge.is_meant(LANE, MESSAGE)
        order.append("read")

    async def answer_person() -> None:
        async with seats.hold("8"):
            order.append("person")

    async with (
        open_judge(database, endpoint) as (judge, seats),
        asyncio.TaskGroup() as tasks,
        seats.hold("7"),
    ):
        tasks.create_task(read())
        await asyncio.sleep(0)
        tasks.create_task(answer_person())
        await asyncio.sleep(0)
        assert seats.queue_length == 2
    assert order == ["person", "read"]


async def test_an_endpoint_that_cannot_read_is_asked_once_and_means_silence(database: Database) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), logprobs=False))
    async with open_judge(database, endpoint) as (judge, _):
        await judge.learn_support()
        assert judge.is_supported is False
        assert not await judge.is_meant(LANE, MESSAGE)
    assert await load_rows(database) == [(None, "address", "failed", None)]


async def test_a_failed_read_means_silence(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    async with open_judge(database, endpoint) as (judge, _):
        endpoint.simulate_loading(60)
        assert not await judge.is_meant(LANE, MESSAGE)
        assert judge.is_supported is None
    assert [row[1:3] for row in await load_rows(database)] == [("address", "failed")]

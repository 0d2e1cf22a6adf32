"""Who answers a typed read: the main endpoint, or the second one where it may have all that is read."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from bot.db.conversations import chat_settings
from bot.db.conversations.chat_settings import ContentKind
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.http_server import serve
from bot.llm.heavy_work import HEAVY_WORK
from bot.llm.typed_reads import TypedReader
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint
from bot.turns.recorded_reads import ReadSubject, RecordedReads
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.recorded_endpoint import connect_client
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, TurnHarness

CHAT = 7
OUTSIDE = "https://models.example/v1"
TEXT = frozenset[ContentKind]({"text"})
PAST = frozenset[ContentKind]({"text", "notes", "files"})


async def read_twice(
    database: Database,
    profile: ServerProfile,
    kinds: frozenset[ContentKind] | None,
    second_url: str = OUTSIDE,
) -> tuple[int, int]:
    """Read two times; how many questions each endpoint has answered."""
    main, second = ScriptedEndpoint(profile), ScriptedEndpoint()
    async with (
        serve(main.app) as main_address,
        serve(second.app) as second_address,
        connect_client(main_address) as client,
        connect_client(second_address) as second_client,
    ):
        reads = RecordedReads(
            database,
            CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS),
            ModelEndpoint("main", "http://here/v1", client, lambda: "here", TypedReader(client)),
            ModelEndpoint("fallback", second_url, second_client, lambda: "there", TypedReader(second_client)),
        )
        for _ in range(2):
            subject = ReadSubject(CHAT, "decision", (HEAVY_WORK,), "a state", kinds)
            await reads.read(subject, timeout_seconds=60.0)
    return len(main.typed_questions), len(second.typed_questions)


@pytest.mark.parametrize(
    ("consent", "kinds", "count"),
    [
        (None, TEXT, 0),
        ((), TEXT, 0),
        (("text",), TEXT, 1),
        (("text",), PAST, 0),
        (("text", "notes", "files"), PAST, 1),
        (chat_settings.CONTENT_KINDS, None, 0),
    ],
)
async def test_the_second_model_reads_what_the_chat_lets_it_have(
    database: Database,
    consent: Iterable[ContentKind] | None,
    kinds: frozenset[ContentKind] | None,
    count: int,
) -> None:
    if consent is not None:
        async with database.transaction() as tx:
            await chat_settings.store_consent(tx, CHAT, "models.example", consent)
    assert await read_twice(database, replace(ServerProfile(), logprobs=False), kinds) == (0, count)
    rows = await TurnHarness(database, ScriptedModel()).load_rows(model_calls, "endpoint", "outcome")
    assert rows == [("http://here/v1", "failed"), (OUTSIDE, "ok")][: 1 + count]


async def test_where_the_main_model_can_read_it_alone_does(database: Database) -> None:
    assert await read_twice(database, ServerProfile(), TEXT, "http://spark/v1") == (2, 0)


async def test_a_second_model_in_the_own_network_needs_no_consent(database: Database) -> None:
    without_routes = replace(ServerProfile(), version="0.31.0")
    assert await read_twice(database, without_routes, TEXT, "http://spark/v1") == (0, 1)

"""The warm-up at start: what it warms, when it is repeated, and that nothing depends on it."""

from pathlib import Path

import pytest

from bot.canvases import CANVAS_TOKENS
from bot.db.engine import Database
from bot.domain import WARMUP_PRIORITY, ModelRequest
from bot.errors import EndpointAway, EndpointRefused
from bot.http_server import serve
from bot.llm import server_api
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.sim.vllm.server import RequestRecord
from bot.turns import cache_warmup
from bot.turns.cache_warmup import WARMUP_PROMPTS
from bot.turns.call_ledger import CallLedger
from tests.support.cache_warmup import (
    MIN_HEAD_TOKENS,
    WarmupHarness,
    open_warmup_harness,
    requests_finished,
    running_warmup,
    wait_for_closed_rows,
    wait_until,
)
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import running_gateway
from tests.support.turn_harness import SHUTDOWN_SECONDS, ScriptedModel, hang_forever, make_reply


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_warmup, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(cache_warmup, "BACKOFF_SECONDS", (0.01,))


async def test_each_lineage_is_warmed_by_two_requests_that_share_their_head_and_no_more(
    database: Database,
) -> None:
    endpoint = ScriptedEndpoint()
    async with open_warmup_harness(database, endpoint) as harness:
        rows = await wait_for_closed_rows(harness, 4)
    assert rows == [
        ("warmup", None, 1, False, "ok", None),
        ("warmup", None, 2, False, "ok", None),
        ("warmup", None, 1, True, "ok", None),
        ("warmup", None, 2, True, "ok", None),
    ]
    for first, second in (endpoint.requests[:2], endpoint.requests[2:]):
        assert first.body["messages"][0] == second.body["messages"][0]
        assert first.body["tools"] == second.body["tools"]
        contents = [request.body["messages"][1]["content"] for request in (first, second)]
        assert contents == list(WARMUP_PROMPTS)
    assert {request.body["max_tokens"] for request in endpoint.requests} == {CANVAS_TOKENS}
    assert {request.body["priority"] for request in endpoint.requests} == {WARMUP_PRIORITY}
    assert harness.admin_notices == []


async def test_what_a_warm_up_used_is_in_the_ledger(database: Database) -> None:
    async with open_warmup_harness(database, ScriptedEndpoint()) as harness:
        await wait_for_closed_rows(harness, 4)
        first, second, *_ = await harness.load_rows(
            "prompt_tokens", "cached_tokens", "completion_tokens", "chars_tools"
        )
    assert first[0] > MIN_HEAD_TOKENS
    assert first[1] == 0
    assert second[0] > MIN_HEAD_TOKENS
    assert first[2] > 0
    assert first[3] > MIN_HEAD_TOKENS


async def test_only_the_lineages_that_are_used_are_warmed(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    async with open_warmup_harness(database, endpoint, lineages=(False,)) as harness:
        await wait_for_closed_rows(harness, 2)
        await wait_until(lambda: endpoint.running == 0)
    assert [request.thinking for request in endpoint.requests] == [False, False]


async def test_it_is_repeated_when_triggered_and_once_for_all_triggers_meanwhile(
    database: Database,
) -> None:
    endpoint = ScriptedEndpoint()
    async with serve(endpoint.app) as url:
        model = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        harness = WarmupHarness(database, model, f"{url}/v1", lineages=(False,))
        async with running_warmup(harness) as warmup:
            endpoint.hold()
            await endpoint.wait_until(lambda: endpoint.running == 1)
            warmup.trigger()
            endpoint.release()
            await wait_for_closed_rows(harness, 2)
            await wait_until(lambda: not warmup._triggered.is_set())
            warmup.trigger()
            await wait_for_closed_rows(harness, 4)
        await model.close()
    assert [request.body["messages"][1]["content"] for request in endpoint.requests] == [
        *WARMUP_PROMPTS,
        *WARMUP_PROMPTS,
    ]


async def test_an_endpoint_that_came_back_with_an_empty_cache_is_warmed_again(tmp_path: Path) -> None:
    endpoint = ScriptedEndpoint()
    async with running_gateway(tmp_path, endpoint, warm_up="on", thinking="off") as gateway:
        await wait_until(lambda: requests_finished(endpoint, 3)())
        endpoint.inject_fault("crash")
        gateway.ann.send("@@say:Here.@@")
        await wait_until(lambda: endpoint.requests[-1].fault_kind == "crash")
        await wait_until(lambda: len(gateway.texts()) > 0)  # the line about waiting
        endpoint.heal()
        await gateway.api.wait_until(lambda: gateway.texts()[-1:] == ["Here."])
        await wait_until(lambda: len(warm_ups(endpoint)) == 4)
    assert warm_ups(endpoint)[2].cached_tokens == 0


async def test_an_endpoint_that_kept_its_cache_is_not_warmed_again(tmp_path: Path) -> None:
    endpoint = ScriptedEndpoint()
    async with running_gateway(tmp_path, endpoint, warm_up="on", thinking="off") as gateway:
        await wait_until(lambda: requests_finished(endpoint, 3)())
        endpoint.inject_fault("busy", times=2)
        gateway.ann.send("@@say:Here.@@")
        await gateway.api.wait_until(lambda: "Here." in gateway.texts())
        await wait_until(lambda: any("answers again" in text for text in gateway.texts()))
    assert len(warm_ups(endpoint)) == 2


def warm_ups(endpoint: ScriptedEndpoint) -> list[RequestRecord]:
    return [
        request for request in endpoint.requests if request.body["messages"][-1]["content"] in WARMUP_PROMPTS
    ]


async def test_an_endpoint_that_is_away_is_waited_for_without_a_row(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked_urls: list[str] = []
    endpoint = ScriptedEndpoint()
    original_check = server_api.check_health

    async def check_health(url: str) -> bool:
        checked_urls.append(url)
        if len(checked_urls) == 3:
            endpoint.heal()
        return await original_check(url)

    monkeypatch.setattr(server_api, "check_health", check_health)
    endpoint.simulate_loading(60)
    async with open_warmup_harness(database, endpoint) as harness:
        rows = await wait_for_closed_rows(harness, 4)
    assert [row[-1] for row in rows] == [None] * 4
    assert len(checked_urls) == 3
    assert harness.admin_notices == []


async def test_an_endpoint_that_goes_away_meanwhile_is_warmed_from_the_beginning(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("reset", after_canvases=0)
    async with open_warmup_harness(database, endpoint) as harness:
        rows = await wait_for_closed_rows(harness, 5)
    assert rows[0] == ("warmup", None, 1, False, "failed", None)
    assert [row[2:] for row in rows[1:]] == [
        (1, False, "ok", "away"),
        (2, False, "ok", "away"),
        (1, True, "ok", "away"),
        (2, True, "ok", "away"),
    ]


async def test_an_endpoint_that_stays_busy_is_given_up(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("busy", times=None)
    async with open_warmup_harness(database, endpoint) as harness:
        await wait_until(lambda: "the endpoint was not warmed up, for it did not answer" in caplog.messages)
        assert [row[4] for row in await harness.load_rows()] == ["failed"] * cache_warmup.MAX_ATTEMPTS
    assert len(endpoint.requests) == cache_warmup.MAX_ATTEMPTS
    assert harness.admin_notices == []


async def test_a_shutdown_closes_the_row_of_the_call_it_cancels(database: Database) -> None:
    endpoint = ScriptedEndpoint()
    async with open_warmup_harness(database, endpoint) as harness:
        endpoint.hold()
        await endpoint.wait_until(lambda: endpoint.running == 1)
    assert await harness.load_rows("outcome", "error") == [("cancelled", "the gateway was stopped")]
    endpoint.release()


async def test_an_error_in_it_does_not_end_the_gateway(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(ScriptedEndpoint().app) as url:
        harness = WarmupHarness(database, ScriptedModel([ZeroDivisionError("odd")]), f"{url}/v1")
        async with running_warmup(harness):
            await wait_until(lambda: any("could not be looked at" in line for line in caplog.messages))


async def test_a_refusal_ends_it_at_once(database: Database) -> None:
    async with serve(ScriptedEndpoint().app) as url:
        model = ScriptedModel(
            [make_reply("yes"), EndpointRefused("No.", make_reply("")), EndpointAway("Gone.", make_reply(""))]
        )
        harness = WarmupHarness(database, model, f"{url}/v1")
        async with running_warmup(harness):
            await wait_until(lambda: harness.admin_notices)
    assert len(model.requests) == 2
    assert "Every message will be refused alike." in harness.admin_notices[0][1]


@pytest.mark.sqlite
async def test_a_row_a_kill_left_open_is_closed_at_the_next_start(tmp_path: Path, database: Database) -> None:
    async with serve(ScriptedEndpoint().app) as url:
        harness = WarmupHarness(database, ScriptedModel([hang_forever]), f"{url}/v1")
        warmup = harness.build_warmup()
        call = await CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS).open(
            warmup._build_row(warmup._build_request(False, WARMUP_PROMPTS[0]), 1, None)
        )
    assert await harness.load_rows("id", "outcome") == [(call, None)]
    address = f"sqlite+aiosqlite:///{tmp_path / 'canvasgram.db'}"
    async with running_gateway(tmp_path, database_url=address) as gateway:
        gateway.ann.send("/id")
        await gateway.wait_for_texts(1)
    assert (await harness.load_rows("outcome", "error"))[0] == ("cancelled", "the process ended")


def test_requests_are_the_head_of_a_turn(database: Database) -> None:
    warmup = WarmupHarness(database, ScriptedModel(), "http://x/v1").build_warmup()
    request: ModelRequest = warmup._build_request(True, "hi")
    assert request.tool_choice == "auto"
    assert [message.role for message in request.messages] == ["system", "user"]

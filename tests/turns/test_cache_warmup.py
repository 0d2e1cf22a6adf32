"""The house's own calls at start: what they warm, when they are made again, and that nothing depends on them."""

from pathlib import Path

import pytest

from bot.db.engine import Database
from bot.domain import CANVAS_TOKENS, WARMUP_PRIORITY, ModelRequest
from bot.errors import EndpointAway, EndpointRefused
from bot.http_server import serve
from bot.llm import server_api as server
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.sim.vllm.server import RequestRecord, SimulatedEndpoint
from bot.turns import cache_warmup as warming
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
from tests.support.gateway import running_gateway
from tests.support.turn_harness import ScriptedModel, hang_forever, make_reply


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "START_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(warming, "BACKOFF_SECONDS", (0.01,))


async def test_each_lineage_is_warmed_by_two_requests_that_share_their_head_and_no_more(
    database: Database,
) -> None:
    endpoint = SimulatedEndpoint()
    async with open_warmup_harness(database, endpoint) as bench:
        rows = await wait_for_closed_rows(bench, 4)
    assert rows == [
        ("warmup", None, 1, False, "ok", None),
        ("warmup", None, 2, False, "ok", None),
        ("warmup", None, 1, True, "ok", None),
        ("warmup", None, 2, True, "ok", None),
    ]
    for one, other in (endpoint.requests[:2], endpoint.requests[2:]):
        assert one.body["messages"][0] == other.body["messages"][0]
        assert one.body["tools"] == other.body["tools"]
        assert [one.body["messages"][1]["content"], other.body["messages"][1]["content"]] == list(
            WARMUP_PROMPTS
        )
    assert {request.body["max_tokens"] for request in endpoint.requests} == {CANVAS_TOKENS}
    assert {request.body["priority"] for request in endpoint.requests} == {WARMUP_PRIORITY}
    assert bench.admin_notices == []


async def test_what_a_warm_up_took_is_in_the_ledger(database: Database) -> None:
    async with open_warmup_harness(database, SimulatedEndpoint()) as bench:
        await wait_for_closed_rows(bench, 4)
        first, second, *_ = await bench.load_rows(
            "prompt_tokens", "cached_tokens", "completion_tokens", "chars_tools"
        )
    assert first[0] > MIN_HEAD_TOKENS
    assert first[1] == 0
    assert second[0] > MIN_HEAD_TOKENS
    assert first[2] > 0
    assert first[3] > MIN_HEAD_TOKENS


async def test_only_the_lineages_that_are_used_are_warmed(database: Database) -> None:
    endpoint = SimulatedEndpoint()
    async with open_warmup_harness(database, endpoint, lineages=(False,)) as bench:
        await wait_for_closed_rows(bench, 2)
        await wait_until(lambda: endpoint.running == 0)
    assert [request.thinking for request in endpoint.requests] == [False, False]


async def test_it_is_done_again_when_it_is_asked_for_and_once_for_all_who_asked_meanwhile(
    database: Database,
) -> None:
    endpoint = SimulatedEndpoint()
    async with serve(endpoint.app) as url:
        model = ModelClient(f"{url}/v1", None, SeatLimiter(1))
        bench = WarmupHarness(database, model, f"{url}/v1", lineages=(False,))
        async with running_warmup(bench) as made:
            endpoint.hold()
            await endpoint.wait_until(lambda: endpoint.running == 1)
            made.trigger()
            endpoint.release()
            await wait_for_closed_rows(bench, 2)
            await wait_until(lambda: not made._triggered.is_set())
            made.trigger()
            await wait_for_closed_rows(bench, 4)
        await model.close()
    assert [request.body["messages"][1]["content"] for request in endpoint.requests] == [
        *WARMUP_PROMPTS,
        *WARMUP_PROMPTS,
    ]


async def test_an_endpoint_that_came_back_with_an_empty_cache_is_warmed_again(tmp_path: Path) -> None:
    endpoint = SimulatedEndpoint()
    async with running_gateway(tmp_path, endpoint, warm_up="on", thinking="off", model_wait=60) as house:
        await wait_until(lambda: requests_finished(endpoint, 2)())
        endpoint.inject_fault("crash")
        house.ann.send("@@say:Here.@@")
        await wait_until(lambda: endpoint.requests[-1].fault_kind == "crash")
        await wait_until(lambda: len(house.texts()) > 0)  # the line about waiting
        endpoint.heal()
        await house.api.wait_until(lambda: house.texts()[-1:] == ["Here."])
        await wait_until(lambda: len(warm_ups(endpoint)) == 4)
    assert warm_ups(endpoint)[2].cached_tokens == 0


async def test_one_that_kept_its_cache_is_left_in_peace(tmp_path: Path) -> None:
    endpoint = SimulatedEndpoint()
    async with running_gateway(tmp_path, endpoint, warm_up="on", thinking="off") as house:
        await wait_until(lambda: requests_finished(endpoint, 2)())
        endpoint.inject_fault("busy", times=2)
        house.ann.send("@@say:Here.@@")
        await house.api.wait_until(lambda: "Here." in house.texts())
        await wait_until(lambda: any("answers again" in text for text in house.texts()))
    assert len(warm_ups(endpoint)) == 2


def warm_ups(endpoint: SimulatedEndpoint) -> list[RequestRecord]:
    return [
        request for request in endpoint.requests if request.body["messages"][-1]["content"] in WARMUP_PROMPTS
    ]


async def test_an_endpoint_that_is_away_is_waited_for_without_a_row(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    endpoint = SimulatedEndpoint()
    health = server.check_health

    async def look(url: str) -> bool:
        looks.append(url)
        if len(looks) == 3:
            endpoint.heal()
        return await health(url)

    monkeypatch.setattr(server, "check_health", look)
    endpoint.simulate_loading(60)
    async with open_warmup_harness(database, endpoint) as bench:
        rows = await wait_for_closed_rows(bench, 4)
    assert [row[-1] for row in rows] == [None] * 4
    assert len(looks) == 3
    assert bench.admin_notices == []


async def test_one_that_goes_away_in_between_is_warmed_from_the_beginning(database: Database) -> None:
    endpoint = SimulatedEndpoint()
    endpoint.inject_fault("reset", after_canvases=0)
    async with open_warmup_harness(database, endpoint) as bench:
        rows = await wait_for_closed_rows(bench, 5)
    assert rows[0] == ("warmup", None, 1, False, "failed", None)
    assert [row[2:] for row in rows[1:]] == [
        (1, False, "ok", "away"),
        (2, False, "ok", "away"),
        (1, True, "ok", "away"),
        (2, True, "ok", "away"),
    ]


async def test_an_endpoint_that_is_always_busy_is_left_alone_in_the_end(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = SimulatedEndpoint()
    endpoint.inject_fault("busy", times=None)
    async with open_warmup_harness(database, endpoint) as bench:
        await wait_until(lambda: "the endpoint was not warmed up, for it did not answer" in caplog.messages)
        assert [row[4] for row in await bench.load_rows()] == ["failed"] * warming.MAX_ATTEMPTS
    assert len(endpoint.requests) == warming.MAX_ATTEMPTS
    assert bench.admin_notices == []


@pytest.mark.usefixtures("unhurried")
async def test_a_stop_closes_the_row_of_the_call_it_cuts(database: Database) -> None:
    endpoint = SimulatedEndpoint()
    async with open_warmup_harness(database, endpoint) as bench:
        endpoint.hold()
        await endpoint.wait_until(lambda: endpoint.running == 1)
    assert await bench.load_rows("outcome", "error") == [("cancelled", "the gateway was stopped")]
    endpoint.release()


async def test_what_goes_wrong_in_it_does_not_end_the_house(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(SimulatedEndpoint().app) as url:
        bench = WarmupHarness(database, ScriptedModel([ZeroDivisionError("odd")]), f"{url}/v1")
        async with running_warmup(bench):
            await wait_until(lambda: any("could not be looked at" in line for line in caplog.messages))


async def test_a_refusal_ends_it_at_once(database: Database) -> None:
    async with serve(SimulatedEndpoint().app) as url:
        model = ScriptedModel(
            [make_reply("yes"), EndpointRefused("No.", make_reply("")), EndpointAway("Gone.", make_reply(""))]
        )
        bench = WarmupHarness(database, model, f"{url}/v1")
        async with running_warmup(bench):
            await wait_until(lambda: bench.admin_notices)
    assert len(model.requests) == 2
    assert "Every message will be refused alike." in bench.admin_notices[0][1]


async def test_a_row_a_kill_left_open_is_closed_at_the_next_start(tmp_path: Path, database: Database) -> None:
    async with serve(SimulatedEndpoint().app) as url:
        bench = WarmupHarness(database, ScriptedModel([hang_forever]), f"{url}/v1")
        made = bench.build_warmup()
        call = await CallLedger(database).open(
            made._build_row(made._build_request(False, WARMUP_PROMPTS[0]), 1, None)
        )
    assert await bench.load_rows("id", "outcome") == [(call, None)]
    address = f"sqlite+aiosqlite:///{tmp_path / 'canvasgram.db'}"
    async with running_gateway(tmp_path, database_url=address) as house:
        house.ann.send("/id")
        await house.wait_for_texts(1)
    assert (await bench.load_rows("outcome", "error"))[0] == ("failed", "the process ended")


def test_requests_are_the_head_of_a_turn(database: Database) -> None:
    made = WarmupHarness(database, ScriptedModel(), "http://x/v1").build_warmup()
    request: ModelRequest = made._build_request(True, "hi")
    assert request.tool_choice == "auto"
    assert [message.role for message in request.messages] == ["system", "user"]

"""The house's own calls at start: what they warm, when they are made again, and that nothing depends on them."""

from pathlib import Path

import pytest

from bot.db.engine import Database
from bot.domain import CANVAS, WARMUP, ModelRequest
from bot.errors import EndpointAway, EndpointRefused
from bot.http_server import serve
from bot.llm import server_api as server
from bot.llm.client import Llm
from bot.llm.seats import Seats
from bot.sim.vllm.server import Endpoint, Request
from bot.turns import cache_warmup as warming
from bot.turns.cache_warmup import ASKS
from bot.turns.call_ledger import Book
from tests.support.cache_warmup import HEAD, Bench, at_work, closed, finished, until, warmed
from tests.support.gateway import open_house
from tests.support.turn_harness import Model, forever, said


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SETTLE", 0.0)
    monkeypatch.setattr(warming, "PAUSES", (0.01,))


async def test_each_lineage_is_warmed_by_two_requests_that_share_their_head_and_no_more(
    database: Database,
) -> None:
    endpoint = Endpoint()
    async with warmed(database, endpoint) as bench:
        rows = await closed(bench, 4)
    assert rows == [
        ("warmup", None, 1, False, "ok", None),
        ("warmup", None, 2, False, "ok", None),
        ("warmup", None, 1, True, "ok", None),
        ("warmup", None, 2, True, "ok", None),
    ]
    for one, other in (endpoint.requests[:2], endpoint.requests[2:]):
        assert one.body["messages"][0] == other.body["messages"][0]
        assert one.body["tools"] == other.body["tools"]
        assert [one.body["messages"][1]["content"], other.body["messages"][1]["content"]] == list(ASKS)
    assert {request.body["max_tokens"] for request in endpoint.requests} == {CANVAS}
    assert {request.body["priority"] for request in endpoint.requests} == {WARMUP}
    assert bench.news == []


async def test_what_a_warm_up_took_is_in_the_ledger(database: Database) -> None:
    async with warmed(database, Endpoint()) as bench:
        await closed(bench, 4)
        first, second, *_ = await bench.rows(
            "prompt_tokens", "cached_tokens", "completion_tokens", "chars_tools"
        )
    assert first[0] > HEAD
    assert first[1] == 0
    assert second[0] > HEAD
    assert first[2] > 0
    assert first[3] > HEAD


async def test_only_the_lineages_that_are_used_are_warmed(database: Database) -> None:
    endpoint = Endpoint()
    async with warmed(database, endpoint, lineages=(False,)) as bench:
        await closed(bench, 2)
        await until(lambda: endpoint.running == 0)
    assert [request.thinking for request in endpoint.requests] == [False, False]


async def test_it_is_done_again_when_it_is_asked_for_and_once_for_all_who_asked_meanwhile(
    database: Database,
) -> None:
    endpoint = Endpoint()
    async with serve(endpoint.app) as url:
        model = Llm(f"{url}/v1", None, Seats(1))
        bench = Bench(database, model, f"{url}/v1", lineages=(False,))
        async with at_work(bench) as made:
            endpoint.hold()
            await endpoint.until(lambda: endpoint.running == 1)
            made.again()
            endpoint.release()
            await closed(bench, 2)
            await until(lambda: not made._due.is_set())
            made.again()
            await closed(bench, 4)
        await model.close()
    assert [request.body["messages"][1]["content"] for request in endpoint.requests] == [*ASKS, *ASKS]


async def test_an_endpoint_that_came_back_with_an_empty_cache_is_warmed_again(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with open_house(tmp_path, endpoint, warm_up="on", thinking="off", model_wait=60) as house:
        await until(lambda: finished(endpoint, 2)())
        endpoint.fault("crash")
        house.ann.send("@@say:Here.@@")
        await until(lambda: endpoint.requests[-1].fault == "crash")
        await until(lambda: len(house.texts()) > 0)  # the line about waiting
        endpoint.heal()
        await house.api.until(lambda: house.texts()[-1:] == ["Here."])
        await until(lambda: len(warm_ups(endpoint)) == 4)
    assert warm_ups(endpoint)[2].cached_tokens == 0


async def test_one_that_kept_its_cache_is_left_in_peace(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with open_house(tmp_path, endpoint, warm_up="on", thinking="off") as house:
        await until(lambda: finished(endpoint, 2)())
        endpoint.fault("busy", times=2)
        house.ann.send("@@say:Here.@@")
        await house.api.until(lambda: "Here." in house.texts())
        await until(lambda: any("answers again" in text for text in house.texts()))
    assert len(warm_ups(endpoint)) == 2


def warm_ups(endpoint: Endpoint) -> list[Request]:
    return [request for request in endpoint.requests if request.body["messages"][-1]["content"] in ASKS]


async def test_an_endpoint_that_is_away_is_waited_for_without_a_row(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    endpoint = Endpoint()
    health = server.health

    async def look(url: str) -> bool:
        looks.append(url)
        if len(looks) == 3:
            endpoint.heal()
        return await health(url)

    monkeypatch.setattr(server, "health", look)
    endpoint.loading(60)
    async with warmed(database, endpoint) as bench:
        rows = await closed(bench, 4)
    assert [row[-1] for row in rows] == [None] * 4
    assert len(looks) == 3
    assert bench.news == []


async def test_one_that_goes_away_in_between_is_warmed_from_the_beginning(database: Database) -> None:
    endpoint = Endpoint()
    endpoint.fault("reset", after_canvases=0)
    async with warmed(database, endpoint) as bench:
        rows = await closed(bench, 5)
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
    endpoint = Endpoint()
    endpoint.fault("busy", times=None)
    async with warmed(database, endpoint) as bench:
        await until(lambda: "the endpoint was not warmed up, for it did not answer" in caplog.messages)
        assert [row[4] for row in await bench.rows()] == ["failed"] * warming.TRIES
    assert len(endpoint.requests) == warming.TRIES
    assert bench.news == []


@pytest.mark.usefixtures("unhurried")
async def test_a_stop_closes_the_row_of_the_call_it_cuts(database: Database) -> None:
    endpoint = Endpoint()
    async with warmed(database, endpoint) as bench:
        endpoint.hold()
        await endpoint.until(lambda: endpoint.running == 1)
    assert await bench.rows("outcome", "error") == [("cancelled", "the gateway was stopped")]
    endpoint.release()


async def test_what_goes_wrong_in_it_does_not_end_the_house(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(Endpoint().app) as url:
        bench = Bench(database, Model([ZeroDivisionError("odd")]), f"{url}/v1")
        async with at_work(bench):
            await until(lambda: any("could not be looked at" in line for line in caplog.messages))


async def test_a_refusal_ends_it_at_once(database: Database) -> None:
    async with serve(Endpoint().app) as url:
        model = Model([said("yes"), EndpointRefused("No.", said("")), EndpointAway("Gone.", said(""))])
        bench = Bench(database, model, f"{url}/v1")
        async with at_work(bench):
            await until(lambda: bench.news)
    assert len(model.requests) == 2
    assert "Every message will be refused alike." in bench.news[0][1]


async def test_a_row_a_kill_left_open_is_closed_at_the_next_start(tmp_path: Path, database: Database) -> None:
    async with serve(Endpoint().app) as url:
        bench = Bench(database, Model([forever]), f"{url}/v1")
        made = bench.warming()
        call = await Book(database).open(made._row(made._request(False, ASKS[0]), 1, None))
    assert await bench.rows("id", "outcome") == [(call, None)]
    address = f"sqlite+aiosqlite:///{tmp_path / 'canvasgram.db'}"
    async with open_house(tmp_path, database_url=address) as house:
        house.ann.send("/id")
        await house.answered(1)
    assert (await bench.rows("outcome", "error"))[0] == ("failed", "the process ended")


def test_requests_are_the_head_of_a_turn(database: Database) -> None:
    made = Bench(database, Model(), "http://x/v1").warming()
    request: ModelRequest = made._request(True, "hi")
    assert request.tool_choice == "auto"
    assert [message.role for message in request.messages] == ["system", "user"]

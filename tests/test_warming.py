"""The house's own calls at start: what they warm, what is said of the endpoint, and that nothing depends on them."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bot import asking, warming
from bot.agent import server
from bot.agent.llm import Llm
from bot.agent.seats import Seats
from bot.agent.toolbox import Toolbox
from bot.booking import Book
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.domain import CANVAS, PEOPLE, WARMUP, LanguageModel, ModelRequest
from bot.errors import EndpointAway, EndpointRefused
from bot.serving import serve
from bot.sim.endpoint import Endpoint, Profile, Request
from bot.warming import ASKS, Wanted, Warming
from tests.house import ADMIN, World, open_house, world
from tests.turning import Desk, Model, forever, said
from tools.registry import discover

HEAD = 400  # tokens of system text and tools, at the least
ROW = ("purpose", "turn", "step", "thinking", "outcome", "again")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SETTLE", 0.0)
    monkeypatch.setattr(warming, "PAUSES", (0.01,))


@dataclass
class Bench:
    """A warming over a real database."""

    database: Database
    model: LanguageModel
    url: str
    lineages: tuple[bool, ...] = (False, True)
    key: str | None = None
    news: list[tuple[str, str]] = field(default_factory=list)

    def warming(self) -> Warming:
        toolbox = Toolbox(discover())
        wanted = Wanted(self.url, self.key, None, "Be brief.", lambda: toolbox, 9000, self.lineages)
        return Warming(self.database, self.model, wanted, name=lambda: "model", tell=self._tell)

    async def _tell(self, subject: str, text: str) -> None:
        self.news.append((subject, text))

    async def rows(self, *names: str) -> list[tuple[Any, ...]]:
        return await Desk(self.database, Model()).rows(model_calls, *(names or ROW))


@contextlib.asynccontextmanager
async def at_work(bench: Bench) -> AsyncIterator[Warming]:
    """A warming that runs; it is cancelled in the end."""
    async with asyncio.TaskGroup() as tasks:
        made = bench.warming()
        running = tasks.create_task(made.run())
        yield made
        running.cancel()


@contextlib.asynccontextmanager
async def warmed(database: Database, endpoint: Endpoint, **fields: Any) -> AsyncIterator[Bench]:
    """A warming at work on a simulated endpoint."""
    async with serve(endpoint.app) as url:
        model = Llm(f"{url}/v1", None, Seats(1), api_key=endpoint.api_key)
        try:
            bench = Bench(database, model, f"{url}/v1", key=endpoint.api_key, **fields)
            async with at_work(bench):
                yield bench
        finally:
            await model.close()


async def until(found: Callable[[], object]) -> None:
    """Wait for what another task does."""
    async with asyncio.timeout(30):
        while not found():  # noqa: ASYNC110 nothing tells
            await asyncio.sleep(0.005)


def called(endpoint: Endpoint, times: int) -> bool:
    return len(endpoint.requests) >= times


def finished(endpoint: Endpoint, count: int) -> Callable[[], bool]:
    return lambda: sum(request.finished is not None for request in endpoint.requests) >= count


async def closed(bench: Bench, count: int) -> list[tuple[Any, ...]]:
    """The rows, once so many of them are closed."""
    async with asyncio.timeout(30):
        while sum(outcome is not None for (outcome,) in await bench.rows("outcome")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return await bench.rows()


async def test_each_lineage_is_warmed_by_two_requests_that_share_their_head_and_no_more(database: Database) -> None:
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
        first, second, *_ = await bench.rows("prompt_tokens", "cached_tokens", "completion_tokens", "chars_tools")
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


async def test_it_is_done_again_when_it_is_asked_for_and_once_for_all_who_asked_meanwhile(database: Database) -> None:
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


async def test_without_a_tool_parser_the_line_that_mends_it_is_told(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint(replace(Profile.today(), tool_parser=False))
    async with warmed(database, endpoint) as bench:
        await until(lambda: bench.news)
    [(subject, text)] = bench.news
    assert subject == "server calls"
    assert "--enable-auto-tool-choice --tool-call-parser gemma4" in text
    assert len(endpoint.requests) == 1
    assert text.endswith(caplog.messages[-1])


@pytest.mark.parametrize(
    ("profile", "flag"),
    [
        (replace(Profile.today(), reasoning_parser=False), "--reasoning-parser gemma4"),
        (replace(Profile.today(), prompt_details=False), "--enable-prompt-tokens-details"),
    ],
)
async def test_flags_whose_lack_shows_in_replies_are_named(database: Database, profile: Profile, flag: str) -> None:
    async with warmed(database, Endpoint(profile)) as bench:
        await until(lambda: bench.news)
    assert flag in bench.news[0][1]


async def test_a_key_that_is_refused_is_told_and_nothing_is_called(database: Database) -> None:
    endpoint = Endpoint(api_key="right")
    async with serve(endpoint.app) as url:
        bench = Bench(database, Model(), f"{url}/v1", key="wrong")
        async with at_work(bench):
            await until(lambda: bench.news)
    assert "Set MODEL_API_KEY." in bench.news[0][1]
    assert endpoint.requests == []


async def test_another_server_is_told_and_tried(database: Database) -> None:
    async with warmed(database, Endpoint(Profile.hosted_api())) as bench:
        await until(lambda: len(bench.news) == 2)
    assert "does not say that it is vLLM" in bench.news[0][1]
    assert "Unknown parameter" in bench.news[1][1]


async def test_a_server_that_lists_no_models_is_called_all_the_same(database: Database) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        status, body = (200, b'{"version": "0.33.0"}') if scope["path"] == "/version" else (404, b"")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    model = Model([said("yes")] * 4)
    async with serve(app) as url:
        bench = Bench(database, model, f"{url}/v1")
        async with at_work(bench):
            await closed(bench, 4)
    assert [request.thinking for request in model.requests] == [False, False, True, True]


async def test_one_that_is_gone_before_it_has_told_all_is_asked_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    endpoint, version = Endpoint(), server.version

    async def tell(url: str) -> str | None:
        asked.append(url)
        return await version(url if len(asked) > 1 else "http://127.0.0.1:9/v1")

    monkeypatch.setattr(server, "version", tell)
    async with warmed(database, endpoint) as bench:
        await closed(bench, 4)
    assert len(asked) == 2


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


async def first_prompts(house: World, *people: int) -> list[tuple[bool, int, int]]:
    """Strangers write one after the other: thinking, prompt tokens and cached tokens of each first call.

    Their words fill blocks of the cache of their own, and differ from the beginning.
    """
    told = []
    for person in people:
        before, done = len(house.endpoint.requests), partial(house.finished, person)
        house.api.person(person, f"P{person}").send(f"{person} is my number. " + "How are you today? " * 12)
        await house.api.until(done)
        request = house.endpoint.requests[before]
        told.append((request.thinking, request.prompt_tokens, request.cached_tokens))
    return told


@pytest.mark.parametrize("thinking", [False, True])
async def test_the_first_person_finds_the_head_in_the_cache(tmp_path: Path, thinking: bool) -> None:
    setting = "on" if thinking else "auto"
    async with open_house(tmp_path, access="open", warm_up="on", thinking=setting) as house:
        await house.endpoint.until(finished(house.endpoint, 4))
        [first] = await first_prompts(house, 21)
    assert first[0] is thinking
    assert first[2] > HEAD
    assert first[1] - first[2] < 160  # the person's own words, and a block


@pytest.mark.parametrize("thinking", [False, True])
async def test_without_it_the_first_two_people_pay_for_the_head(tmp_path: Path, thinking: bool) -> None:
    setting = "on" if thinking else "auto"
    async with open_house(tmp_path, access="open", thinking=setting) as house:
        first, second, third = await first_prompts(house, 21, 22, 23)
    assert (first[2], second[2]) == (0, 0)
    assert third[2] > HEAD


async def test_people_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SEAT_SIGN", 0.05)
    endpoint = Endpoint(seats=1)
    async with open_house(tmp_path, endpoint, warm_up="on", model_seats=1) as house:
        endpoint.hold()
        await endpoint.until(lambda: endpoint.running == 1)
        house.ann.send("hello there")
        await house.api.until(lambda: (draft := house.api.chat(ADMIN).draft) and "you are next" in draft.text)
        endpoint.release()
        await house.api.until(house.finished)
        await endpoint.until(finished(endpoint, 5))
    order = [request.body.get("priority", PEOPLE) for request in endpoint.requests]
    assert order == [WARMUP, PEOPLE, WARMUP, WARMUP, WARMUP]


async def test_the_house_polls_before_it_warms_up(tmp_path: Path) -> None:
    async with open_house(tmp_path, warm_up="on") as house:
        await house.endpoint.until(lambda: bool(house.endpoint.requests))
        assert house.api.calls_of("getUpdates")
        await house.endpoint.until(finished(house.endpoint, 4))


async def test_an_endpoint_that_is_down_at_start_is_fine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path, warm_up="on") as house:
        house.endpoint.refuse(60)
        async with house.gateway():
            house.ann.send("/id")
            await house.answered(1)
            house.endpoint.heal()
            await house.endpoint.until(finished(house.endpoint, 4))
    assert not [line for line in caplog.records if line.levelno > logging.WARNING]


async def test_the_preview_image_is_named_at_start_and_admins_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint(Profile.preview())
    endpoint.hold()
    async with world(tmp_path, endpoint, warm_up="on") as house:
        house.ann.send("/id")
        for start in (1, 2):
            async with house.gateway():
                # By the time of the first call all has been said about the server itself.
                await endpoint.until(partial(called, endpoint, start))
                await house.answered(2)
    one, another = warnings(caplog)
    assert one == another
    assert "0.22.1rc1" in one
    assert "pip install -U 'vllm>=0.33.0'" in one
    assert len(house.texts()) == 2
    assert sum(one in text for text in house.texts()) == 1


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "server.complaint"]


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

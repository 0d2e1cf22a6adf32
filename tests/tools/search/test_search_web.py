"""The tool `search_web` against a simulated SearXNG, and engines that answer anything else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from bot.http_server import serve
from bot.sim.search_engine import JSON_ENABLED, SHIPPED_FORMATS, SimulatedSearchEngine, WebPage
from tools.arguments import check_arguments
from tools.base import ToolError, run_tool
from tools.search import tool as search_tool
from tools.search.brave import BraveEngine
from tools.search.engine import MAX_ANSWER_BYTES, EngineAnswer, SearchRefused
from tools.search.hits import NO_HITS, PARTIAL, parse_hits
from tools.search.searxng import SearxngEngine
from tools.search.tool import MAX_SEARCHES, choose_engine, make_search_tool, search_in_time

TEXT = "All about it. " * 30
PAGES = [
    WebPage(
        f"https://site{n}.example/release",
        f"Release {n} of Python",
        "All about it. " * 30,
        "2026-11-0{n}T00:00:00",
    )
    for n in range(1, 9)
]


@pytest.fixture
async def engine() -> AsyncIterator[tuple[SimulatedSearchEngine, str]]:
    simulated = SimulatedSearchEngine(PAGES, JSON_ENABLED)
    async with serve(simulated.app) as url:
        yield simulated, url


@pytest.fixture
def simulated(engine) -> SimulatedSearchEngine:
    (simulated, _) = engine
    assert isinstance(simulated, SimulatedSearchEngine)
    return simulated


@pytest.fixture
def search_web(engine, monkeypatch):
    monkeypatch.setattr(search_tool, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(search_tool, "SEARCH_SECONDS", 300.0)
    return make_search_tool(SearxngEngine(engine[1]))


async def test_a_search_asks_once_and_says_what_it_found(simulated, search_web, context):
    arguments = check_arguments(search_web, {"question": "!!g  what is new in Python?", "newest": "true"})
    result = (await run_tool(search_web, arguments, context)).text
    assert simulated.requests == [{"q": "g what is new in Python?", "format": "json", "time_range": "month"}]
    assert list(parse_hits(result)) == [1, 2, 3, 4, 5, 6]
    assert result.startswith(
        "1. Release 1 of Python — site1.example\nhttps://site1.example/release\nAll about it."
    )


async def test_later_searches_of_a_turn_number_on_and_the_fifth_is_refused(simulated, search_web, context):
    second = (await run_tool(search_web, {"question": "python"}, replace(context, earlier_calls=1))).text
    assert list(parse_hits(second)) == [7, 8, 9, 10, 11, 12]
    with pytest.raises(ToolError, match="No more than 4 searches"):
        await run_tool(search_web, {"question": "python"}, replace(context, earlier_calls=MAX_SEARCHES))
    with pytest.raises(ToolError, match="empty"):
        await run_tool(search_web, {"question": " \n "}, context)


class RecordingEngine:
    """Finds nothing; `asked` are the questions, in the order in which they were let through."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, question: str, *, newest: bool) -> EngineAnswer:
        self.asked.append(question)
        return EngineAnswer(())


async def test_searches_of_one_person_leave_every_second_place_to_others(monkeypatch, context):
    monkeypatch.setattr(search_tool, "PAUSE_SECONDS", 0.0)
    engine = RecordingEngine()
    search_web = make_search_tool(engine)
    async with asyncio.TaskGroup() as tasks:
        for person, question in [*[(1, "mine")] * 6, (2, "yours"), (3, "theirs")]:
            arguments = check_arguments(search_web, {"question": question})
            tasks.create_task(run_tool(search_web, arguments, replace(context, person_id=person)))
    asked = engine.asked
    assert asked[:3] == ["mine", "yours", "theirs"]
    assert asked[3:] == ["mine"] * 5


async def test_engines_that_do_not_respond_are_left_out_once(simulated, search_web, context):
    simulated.unresponsive = (("google", "CAPTCHA"), ("bing", "timeout"))
    result = (await run_tool(search_web, {"question": "nothing"}, context)).text
    assert result == f"{NO_HITS}\n{PARTIAL}"
    assert [request.get("disabled_engines") for request in simulated.requests] == [
        None,
        "google__general,bing__general",
    ]
    result = (await run_tool(search_web, {"question": "python"}, context)).text
    assert result.endswith(PARTIAL)
    assert len(simulated.requests) == 3


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (HTMLResponse("<form>Are you human?</form>"), "answered with a page instead of results"),
        (HTMLResponse("", 503), "the search engine answered 503"),
        (HTMLResponse("", 429), "the search engine answered 429"),
        (RedirectResponse("http://127.0.0.1:1/"), "the search engine answered 307"),
        (Response(b'{"results": "' + b"x" * 10_000_000 + b'"}'), "the search engine's answer is too long"),
        (Response(b"[" * (MAX_ANSWER_BYTES - 1)), "a page instead of results"),
        (Response(b"x", headers={"content-encoding": "br"}), "the search engine's answer cannot be read"),
        (JSONResponse([]), "something else than results"),
    ],
    ids=["captcha", "503", "429", "redirect", "10 MB", "nested", "brotli", "list"],
)
async def test_what_is_no_result_is_said(simulated, search_web, context, response, reason):
    simulated.response = response
    with pytest.raises(SearchRefused, match=reason):
        await run_tool(search_web, {"question": "python"}, context)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"results": None},
        {"results": [None, 7, {}, {"url": 7}]},
        {"results": {}, "unresponsive_engines": [7, [], [7]]},
    ],
    ids=str,
)
async def test_an_answer_of_another_shape_finds_nothing(simulated, search_web, context, content):
    simulated.response = JSONResponse(content)
    assert (await run_tool(search_web, {"question": "python"}, context)).text.startswith(NO_HITS)


async def test_a_slow_engine_and_none_are_said(simulated, engine, monkeypatch):
    monkeypatch.setattr(search_tool, "SEARCH_SECONDS", 0.05)
    simulated.delay_seconds = 5
    with pytest.raises(SearchRefused, match=r"longer than 0\.05 seconds"):
        await search_in_time(SearxngEngine(engine[1]), "python")
    monkeypatch.setattr(search_tool, "SEARCH_SECONDS", 300.0)
    with pytest.raises(SearchRefused, match="does not answer"):
        await search_in_time(SearxngEngine("http://127.0.0.1:1"), "python")


async def test_searxng_as_shipped_answers_403(simulated, engine):
    simulated.formats = SHIPPED_FORMATS
    with pytest.raises(SearchRefused) as caught:
        await search_in_time(SearxngEngine(engine[1]), "python")
    assert caught.value.status == 403


async def test_brave_gets_its_key_and_no_more(simulated):
    asked = []

    async def answer(request: Request) -> Response:
        asked.append((dict(request.query_params), request.headers["x-subscription-token"]))
        entry = {
            "title": "Python",
            "url": "https://www.python.org/",
            "description": "A <strong>language</strong>",
            "page_age": "2026-11-01T09:00:00",
        }
        return JSONResponse({"type": "search", "web": {"type": "search", "results": [entry]}})

    async with serve(Starlette(routes=[Route("/", answer)])) as url:
        found = await BraveEngine("key", f"{url}/").search("python", newest=True)
    assert asked == [({"q": "python", "count": "20", "text_decorations": "false", "freshness": "pm"}, "key")]
    assert [hit.date for hit in found.hits] == ["2026-11-01T09:00:00"]


def test_the_address_goes_before_the_key_and_without_either_there_is_no_engine():
    assert choose_engine("http://search:8080", None) == SearxngEngine("http://search:8080")
    assert choose_engine(None, "key") == BraveEngine("key")
    assert choose_engine(None, None) is None

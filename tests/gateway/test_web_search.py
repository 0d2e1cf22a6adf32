"""Search, fetch and answer through the whole gateway: every source is real, and every other link is text."""

from functools import partial
from pathlib import Path

from bot.db.engine import open_database
from bot.db.usage import breakdowns
from bot.http_server import serve
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine, WebPage
from bot.sim.vllm.script import ChatRequest, format_tool_call
from bot.sim.vllm.server import SimulatedEndpoint
from tests.support.gateway import running_gateway
from tools.search import tool as search_tool

PEOPLE = range(101, 111)
TURNS = 4  # of each
FAKE = "https://made-up.example/page"
PAGES = [
    WebPage(f"https://site{n}.example/canvas", f"What is new in canvas {n}", "It grew. " * 40)
    for n in range(1, 9)
]
ANSWERS = (
    "It grew [1]. See [this]({fake}).",
    "It grew: https://site2.example/canvas, not {fake}.",
    "Nothing [9] is certain. {fake}",
    "[Both](https://site3.example/canvas) say so [1][2].",
)


def answer(request: ChatRequest) -> str:
    """Search, then answer in one of the ways; every fourth turn opens a page, which the network refuses."""
    turn = int(request.user_texts[-1].rsplit(" ", 1)[-1])
    if request.step == 0:
        return format_tool_call("search_web", {"question": "new in canvas"})
    if request.step == 1 and turn % 4 == 3:
        return format_tool_call("fetch_page", {"url": "https://site1.example/canvas"})
    return ANSWERS[turn % 4].format(fake=FAKE)


async def test_forty_turns_show_real_sources_only(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(search_tool, "PAUSE_SECONDS", 0.0)
    simulated = SimulatedSearchEngine(PAGES, JSON_ENABLED)
    endpoint = SimulatedEndpoint(brain=answer)
    real = {page.url for page in PAGES}
    async with (
        serve(simulated.app) as search_url,
        running_gateway(tmp_path, endpoint, search_url=search_url, access="open") as gateway,
    ):
        for turn in range(TURNS):
            for person in PEOPLE:
                gateway.api.person(person, "Ann").send(f"What is new in canvas? {turn}")
            for person in PEOPLE:
                await gateway.wait_for_texts(turn + 1, person)
                await gateway.api.wait_until(partial(gateway.is_finished, person))
        chats = [gateway.api.chat(person).bot_messages for person in PEOPLE]
        histories = [request.body["messages"] for request in endpoint.requests]
    assert len(simulated.requests) == TURNS * len(PEOPLE)
    for messages in chats:
        shown = []
        for message in messages:
            links = [entity["url"] for entity in message.entities if entity["type"] == "text_link"]
            codes = [entity for entity in message.entities if entity["type"] == "code"]
            assert set(links) <= real
            assert (FAKE in message.text) == bool(codes)
            shown.append((message.text.partition("Sources:")[2], len(links)))
        assert shown == [(" 1", 2), (" 1", 2), ("", 0), (" 1 · 2 · 3", 6)]
    assert "Sources:" not in str(histories)
    thought = [body for body in (request.body for request in endpoint.requests) if "<|think|>" in str(body)]
    assert thought == []
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        turns = await breakdowns.list_accounted_turns(tx)
    assert len(turns) == TURNS * len(PEOPLE)

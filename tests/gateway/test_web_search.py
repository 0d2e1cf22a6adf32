"""Search, fetch and answer through the whole gateway: every source is real, and every other link is text."""

from functools import partial
from pathlib import Path

from bot.db.engine import open_database
from bot.db.usage import breakdowns
from bot.http_server import serve
from bot.sim.search_engine import JSON_ENABLED, SimulatedSearchEngine, WebPage
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.script import ChatRequest, format_tool_call
from bot.sim.vllm.server import SimulatedEndpoint
from tests.support.gateway import running_gateway
from tests.support.web_site import build_response, running_site
from tools.builtin import fetch_page as page_tool
from tools.builtin.fetch_page import make_page_tool
from tools.search import tool as search_tool

PEOPLE = range(101, 111)
FAKE = "https://made-up.example/page"
ANSWERS = (
    "It grew [1]. See [this]({fake}).",
    "It grew: {second}, not {fake} or evil.com, says README.md.",
    "Nothing [9] is certain. {fake}",
    "[Both]({third}) say so [1][2]: {fake}",
)
SHOWN = (
    "It grew [1]. See this ({fake}).\n\nSources: 1 site1.example",
    "It grew: {second}, not {fake} or evil.com, says README.md.\n\nSources: 1 site2.example",
    "Nothing is certain. {fake}",
    "Both say so [2][3]: {fake}\n\n"
    "Sources: 1 site3.example · 2 site1.example · 3 site2.example · 4 site1.example",
)


def list_links(entities: list[dict[str, object]]) -> list[object]:
    return [entity["url"] for entity in entities if entity["type"] == "text_link"]


def list_codes(message: ChatMessage) -> list[str]:
    codes = [entity for entity in message.entities if entity["type"] == "code"]
    return [message.text[code["offset"] : code["offset"] + code["length"]] for code in codes]


async def test_forty_turns_show_real_sources_only(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(search_tool, "PAUSE_SECONDS", 0.0)
    article = "<title>Canvas</title><article><p>" + "It grew a lot this year. " * 20
    site_pages = {"/canvas": build_response("", status="302 Found", location="/final")}
    site_pages["/final"] = build_response(article)
    async with running_site(site_pages) as site:
        urls = [f"http://site{n}.example:{site.port}/canvas" for n in range(1, 9)]
        pages = [WebPage(url, f"New in canvas {n}", "It grew. " * 40) for n, url in enumerate(urls, 1)]
        final = f"http://site1.example:{site.port}/final"
        reader = site.page_reader({"site1.example": ["127.0.0.1"]}, "127.0.0.1")
        monkeypatch.setattr(page_tool, "fetch_page", make_page_tool(reader))
        names = {"fake": FAKE, "second": urls[1], "third": urls[2]}

        def answer(request: ChatRequest) -> str:
            turn = int(request.user_texts[-1].rsplit(" ", 1)[-1])
            if request.step == 0:
                return format_tool_call("search_web", {"question": "new in canvas"})
            if request.step == 1 and turn == 3:
                return format_tool_call("fetch_page", {"url": urls[0]})
            return ANSWERS[turn].format(**names)

        simulated = SimulatedSearchEngine(pages, JSON_ENABLED)
        endpoint = SimulatedEndpoint(brain=answer)
        async with (
            serve(simulated.app) as search_url,
            running_gateway(tmp_path, endpoint, search_url=search_url, access="open") as gateway,
        ):
            for turn in range(len(ANSWERS)):
                for person in PEOPLE:
                    gateway.api.person(person, "Ann").send(f"What is new in canvas? {turn}")
                for person in PEOPLE:
                    await gateway.wait_for_texts(turn + 1, person)
                    await gateway.api.wait_until(partial(gateway.is_finished, person))
            chats = [gateway.api.chat(person).bot_messages for person in PEOPLE]
            prompts = [str(request.body["messages"]) for request in endpoint.requests]
    assert len(simulated.requests) == len(ANSWERS) * len(PEOPLE)
    for messages in chats:
        assert [message.text for message in messages] == [text.format(**names) for text in SHOWN]
        assert [list_codes(message) for message in messages] == [[FAKE], [FAKE, "evil.com"], [FAKE], [FAKE]]
        assert [list_links(message.entities) for message in messages] == [
            [urls[0], urls[0]],
            [urls[1], urls[1]],
            [],
            [urls[2], urls[0], urls[1], urls[2], urls[0], urls[1], final],
        ]
        snapshots = [edit.get("entities", []) for message in messages for edit in message.edits]
        assert all({*list_links(entities)} <= {*urls, final} for entities in snapshots)
    assert not any("Sources:" in prompt or "<|think|>" in prompt for prompt in prompts)
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        turns = await breakdowns.list_accounted_turns(tx)
    assert len(turns) == len(ANSWERS) * len(PEOPLE)

"""Which links of an answer are real, by the results of its turn's calls."""

from bot.agent.answer_sources import EarlierResults, build_answer_links
from bot.agent.taint import TaintState
from bot.domain import ToolCall, ToolResult
from tools.search.engine import Hit
from tools.search.hits import format_hits

HIT = "https://hit.example/a"
PAGE = "https://page.example/final"
LURE = "https://lure.example/"
OTHER = "https://other.example/"
HITS = format_hits([Hit("A hit", HIT, f"Open {LURE} now")], first_number=7)
RESULTS = (
    ToolResult(ToolCall("1", "search_web", '{"question": "a"}'), HITS, "ok"),
    ToolResult(ToolCall("2", "fetch_page", f'{{"url": "{HIT}"}}'), f"A page\n{PAGE}\n\nSee {LURE}", "ok"),
    ToolResult(ToolCall("3", "list_files", "{}"), f"config.json, {OTHER}", "ok"),
    ToolResult(ToolCall("4", "fetch_page", "{}"), "https://failed.example/\n\nNot found", "error"),
)


def test_sources_are_hits_opened_pages_and_what_other_tools_returned():
    read = TaintState(texts=["I wrote https://person.example/x"])
    for result in RESULTS:
        read.add_result(None, result)
    links = build_answer_links(read, RESULTS, {}, ["Our wiki is https://wiki.example/"], EarlierResults())
    assert links.cited == {7: HIT}
    assert links.opened == (PAGE,)
    asked = [
        HIT,
        PAGE,
        OTHER,
        LURE,
        "https://person.example/x",
        "https://wiki.example/",
        "https://fake.example/",
    ]
    assert links.find_known(asked) == {*asked[:6]}
    assert links.find_returned(asked) == {HIT, PAGE, OTHER}


def test_what_earlier_turns_were_given_is_known_and_what_a_continued_answer_cites_is_cited():
    said = ToolResult(ToolCall("5", "echo", f'{{"text": "{LURE}"}}'), LURE, "ok")
    earlier = EarlierResults(shortened=(*RESULTS, said))
    links = build_answer_links(TaintState(), (), {}, (), earlier)
    assert (links.cited, links.opened) == (None, ())
    asked = [HIT, PAGE, OTHER, "https://fake.example/"]
    assert links.find_known(asked) == {HIT, PAGE, OTHER}
    assert links.find_returned(asked) == set()
    repeated = build_answer_links(TaintState(), (), {}, (), EarlierResults(shortened=(said,)))
    assert repeated.find_known([LURE]) == set()
    links = build_answer_links(TaintState(), (), {}, (), EarlierResults(continued=RESULTS))
    assert (links.cited, links.opened) == ({7: HIT}, (PAGE,))
    assert links.find_known(asked) == links.find_returned(asked) == {HIT, PAGE, OTHER}


def test_a_turn_without_a_search_has_no_citations():
    assert build_answer_links(TaintState(), (), {}, (), EarlierResults()).cited is None
    failed = ToolResult(ToolCall("1", "search_web", "{}"), "Search is not available now.", "error")
    assert build_answer_links(TaintState(), (failed,), {}, (), EarlierResults()).cited == {}

"""Exported Markdown cannot be broken by what others wrote; the JSON has it as it is stored."""

import json
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from bot.chat.export_writer import ExportWriter, list_sources
from bot.db.maintenance.exports import StoredEntry
from bot.domain import Lane
from bot.telegram.formatting.markdown_events import parse_markdown
from bot.translations.translator import ENGLISH
from tools.search.engine import Hit
from tools.search.hits import format_hits
from tools.search.tool import SEARCH_TOOL_NAME

NOW = 1_795_000_000.0
PIECES = (
    "```",
    "~~~",
    "# ",
    "===",
    "---",
    "> ",
    "<!--",
    "<div>",
    "</div>",
    "\n",
    "\r",
    "\t",
    "    ",
    "`",
    "| a |",
)
WILD = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


def build_turn(text: str, name: str) -> StoredEntry:
    tool = {"id": 1, "turn": 3, "name": name, "arguments": text, "outcome": "ok", "result": text}
    return {
        "turn": 3,
        "lane": "7:2",
        "conversation": 1,
        "messages": [
            {"id": number, "turn": 3, "role": role, "text": text, "made_at": NOW, "calls": None}
            for number, role in enumerate(("user", "assistant"), start=1)
        ],
        "attachments": [{"id": 1, "turn": 3, "message": 1, "kind": "document", "name": name}],
        "tools": [tool | {"began_at": NOW, "ended_at": None}],
        "usage": [{"id": 1, "turn": 3, "prompt_tokens": 5, "cached_tokens": None}],
    }


@given(WILD, WILD)
def test_nothing_in_a_message_a_name_or_a_result_leaves_its_quotation(text: str, name: str):
    writer = ExportWriter(Lane(7), UTC, ENGLISH, NOW)
    file = {"id": 1, "name": name, "text": text, "kept_at": NOW}
    pieces = writer.write_entries([build_turn(text, name), file])
    files = writer.join_pieces(1, pieces)
    markdown = files["chat-2026-11-18-1.md"].decode()
    depth = 0
    outside = []
    for event in parse_markdown(markdown):
        depth += event.is_start_of("BlockQuote") - event.is_end_of("BlockQuote")
        if event.name == "Start" and depth == 0:
            outside.append(event.kind)
    assert outside == ["Heading"] * (4 + bool(text))  # title, message, answer, tool, file
    assert markdown.count("\n## Message · 2026-11-18T11:06:40.000+00:00 · 2\n") == 1
    exported = json.loads(files["chat-2026-11-18-1.json"])
    turn, kept = exported["entries"]
    assert turn["messages"][-1]["text"] == text
    assert (turn["tools"][0]["arguments"], turn["tools"][0]["result"]) == (text, text)
    assert turn["usage"] == [{"prompt_tokens": 5, "cached_tokens": None}]
    assert (kept["file"], kept["text"]) == (name, text)


def test_sources_are_the_hits_that_the_answer_names_and_the_pages_that_were_opened():
    hits = [Hit(f"Title {number}", f"https://{number}.example/", "text") for number in range(1, 4)]
    turn = build_turn("As they say [3, 1]; not [9].", "plan.txt")
    turn["tools"] = [
        turn["tools"][0] | {"name": SEARCH_TOOL_NAME, "result": format_hits(hits)},
        turn["tools"][0] | {"name": "fetch_page", "result": "Title\nhttps://b.example/page\n\nText."},
    ]
    assert list_sources(turn) == ["https://3.example/", "https://1.example/", "https://b.example/page"]

"""A chat is searched: messages, tool results and documents of all its conversations, and no other chat."""

import json
import time
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from bot.bench.harness.prose import write_prose
from bot.db.conversations import kept_files, search
from bot.db.conversations.kept_files import FOLDER_CHAT
from bot.db.conversations.search import HistoryText
from bot.db.engine import Database
from bot.db.people.group_texts import StoredText
from bot.db.tables import attachments, lanes, messages, model_calls, turns
from bot.domain import Lane
from bot.http_server import serve
from bot.llm.read_gains import ReadGain
from bot.llm.typed_reads import TypedReader
from bot.sim.vllm.typed_reads import TypedQuestion
from bot.turns import history_search
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint
from bot.turns.history_search import HistorySearch, select_newest
from bot.turns.recorded_reads import RecordedReads
from bot.turns.said_before import build_block
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.recorded_endpoint import connect_client
from tests.support.turn_harness import (
    LANE,
    SHUTDOWN_SECONDS,
    ScriptedModel,
    TurnHarness,
    make_call,
    make_reply,
)
from tools.base import tool
from tools.builtin.look_back import look_back


@tool
async def fetch_page(url: str) -> str:
    """Read a page.

    Args:
        url: Its address.
    """
    return f"{url} says: the ferry leaves at noon"


@pytest.fixture
def harness(database: Database) -> TurnHarness:
    return TurnHarness(database, ScriptedModel(), tools=(fetch_page, look_back))


async def talk(harness: TurnHarness, text: str, *replies: object) -> None:
    harness.model.script.extend(replies or (make_reply("Noted."),))  # type: ignore[arg-type]
    await harness.build_runner().run(await harness.new_request(text))


async def find(database: Database, text: str, lane: Lane = LANE) -> list[tuple[str, str]]:
    passages = await HistorySearch(database, lane).find(text)
    return [(passage.source, passage.text) for passage in passages]


async def store_document(database: Database, text: str, name: str = "lease.pdf") -> None:
    """Store a document that came with the newest message."""
    async with database.transaction() as tx:
        newest = (
            await tx.execute(select(messages.c.id).order_by(messages.c.id.desc()).limit(1))
        ).scalar_one()
        row = {
            "message": newest,
            "person": LANE.chat,
            "kind": "document",
            "name": name,
            "media_type": "application/pdf",
            "text": text,
        }
        await tx.execute(insert(attachments).values(row))


async def test_what_either_side_wrote_is_found_with_its_day(harness: TurnHarness, database: Database):
    days = [datetime.now(UTC).date()]
    await talk(harness, "My locker code is 4711.", make_reply("Shall I keep your **locker** code?"))
    assert ("the user", "My locker code is 4711.") in [
        (source, text.partition("] ")[2] or text) for source, text in await find(database, "locker codes")
    ]
    assert ("you", "Shall I keep your **locker** code?") in await find(database, "locker codes")
    [passage] = await HistorySearch(database, LANE).find("4711")
    assert passage.said in (*days, datetime.now(UTC).date())


async def test_no_character_of_a_message_makes_it_two(harness: TurnHarness, database: Database):
    await talk(harness, "My locker\x1e code is 4711.", make_reply("A\x1eB\x1eC"))
    [(_, text)] = await find(database, "4711")
    assert text.endswith("My locker code is 4711.")
    await talk(harness, "My bicycle is red.")
    [(_, text)] = await find(database, "bicycle")
    assert text.endswith("My bicycle is red.")


async def test_results_of_tools_are_found_but_not_those_of_look_back(
    harness: TurnHarness, database: Database
):
    page = make_reply("", make_call("fetch_page", '{"url": "https://a.example/"}'))
    await talk(harness, "when?", page, make_reply("At twelve."))
    look = make_reply("", make_call("look_back", '{"words": "ferry leaves"}'))
    await talk(harness, "and once more?", look, make_reply("As I said."))
    assert [source for source, _ in await find(database, "ferry leaves")] == ["result of fetch_page"]


async def test_another_chat_and_a_replaced_turn_are_not_searched_but_an_earlier_conversation_is(
    harness: TurnHarness, database: Database
):
    await talk(harness, "My locker code is 4711.")
    await store_document(database, "The locker stands in the hall.")
    assert len(await find(database, "locker")) == 2
    assert await find(database, "locker", Lane(8)) == []
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="replaced"))
    assert await find(database, "locker") == []
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="ended"))
        await tx.execute(update(lanes).values(conversation=2))
    assert len(await find(database, "locker")) == 2
    async with database.transaction() as tx:
        await tx.execute(update(lanes).values(searchable_from=2))
    assert await find(database, "locker") == [], "the chat has not been told yet"


async def test_days_that_the_words_name_narrow_the_search_unless_nothing_is_there(
    harness: TurnHarness, database: Database
):
    await talk(harness, "The plumber is called Rossi.")
    async with database.transaction() as tx:
        await tx.execute(update(messages).values(made_at=datetime(2026, 5, 9, tzinfo=UTC).timestamp()))
    await talk(harness, "The plumber is called Weber now.")
    async with database.transaction() as tx:
        moment = datetime(2026, 11, 30, 23, 59, tzinfo=UTC).timestamp()
        await tx.execute(update(messages).where(messages.c.turn == 2).values(made_at=moment))

    async def find_names(words: str) -> set[str]:
        return {text.split()[-1] for source, text in await find(database, words) if source == "the user"}

    assert await find_names("plumber November 2026") == {"now."}
    assert await find_names("plumber May 2026") == {"Rossi."}
    assert await find_names("plumber May 2019") == {"Rossi.", "now."}


async def test_what_was_read_along_in_a_group_is_not_found(harness: TurnHarness, database: Database):
    await talk(harness, "Which plumber?")
    block = build_block([StoredText(1, "Ben", "The plumber is a secret.", 1_800_000_000.0)], UTC)
    async with database.transaction() as tx:
        is_question = messages.c.role == "user"
        await tx.execute(update(messages).where(is_question).values(text=f"{block}\nAnn: Which plumber?"))
    assert ("the user", "Ann: Which plumber?") in await find(database, "plumber")
    assert await find(database, "secret") == []


async def test_a_turn_that_runs_is_not_found_but_its_document_is(harness: TurnHarness, database: Database):
    await talk(harness, "What does the lease say of pets?")
    await store_document(
        database, f"{write_prose(3000, 1)} Pets are welcome in the garden. {write_prose(3000, 2)}"
    )
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="running"))
    [(source, text)] = await find(database, "pets")
    assert source == "document lease.pdf"
    assert "Pets are welcome in the garden." in text


async def test_an_attachment_without_text_is_skipped(harness: TurnHarness, database: Database):
    await talk(harness, "Look at this.")
    async with database.transaction() as tx:
        row = {
            "message": 1,
            "kind": "image",
            "name": "locker.jpg",
            "media_type": "image/jpeg",
            "data": b"locker",
        }
        await tx.execute(insert(attachments).values(row))
    assert await find(database, "locker") == []


async def test_what_is_read_is_bounded(
    harness: TurnHarness, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "MAX_TURNS", 1)
    monkeypatch.setattr(search, "MAX_DOCUMENTS", 1)
    monkeypatch.setattr(search, "MAX_DOCUMENT_CHARACTERS", 20)
    await talk(harness, "The first zebra.")
    await store_document(database, "An old zebra.")
    await store_document(database, "A new zebra, and then another giraffe.")
    await talk(harness, "The second zebra.")
    assert sorted(source for source, _ in await find(database, "zebra")) == [
        "document lease.pdf",
        "the user",
    ]
    assert await find(database, "giraffe") == []


def test_of_too_much_the_newest_is_kept():
    texts = [HistoryText(1, "you", moment, "x" * 40) for moment in (1.0, 3.0, 2.0)]
    assert [text.made_at for text in select_newest(texts, 80)] == [3.0, 2.0]


async def test_of_kept_files_without_an_index_only_the_newest_are_loaded(database: Database):
    async with database.transaction() as tx:
        for number in range(4):
            await kept_files.keep_in_folder(tx, f"{number}.txt", str(number), "ten bytes.", None, now=number)
        loaded = await kept_files.load_unindexed(tx, [FOLDER_CHAT], 15, None)
        assert [text.name for text in loaded] == ["3.txt", "2.txt"]
        assert await kept_files.load_unindexed(tx, [7], 15, None) == []


async def test_the_day_is_that_of_the_message(harness: TurnHarness, database: Database):
    await talk(harness, "My locker code is 4711.")
    async with database.transaction() as tx:
        await tx.execute(
            update(messages).values(made_at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC).timestamp())
        )
    assert [passage.said for passage in await HistorySearch(database, LANE).find("4711")] == [
        date(2026, 3, 1)
    ]


async def say(gateway: GatewayHarness, text: str, answer: str) -> None:
    gateway.ann.send(f"{text} @@say:{answer}@@")
    await gateway.api.wait_until(lambda: answer in gateway.texts() and gateway.is_finished())


async def test_what_has_left_the_prompt_is_found_through_the_whole_gateway(tmp_path: Path):
    look = '@@tool:look_back {"words": "locker code"}@@'
    days = [time.strftime("%Y-%m-%d", time.gmtime())]
    async with running_gateway(tmp_path, prompt_budget=2000, thinking="off") as gateway:
        await say(gateway, "My locker code is 4711.", "Noted.")
        for number in range(8):
            await say(gateway, write_prose(200, number), f"Answer {number}.")
        await say(gateway, look, "There it is.")
        first, last = (json.dumps(request.body["messages"]) for request in gateway.endpoint.requests[-2:])
        assert "4711" not in first
        days.append(time.strftime("%Y-%m-%d", time.gmtime()))
        assert any(f"{day}, the user: " in last for day in days)
        assert "My locker code is 4711." in last
        gateway.ann.send("/new")
        await say(gateway, look, "Found again.")
        first, last = (json.dumps(request.body["messages"]) for request in gateway.endpoint.requests[-2:])
        assert "4711" not in first
        assert "My locker code is 4711." in last


async def find_with_reads(database: Database, endpoint: ScriptedEndpoint, gain: ReadGain) -> list[str]:
    async with serve(endpoint.app) as url, connect_client(url) as client:
        main = ModelEndpoint("main", "http://here/v1", client, lambda: endpoint.model, TypedReader(client))
        ledger = CallLedger(database, shutdown_seconds=SHUTDOWN_SECONDS)
        reads = RecordedReads(database, ledger, main, gains={"recall": gain})
        return [passage.text for passage in await HistorySearch(database, LANE, reads=reads).find("lantern")]


async def test_the_best_twenty_are_put_in_order_where_that_has_gained_something(
    harness: TurnHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = (
        "A lantern hung over grandfather's boat all winter",
        "Nobody had lit the lantern since the bakery closed",
        "Seven moths slept inside the green lantern yesterday",
        "She bought oil, two wicks and a lantern at noon",
        "Thunder broke his lantern against a stone wall",
        "Our teacher drew a lantern, three bells and some rope",
        "Children carried one lantern through muddy fields",
    )
    for sentence in sentences:
        await talk(harness, sentence)
    async with harness.database.transaction() as tx:  # without the stamp that the first message of a day has
        is_stamped = messages.c.text.startswith("[")
        await tx.execute(update(messages).where(is_stamped).values(text=sentences[0]))
    words_alone = [text for _, text in await find(harness.database, "lantern")]
    assert len(words_alone) == 5
    others = {sentence for sentence in sentences if sentence not in words_alone}

    def judge(question: TypedQuestion) -> tuple[float, float]:
        return (9, 1) if any(f"{question.name}. {other}" in question.state for other in others) else (1, 9)

    endpoint = ScriptedEndpoint(judge=judge)
    proven = ReadGain(endpoint.model, 100, gained=20, lost=2)
    monkeypatch.setattr(history_search, "READ_SECONDS", 60.0)
    found = await find_with_reads(harness.database, endpoint, proven)
    assert set(found[:2]) == others
    assert found[2:] == words_alone[:3]
    rows = await harness.load_rows(model_calls, "purpose", "outcome")
    assert rows[-1] == ("decision", "ok")
    asked_count = len(endpoint.typed_questions)
    assert asked_count >= len(sentences)
    for unproven in (replace(proven, lost=15), replace(proven, model="another")):
        assert await find_with_reads(harness.database, endpoint, unproven) == words_alone
    assert len(endpoint.typed_questions) == asked_count
    monkeypatch.setattr(history_search, "READ_SECONDS", 0.05)
    endpoint.hold()
    assert await find_with_reads(harness.database, endpoint, proven) == words_alone

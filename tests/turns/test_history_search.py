"""A conversation's past is found again: dropped messages, tool results and documents, and nothing of another
talk.
"""

import json
import time
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from bot.bench.harness.workload import write_prose
from bot.db.conversations import search as stored
from bot.db.conversations.search import HistoryText
from bot.db.engine import Database
from bot.db.tables import attachments, lanes, messages, turns
from bot.domain import Lane
from bot.turns.history_search import HistorySearch, select_newest
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, make_call, make_reply
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
def desk(database: Database) -> TurnHarness:
    return TurnHarness(database, ScriptedModel(), tools=(fetch_page, look_back))


async def talk(desk: TurnHarness, text: str, *says: object) -> None:
    desk.model.script.extend(says or (make_reply("Noted."),))  # type: ignore[arg-type]
    await desk.build_runner().run(await desk.new_request(text))


async def found(database: Database, words: str, lane: Lane = LANE) -> list[tuple[str, str]]:
    return [(one.source, one.text) for one in await HistorySearch(database, lane).find(words)]


async def document(database: Database, text: str, name: str = "lease.pdf") -> None:
    """A document that came with the newest message."""
    async with database.transaction() as tx:
        newest = (
            await tx.execute(select(messages.c.id).order_by(messages.c.id.desc()).limit(1))
        ).scalar_one()
        row = {
            "message": newest,
            "kind": "document",
            "name": name,
            "media_type": "application/pdf",
            "text": text,
        }
        await tx.execute(insert(attachments).values(row))


async def test_what_anybody_said_is_found_with_its_day(desk: TurnHarness, database: Database):
    await talk(desk, "My locker code is 4711.", make_reply("Shall I keep your **locker** code?"))
    assert ("the user", "My locker code is 4711.") in [
        (source, text.partition("] ")[2] or text) for source, text in await found(database, "locker codes")
    ]
    assert ("you", "Shall I keep your **locker** code?") in await found(database, "locker codes")
    [one] = await HistorySearch(database, LANE).find("4711")
    assert one.said == datetime.now(UTC).date()


async def test_results_of_tools_are_found_but_not_those_of_looking_back(
    desk: TurnHarness, database: Database
):
    page = make_reply("", make_call("fetch_page", '{"url": "https://a.example/"}'))
    await talk(desk, "when?", page, make_reply("At twelve."))
    look = make_reply("", make_call("look_back", '{"words": "ferry leaves"}'))
    await talk(desk, "and once more?", look, make_reply("As I said."))
    assert [source for source, _ in await found(database, "ferry leaves")] == ["result of fetch_page"]


async def test_another_chat_a_new_conversation_and_a_replaced_turn_are_not_looked_at(
    desk: TurnHarness, database: Database
):
    await talk(desk, "My locker code is 4711.")
    await document(database, "The locker stands in the hall.")
    assert len(await found(database, "locker")) == 2
    assert await found(database, "locker", Lane(8)) == []
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="replaced"))
    assert await found(database, "locker") == []
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="ended"))
        await tx.execute(update(lanes).values(conversation=2))
    assert await found(database, "locker") == []


async def test_a_turn_that_runs_is_not_found_but_its_document_is(desk: TurnHarness, database: Database):
    await talk(desk, "What does the lease say of pets?")
    await document(database, f"{write_prose(3000, 1)} Pets are welcome in the garden. {write_prose(3000, 2)}")
    async with database.transaction() as tx:
        await tx.execute(update(turns).values(state="running"))
    [(source, text)] = await found(database, "pets")
    assert source == "document lease.pdf"
    assert "Pets are welcome in the garden." in text


async def test_an_attachment_without_text_is_passed_over(desk: TurnHarness, database: Database):
    await talk(desk, "Look at this.")
    async with database.transaction() as tx:
        row = {
            "message": 1,
            "kind": "image",
            "name": "locker.jpg",
            "media_type": "image/jpeg",
            "data": b"locker",
        }
        await tx.execute(insert(attachments).values(row))
    assert await found(database, "locker") == []


async def test_what_is_read_is_bounded(
    desk: TurnHarness, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stored, "MAX_MESSAGES", 2)
    monkeypatch.setattr(stored, "MAX_DOCUMENTS", 1)
    monkeypatch.setattr(stored, "MAX_DOCUMENT_CHARACTERS", 20)
    await talk(desk, "The first zebra.")
    await document(database, "An old zebra.")
    await document(database, "A new zebra, and then another giraffe.")
    await talk(desk, "The second zebra.")
    assert sorted(source for source, _ in await found(database, "zebra")) == [
        "document lease.pdf",
        "the user",
    ]
    assert await found(database, "giraffe") == []


def test_of_too_much_the_newest_is_kept():
    held = [HistoryText("you", moment, "x" * 40) for moment in (1.0, 3.0, 2.0)]
    assert [one.made_at for one in select_newest(held, 80)] == [3.0, 2.0]


async def test_the_day_is_that_of_the_message(desk: TurnHarness, database: Database):
    await talk(desk, "My locker code is 4711.")
    async with database.transaction() as tx:
        await tx.execute(
            update(messages).values(made_at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC).timestamp())
        )
    assert [one.said for one in await HistorySearch(database, LANE).find("4711")] == [date(2026, 3, 1)]


async def say(house: GatewayHarness, text: str, answer: str) -> None:
    house.ann.send(f"{text} @@say:{answer}@@")
    await house.api.wait_until(lambda: answer in house.texts() and house.is_finished())


async def test_what_was_dropped_from_the_prompt_is_found_through_the_whole_house(tmp_path: Path):
    look = '@@tool:look_back {"words": "locker code"}@@'
    async with running_gateway(tmp_path, prompt_budget=2000, thinking="off") as house:
        await say(house, "My locker code is 4711.", "Noted.")
        for number in range(8):
            await say(house, write_prose(200, number), f"Answer {number}.")
        await say(house, look, "There it is.")
        first, last = (json.dumps(one.body["messages"]) for one in house.endpoint.requests[-2:])
        assert "4711" not in first
        assert f"{time.strftime('%Y-%m-%d', time.gmtime())}, the user: " in last
        assert "My locker code is 4711." in last
        house.ann.send("/new")
        await say(house, look, "Gone.")
        assert "4711" not in json.dumps(house.endpoint.requests[-1].body["messages"])
        assert "Nothing earlier" in json.dumps(house.endpoint.requests[-1].body["messages"])

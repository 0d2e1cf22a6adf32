"""In the whole gateway, a user who waits for a seat sees the place in line, and nothing of it remains
afterwards.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert

from bot.db.engine import open_database
from bot.db.tables import model_calls
from bot.telegram.delivery.progress import YOUR_TURN
from bot.turns import seat_queue
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.telegram.server import BotApiFault, ScriptedPerson

SECOND_IN_LINE = "1 request is ahead of yours."
NEXT_IN_LINE = "You're next in line."


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayHarness]:
    """One seat, and a canvas that is never finished until it is released."""
    monkeypatch.setattr(seat_queue, "SEAT_NOTICE_SECONDS", 0.05)
    async with running_gateway(tmp_path, access="open", model_seats=1) as gateway:
        gateway.endpoint.hold()
        yield gateway
        gateway.endpoint.release()


async def wait_behind_two(gateway: GatewayHarness) -> tuple[ScriptedPerson, ScriptedPerson]:
    """Bob has the seat, Carl is next, and Ann has asked after both."""
    bob = gateway.api.person(8, "Bob")
    carl = gateway.api.person(9, "Carl")
    bob.send("@@say:one@@")
    await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
    carl.send("@@say:two@@")
    await gateway.api.wait_until(
        lambda: shows_draft(gateway, NEXT_IN_LINE, 9) or gateway.texts(9) == [NEXT_IN_LINE]
    )
    gateway.ann.send("@@say:three@@")
    return bob, carl


def shows_draft(gateway: GatewayHarness, text: str, chat: int = ADMIN) -> bool:
    """Whether the draft of this chat says so."""
    draft = gateway.api.chat(chat).draft
    return draft is not None and draft.text == text


async def test_the_draft_shows_the_place_in_line_until_the_turn_is_served(gateway: GatewayHarness):
    bob, carl = await wait_behind_two(gateway)
    await gateway.api.wait_until(lambda: shows_draft(gateway, SECOND_IN_LINE))
    bob.send("/stop")
    await gateway.api.wait_until(lambda: shows_draft(gateway, NEXT_IN_LINE))
    carl.send("/stop")
    await gateway.api.wait_until(lambda: shows_draft(gateway, ""))
    assert gateway.texts() == []
    gateway.endpoint.release()
    assert await gateway.wait_for_texts() == ["three"]
    assert gateway.api.chat(ADMIN).draft is None
    assert gateway.api.chat(ADMIN).deleted_messages == []


async def test_who_waits_reads_how_long_where_the_ledger_tells(gateway: GatewayHarness):
    call = {
        "step": 1,
        "purpose": "turn",
        "endpoint": gateway.settings.model_url,
        "model": "m",
        "thinking": False,
        "tools_offered": 0,
        "created_at": 90.0,
        "seat_at": 100.0,
        "ended_at": 112.0,
        "outcome": "ok",
    }
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        await tx.execute(insert(model_calls), [call] * 20)
    gateway.ann.send("@@say:one@@")
    await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
    gateway.api.person(8, "Bob").send("@@say:two@@")
    await gateway.api.wait_until(
        lambda: shows_draft(gateway, f"{NEXT_IN_LINE} It takes about 15 seconds.", 8)
    )


async def test_without_drafts_a_message_shows_the_place_and_becomes_the_answer(gateway: GatewayHarness):
    gateway.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    bob, carl = await wait_behind_two(gateway)
    await gateway.api.wait_until(lambda: gateway.texts() == [SECOND_IN_LINE])
    bob.send("/stop")
    await gateway.api.wait_until(lambda: gateway.texts() == [NEXT_IN_LINE])
    carl.send("/stop")
    await gateway.api.wait_until(lambda: gateway.texts() == [YOUR_TURN])
    gateway.endpoint.release()
    await gateway.api.wait_until(lambda: gateway.texts() == ["three"])
    assert gateway.api.calls_of("deleteMessage") == []


@pytest.mark.parametrize("has_drafts", [True, False])
async def test_a_stop_in_line_leaves_nothing_behind(gateway: GatewayHarness, has_drafts: bool):
    if not has_drafts:
        gateway.api.inject_fault(
            BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
        )
    _, carl = await wait_behind_two(gateway)
    carl.send("/stop")
    await gateway.api.wait_until(lambda: gateway.texts(9) == ["Stopped."])
    assert gateway.api.chat(9).draft is None
    gateway.ann.send("/stop")
    await gateway.api.wait_until(lambda: gateway.texts() == ["Stopped."])
    assert gateway.api.chat(ADMIN).draft is None


@pytest.mark.sqlite
async def test_what_is_shown_meanwhile_counts_as_the_wait_for_a_seat(gateway: GatewayHarness, tmp_path: Path):
    gateway.api.inject_fault(BotApiFault.slow(0.2), "sendMessageDraft", chat_id=ADMIN, times=None)
    bob, carl = await wait_behind_two(gateway)
    await gateway.api.wait_until(lambda: shows_draft(gateway, SECOND_IN_LINE))
    for person in (bob, carl):
        person.send("/stop")
    gateway.endpoint.release()
    assert await gateway.wait_for_texts() == ["three"]
    query = (
        "select a.seat_wait, c.seat_at - c.created_at from accounts a"
        " join model_calls c on c.turn = a.turn join turns t on t.id = a.turn where t.person = ?"
    )
    async with asyncio.timeout(60):
        while not (rows := load_rows(tmp_path / "gateway.db", query, ADMIN)):  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.05)
    [(waited, seat_took)] = rows
    assert waited + 0.001 >= seat_took > 0.2


def load_rows(file: Path, query: str, *values: object) -> list[tuple[float, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query, values).fetchall()

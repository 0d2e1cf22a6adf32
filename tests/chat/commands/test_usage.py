"""/usage and its details, drawn in place by their buttons."""

import asyncio
import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.chat.commands import usage_answers, usage_chart
from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion, NewCall
from bot.db.engine import Database
from bot.db.tables import accounts, outbox_files, turns
from bot.domain import CallTimes, Reply, Usage
from bot.usage.queries import load_report
from bot.usage.report import UsageReport
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness
from tools.sandbox.process import SandboxLimits


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


async def store_call(harness: UpdateHarness, turn: int, cached: int | None = 480) -> None:
    """Store a model call of the turn that waited 1 s and took 2 s."""
    new = NewCall(turn, 1, "turn", None, "main", "diffusiongemma", True, 2, 1, 1, 1)
    now = harness.now
    times = CallTimes(now, now + 1, now + 2, now + 3, now + 3)
    reply = Reply("It is four.", "", (), "stop", Usage(512, cached, 300, 0), times, blocks=2)
    async with harness.database.transaction() as tx:
        call = await calls.open_call(tx, new, now=now)
        await calls.close_call(tx, CallCompletion(call, reply, "ok"), now=now + 3)
        thought = {"thinking": True, "thinking_why": "two tools match: search, remind"}
        await tx.execute(update(turns).where(turns.c.id == turn).values(thought))


async def test_the_details_of_the_last_turn_are_behind_a_button_and_back_again(harness: UpdateHarness):
    await harness.let_in(ANNA, "admin")
    turn = await harness.store_answered_turn("what time is it")
    await store_call(harness, turn)
    (sent,) = await harness.send_text("/usage")
    assert sent.text.splitlines()[0] == "Answer: 2s, 2 canvases est."
    assert sent.buttons == {"Details": f"details:{turn}", "Chart": "picture"}
    toast, sent_more = await harness.tap(f"details:{turn}")
    assert (toast, sent_more) == (None, [])
    assert await harness.tap("usage") == (None, [])
    details, summary = harness.bot.calls_of("edit_message_text")
    assert details["given"][0].splitlines() == [
        f"Answer {turn}: 2s",
        "Thinking: on",
        "Why: two tools match: search, remind",
        "Model calls, canvases estimated:",
        "1. 2 canvases, 2s",
        "    512 in, 480 cached, waited 1s",
        "Cached: 93.8% of the input",
        "Model: diffusiongemma",
    ]
    assert "Back" in str(details["reply_markup"])
    assert summary["given"][0] == sent.text
    assert "Details" in str(summary["reply_markup"])


async def test_members_are_shown_details_without_the_calls_of_the_model(harness: UpdateHarness):
    turn = await harness.store_answered_turn("what time is it")
    await store_call(harness, turn)
    assert await harness.tap(f"details:{turn}") == (None, [])
    (details,) = harness.bot.calls_of("edit_message_text")
    assert details["given"][0].splitlines() == [f"Answer {turn}: 2s", "Thinking: on"]


async def test_without_a_turn_there_is_nothing_to_detail(harness: UpdateHarness):
    (sent,) = await harness.send_text("/usage")
    assert (sent.text, sent.buttons) == ("Nothing yet. Ask me something.", {})


@pytest.mark.parametrize("data", ["details:99", "details:1"])
async def test_the_turn_of_another_chat_is_not_shown(harness: UpdateHarness, data: str):
    assert await harness.store_answered_turn("a secret", person=BOB) == 1
    assert await harness.tap(data) == ("I don't have a record of this answer.", [])
    assert harness.bot.calls_of("edit_message_text") == []


async def test_a_turn_that_runs_is_not_shown(harness: UpdateHarness):
    turn = await harness.store_answered_turn("hi")
    async with harness.database.transaction() as tx:
        await tx.execute(update(turns).where(turns.c.id == turn).values(ended_at=None))
    assert await harness.tap(f"details:{turn}") == ("I don't have a record of this answer.", [])


async def test_everybody_is_ranked_for_admins(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    await store_call(harness, await harness.store_answered_turn("hi", person=ANNA, item=1))
    turn = await harness.store_answered_turn("hi", person=BOB, item=2)
    await store_call(harness, turn)
    await store_call(harness, turn)
    (sent,) = await harness.send_text("/usage all", person=ADMIN)
    assert sent.text.splitlines() == [
        "Everybody:",
        "Today: 4s, 6 canvases est.",
        "30 d: 4s, 6 canvases est.",
        "People, canvases in 30 d:",
        "1. Bob: 4, 2s",
        "2. Anna: 2, 2s",
        "Chats, canvases in 30 d:",
        "1. Bob (6): 4, 2s",
        "2. Anna (5): 2, 2s",
    ]
    harness.now += 40 * 86_400
    (sent,) = await harness.send_text("/usage all", person=ADMIN)
    assert sent.text == "Nothing yet in the last 30 days."


@pytest.mark.usefixtures("drawn_at_once")
async def test_a_day_begins_where_the_person_is(harness: UpdateHarness):
    """Half past eleven at night in UTC is tomorrow in Berlin, so a call an hour before is of yesterday."""
    harness.now = datetime(2026, 11, 20, 22, 30, tzinfo=UTC).timestamp()
    turn = await harness.store_answered_turn("hi")
    await store_call(harness, turn)
    harness.now += 3600
    await harness.send_text("/zone Berlin")
    sent, photo = await harness.send_text("/usage chart")
    assert "Today: 0 answers, 0s" in sent.text
    assert "Last 30 days: 1 answer, 2s" in sent.text
    assert photo.text == "You, the last 30 days (Europe/Berlin)"
    (sent,) = await harness.send_text("/limits")
    assert sent.text == "You don't have a daily limit."


async def test_others_are_shown_their_own_alone(harness: UpdateHarness):
    await harness.store_answered_turn("hi", person=BOB, item=1)
    for args in ("all", "all chart", "chart all"):
        (sent,) = await harness.send_text(f"/usage {args}")
        assert sent.text == "/usage all is for admins."
    (sent,) = await harness.send_text("/usage tomorrow")
    assert sent.text == "/usage shows what you've used; /usage chart draws it."
    (sent,) = await harness.send_text("/usage chart")
    assert sent.text == "Nothing yet in the last 30 days."


async def test_an_admin_who_asks_for_something_else_reads_what_there_is(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    (sent,) = await harness.send_text("/usage everything", person=ADMIN)
    assert sent.text.startswith("/usage shows what you've used, /usage all what everybody has;")


async def test_a_chart_is_sent_as_figures_and_then_as_a_picture(
    harness: UpdateHarness, monkeypatch: pytest.MonkeyPatch
):
    patient = replace(usage_chart.CHART_LIMITS, wall_seconds=300.0, cpu_seconds=100)
    monkeypatch.setattr(usage_chart, "CHART_LIMITS", patient)
    await harness.let_in(ANNA, "admin")
    await store_call(harness, await harness.store_answered_turn("hi"))
    sent, photo = await harness.send_text("/usage chart")
    assert sent.text.splitlines()[3:] == [
        "30 d: 2s, 2 canvases est.",
        "Canvas: up to 256 tokens at once",
        "Thinking, 30 d: 1 of 1 turns",
        "    2 of 2 canvases est.",
        "    2s of 2s",
        "    answered 100%, without –",
    ]
    assert photo.text == "You, the last 30 days (UTC)"
    [(name, picture)] = await load_files(harness)
    assert name == "usage.png"
    assert picture.startswith(b"\x89PNG")


async def load_files(harness: UpdateHarness) -> list[tuple[str, bytes]]:
    async with harness.database.read_transaction() as tx:
        rows = await tx.execute(select(outbox_files.c.name, outbox_files.c.data))
        return [(name, data) for name, data in rows]


@pytest.fixture
def drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the process that draws, which takes seconds."""

    async def run_apart(*_: object) -> str:
        return base64.b64encode(b"\x89PNG").decode()

    monkeypatch.setattr(usage_chart, "run_in_sandbox", run_apart)


async def test_the_days_of_a_chart_are_those_of_the_persons_zone(
    harness: UpdateHarness, monkeypatch: pytest.MonkeyPatch
):
    charts = []

    async def keep_chart(_: object, body: bytes, *__: object) -> str:
        charts.append(json.loads(body))
        return base64.b64encode(b"\x89PNG").decode()

    monkeypatch.setattr(usage_chart, "run_in_sandbox", keep_chart)
    await harness.let_in(ADMIN, "admin")
    await store_call(harness, await harness.store_answered_turn("hi"))  # at 22:13 UTC
    await harness.send_text("/zone Tokyo")
    await harness.send_text("/zone Tokyo", person=ADMIN)
    harness.now += 3600
    await harness.send_text("/usage chart")
    await harness.send_text("/usage chart all", person=ADMIN)
    own, of_everybody = charts
    assert own["title"] == "You, the last 30 days (Asia/Tokyo)"
    assert own["labels"][-1] == "2023-11-15"  # in UTC it is the 14th
    assert [panel["heading"] for panel in own["panels"]] == ["Answers a day"]
    assert own["panels"][0]["values"] == [0] * 29 + [1]
    assert of_everybody["panels"][1]["heading"] == "Canvases a day, estimated"
    assert of_everybody["panels"][1]["values"] == [0] * 29 + [2]


@pytest.mark.usefixtures("drawn_at_once")
async def test_a_chart_of_everybody_is_for_admins(harness: UpdateHarness):
    await harness.let_in(ADMIN, "admin")
    await store_call(harness, await harness.store_answered_turn("hi", person=BOB))
    sent, photo = await harness.send_text("/usage chart all", person=ADMIN)
    assert sent.text.startswith("Everybody:")
    assert photo.text == "Everybody, the last 30 days (UTC)"


@pytest.mark.usefixtures("drawn_at_once")
async def test_others_write_while_a_chart_of_everybody_is_read(
    harness: UpdateHarness, monkeypatch: pytest.MonkeyPatch
):
    async def write_and_load(*args: Any) -> UsageReport:
        async with asyncio.timeout(60):
            await harness.let_in(BOB)
        return await load_report(*args)

    monkeypatch.setattr(usage_answers, "load_report", write_and_load)
    await harness.let_in(ADMIN, "admin")
    await store_call(harness, await harness.store_answered_turn("hi", person=BOB))
    sent, _ = await harness.send_text("/usage chart all", person=ADMIN)
    assert "1. Bob: 2, 2s" in sent.text
    toast, (photo,) = await harness.tap("picture:all", person=ADMIN)
    assert (toast, photo.text) == ("I'm drawing the chart.", "Everybody, the last 30 days (UTC)")


@pytest.mark.usefixtures("drawn_at_once")
async def test_the_picture_is_behind_a_button_too(harness: UpdateHarness):
    assert await harness.tap("picture") == ("Nothing yet in the last 30 days.", [])
    await store_call(harness, await harness.store_answered_turn("hi"))
    toast, (photo,) = await harness.tap("picture")
    assert (toast, photo.text) == ("I'm drawing the chart.", "You, the last 30 days (UTC)")


async def test_a_picture_that_cannot_be_drawn_is_reported(
    harness: UpdateHarness, monkeypatch: pytest.MonkeyPatch
):
    limits = SandboxLimits(wall_seconds=30.0, memory_bytes=1024**2)
    monkeypatch.setattr(usage_chart, "CHART_LIMITS", limits)
    await store_call(harness, await harness.store_answered_turn("hi"))
    sent, line = await harness.send_text("/usage chart")
    assert sent.text.startswith("Last answer: ")
    assert line.text == "I couldn't draw the chart."
    assert await harness.tap("picture") == ("I couldn't draw the chart.", [])


async def test_the_details_tell_where_the_seconds_went(harness: UpdateHarness):
    turn = await harness.store_answered_turn("hi")
    kinds = (
        "lane_wait",
        "seat_wait",
        "further_canvases",
        "tools",
        "approval_wait",
        "back_off",
        "down",
        "own",
    )
    row = dict.fromkeys(kinds, 0.0) | {"intake": 0.01, "first_canvas": 1.5, "telegram": 0.5}
    async with harness.database.transaction() as tx:
        await tx.execute(accounts.insert().values(**row, turn=turn, settled_at=harness.now, whole=2.01))
    await harness.tap(f"details:{turn}")
    (details,) = harness.bot.calls_of("edit_message_text")
    assert details["given"][0].splitlines()[-3:] == [
        "Where 2s went:",
        "    1.5s until the first text",
        "    0.5s for Telegram",
    ]

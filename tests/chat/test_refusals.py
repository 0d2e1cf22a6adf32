"""What is not taken is said once, in a reply to what it is about."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.queues import incoming_updates
from bot.db.tables import outbox
from tests.support.groups import read_private_envelope
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness

FORWARDED: dict[str, Any] = {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Zed"}}


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


async def store_overflows(harness: UpdateHarness, *messages: dict[str, Any]) -> None:
    """Store messages as the poller does that takes none of them."""
    rows = []
    for message in messages:
        harness._last_update_id += 1
        update = read_private_envelope(
            {"update_id": harness._last_update_id, **harness.build_message(**message)}, harness.now
        )
        assert update is not None
        rows.append(replace(update, shape="overflow", lane=None, not_before=harness.now + 1.5))
    async with harness.database.transaction() as tx:
        await incoming_updates.store(tx, rows, now=harness.now)


async def read_replies(harness: UpdateHarness) -> list[int | None]:
    async with harness.database.read_transaction() as tx:
        return list((await tx.execute(select(outbox.c.reply_to).order_by(outbox.c.id))).scalars())


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        (
            [{"text": "more"}],
            "You have 3 messages waiting. So I skipped this one. Please send it again in a minute.",
        ),
        (
            [{"text": f"Group message {number}"} for number in range(20, 41)],
            "You have 3 messages waiting. So I skipped 21 messages, from “Group message 20” "
            "to “Group message 40”. Please send them again in a minute.",
        ),
        (
            [{"text": "long " * 20, **FORWARDED}, {"text": "x", **FORWARDED}],
            "That's more than I can read at once. So I skipped 2 messages, "
            "from “long long long long long long long long…” to “x”. Please send them again in a minute.",
        ),
        (
            [{"dice": {"emoji": "🎲", "value": 3}}] * 2,
            "You have 3 messages waiting. So I skipped 2 messages. Please send them again in a minute.",
        ),
    ],
)
async def test_what_is_not_taken_is_told_together(
    harness: UpdateHarness, messages: list[dict[str, Any]], line: str
):
    await store_overflows(harness, *(message | {"message_id": 50 + n} for n, message in enumerate(messages)))
    assert await harness.handle_claimed() == []
    harness.now += 2
    (sent,) = await harness.handle_claimed()
    assert (sent.text, await read_replies(harness)) == (line, [50])
    assert {row.state for row in await harness.load_items()} == {"done"}
    assert await harness.handle_claimed() == []
    assert harness.turns.requests == []


async def test_of_what_is_not_taken_only_the_first_is_parsed_and_the_blocked_are_not_told(
    harness: UpdateHarness,
):
    unreadable = {"text": "x", "forward_origin": {"type": "user", "date": "?"}}
    await store_overflows(harness, {"text": "one", "message_id": 50}, unreadable)
    harness.now += 2
    (sent,) = await harness.handle_claimed()
    assert "2 messages" in sent.text
    await harness.let_in(ANNA, "blocked")
    await store_overflows(harness, {"text": "three"}, {"text": "four"})
    harness.now += 2
    assert await harness.handle_claimed() == []
    rows = await harness.load_items()
    assert {row.state for row in rows} == {"done"}
    assert [row.body for row in rows[2:]] == [None, None]


async def test_what_is_not_taken_is_told_in_each_topic(harness: UpdateHarness):
    topic: dict[str, Any] = {"is_topic_message": True, "message_thread_id": 9}
    messages: list[dict[str, Any]] = [
        {"text": "a", "message_id": 50},
        {"text": "b", **topic, "message_id": 51},
        {"text": "c"},
    ]
    await store_overflows(harness, *messages, {"text": "d", **topic})
    harness.now += 2
    sent = await harness.handle_claimed()
    assert [(message.lane, message.text[:78]) for message in sent] == [
        (str(ANNA), "You have 3 messages waiting. So I skipped 2 messages, from “a” to “c”. Please "),
        (f"{ANNA}:9", "You have 3 messages waiting. So I skipped 2 messages, from “b” to “d”. Please "),
    ]
    assert await read_replies(harness) == [50, 51]
    assert {row.state for row in await harness.load_items()} == {"done"}

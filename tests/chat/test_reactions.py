"""Which reactions count, in which order, and who is offered another answer."""

from typing import Any

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.queues import inbox, outbox
from bot.db.tables import outbox as outbox_table
from bot.db.tables import verdicts
from bot.domain import Lane, Part
from bot.telegram.incoming.verdicts import judge_reactions
from tests.support.groups import build_group_chat, build_membership, read_private_envelope
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness, build_user

CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")
MESSAGE = 41


def to_types(emojis: str) -> list[dict[str, str]]:
    return [{"type": "emoji", "emoji": emoji} for emoji in emojis]


def build_reaction(
    emojis: str, before: str = "", person: int = ANNA, chat: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """Build a raw update: somebody has reacted to MESSAGE."""
    change = {
        "chat": chat or {"id": person, "type": "private"},
        "message_id": MESSAGE,
        "user": build_user(person),
        "date": 1,
        "old_reaction": to_types(before),
        "new_reaction": to_types(emojis),
    }
    return {"message_reaction": change | changes}


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


async def answer(harness: UpdateHarness, lane: Lane, tool: str | None = None) -> int:
    """Store a turn whose answer has two parts, the first of which is MESSAGE; return the turn."""
    [item] = await harness.store_updates(harness.build_message(text="question"))
    async with harness.database.transaction() as tx:
        rows = await outbox.add(tx, item=item, lane=lane, parts=[Part("a"), Part("b")], now=harness.now)
        await outbox.mark_shown(tx, rows[0], message_id=MESSAGE, body=Part("a"), now=harness.now)
        await outbox.mark_shown(tx, rows[1], message_id=MESSAGE + 1, body=Part("b"), now=harness.now)
    await harness.read_sent()
    return await harness.store_answered_turn("question", tool=tool, item=item, person=lane.chat)


async def list_verdicts(harness: UpdateHarness) -> list[tuple[Any, ...]]:
    async with harness.database.read_transaction() as tx:
        rows = await tx.execute(select(verdicts.c.person, verdicts.c.value).order_by(verdicts.c.person))
        return [tuple(row) for row in rows]


async def load_labels(harness: UpdateHarness) -> list[str]:
    """The buttons below the second part of the answer."""
    async with harness.database.read_transaction() as tx:
        query = select(outbox_table.c.body).where(outbox_table.c.message_id == MESSAGE + 1)
        body = (await tx.execute(query)).scalar_one()
    return [label for label in ("Answer again", "With thinking") if f'"{label}"' in body]


async def react(harness: UpdateHarness, *updates: dict[str, Any]) -> list[SentMessage]:
    await harness.store_updates(*updates)
    return await harness.handle_claimed()


@pytest.mark.parametrize(
    ("reactions", "verdict"),
    [
        (to_types("👍"), "good"),
        ([{"type": "emoji", "emoji": "❤\ufe0f"}], "good"),
        (to_types("🔥😁"), "good"),
        (to_types("👍💩"), "bad"),
        (to_types("😁"), None),
        ([], None),
        ([{"type": "custom_emoji", "custom_emoji_id": "1"}, {"type": "paid"}, 3, {"emoji": ["👍"]}], None),
        ("👍", None),
        (None, None),
    ],
)
def test_what_reactions_say(reactions: object, verdict: str | None):
    assert judge_reactions(reactions) == verdict


@pytest.mark.parametrize(
    "update",
    [
        build_reaction("😁"),
        build_reaction("👍", before="❤"),
        build_reaction("👍", chat=FAMILY),  # a group that it is not in
        {"message_reaction": {**build_reaction("👍")["message_reaction"], "chat": None}},
        {"message_reaction": {"actor_chat": FAMILY, "chat": FAMILY, "new_reaction": to_types("👍")}},
        {"message_reaction": []},
    ],
)
def test_nothing_is_stored_of_a_reaction_that_says_nothing(update: dict[str, Any]):
    envelope = read_private_envelope({"update_id": 1, **update}, 1.0)
    assert envelope is not None
    assert envelope.is_for_others


async def test_the_newest_reaction_counts_in_whatever_order_they_are_handled(harness: UpdateHarness):
    await answer(harness, Lane(ANNA))
    bad, good = build_reaction("👎"), build_reaction("👍", before="👎")
    await harness.store_updates(bad, good)
    [older, newer] = (await harness.load_items(shape="other"))[-2:]
    async with harness.database.transaction() as tx:
        claimed = await inbox.claim(tx, now=harness.now)
    by_item = {items[0].id: items for items in claimed.groups}
    await harness.update_runner(by_item[newer.id])
    await harness.update_runner(by_item[older.id])
    assert await list_verdicts(harness) == [(ANNA, "good")]
    assert await load_labels(harness) == []


async def test_nobody_else_counts_and_nothing_is_said(harness: UpdateHarness):
    await answer(harness, Lane(ANNA))
    private = {"id": ANNA, "type": "private"}
    assert await react(harness, build_reaction("👎", person=BOB, chat=private)) == []
    assert await react(harness, build_reaction("👎", message_id=5000)) == []
    assert await react(harness, build_reaction("👎", person=ADMIN)) == []  # the number is of another chat
    assert await list_verdicts(harness) == []
    [item] = await harness.load_items(shape="other", sender=BOB)
    assert item.body is None


async def test_people_of_a_group_judge_what_stands_in_its_topics(harness: UpdateHarness):
    await react(harness, build_membership(FAMILY, "member", build_user(ADMIN)))
    await answer(harness, Lane(CHAT, 3))
    assert await react(harness, build_reaction("👍", chat=FAMILY)) == []
    assert await react(harness, build_reaction("👎", person=BOB, chat=FAMILY)) == []
    assert await list_verdicts(harness) == [(ANNA, "good")]


async def test_another_answer_is_offered_once_and_only_of_the_newest(harness: UpdateHarness):
    turn = await answer(harness, Lane(ANNA))
    await react(harness, build_reaction("👎"))
    await react(harness, build_reaction("", before="👎"), build_reaction("👎"))
    assert await load_labels(harness) == ["Answer again", "With thinking"]
    harness.now += 1
    await harness.send_text("more")
    await harness.store_answered_turn("more", item=(await harness.load_items())[-1].id)
    toast, sent = await harness.tap(f"redo:{turn}")
    assert (toast, sent) == ("This is no longer the last answer.", [])
    assert len(harness.bot.calls_of("edit_message_reply_markup")) == 1
    assert await harness.load_items(kind="task") == []


async def test_what_may_not_simply_run_again_is_asked_about_and_thought_about(harness: UpdateHarness):
    turn = await answer(harness, Lane(ANNA), tool="remember")
    await react(harness, build_reaction("👎"))
    _, [question] = await harness.tap(f"redo:{turn}:think")
    assert question.buttons == {"Try again anyway": f"retry:{turn}:think"}
    toast, _ = await harness.tap(question.buttons["Try again anyway"])
    assert toast == "Trying again."
    [task] = await harness.load_items(kind="task")
    assert '"think": true' in task.body
    assert (await harness.tap("redo:x"))[0] == "This button is too old."

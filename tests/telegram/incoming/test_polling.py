"""Updates are stored before they are acknowledged to Telegram, whatever fails on the way."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text, update
from telegram import Bot

from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.tables import inbox
from bot.errors import SettingsRefused, TelegramRefused
from bot.http_server import serve
from bot.telegram.bounded_request import parse_whole_updates
from bot.telegram.client import create_bot
from bot.telegram.incoming.backlog import BacklogLimits
from bot.telegram.incoming.envelope import read_envelope
from bot.telegram.incoming.poll_watch import RIVAL_CONFLICTS
from bot.telegram.incoming.polling import PollerCallbacks, PollerOptions, UpdatePoller
from bot.translations.translator import ENGLISH, Translatable
from tests.support.group_chat import open_group
from tests.support.groups import build_directory, read_private_envelope
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

CONFLICT = BotApiFault.refuse("Conflict: terminated by other getUpdates request", 409)


@dataclass
class PollerHarness:
    """A poller at work on a simulated Telegram, and what it reported."""

    api: ScriptedBotApi
    database: Database
    bot: Bot
    read_envelope: Callable[[object, float], IncomingUpdate | None] = read_private_envelope
    alerts: list[str] = field(default_factory=list)
    stored_count: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def alert_admins(self, text: Translatable) -> None:
        self.alerts.append(text(ENGLISH))
        self.changed.set()

    def count_updates(self, updates: Sequence[IncomingUpdate]) -> None:
        self.stored_count += len(updates)
        self.changed.set()

    def build_poller(self, *, is_replica: bool = False) -> UpdatePoller:
        return UpdatePoller(
            self.bot,
            self.database,
            PollerCallbacks(self.count_updates, self, self.read_envelope),
            options=PollerOptions(is_replica=is_replica),
        )

    @contextlib.asynccontextmanager
    async def run_poller(self) -> AsyncIterator[UpdatePoller]:
        poller = self.build_poller()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(poller.run())
            yield poller
            task.cancel()

    async def wait_for_alert(self) -> str:
        while not self.alerts:
            self.changed.clear()
            await self.changed.wait()
        return self.alerts[0]

    async def wait_for_updates(self, count: int) -> None:
        while self.stored_count < count:
            self.changed.clear()
            await self.changed.wait()

    async def load_rows(self) -> list[tuple[int, str]]:
        async with self.database.read_transaction() as tx:
            rows = await tx.execute(select(inbox.c.update_id, inbox.c.shape).order_by(inbox.c.id))
            return [(row.update_id, row.shape) for row in rows]


@pytest.fixture
async def harness(database: Database) -> AsyncIterator[PollerHarness]:
    api = ScriptedBotApi()
    async with serve(api.app) as url, create_bot(api.token, url) as bot:
        yield PollerHarness(api, database, bot)


async def test_updates_are_stored_then_acknowledged(harness: PollerHarness):
    ann = harness.api.person(7)
    for word in ("one", "two", "/stop"):
        ann.send(word)
    async with harness.run_poller():
        await harness.wait_for_updates(3)
        await harness.api.wait_until(lambda: len(harness.api.calls_of("getUpdates")) >= 2)
    assert [shape for _, shape in await harness.load_rows()] == ["text", "text", "stop"]
    offsets = [call.params.get("offset") for call in harness.api.calls_of("getUpdates")]
    last = (await harness.load_rows())[-1][0]
    assert offsets[0] is None
    assert int(str(offsets[1])) == last + 1


async def test_a_malformed_update_is_kept_and_the_next_ones_arrive(harness: PollerHarness):
    harness.api.push_update({"message": {"chat": 5, "text": ["?"]}})
    harness.api.person(7).send("after")
    async with harness.run_poller():
        await harness.wait_for_updates(2)
    assert [shape for _, shape in await harness.load_rows()] == ["other", "text"]


async def test_a_message_is_stored_for_the_group_of_which_the_database_knows(harness: PollerHarness):
    directory = build_directory()
    directory.remember(Group(-1005, "Family, as it is known here", "in", 1.0))
    async with harness.database.transaction() as tx:
        await groups.put(tx, Group(-5, "Family", "in", 1.0, other_chat=-1005))
    harness.read_envelope = partial(read_envelope, groups=directory)
    team = open_group(harness.api, harness.api.person(7), chat=-1005, hears_everything=True)
    team.ann.send("/ask@canvas_bot hi", thread=team.group)
    async with harness.run_poller():
        await harness.wait_for_updates(2)
    async with harness.database.read_transaction() as tx:
        lanes = (await tx.execute(select(inbox.c.lane).where(inbox.c.shape == "text"))).scalars().all()
    assert lanes == ["-5"]


async def test_failures_of_telegram_are_waited_out(harness: PollerHarness):
    harness.api.inject_fault(BotApiFault.server_error(), "getUpdates")
    harness.api.inject_fault(BotApiFault.flood(0), "getUpdates")
    harness.api.inject_fault(BotApiFault.drop(), "getUpdates")
    harness.api.person(7).send("late")
    async with harness.run_poller():
        await harness.wait_for_updates(1)
    assert len(harness.api.calls_of("getUpdates")) >= 4


async def test_a_webhook_left_behind_is_taken_away_without_dropping_updates(harness: PollerHarness):
    await harness.bot.set_webhook("https://example.org/hook")
    harness.api.person(7).send("hello")
    async with harness.run_poller():
        await harness.wait_for_updates(1)
    assert len(await harness.load_rows()) == 1


async def test_a_new_database_takes_no_messages_from_another_program(harness: PollerHarness):
    harness.api.inject_fault(CONFLICT, "getUpdates")
    harness.api.person(7).send("for the other one")
    with pytest.raises(SettingsRefused, match="this database is new"):
        await harness.build_poller().run()
    assert len(harness.api.calls_of("getUpdates")) == 1


async def test_admins_hear_once_of_another_program_that_shares_the_updates(harness: PollerHarness):
    ann = harness.api.person(7)
    ann.send("mine")
    async with harness.run_poller() as poller:
        await harness.wait_for_updates(1)
        assert poller.watch.is_fetching()
        for count in range(2, 4 + RIVAL_CONFLICTS):  # every other poll succeeds, with an update
            harness.api.inject_fault(CONFLICT, "getUpdates")
            ann.send("mine")
            await harness.wait_for_updates(count)
        assert not poller.watch.is_fetching()
    assert len(harness.alerts) == 1
    assert "Another program" in harness.alerts[0]


async def test_admins_hear_of_a_webhook_that_is_set_again_and_again(harness: PollerHarness):
    harness.api.inject_fault(
        BotApiFault.refuse("Conflict: can't use getUpdates method while webhook is active", 409),
        "getUpdates",
        times=RIVAL_CONFLICTS,
    )
    async with harness.run_poller() as poller:
        assert "webhook" in await harness.wait_for_alert()
        assert not poller.watch.is_fetching()


async def test_admins_hear_of_a_long_wait_that_telegram_asks_for(harness: PollerHarness):
    harness.api.inject_fault(BotApiFault.flood(3600), "getUpdates")
    async with harness.run_poller() as poller:
        assert "60 mins" in await harness.wait_for_alert()
        assert not poller.watch.is_fetching()


async def test_a_token_telegram_does_not_know_ends_it(harness: PollerHarness):
    harness.api.inject_fault(BotApiFault.refuse("Unauthorized", 401), "getUpdates")
    with pytest.raises(TelegramRefused, match="TELEGRAM_TOKEN"):
        await harness.build_poller().run()


@pytest.mark.sqlite
async def test_while_the_disk_is_full_nothing_is_acknowledged_and_admins_are_notified(harness: PollerHarness):
    async with harness.database.transaction() as tx:
        pages = (await tx.execute(text("PRAGMA page_count"))).scalar_one()
        await tx.execute(text(f"PRAGMA max_page_count = {pages}"))
    big = "x" * 4000
    for _ in range(20):
        harness.api.person(7).send(big)
    async with harness.run_poller():
        assert "can't store" in await harness.wait_for_alert()
        assert await harness.load_rows() == []
        assert len(harness.api.calls_of("getUpdates")) == 1
        async with harness.database.transaction() as tx:
            await tx.execute(text("PRAGMA max_page_count = 1000000"))
        await harness.wait_for_updates(20)
        await harness.api.wait_until(lambda: len(harness.api.calls_of("getUpdates")) == 2)
    assert len(await harness.load_rows()) == 20
    assert "again" in harness.alerts[-1]


async def test_beyond_the_bound_messages_are_not_taken_but_answered(harness: PollerHarness):
    for number in range(22):
        harness.api.person(7).send(str(number))
    async with harness.run_poller():
        await harness.wait_for_updates(22)
    assert [shape for _, shape in await harness.load_rows()] == ["text"] * 20 + ["overflow"] * 2


async def test_conflicts_as_replicas_take_turns_in_leading_alarm_nobody(harness: PollerHarness):
    poller = harness.build_poller(is_replica=True)
    for count in range(1, 3 + RIVAL_CONFLICTS):
        harness.api.inject_fault(CONFLICT, "getUpdates")
        harness.api.person(7).send("hello")
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(poller.run())
            await harness.wait_for_updates(count)
            running.cancel()
    assert harness.alerts == []
    assert poller.watch.is_fetching()


async def test_a_webhook_that_cannot_be_taken_away_at_once_is_tried_again(harness: PollerHarness):
    await harness.bot.set_webhook("https://example.org/hook")
    harness.api.inject_fault(BotApiFault.server_error(), "deleteWebhook")
    harness.api.person(7).send("hello")
    async with harness.run_poller():
        await harness.wait_for_updates(1)
    assert len(harness.api.calls_of("deleteWebhook")) == 2


@pytest.mark.parametrize("page", ["[]", "{}", '{"ok": true}', '{"ok": true, "result": {"a": 1}}', "<html>"])
async def test_an_answer_that_is_no_bot_apis_is_waited_out(harness: PollerHarness, page: str):
    harness.api.inject_fault(
        BotApiFault("error", takes_effect=False, status=200, html_page=page), "getUpdates"
    )
    harness.api.person(7).send("hello")
    async with harness.run_poller():
        await harness.wait_for_updates(1)


async def test_updates_that_come_twice_do_not_count_against_a_person(harness: PollerHarness):
    ann = harness.api.person(7)
    poller = UpdatePoller(
        harness.bot,
        harness.database,
        PollerCallbacks(harness.count_updates, harness, read_private_envelope),
        limits=BacklogLimits(max_waiting=3),
    )
    raw = [{"update_id": n, "message": _build_message(n)} for n in range(1, 6)]
    await poller._store_batch(raw[:2])
    await poller._store_batch(
        raw[:3]
    )  # the first two again: the process died before it could acknowledge them
    assert [shape for _, shape in await harness.load_rows()] == ["text", "text", "text"]
    await poller._store_batch(raw)
    assert [shape for _, shape in await harness.load_rows()] == [
        "text",
        "text",
        "text",
        "overflow",
        "overflow",
    ]
    await poller._store_batch(raw)
    assert len(await harness.load_rows()) == 5
    assert ann.chat.id == 7


@pytest.mark.parametrize("kind", ["message", "edited_message"])
async def test_an_update_of_another_bot_with_a_known_id_is_no_repeat(harness: PollerHarness, kind: str):
    poller = harness.build_poller()
    tap = {"from": {"id": 7}, "message": _build_message(1), "data": "menu:status"}
    await poller._store_batch(
        [
            {"update_id": 1, "message": _build_message(1)},
            {"update_id": 2, "callback_query": tap | {"id": "71"}},
        ]
    )
    of_another_bot = [
        {"update_id": 1, kind: _build_message(1) | {"date": 1_500_000_000}},
        {"update_id": 2, "callback_query": tap | {"id": "72"}},
    ]
    for _ in range(2):  # the second time is a repeat
        await poller._store_batch(of_another_bot)
        assert [update_id for update_id, _ in await harness.load_rows()] == [None, None, 1, 2]


async def test_a_waiting_message_is_stored_as_it_was_edited_last(harness: PollerHarness):
    poller = harness.build_poller()

    def build(update_id: int, kind: str, text: str) -> dict[str, object]:
        return {"update_id": update_id, kind: _build_message(1) | {"text": text}}

    async def load_text() -> str:
        async with harness.database.read_transaction() as tx:
            body = (await tx.execute(select(inbox.c.body).where(inbox.c.update_id == 1))).scalar_one()
            return str(json.loads(body)["message"]["text"])

    batches = [
        [build(1, "message", "one"), build(2, "edited_message", "two")],
        [build(3, "edited_message", "three")],
        [build(4, "edited_message", "/stop")],
        [build(2, "edited_message", "two"), build(3, "edited_message", "three")],
        [build(1, "message", "one"), build(2, "edited_message", "two")],
    ]
    texts = []
    for batch in batches:  # the last two again: the process died before it could acknowledge them
        await poller._store_batch(batch)
        texts.append(await load_text())
    assert texts == ["two", "three", "three", "three", "three"]
    assert [shape for _, shape in await harness.load_rows()] == ["text", "other", "other", "edit"]
    async with harness.database.transaction() as tx:
        await tx.execute(update(inbox).where(inbox.c.update_id == 1).values(state="running"))
    await poller._store_batch([build(5, "edited_message", "four")])
    assert (await load_text(), (await harness.load_rows())[-1]) == ("three", (5, "edit"))


async def test_an_edit_that_cannot_be_answered_leaves_the_one_that_waits(harness: PollerHarness):
    poller = harness.build_poller()

    def build(update_id: int, kind: str, text: str) -> dict[str, object]:
        return {"update_id": update_id, kind: _build_message(1) | {"text": text}}

    await poller._store_batch([build(1, "message", "/deep one")])
    async with harness.database.transaction() as tx:
        await tx.execute(update(inbox).values(state="running"))
    for number, words in enumerate(("/deep two", "no question any more", "/stop"), start=2):
        await poller._store_batch([build(number, "edited_message", words)])
    async with harness.database.read_transaction() as tx:
        rows = await tx.execute(select(inbox.c.shape, inbox.c.state, inbox.c.lane).order_by(inbox.c.id))
    assert [tuple(row) for row in rows][1:] == [
        ("edit", "new", "7"),
        ("other", "new", None),
        ("edit", "new", None),
    ]


async def test_an_edit_that_comes_with_a_message_stored_before_is_not_lost(harness: PollerHarness):
    poller = harness.build_poller()

    def build(update_id: int, kind: str, text: str) -> dict[str, object]:
        return {"update_id": update_id, kind: _build_message(1) | {"text": text}}

    message = build(1, "message", "one")
    edits = [build(2, "edited_message", "two"), build(3, "edited_message", "three")]
    texts = []
    for batch in ([message], [message, edits[0]], [message, *edits]):  # never acknowledged
        await poller._store_batch(batch)
        async with harness.database.read_transaction() as tx:
            body = (await tx.execute(select(inbox.c.body).where(inbox.c.update_id == 1))).scalar_one()
        texts.append(json.loads(body)["message"]["text"])
    assert texts == ["one", "two", "three"]
    async with harness.database.transaction() as tx:
        await tx.execute(update(inbox).where(inbox.c.update_id == 1).values(state="running"))
    await poller._store_batch([message, *edits, build(4, "edited_message", "four")])
    shapes = [shape for _, shape in await harness.load_rows()]
    assert shapes == ["text", "other", "other", "edit"]  # the last one is told about


async def test_forwards_in_many_batches_are_one_burst(harness: PollerHarness):
    poller = harness.build_poller()
    origin = {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Zed"}}
    for start in (0, 100, 200):
        forwards = [
            {"update_id": number + 1, "message": _build_message(number) | origin}
            for number in range(start, start + 100)
        ]
        await poller._store_batch(forwards)
    await poller._store_batch([{"update_id": 301, "message": _build_message(301)}])
    shapes = [shape for _, shape in await harness.load_rows()]
    taken = shapes.index("overflow")
    assert 100 < taken < 200
    assert shapes == ["text"] * taken + ["overflow"] * (300 - taken) + ["text"]


async def test_of_what_is_not_taken_only_its_beginning_is_stored(harness: PollerHarness):
    poller = UpdatePoller(
        harness.bot,
        harness.database,
        PollerCallbacks(harness.count_updates, harness, read_private_envelope),
        limits=BacklogLimits(max_waiting=1),
    )
    entities = [{"type": "bold", "offset": number, "length": 1} for number in range(100)]
    message = _build_message(2) | {"text": "س" * 4096, "entities": entities}
    message["reply_to_message"] = _build_message(1) | {"text": "س" * 4096}
    await poller._store_batch(
        [{"update_id": 1, "message": _build_message(1)}, {"update_id": 2, "message": message}]
    )
    async with harness.database.read_transaction() as tx:
        row = (await tx.execute(select(inbox).where(inbox.c.shape == "overflow"))).one()
    assert len(row.body) < 1000
    stored = json.loads(row.body)["message"]
    assert stored == _build_message(2) | {"date": stored["date"], "text": "س" * 100}


async def test_a_person_who_has_been_answered_may_write_again(harness: PollerHarness):
    poller = UpdatePoller(
        harness.bot,
        harness.database,
        PollerCallbacks(harness.count_updates, harness, read_private_envelope),
        limits=BacklogLimits(max_waiting=2),
        max_remembered_people=1,
    )

    async def store_and_load_shapes(*numbers: int, sender: int = 7) -> list[str]:
        for number in numbers:
            await poller._store_batch([{"update_id": number, "message": _build_message(number, sender)}])
        return [shape for update_id, shape in await harness.load_rows() if update_id in numbers]

    assert await store_and_load_shapes(1, 2, 3) == ["text", "text", "overflow"]
    assert await store_and_load_shapes(4, 5, 6, sender=8) == ["text", "text", "overflow"]
    async with harness.database.transaction() as tx:
        await tx.execute(update(inbox).where(inbox.c.sender == 7).values(state="done"))
    assert await store_and_load_shapes(7, 8, 9) == ["text", "text", "overflow"]


def _build_message(number: int, sender: int = 7) -> dict[str, object]:
    chat = {"id": 7, "type": "private"}
    return {
        "message_id": number,
        "date": int(time.time()),
        "chat": chat,
        "from": {"id": sender},
        "text": f"number {number}",
    }


@pytest.mark.parametrize(
    "broken",
    [
        b'{"update_id":5,"message":{"text":',
        b"\xff\xfe{]",
        b'{"update_id":5,"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
async def test_a_broken_update_takes_no_other_with_it(harness: PollerHarness, broken: bytes):
    harness.api.person(7).send("before")
    harness.api.push_update(broken)
    harness.api.person(7).send("after")
    async with harness.run_poller():
        await harness.wait_for_updates(2)
        await harness.api.wait_until(lambda: len(harness.api.calls_of("getUpdates")) >= 2)
    assert [shape for _, shape in await harness.load_rows()] == ["text", "text"]


async def test_a_broken_update_alone_is_acknowledged_with_the_next_one(harness: PollerHarness):
    harness.api.push_update(b"no update")
    async with harness.run_poller():
        await harness.api.wait_until(lambda: len(harness.api.calls_of("getUpdates")) >= 2)
        harness.api.person(7).send("after")
        await harness.wait_for_updates(1)
        polls = len(harness.api.calls_of("getUpdates"))
        await harness.api.wait_until(lambda: len(harness.api.calls_of("getUpdates")) > polls)
    assert "offset" in harness.api.calls_of("getUpdates")[-1].params


@given(st.binary(max_size=40), st.lists(st.integers(0, 9), max_size=3))
def test_whole_updates_are_found_in_any_answer(junk: bytes, numbers: list[int]):
    updates = [{"update_id": number, "message": {"text": '{"update_id":1}'}} for number in numbers]
    answer = ",".join(
        [
            junk.decode("utf-8", "replace"),
            *(json.dumps(update_json, separators=(",", ":")) for update_json in updates),
        ]
    )
    found = list(parse_whole_updates(answer))
    assert found[len(found) - len(updates) :] == updates

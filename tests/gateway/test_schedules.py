"""Schedules in the whole house: in words through the tool, done by tasks that give way to people, told if
they fail.
"""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from bot.db.engine import Database, open_database
from bot.db.tables import accounts, inbox, model_calls, turns
from bot.db.tables import jobs as table
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from bot.telegram.runners.tasks import DUE_TASK_PREFIX
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway

HOURLY = "DTSTART:20260101T000000\nRRULE:FREQ=HOURLY"
HOUR = 3600.0


async def add_due_job(
    gateway: GatewayHarness,
    text: str,
    *,
    kind: str = "task",
    rule: str | None = HOURLY,
    seconds_ago: float = 0.0,
    chat: int = ADMIN,
) -> int:
    """A job of Ann's, or of who has this chat, that is due; its id. The schedule finds it by itself."""
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        row = {"kind": kind, "person": chat, "lane": str(chat), "text": text, "rule": rule, "zone": "UTC"}
        made = (
            insert(table)
            .values(row | {"next_due": time.time() - seconds_ago, "made_at": 0.0})
            .returning(table.c.id)
        )
        return int((await tx.execute(made)).scalar_one())


async def introduce_person(gateway: GatewayHarness, chat: int = ADMIN) -> None:
    """Ann, or who has this chat, has written to the bot before."""
    gateway.api.person(chat).send("/id")
    await gateway.wait_for_texts(chat=chat)


async def load_job(gateway: GatewayHarness, number: int) -> dict[str, object]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return dict((await tx.execute(select(table).where(table.c.id == number))).one()._asdict())


async def wait_for_outcome(gateway: GatewayHarness, number: int) -> dict[str, object]:
    """A job once what came of it is noted, which is after its answer is stored."""
    async with asyncio.timeout(20):
        while (found := await load_job(gateway, number))["last_done"] is None:  # noqa: ASYNC110  # it is told to nobody
            await asyncio.sleep(0.05)
    return found


def tool_results(gateway: GatewayHarness) -> list[str]:
    """What tools gave in the conversation so far."""
    return [one["content"] for one in gateway.endpoint.requests[-1].body["messages"] if one["role"] == "tool"]


def has_said(gateway: GatewayHarness, text: str, chat: int = ADMIN) -> bool:
    return any(text in one for one in gateway.texts(chat))


def messages_starting_with(gateway: GatewayHarness, text: str) -> list[ChatMessage]:
    return [one for one in gateway.api.chat(ADMIN).bot_messages if one.text.startswith(text)]


async def turn_seconds(database: Database) -> list[tuple[float, float]]:
    """Of each turn, what it took and what its seconds add up to."""
    parts = [column for column in accounts.c if column.name not in {"turn", "settled_at", "whole"}]
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(accounts.c.whole, *parts))).all()
    return [(row[0], sum(row[1:])) for row in rows]


async def test_words_become_a_reminder_that_is_said_back_listed_and_taken_back(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone="Europe/Berlin") as house:
        house.ann.send('@@tool:schedule {"when": "every weekday at 8", "text": "stand up"}@@@@say:Done.@@')
        await house.api.wait_until(lambda: "Done." in house.texts() and len(house.texts()) > 1)
        [told] = messages_starting_with(house, "⏰ I remind you: stand up\nEvery weekday at 08:00. Next: ")
        assert told.text.endswith("(Europe/Berlin)")
        house.ann.send(
            '@@tool:schedule {"when": "in 2 hours", "text": "tell me a joke", "task": true}@@@@say:And.@@'
        )
        await house.api.wait_until(
            lambda: (
                "And." in house.texts() and messages_starting_with(house, "🤖 I do this then: tell me a joke")
            )
        )
        house.ann.send("@@tool:schedule {}@@@@say:Listed.@@")
        await house.api.wait_until(lambda: "Listed." in house.texts())
        async with open_database(house.settings.database_url) as database, database.read_transaction() as tx:
            first, second = (
                (await tx.execute(select(table.c.id).where(table.c.person == ADMIN))).scalars().all()
            )
        results = tool_results(house)
        assert [f"#{first} ⏰ stand up", f"#{second} 🤖 tell me a joke"] == [
            line.split(" · ")[0] for line in results[-1].splitlines()
        ]
        house.ann.send(f'@@tool:schedule {{"remove": {second}}}@@@@say:Gone.@@')
        await house.api.wait_until(lambda: "Gone." in house.texts())
        house.ann.tap(told, "Undo")
        await house.api.wait_until(lambda: messages_starting_with(house, "Undone: stand up"))
        async with open_database(house.settings.database_url) as database, database.read_transaction() as tx:
            assert (await tx.execute(select(table.c.id).where(table.c.person == ADMIN))).all() == []


async def test_the_model_is_told_what_is_wrong_and_asks_for_a_city_where_that_is_needed(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        asked = [
            '{"when": "tomorrow 9:00", "text": "tea"}',
            '{"when": "tomorrow 9:00 in Atlantis", "text": "tea"}',
            '{"when": "tomorrow 9:00"}',
            '{"when": "every second", "text": "tea"}',
            '{"remove": 4711}',
            '{"when": "tomorrow 9:00 in Berlin", "text": "tea"}',
            '{"when": "tomorrow 9:00 in Paris", "text": "tea"}',
            '{"when": "tomorrow 9:00 in Hamburg", "text": "coffee"}',
            '{"when": "tomorrow 9:00 in the shed", "text": "coffee"}',
            '{"remove": 99999999999999999999}',
        ]
        for number, arguments in enumerate(asked):
            house.ann.send(f"@@tool:schedule {arguments}@@@@say:Said {number}.@@")
            await house.api.wait_until(partial(has_said, house, f"Said {number}."))
        results = tool_results(house)
        for told, result in zip(
            (
                "The person's time zone is unknown. Ask in which city",
                "The person's time zone is unknown. Ask in which city",
                "give both when and text",
                "That is too often",
                "There is no #4711",
                "Scheduled.",
                "I do not know when that is: the person's times are those of Europe/Berlin",
                "Scheduled.",
                "I do not know when that is",
                "There is no #99999999999999999999. Call this without arguments",
            ),
            results,
            strict=True,
        ):
            assert told in result
        assert len(messages_starting_with(house, "⏰ I remind you: tea")) == 1


async def test_a_due_reminder_is_text_without_a_model_call_and_a_due_task_a_turn_with_tools(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        await introduce_person(house)
        await add_due_job(house, "tea", kind="reminder")
        await house.api.wait_until(lambda: "⏰ tea" in house.texts())
        assert house.endpoint.requests == []
        task = await add_due_job(
            house,
            '@@tool:calculate {"expression": "6*7"}@@@@say:It is 42.@@',
            seconds_ago=2 * HOUR,
            rule=None,
        )
        await house.api.wait_until(
            lambda: any("It is 42." in text for text in house.texts()) and house.is_finished()
        )
        answer = house.texts()[-1]
        assert answer.startswith("🤖 ")
        assert "2 hours ago, while I was away" in answer
        first, *_ = house.endpoint.requests
        assert DUE_TASK_PREFIX in first.body["messages"][-1]["content"]
        assert first.body["priority"] == 1
        stored = await wait_for_outcome(house, task)
        assert (stored["state"], stored["failures"]) == ("done", 0)


async def test_a_person_who_writes_goes_before_a_due_task_which_goes_on_after_them(tmp_path: Path):
    """What the task has cost by then is lost, its account adds up all the same."""
    async with open_harness(tmp_path, SimulatedEndpoint(timing=Timing(canvas_seconds=0.05))) as house:
        async with house.run():
            await introduce_person(house)
            await add_due_job(house, long_story())
            await house.endpoint.wait_until(
                lambda: any(request.canvases for request in house.endpoint.requests)
            )
            house.endpoint.hold()
            await house.api.wait_until(lambda: messages_starting_with(house, "word"))
            house.ann.send("@@say:Hello, Ann.@@")
            await house.endpoint.wait_until(lambda: any(one.cancelled for one in house.endpoint.requests))
            house.endpoint.release()
            await house.api.wait_until(lambda: "Hello, Ann." in house.texts())
            await house.api.wait_until(
                lambda: messages_starting_with(house, "🤖 ") and house.is_finished(), 30
            )
            texts = house.texts()
        async with open_database(house.settings.database_url) as database:
            async with database.read_transaction() as tx:
                items = (
                    await tx.execute(select(inbox.c.kind, inbox.c.state, inbox.c.attempt, inbox.c.id))
                ).all()
                ended = (
                    await tx.execute(select(turns.c.item, turns.c.ending).order_by(turns.c.ended_at))
                ).all()
                cut = (
                    (await tx.execute(select(model_calls.c.outcome).order_by(model_calls.c.id)))
                    .scalars()
                    .all()
                )
            task, hello = (
                next(one.id for one in reversed(items) if one.kind == kind) for kind in ("task", "update")
            )
            assert {(one.id == task, one.state, one.attempt) for one in items} == {
                (True, "done", 2),
                (False, "done", 1),
            }
            assert [row.item for row in ended] == [hello, task]
            assert cut[0] == "cancelled"
            assert len(texts) == len(set(texts))
            for whole, together in await turn_seconds(database):
                assert whole == pytest.approx(together, abs=0.001)


async def test_tasks_of_many_never_take_the_last_seat_from_whoever_writes(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", model_seats="2") as house:
        for chat in range(21, 26):
            await introduce_person(house, chat)
        house.endpoint.hold()
        for chat in range(21, 26):
            await add_due_job(house, "@@say:The news.@@", chat=chat)
        await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        async with open_database(house.settings.database_url) as database:
            async with asyncio.timeout(20):
                while True:
                    async with database.read_transaction() as tx:
                        begun = (await tx.execute(select(turns.c.id))).all()
                    if len(begun) == 5:
                        break
                    await asyncio.sleep(0.05)
        assert house.endpoint.running == 1
        house.ann.send("@@say:Hello, Ann.@@")
        await house.endpoint.wait_until(lambda: house.endpoint.running == 2)
        assert [one.body.get("priority", 0) for one in house.endpoint.requests] == [1, 0]
        house.endpoint.release()
        for chat in range(21, 26):
            await house.api.wait_until(partial(has_said, house, "The news.", chat))
        assert house.texts() == ["Hello, Ann."]


async def test_what_an_earlier_process_left_unnoted_is_noted_and_what_was_forgotten_is_gone(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        async with house.run():
            await introduce_person(house)
            task = await add_due_job(house, "hello @@say:hi@@")
            await house.api.wait_until(lambda: messages_starting_with(house, "🤖 ") and house.is_finished())
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(update(table).where(table.c.id == task).values(last_done=None, failures=2))
            await tx.execute(update(turns).values(ending="away"))
        async with house.run():
            await house.api.wait_until(lambda: messages_starting_with(house, f"I paused #{task}, “hello"))
            [told] = messages_starting_with(house, "I paused")
            assert "it failed 3 times in a row, the last time because the model did not answer." in told.text
            house.ann.tap(told, "Resume")
            await house.api.wait_until(
                lambda: any("Pause" in str(one.buttons) for one in house.api.chat(ADMIN).bot_messages)
            )
            assert ((await load_job(house, task))["state"], (await load_job(house, task))["failures"]) == (
                "active",
                0,
            )
            house.ann.send("/forget")
            await house.api.wait_until(lambda: messages_starting_with(house, "Shall I forget"))
            house.ann.tap(messages_starting_with(house, "Shall I forget")[0], "Forget it all")
            await house.api.wait_until(lambda: FORGOTTEN_TEXT in house.texts())
            async with (
                open_database(house.settings.database_url) as database,
                database.read_transaction() as tx,
            ):
                assert (await tx.execute(select(table.c.id).where(table.c.person == ADMIN))).all() == []


async def test_a_due_task_may_use_what_its_owner_is_granted_at_that_moment(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", tools_dir=install_bells(tmp_path)) as house:
        await introduce_person(house)
        await introduce_person(house, 8)
        for act, bell in (("/grant", "one"), ("/revoke", "two")):
            before = len(house.texts())
            house.ann.send(f"{act} chime 8")
            await house.wait_for_texts(before + 1)
            call = f'@@tool:chime {{"bell": "{bell}"}}@@@@say:Rung {bell}.@@'
            await add_due_job(house, call, chat=8, rule=None)
            await house.api.wait_until(partial(has_said, house, f"Rung {bell}.", 8))
        assert load_rung_bells(tmp_path) == ["one"]

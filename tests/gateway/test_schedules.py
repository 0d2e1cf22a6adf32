"""Schedules in the whole gateway: in words through the tool, run by tasks that yield to users, reported if
they fail.
"""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from bot.chat.tasks import DUE_TASK_PREFIX
from bot.db.engine import Database, open_database
from bot.db.tables import accounts, inbox, model_calls, turns
from bot.db.tables import jobs as jobs_table
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.sim.telegram.chats import ChatMessage
from bot.sim.vllm.server import Timing
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway

YEARLY = "DTSTART:20260101T000000\nRRULE:FREQ=YEARLY"  # it must not come due again meanwhile
HOUR = 3600.0


async def add_due_job(
    gateway: GatewayHarness,
    text: str,
    *,
    kind: str = "task",
    rule: str | None = YEARLY,
    seconds_ago: float = 0.0,
    chat: int = ADMIN,
) -> int:
    """A job of Ann's, or of who has this chat, that is due; its id. The schedule finds it by itself."""
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        row = {"kind": kind, "person": chat, "lane": str(chat), "text": text, "rule": rule, "zone": "UTC"}
        job_id = (
            insert(jobs_table)
            .values(row | {"next_due": time.time() - seconds_ago, "made_at": 0.0})
            .returning(jobs_table.c.id)
        )
        return int((await tx.execute(job_id)).scalar_one())


async def introduce_person(gateway: GatewayHarness, chat: int = ADMIN) -> None:
    """Ann, or who has this chat, has written to the bot before."""
    gateway.api.person(chat).send("/id")
    await gateway.wait_for_texts(chat=chat)


async def load_job(gateway: GatewayHarness, number: int) -> dict[str, object]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return dict((await tx.execute(select(jobs_table).where(jobs_table.c.id == number))).one()._asdict())


async def load_due_times(gateway: GatewayHarness, person: int) -> list[float]:
    """When the jobs of a person are due; the gateway's own are stored beside them."""
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        query = select(jobs_table.c.next_due).where(jobs_table.c.person == person)
        return [*(await tx.execute(query)).scalars()]


async def wait_for_outcome(gateway: GatewayHarness, number: int) -> dict[str, object]:
    """A job once what came of it is noted, which is after its answer is stored."""
    async with asyncio.timeout(60):
        while (job := await load_job(gateway, number))["last_done"] is None:  # noqa: ASYNC110  # nothing reports it
            await asyncio.sleep(0.05)
    return job


def tool_results(gateway: GatewayHarness) -> list[str]:
    """What tools gave in the conversation so far."""
    return [
        message["content"]
        for message in gateway.endpoint.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]


def has_said(gateway: GatewayHarness, text: str, chat: int = ADMIN) -> bool:
    return any(text in sent for sent in gateway.texts(chat))


def has_sent(gateway: GatewayHarness, text: str) -> bool:
    return text in gateway.texts()


def messages_starting_with(gateway: GatewayHarness, text: str) -> list[ChatMessage]:
    return [message for message in gateway.api.chat(ADMIN).bot_messages if message.text.startswith(text)]


async def turn_seconds(database: Database) -> list[tuple[float, float]]:
    """Of each turn, what it took and what its seconds add up to."""
    parts = [column for column in accounts.c if column.name not in {"turn", "settled_at", "whole"}]
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(accounts.c.whole, *parts))).all()
    return [(row[0], sum(row[1:])) for row in rows]


async def test_words_become_a_reminder_that_is_said_back_listed_and_taken_back(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone="Europe/Berlin") as gateway:
        gateway.ann.send('@@tool:schedule {"when": "every weekday at 8", "text": "stand up"}@@@@say:Done.@@')
        await gateway.api.wait_until(lambda: "Done." in gateway.texts() and len(gateway.texts()) > 1)
        [reminder] = messages_starting_with(
            gateway, "⏰ I'll remind you: stand up\nEvery weekday at 08:00. Next: "
        )
        assert reminder.text.endswith("(Europe/Berlin)")
        gateway.ann.send(
            '@@tool:schedule {"when": "in 2 hours", "text": "tell me a joke", "task": true}@@@@say:And.@@'
        )
        await gateway.api.wait_until(
            lambda: (
                "And." in gateway.texts()
                and messages_starting_with(gateway, "🤖 I'll do this then: tell me a joke")
            )
        )
        gateway.ann.send("@@tool:schedule {}@@@@say:Listed.@@")
        await gateway.api.wait_until(lambda: "Listed." in gateway.texts())
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            first, second = (
                (
                    await tx.execute(
                        select(jobs_table.c.id).where(jobs_table.c.person == ADMIN).order_by(jobs_table.c.id)
                    )
                )
                .scalars()
                .all()
            )
        results = tool_results(gateway)
        lines = [
            line.split(" · ")[0] for line in results[-1].splitlines()
        ]  # which is due first, the clock says
        assert sorted(lines) == [f"#{first} ⏰ stand up", f"#{second} 🤖 tell me a joke"]
        [task] = messages_starting_with(gateway, "🤖 I'll do this then: tell me a joke")
        gateway.ann.tap(task, "Change")
        await gateway.api.wait_until(lambda: "New time" in str(task.buttons))
        gateway.ann.tap(task, "New time")
        await gateway.api.wait_until(lambda: has_said(gateway, "Reply with the new time"))
        [question] = messages_starting_with(gateway, "🤖 tell me a joke\n\nReply with")
        gateway.ann.send("every monday at 9", reply_to=question)
        await gateway.api.wait_until(
            lambda: has_said(gateway, "Changed.\n🤖 tell me a joke\n\nOn Mondays at 09:00.\nNext: Mon ")
        )
        gateway.ann.send(f'@@tool:schedule {{"remove": {second}}}@@@@say:Gone.@@')
        await gateway.api.wait_until(lambda: "Gone." in gateway.texts())
        gateway.ann.tap(reminder, "Undo")
        await gateway.api.wait_until(lambda: messages_starting_with(gateway, "Undone: stand up"))
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            assert (await tx.execute(select(jobs_table.c.id).where(jobs_table.c.person == ADMIN))).all() == []


async def test_the_model_gets_what_is_wrong_and_is_asked_for_a_city_where_one_is_needed(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        calls = [
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
        for number, arguments in enumerate(calls):
            gateway.ann.send(f"@@tool:schedule {arguments}@@@@say:Said {number}.@@")
            await gateway.api.wait_until(partial(has_said, gateway, f"Said {number}."))
        results = tool_results(gateway)
        for expected, result in zip(
            (
                "The person's time zone is unknown. Ask in which city",
                "The person's time zone is unknown. Ask in which city",
                "give both when and text",
                "That's too often",
                "There is no #4711",
                "Scheduled.",
                "I don't know when that is: the person's times are those of Europe/Berlin",
                "Scheduled.",
                "I don't know when that is",
                "There is no #99999999999999999999. Call this without arguments",
            ),
            results,
            strict=True,
        ):
            assert expected in result
        assert len(messages_starting_with(gateway, "⏰ I'll remind you: tea")) == 1


async def test_a_due_reminder_is_text_without_a_model_call_and_a_due_task_a_turn_with_tools(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        await introduce_person(gateway)
        await add_due_job(gateway, "tea", kind="reminder")
        await gateway.api.wait_until(lambda: "⏰ tea" in gateway.texts())
        assert gateway.endpoint.requests == []
        task = await add_due_job(
            gateway,
            '@@tool:calculate {"expression": "6*7"}@@@@say:It is 42.@@',
            seconds_ago=2 * HOUR,
            rule=None,
        )
        await gateway.api.wait_until(
            lambda: any("It is 42." in text for text in gateway.texts()) and gateway.is_finished()
        )
        answer = gateway.texts()[-1]
        assert answer.startswith("🤖 ")
        assert "2 hours ago, while I was away" in answer
        first, *_ = gateway.endpoint.requests
        assert DUE_TASK_PREFIX in first.body["messages"][-1]["content"]
        assert first.body["priority"] == 1
        stored = await wait_for_outcome(gateway, task)
        assert (stored["state"], stored["failures"]) == ("done", 0)


async def test_a_person_who_writes_goes_before_a_due_task_which_goes_on_after_them(tmp_path: Path):
    """What the task has cost by then is lost, but its breakdown still adds up."""
    async with open_harness(tmp_path, ScriptedEndpoint(timing=Timing(canvas_seconds=0.05))) as gateway:
        async with gateway.run():
            await introduce_person(gateway)
            await add_due_job(gateway, long_story())
            await gateway.endpoint.wait_until(
                lambda: any(request.canvases for request in gateway.endpoint.requests)
            )
            gateway.endpoint.hold()
            await gateway.api.wait_until(lambda: messages_starting_with(gateway, "word"))
            gateway.ann.send("@@say:Hello, Ann.@@")
            await gateway.endpoint.wait_until(
                lambda: any(request.cancelled for request in gateway.endpoint.requests)
            )
            gateway.endpoint.release()
            await gateway.api.wait_until(lambda: "Hello, Ann." in gateway.texts())
            await gateway.api.wait_until(
                lambda: messages_starting_with(gateway, "🤖 ") and gateway.is_finished()
            )
            texts = gateway.texts()
        async with open_database(gateway.settings.database_url) as database:
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
                next(item.id for item in reversed(items) if item.kind == kind) for kind in ("task", "update")
            )
            assert {(item.id == task, item.state, item.attempt) for item in items} == {
                (True, "done", 2),
                (False, "done", 1),
            }
            assert [row.item for row in ended] == [hello, task]
            assert cut[0] == "cancelled"
            assert len(texts) == len(set(texts))
            for total_seconds, together in await turn_seconds(database):
                assert total_seconds == pytest.approx(together, abs=0.001)


async def test_tasks_of_many_never_take_the_last_seat_from_whoever_writes(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", model_seats="2") as gateway:
        for chat in range(21, 26):
            await introduce_person(gateway, chat)
        gateway.endpoint.hold()
        for chat in range(21, 26):
            await add_due_job(gateway, "@@say:The news.@@", chat=chat)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        async with open_database(gateway.settings.database_url) as database:
            async with asyncio.timeout(60):
                while True:
                    async with database.read_transaction() as tx:
                        rows = (await tx.execute(select(turns.c.id))).all()
                    if len(rows) == 5:
                        break
                    await asyncio.sleep(0.05)
        assert gateway.endpoint.running == 1
        gateway.ann.send("@@say:Hello, Ann.@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 2)
        assert [request.body.get("priority", 0) for request in gateway.endpoint.requests] == [1, 0]
        gateway.endpoint.release()
        for chat in range(21, 26):
            await gateway.api.wait_until(partial(has_said, gateway, "The news.", chat))
        assert await gateway.wait_for_texts() == ["Hello, Ann."]


async def test_a_reminder_that_is_snoozed_says_when_it_comes_again_and_comes(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone="UTC") as gateway:
        await introduce_person(gateway)
        await add_due_job(gateway, "tea", kind="reminder", rule=None)
        await gateway.api.wait_until(lambda: messages_starting_with(gateway, "⏰ tea"))
        [reminder] = messages_starting_with(gateway, "⏰ tea")
        assert [button["text"] for button in reminder.buttons] == ["10 min", "1 h", "Tomorrow"]
        gateway.ann.tap(reminder, "10 min")
        gateway.ann.tap(reminder, "Tomorrow")
        await gateway.api.wait_until(lambda: messages_starting_with(gateway, "⏰ tea\n\nAgain "))
        assert not messages_starting_with(gateway, "⏰ tea")[0].buttons
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            is_snooze = jobs_table.c.name.startswith("snooze")
            moved = await tx.execute(update(jobs_table).where(is_snooze).values(next_due=time.time()))
            assert moved.rowcount == 1
        await gateway.api.wait_until(lambda: len(messages_starting_with(gateway, "⏰ tea")) == 2)
        assert len(messages_starting_with(gateway, "⏰ tea")[1].buttons) == 3


async def test_what_an_earlier_process_left_unnoted_is_noted_and_what_was_forgotten_is_gone(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        async with gateway.run():
            await introduce_person(gateway)
            task = await add_due_job(gateway, "hello @@say:hi@@")
            await gateway.api.wait_until(
                lambda: messages_starting_with(gateway, "🤖 ") and gateway.is_finished()
            )
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(
                update(jobs_table).where(jobs_table.c.id == task).values(last_done=None, failures=2)
            )
            await tx.execute(update(turns).values(ending="away"))
        async with gateway.run():
            await gateway.api.wait_until(lambda: messages_starting_with(gateway, "I paused “hello"))
            [message] = messages_starting_with(gateway, "I paused")
            assert "it failed 3 times in a row. Last time: the model did not answer." in message.text
            gateway.ann.tap(message, "Resume")
            await gateway.api.wait_until(
                lambda: any(
                    "Pause" in str(message.buttons) for message in gateway.api.chat(ADMIN).bot_messages
                )
            )
            assert (
                (await load_job(gateway, task))["state"],
                (await load_job(gateway, task))["failures"],
            ) == (
                "active",
                0,
            )
            gateway.ann.send("/forget")
            await gateway.api.wait_until(lambda: messages_starting_with(gateway, "Forget this chat"))
            gateway.ann.tap(messages_starting_with(gateway, "Forget this chat")[0], "Forget it all")
            await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())
            async with (
                open_database(gateway.settings.database_url) as database,
                database.read_transaction() as tx,
            ):
                assert (
                    await tx.execute(select(jobs_table.c.id).where(jobs_table.c.person == ADMIN))
                ).all() == []


async def test_a_due_task_may_use_what_its_owner_is_granted_at_that_moment(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", tools_dir=install_bells(tmp_path)) as gateway:
        await introduce_person(gateway)
        await introduce_person(gateway, 8)
        for act, bell in (("/grant", "one"), ("/revoke", "two")):
            before = len(gateway.texts())
            gateway.ann.send(f"{act} chime 8")
            await gateway.wait_for_texts(before + 1)
            call = f'@@tool:chime {{"bell": "{bell}"}}@@@@say:Rung {bell}.@@'
            await add_due_job(gateway, call, chat=8, rule=None)
            await gateway.api.wait_until(partial(has_said, gateway, f"Rung {bell}.", 8))
        assert load_rung_bells(tmp_path) == ["one"]


async def test_a_due_task_asks_while_a_strangers_words_are_part_of_its_chat(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        gateway.ann.send("@@tool:listen {}@@@@say:Heard.@@")
        await gateway.api.wait_until(partial(has_said, gateway, "Heard."))
        await add_due_job(gateway, '@@tool:chime {"bell": "one"}@@@@say:Not rung.@@', rule=None)
        await gateway.api.wait_until(lambda: messages_starting_with(gateway, "May I run chime?"))
        [question] = messages_starting_with(gateway, "May I run chime?")
        assert "Something I read earlier in this chat" in question.text
        gateway.ann.tap(question, "Deny")
        await gateway.api.wait_until(partial(has_said, gateway, "Not rung."))
    assert load_rung_bells(tmp_path) == []


async def test_after_text_from_outside_a_reminder_is_asked_about_in_words_unless_the_person_said_it(
    tmp_path: Path,
):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway, gateway.run():
        gateway.ann.send("/zone Berlin")
        await gateway.wait_for_texts(1)
        gateway.ann.send("@@tool:listen {}@@@@say:heard@@")
        await gateway.api.wait_until(lambda: has_said(gateway, "heard"))
        call = '@@tool:schedule {"when": "in 20 minutes", "text": "take the cake out"}@@@@say:Done.@@'
        gateway.ann.send(f"Remind me in 20 minutes to take the cake out {call}")
        await gateway.api.wait_until(lambda: has_said(gateway, "Done."))
        assert has_said(gateway, "⏰ I'll remind you: take the cake out")
        assert not has_said(gateway, "Shall I remind you?")
        asked_at = int(time.time()) - 120
        gateway.ann.send(call.replace("Done.", "Later."), date=asked_at)
        await gateway.api.wait_until(lambda: has_said(gateway, "Shall I remind you?"))
        [question] = messages_starting_with(gateway, "Shall I remind you?")
        assert question.text.startswith("Shall I remind you?\ntake the cake out\n")
        assert "(Europe/Berlin)" in question.text
        assert [button["text"] for button in question.buttons] == ["Yes", "No"]
        gateway.ann.tap(question, "Yes")
        await gateway.api.wait_until(lambda: has_said(gateway, "Later."))
        await gateway.api.wait_until(lambda: question.text.endswith("Answered: Yes"))
        assert asked_at + 1200 in await load_due_times(gateway, gateway.ann.id)
        gateway.ann.send('@@tool:remember {"note": "Anna is vegan"}@@@@say:Noted.@@')
        await gateway.api.wait_until(lambda: has_said(gateway, "Shall I remember this?\nAnna is vegan"))


async def test_a_line_in_another_language_is_read_by_the_model_which_must_keep_its_numbers(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone="Europe/Berlin") as gateway:
        for when, said in (("tomorrow at 10", "Once."), ("tomorrow at 9", "Twice.")):
            call = f'@@tool:schedule {{"when": "{when}", "text": "chiamare Anna"}}@@@@say:{said}@@'
            gateway.ann.send(f"/remind domani alle 9 {call}")
            await gateway.api.wait_until(partial(has_said, gateway, "work it out"))
            refusal = gateway.api.chat(ADMIN).bot_messages[-1]
            gateway.ann.tap(refusal, "Work it out")
            await gateway.api.wait_until(partial(has_sent, gateway, said))
            await gateway.api.wait_until(
                lambda: refusal.text.startswith("You asked: /remind domani alle 9")  # noqa: B023
            )
            assert not refusal.buttons
        assert [result.partition(".")[0] for result in tool_results(gateway)] == [
            "The person wrote 9: keep each number, in when or in text",
            "Scheduled",
        ]
        assert len(messages_starting_with(gateway, "⏰ I'll remind you: chiamare Anna")) == 1

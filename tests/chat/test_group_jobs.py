"""Reminders and tasks of a group: whose they are, who sees them, and that they come."""

from typing import Any

import pytest

from bot.chat.tasks import TaskRunner, UnansweredEnd
from bot.db.engine import Database
from bot.db.people import groups as group_rows
from bot.db.people.groups import Group
from bot.db.queues import inbox, jobs
from bot.db.queues.jobs import NewJob
from bot.domain import Lane
from bot.jobs.schedule_tool import ChatSchedules
from bot.jobs.scheduler import plan_jobs
from bot.jobs.user_jobs import JobOwner
from bot.translations.translator import ENGLISH
from tests.support.groups import build_group_chat
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness
from tools.base import ToolError

CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")
ANONYMOUS = {"from": {"id": 1087968824, "is_bot": True, "first_name": "Group"}, "sender_chat": FAMILY}


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    """A bot in the group Family, where everybody may speak; Anna is a member, Bob a stranger."""
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await put_group(harness, Group(CHAT, "Family", "in", harness.now, speakers="everyone"))
    return harness


async def put_group(harness: UpdateHarness, group: Group) -> None:
    async with harness.database.transaction() as tx:
        await group_rows.put(tx, group)
    harness.groups.remember(group)


async def write(harness: UpdateHarness, text: str, person: int, **more: Any) -> list[SentMessage]:
    """Write a command in the group; return what is sent, also by the items that it leaves to be handled."""
    command = {"type": "bot_command", "offset": 0, "length": len(text.split()[0])}
    message = harness.build_message(person, text=text, entities=[command], chat=FAMILY)["message"] | more
    await harness.store_updates({"message": message})
    return [*await harness.handle_claimed(), *await harness.handle_claimed()]


async def fire_due(harness: UpdateHarness) -> list[SentMessage]:
    """Let what is due come; return what is sent."""
    async with harness.database.transaction() as tx:
        due = await jobs.list_due(tx, now=harness.now, limit=10)
        await jobs.fire(tx, plan_jobs(due, harness.now), now=harness.now)
    return await harness.handle_claimed()


async def store_job(harness: UpdateHarness, person: int, lane: Lane, text: str) -> int:
    async with harness.database.transaction() as tx:
        new = NewJob("reminder", harness.now + 600, "UTC", person=person, lane=lane, text=text)
        return await jobs.add(tx, new, now=harness.now)


async def list_texts(harness: UpdateHarness, person: int) -> list[str]:
    async with harness.database.read_transaction() as tx:
        return [job.text for job in await jobs.list_of_person(tx, person)]


async def test_a_groups_prompt_has_no_jobs_of_other_chats(harness: UpdateHarness):
    private = await store_job(harness, ANNA, Lane(ANNA), "the doctor")
    for lane, text in ((Lane(CHAT), "pizza"), (Lane(CHAT, 7), "wine"), (Lane(-1001), "a surprise")):
        await store_job(harness, ANNA, lane, text)

    def build_schedules(lane: Lane) -> ChatSchedules:
        owner = JobOwner(ANNA, "Anna", lane)
        return ChatSchedules(harness.user_jobs, owner, ENGLISH)

    in_group = build_schedules(Lane(CHAT))
    listed = await in_group.list()
    assert [word in listed for word in ("pizza", "wine", "doctor", "surprise")] == [True, True, False, False]
    with pytest.raises(ToolError, match="There is no"):
        await in_group.remove(private)
    assert (await in_group.preview({"remove": private})).details == f"#{private}"
    assert "surprise" in await build_schedules(Lane(ANNA)).list()
    assert "doctor" in await build_schedules(Lane(ANNA)).remove(private)


async def test_a_list_shown_in_a_group_has_no_jobs_of_other_chats(harness: UpdateHarness):
    await store_job(harness, ANNA, Lane(ANNA), "the doctor")
    await store_job(harness, ANNA, Lane(CHAT), "pizza")
    query = {"id": "1", "from": harness.build_message()["message"]["from"], "chat_instance": "1"}
    message = harness.build_message(text="…", chat=FAMILY)["message"]
    await harness.store_updates({"callback_query": query | {"data": "job:page:0", "message": message}})
    await harness.handle_claimed()
    [edit] = harness.bot.calls_of("edit_message_text")
    assert "pizza" in str(edit)
    assert "doctor" not in str(edit)


async def test_a_groups_reminder_names_its_group_in_the_private_list(harness: UpdateHarness):
    await store_job(harness, ANNA, Lane(ANNA), "the doctor")
    await store_job(harness, ANNA, Lane(CHAT), "pizza")
    [listed] = await harness.send_text("/jobs")
    assert [line.count("Family") for line in listed.text.splitlines()] == [0, 0, 1]


@pytest.mark.parametrize("more", [{}, ANONYMOUS], ids=["stranger", "anonymous administrator"])
async def test_a_reminder_comes_for_everybody_who_may_speak(harness: UpdateHarness, more: dict[str, Any]):
    [confirmation] = await write(harness, "/remind 20 min take out the pizza", BOB, **more)
    assert confirmation.text.startswith("⏰ I'll remind you: take out the pizza")
    harness.now += 1300
    assert [sent.text.split("\n")[0] for sent in await fire_due(harness)] == ["⏰ take out the pizza"]


async def test_who_may_no_longer_speak_loses_only_the_jobs_of_that_group(harness: UpdateHarness):
    await store_job(harness, BOB, Lane(CHAT), "pizza")
    await put_group(harness, Group(CHAT, "Family", "in", harness.now, speakers="members"))
    harness.now += 700
    await store_job(harness, BOB, Lane(-200), "wine")
    assert await fire_due(harness) == []
    assert await list_texts(harness, BOB) == ["wine"]


@pytest.mark.parametrize("person", [BOB, CHAT], ids=["stranger", "anonymous administrator"])
async def test_an_answer_is_made_again_for_everybody_who_may_speak(harness: UpdateHarness, person: int):
    async with harness.database.transaction() as tx:
        body = {"person": person, "name": "Bob", "texts": ["why?"]}
        await inbox.add(tx, kind="task", lane=Lane(CHAT), sender=person, body=body, now=harness.now)
        [items] = (await inbox.claim(tx, now=harness.now)).groups
    end_unanswered = UnansweredEnd(harness.database, lambda _: None)
    run_task = TaskRunner(harness.database, harness.access, harness.groups, harness.turns, end_unanswered)
    await run_task(items)
    [request] = harness.turns.requests
    assert (request.person, request.speaker) == (person, "Bob")
    async with harness.database.transaction() as tx:
        texts = body | {"texts": ["Bob: why?"], "turn": 1}  # as they stand in the prompt of the turn
        await inbox.add(tx, kind="task", lane=Lane(CHAT), sender=person, body=texts, now=harness.now)
        [items] = (await inbox.claim(tx, now=harness.now)).groups
    await run_task(items)
    assert harness.turns.requests[-1].speaker == ""

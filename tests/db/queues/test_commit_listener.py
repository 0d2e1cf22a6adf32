"""Who writes rows wakes nobody: functions that leave work note it, and the commit tells the listener."""

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

import bot.db
from bot.db.conversations import turns
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues import (
    edited_messages,
    first_sends,
    guest_queries,
    incoming_updates,
    jobs,
    outbox,
    outbox_files,
    parked_items,
    requeued_items,
    unplaced_items,
)
from bot.db.queues import inbox as items
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.queues.jobs import FiredJob, NewJob
from bot.db.queues.outbox_rows import serialize_part
from bot.db.shares import ShareHold
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import outbox as outbox_table
from bot.db.tools import approvals
from bot.db.tools.approvals import NewApprovalQuestion
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Message, Part
from tests.support.commits import CommitRecord

ANN = Lane(7)
BEN = Lane(8)
NOW = 1000.0
TEXT = Part("hello")
ASKED = Part("hello\n\nline", buttons=((Button("Yes", "yes"),),))
DAILY = "DTSTART:20260105T080000\nRRULE:FREQ=DAILY"

Write = Callable[[Transaction], Awaitable[Any]]


async def add_row(tx: Transaction, state: str, body: Part | None = TEXT, **more: Any) -> int:
    """Store a row of the outbox as it is in this state, without noting anything."""
    row = {"lane": ANN.key, "body": serialize_part(body), "final": True, "made_at": NOW}
    values = row | {"state": state} | more
    return int(
        (await tx.execute(insert(outbox_table).values(values).returning(outbox_table.c.id))).scalar_one()
    )


async def add_item(tx: Transaction, state: str, **more: Any) -> int:
    """Store an item of Ann's lane in this state, without noting anything."""
    row = {"kind": "update", "shape": "text", "lane": ANN.key, "sender": 7, "body": "{}", "received_at": NOW}
    values = row | {"state": state} | more
    return int(
        (await tx.execute(insert(inbox_table).values(values).returning(inbox_table.c.id))).scalar_one()
    )


async def add_job(tx: Transaction, next_due: float | None = NOW) -> int:
    row = {"kind": "reminder", "person": 7, "lane": ANN.key, "text": "tea", "rule": DAILY, "made_at": NOW}
    values = row | {"next_due": next_due}
    return int((await tx.execute(insert(jobs_table).values(values).returning(jobs_table.c.id))).scalar_one())


def build_update(number: int, lane: Lane | None = ANN) -> IncomingUpdate:
    return IncomingUpdate(number, "text", lane, 7, "{}", stale=False, not_before=None)


async def add_notice(tx: Transaction) -> None:
    await outbox.add(tx, item=None, lane=ANN, parts=(TEXT,), now=NOW)


async def add_answer(tx: Transaction) -> None:
    await outbox.add(tx, item=1, lane=ANN, parts=(TEXT, TEXT), now=NOW)


async def retract_what_was_shown(tx: Transaction) -> None:
    await add_row(tx, "open", item=1, final=False, message_id=70)
    await outbox.add(tx, item=1, lane=ANN, parts=(), now=NOW)


async def replace_unknown(tx: Transaction) -> None:
    await add_row(tx, "unknown", item=1, final=False)
    await outbox.add(tx, item=1, lane=ANN, parts=(TEXT,), now=NOW)


async def release_row(tx: Transaction) -> None:
    await outbox.release(tx, await add_row(tx, "sending"), "offline")


async def lose_outcome(tx: Transaction) -> None:
    await outbox.mark_unknown(tx, await add_row(tx, "sending", item=1), "no answer", now=NOW)


async def refuse_older_body(tx: Transaction) -> None:
    await outbox.mark_failed(tx, await add_row(tx, "sending"), "no", body=Part("older"), now=NOW)


async def miss_message(tx: Transaction) -> None:
    await outbox.mark_missing(tx, await add_row(tx, "open", message_id=70))


async def recover_first_send(tx: Transaction) -> None:
    await add_row(tx, "sending", item=1)
    await outbox.recover(tx, now=NOW)


async def recover_question(tx: Transaction) -> None:
    await add_row(tx, "sending", about=1)
    await outbox.recover(tx, now=NOW)


async def send_again(tx: Transaction) -> None:
    assert await outbox.send_again(tx, await add_row(tx, "unknown", item=1), lane=ANN, now=NOW)


async def close_buttons(tx: Transaction) -> None:
    assert await outbox.close_buttons(tx, [await add_row(tx, "done", ASKED, message_id=70)], "Allowed.")


async def add_buttons(tx: Transaction) -> None:
    assert await outbox.add_buttons(tx, await add_row(tx, "done", message_id=70), (Button("Yes", "yes"),))


async def reopen_buttons(tx: Transaction) -> None:
    await outbox.reopen_buttons(tx, [await add_row(tx, "done", message_id=70)], ((Button("Yes", "yes"),),))


async def release_first_send(tx: Transaction) -> None:
    await add_row(tx, "sending", item=1)
    await first_sends.release(tx, 1)


async def confirm_first_send(tx: Transaction) -> None:
    await add_row(tx, "unknown", item=1)
    assert await first_sends.confirm(tx, 1, ANN, 70)


async def add_file_parts(tx: Transaction) -> None:
    await outbox_files.add_parts(tx, [(Part("", kind="document"), ())], item=1, lane=ANN, now=NOW)


async def forget_what_is_shown(tx: Transaction) -> None:
    await add_row(tx, "open", item=1, message_id=70)
    await retention._wipe_outbox(tx, (), outbox_table.c.item == 1)


LEAVES_MESSAGES: tuple[Write, ...] = (
    add_notice,
    add_answer,
    retract_what_was_shown,
    replace_unknown,
    release_row,
    lose_outcome,
    refuse_older_body,
    miss_message,
    recover_first_send,
    recover_question,
    send_again,
    close_buttons,
    add_buttons,
    reopen_buttons,
    release_first_send,
    confirm_first_send,
    add_file_parts,
    forget_what_is_shown,
)


async def store_update(tx: Transaction) -> None:
    await incoming_updates.store(tx, [build_update(1)], now=NOW)


async def add_task(tx: Transaction) -> None:
    await items.add(tx, kind="task", lane=ANN, sender=7, body={}, now=NOW)


async def add_control_item(tx: Transaction) -> None:
    await items.add(tx, kind="system", lane=None, sender=7, body={}, now=NOW)


async def recover_items(tx: Transaction) -> None:
    await add_item(tx, "running")
    await items.recover(tx, now=NOW)


async def release_item(tx: Transaction) -> None:
    await items.release(tx, [await add_item(tx, "running")])


async def claim_what_lies_elsewhere(tx: Transaction) -> None:
    await add_item(tx, "new", share=ANN.share + 1)
    await items.claim(tx, now=NOW, holds=[ShareHold(ANN.share + 1, 1)])


async def resume_turn(tx: Transaction) -> None:
    await add_item(tx, "parked", turn=5)
    await parked_items.resume(tx, 5, stopped=False, now=NOW)


async def requeue_deep(tx: Transaction) -> None:
    item = await add_item(tx, "done", shape="deep", done_at=NOW)
    assert await requeued_items.requeue(tx, item, ANN, now=NOW)


async def requeue_failed(tx: Transaction) -> None:
    await add_item(tx, "done", error="zone")
    assert await requeued_items.requeue_failed(tx, 7, error="zone", since=0.0)


async def place_item(tx: Transaction) -> None:
    item = await add_item(tx, "running", lane=None, shape="unaddressed")
    await unplaced_items.place(tx, item, "text", ANN, 70)


async def queue_guest_query(tx: Transaction) -> None:
    item = await add_item(tx, "running", lane=None, shape="guest")
    await guest_queries.store_answered(tx, item, ANN, text="…", inline_message_id="x", now=NOW)


async def requeue_edited(tx: Transaction) -> None:
    await add_item(tx, "done", turn=5)
    assert await edited_messages.requeue(tx, 5, None, now=NOW)


async def fire_job(tx: Transaction) -> None:
    job = await add_job(tx)
    row = {"kind": "reminder", "shape": "other", "lane": ANN.key, "sender": 7, "body": "{}"}
    await jobs.fire(tx, [FiredJob(job, NOW, NOW, NOW + 60, row)], now=NOW)


async def run_job_now(tx: Transaction) -> None:
    row = {"kind": "reminder", "shape": "other", "lane": ANN.key, "sender": 7, "body": "{}"}
    assert await jobs.run_now(tx, await add_job(tx), row, now=NOW)


LEAVES_ITEMS: tuple[Write, ...] = (
    store_update,
    add_task,
    add_control_item,
    recover_items,
    release_item,
    resume_turn,
    requeue_deep,
    requeue_failed,
    place_item,
    queue_guest_query,
    requeue_edited,
    fire_job,
    run_job_now,
)


async def add_due_time(tx: Transaction) -> None:
    await jobs.add(tx, NewJob("reminder", NOW, "UTC", text="tea", person=7, lane=ANN), now=NOW)


async def move_due_time(tx: Transaction) -> None:
    await jobs.set_next_due(tx, await add_job(tx), NOW + 60)


async def resume_job(tx: Transaction) -> None:
    await jobs.resume(tx, await add_job(tx, None), NOW + 60)


async def put_system_job(tx: Transaction) -> None:
    await jobs.put_system_job(tx, NewJob("system", NOW, "UTC", DAILY, text="does", name="care"), now=NOW)


async def change_schedule(tx: Transaction) -> None:
    job = await add_job(tx, None)
    await jobs.change(tx, job, {"next_due": NOW + 60})


CHANGES_DUE_TIMES: tuple[Write, ...] = (
    add_due_time,
    move_due_time,
    resume_job,
    change_schedule,
    put_system_job,
)


async def open_part(tx: Transaction) -> None:
    await outbox.open_part(tx, item=1, part=0, lane=ANN, body=TEXT, now=NOW)


async def add_taken(tx: Transaction) -> None:
    assert await first_sends.add_taken(tx, TEXT, item=1, lane=ANN, reply_to=None, now=NOW)


async def show(tx: Transaction) -> None:
    row = await add_row(tx, "sending")
    await outbox.mark_shown(tx, row, message_id=70, body=TEXT, now=NOW)


async def hand_over(tx: Transaction) -> None:
    await add_row(tx, "done", item=1, message_id=70)
    await outbox.hand_over_answer(tx, 1, 2)


async def pause_job(tx: Transaction) -> None:
    await jobs.pause(tx, await add_job(tx))


async def end_item(tx: Transaction) -> None:
    await items.mark_done(tx, [await add_item(tx, "running")], now=NOW)


LEAVES_NOTHING: tuple[Write, ...] = (open_part, add_taken, show, hand_over, pause_job, end_item)

QUIET_FUNCTIONS = {
    "conversations/turns.py": ("open_turn", "fail"),
    # The process that restores a database, and /forget's own job, which are no commits of a running gateway.
    "maintenance/exports.py": ("store_progress",),
    "maintenance/restore.py": ("discard_pending", "reschedule_job", "apply_replaced_state"),
    "maintenance/retention.py": ("drop_waiting", "_wipe_inbox"),
    "people/groups.py": ("end_work", "_detach_messages"),
    "queues/edited_messages.py": ("drop_pending", "store_text", "requeue"),
    "queues/first_sends.py": ("add_taken",),
    "queues/guest_queries.py": ("_store_body",),
    "queues/inbox.py": (
        "claim",
        "_mark_running",
        "_mark_seen",
        "mark_done",
        "count_attempt",
        "mark_dead",
        "forget_body",
    ),
    "queues/incoming_updates.py": ("find_known",),
    "queues/job_outcomes.py": ("record_outcome",),
    "queues/jobs.py": (
        "pause",
        "mark_deleted",
        "restore",
        "put_question",
        "remove_deleted",
        "remove",
        "remove_all",
        "remove_all_of_chat",
        "remove_system_jobs_except",
    ),
    # Who stored the final body has noted the lane; a question's row is noted where it is added.
    "queues/outbox.py": (
        "open_part",
        "take",
        "mark_shown",
        "_forget_secret",
        "allow_repeat",
        "hand_over_answer",
        "_mark_rows_unknown",
    ),
    "queues/parked_items.py": ("park", "_end_waiting"),
    "queues/requeued_items.py": (
        "store_error",
        "take_failed",
    ),
    "queues/stop_requests.py": ("stop", "stop_lane", "stop_turn", "_drop"),
    "queues/system_jobs.py": ("record_end",),
    "queues/unplaced_items.py": ("forget_message", "forget_dead", "_running"),
    "queues/waiting_messages.py": ("replace_waiting",),
    "usage/breakdowns.py": ("store_spans", "store_breakdowns"),
    "tools/approvals.py": ("link_messages",),
}
"""Functions that write these tables and leave nothing to be done, or call one that notes it."""

STATEMENT = re.compile(r"\b(insert|update|upsert|delete)\((inbox|outbox|jobs)\)")


@pytest.fixture
def commits(database: Database) -> CommitRecord:
    commits = CommitRecord()
    database.set_listener(commits)
    return commits


@pytest.mark.parametrize("write", LEAVES_MESSAGES)
async def test_what_is_to_be_sent_wakes_its_lane(database: Database, commits: CommitRecord, write: Write):
    async with database.transaction() as tx:
        await write(tx)
        assert commits.lanes == []
    assert (commits.lanes, commits.shares) == ([ANN], [])


@pytest.mark.parametrize("write", LEAVES_ITEMS)
async def test_what_is_to_be_done_wakes_the_worker(database: Database, commits: CommitRecord, write: Write):
    async with database.transaction() as tx:
        await write(tx)
        assert commits.shares == []
    assert (set(commits.shares), commits.inbox_count) == ({ANN.share}, 1)


@pytest.mark.parametrize("write", CHANGES_DUE_TIMES)
async def test_another_due_time_wakes_the_scheduler(database: Database, commits: CommitRecord, write: Write):
    async with database.transaction() as tx:
        await write(tx)
    assert (commits.due_times_count, commits.shares, commits.lanes) == (1, [], [])


@pytest.mark.parametrize("write", LEAVES_NOTHING)
async def test_what_leaves_nothing_wakes_nobody(database: Database, commits: CommitRecord, write: Write):
    async with database.transaction() as tx:
        await write(tx)
    assert commits == CommitRecord(changed=commits.changed)
    assert not commits.changed.is_set()


async def test_an_item_in_the_wrong_share_wakes_the_one_where_it_belongs(
    database: Database, commits: CommitRecord
):
    async with database.transaction() as tx:
        await claim_what_lies_elsewhere(tx)
    assert commits.shares == [ANN.share]


async def test_a_question_that_expires_is_watched(database: Database, commits: CommitRecord):
    async with database.transaction() as tx:
        item = await add_item(tx, "running")
        new_turn = NewTurn(item, ANN, 7, 1, (), thinking=False, thinking_why="off", received_at=NOW)
        turn = await turns.open_turn(tx, new_turn, [item], [Message("user", "ring")], now=NOW)
        assert turn is not None
        await approvals.insert_question(tx, build_question(turn.id), now=NOW)
    assert commits.questions_count == 1


def build_question(turn: int) -> NewApprovalQuestion:
    return NewApprovalQuestion(
        turn=turn,
        step=1,
        call_id="a",
        tool="bell",
        arguments="{}",
        hash="h",
        asker=7,
        lane=ANN,
        who="asker",
        why="it rings",
        binding=None,
        expires_at=NOW + 900,
    )


async def test_a_group_that_moved_is_served_with_what_came_under_its_new_number(
    database: Database, commits: CommitRecord
):
    async with database.transaction() as tx:
        await groups.put(tx, Group(-5, "Family", "in", 1.0))
        await add_item(tx, "new", lane="-1005")
        await add_row(tx, "new", lane="-1005")
        await groups.move(tx, -5, -1005)
    assert (commits.lanes, commits.shares) == ([Lane(-5)], [Lane(-5).share])


async def test_a_lane_is_named_once_and_what_is_rolled_back_wakes_nobody(
    database: Database, commits: CommitRecord
):
    async def fail() -> None:
        async with database.transaction() as tx:
            await add_notice(tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert commits.lanes == []
    async with database.long_transaction() as tx:
        for lane in (ANN, BEN, ANN):
            await outbox.add(tx, item=None, lane=lane, parts=(TEXT,), now=NOW)
    assert commits.lanes == [ANN, BEN]


@pytest.mark.sqlite
async def test_a_commit_of_which_the_caller_hears_nothing_wakes_all_the_same(
    database: Database, commits: CommitRecord
):
    """The task is cancelled while the commit is synced to the disk; it is committed nevertheless."""
    is_written = asyncio.Event()

    async def write() -> None:
        async with database.transaction() as tx:
            await add_notice(tx)
            is_written.set()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(write())
        await is_written.wait()
        task.cancel()
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(outbox_table.c.id))).all()
    assert (len(rows), commits.lanes) == (1, [ANN])


def list_writers(source: str) -> Iterator[tuple[str, bool]]:
    """The functions of a module that write these tables, and whether they note what they leave."""
    module = ast.parse(source)
    statements = set[str]()
    for node in module.body:
        if isinstance(node, ast.Assign):
            value = ast.unparse(node.value)
            if STATEMENT.search(value) or statements & set(re.findall(r"\w+", value)):
                statements.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in module.body:
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            text = ast.unparse(node)
            if STATEMENT.search(text) or statements & set(re.findall(r"\w+", text)):
                yield node.name, "tx.changes" in text or "_update_due(" in text


def test_every_function_that_writes_these_tables_notes_what_it_leaves_or_leaves_nothing():
    folder = Path(bot.db.__file__).parent
    quiet: dict[str, tuple[str, ...]] = {}
    for path in sorted(folder.rglob("*.py")):
        names = tuple(name for name, notes in list_writers(path.read_text()) if not notes)
        if names:
            quiet[path.relative_to(folder).as_posix()] = names
    assert quiet == QUIET_FUNCTIONS

"""Deletes texts that people or the model wrote. The one module that knows where every copy of them is.

What is counted stays: rows of turns, calls and tools lose their texts and keep numbers and times. Works in
small transactions, so that nobody waits long for the database.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Table,
    Text,
    and_,
    case,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from bot.db.conversations.kept_files import FOLDER_CHAT, is_lane_of
from bot.db.engine import Database
from bot.db.maintenance.batches import BATCH_ROWS, SCAN_ROWS, wipe_in_batches
from bot.db.maintenance.invented_tools import rename_invented_tools
from bot.db.people import people
from bot.db.portable_sql import JsonField, Position
from bot.db.queues.outbox_files import build_expiry_condition
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import (
    approvals,
    attachments,
    audit,
    group_speakers,
    group_texts,
    groups,
    inbox,
    instructions,
    jobs,
    kept_files,
    lanes,
    messages,
    model_calls,
    notes,
    notices,
    outbox,
    outbox_files,
    tool_calls,
    tool_images,
    turns,
    verdicts,
)
from bot.db.transaction import Transaction
from bot.domain import Lane, Part
from bot.errors import REFUSING

EMPTY_BODY: Final = serialize_part(Part(""))
_CLEARED_LANE_COLUMNS = {
    "notes": None,
    "instructions": None,
    "files": None,
    "summary": None,
    "summary_ahead": None,
    "summary_upto": None,
}
_LANE_HAS_TEXT = or_(*(lanes.c[name].is_not(None) for name in _CLEARED_LANE_COLUMNS))
_ITEM_IS_OVER = inbox.c.state.in_(("done", "dead"))
_OUTBOX_HAS_TEXT = and_(outbox.c.body.is_not(None), outbox.c.body != EMPTY_BODY)
# Notices to admins that quote the endpoint, which may repeat what it was sent.
_ENDPOINT_QUOTE_PATTERN = f"%{REFUSING.format('___', '%')}"
# A summary's reply, or one from before its turn began: it is never read again.
_IS_REPLY_WITHOUT_TURN = and_(
    model_calls.c.turn.is_(None), model_calls.c.outcome.is_not(None), model_calls.c.reply.is_not(None)
)
# A trial of a tool by an admin stays in the audit log, without its arguments.
_IS_TRIAL_WITH_ARGUMENTS = and_(audit.c.what == "tried", JsonField(audit.c.after, "arguments").is_not(None))
_ACTIVE_STATES = ("running", "parked")
# The chat that a control item, which has no lane, came from; NULL: from none.
_CHAT_OF_UPDATE = func.coalesce(
    *(
        JsonField(inbox.c.body, f"{path}.chat.id")
        for path in (
            "message",
            "edited_message",
            "callback_query.message",
            "message_reaction",
            "my_chat_member",
            "stopped_message_generation",
        )
    )
)
_TURN_IS_OVER = turns.c.state.not_in((*_ACTIVE_STATES, "forgotten"))


@dataclass(frozen=True, slots=True)
class RetentionScope:
    """Which texts to delete: a condition for each table with texts of its own; the rest belongs to turns."""

    turns: ColumnElement[bool]
    inbox: ColumnElement[bool]
    outbox: ColumnElement[bool]
    calls: ColumnElement[bool]
    notes: ColumnElement[bool]
    instructions: ColumnElement[bool]
    jobs: ColumnElement[bool]
    audit: ColumnElement[bool]
    notices: ColumnElement[bool]
    lanes: ColumnElement[bool]
    group_speakers: ColumnElement[bool]
    group_texts: ColumnElement[bool]
    kept_files: ColumnElement[bool]


def build_age_scope(before: float) -> RetentionScope:
    """Everything that was received or made before this moment (epoch seconds) and is over."""
    newer = or_(turns.c.received_at >= before, turns.c.state.in_(_ACTIVE_STATES))
    return RetentionScope(
        turns=turns.c.received_at < before,
        inbox=inbox.c.received_at < before,
        outbox=and_(outbox.c.made_at < before, outbox.c.state.in_(("done", "failed", "unknown"))),
        calls=model_calls.c.created_at < before,
        notes=notes.c.made_at < before,
        instructions=instructions.c.set_at < before,
        jobs=and_(
            jobs.c.person.is_not(None),
            jobs.c.state == "done",
            func.coalesce(jobs.c.last_due, 0) < before,
        ),
        audit=audit.c.at < before,
        notices=notices.c.told_at < before,
        lanes=~exists().where(turns.c.lane == lanes.c.lane, newer),
        group_speakers=~exists().where(turns.c.lane == group_speakers.c.lane, newer),
        group_texts=group_texts.c.written_at < before,
        kept_files=and_(kept_files.c.used_at < before, kept_files.c.chat != FOLDER_CHAT),
    )


def build_lane_scope(lane: Lane, *, item: int, asked_at: float) -> RetentionScope:
    """Everything in a lane before inbox item `item`, the /forget at `asked_at` (epoch seconds).

    Nothing may run in the lane. Control items, which have no lane, are included: of a group those of anybody
    there, of a private chat those of its person, with what else is theirs. So are replies without a turn and
    quotes of the endpoint, which cannot be assigned to anybody.
    """
    answers = and_(outbox.c.lane == lane.key, or_(outbox.c.made_at <= asked_at, outbox.c.item < item))
    # A question's arguments may look like a quote, but the question may belong to another person.
    quotes = and_(
        outbox.c.item.is_(None), outbox.c.body.like(_ENDPOINT_QUOTE_PATTERN), outbox.c.approval.is_(None)
    )
    original = outbox.alias("original")
    originals = select(original.c.id).where(original.c.lane == lane.key)
    items = or_(inbox.c.lane == lane.key, _is_control_item_of(lane))
    return RetentionScope(
        turns=and_(turns.c.lane == lane.key, turns.c.item < item),
        inbox=and_(items, inbox.c.id < item),
        outbox=or_(answers, outbox.c.copy_of.in_(originals), and_(quotes, outbox.c.made_at <= asked_at)),
        calls=model_calls.c.created_at <= asked_at,
        notes=notes.c.lane == lane.key,
        instructions=and_(instructions.c.lane == lane.key, instructions.c.set_at <= asked_at),
        jobs=and_(jobs.c.lane == lane.key, jobs.c.made_at <= asked_at),
        audit=and_(audit.c.who == lane.chat, audit.c.at <= asked_at),
        notices=notices.c.told_at <= asked_at,
        lanes=lanes.c.lane == lane.key,
        group_speakers=group_speakers.c.lane == lane.key,
        group_texts=and_(
            or_(group_texts.c.lane == lane.key, group_texts.c.person == lane.chat),
            group_texts.c.written_at <= asked_at,
        ),
        kept_files=and_(kept_files.c.chat == lane.chat, kept_files.c.kept_at <= asked_at),
    )


def _is_control_item_of(lane: Lane) -> ColumnElement[bool]:
    if not lane.is_group:
        return and_(inbox.c.lane.is_(None), inbox.c.sender == lane.chat)
    other_number = select(cast(groups.c.other_chat, Text)).where(groups.c.chat == lane.chat)
    is_from_chat = or_(_CHAT_OF_UPDATE.in_([str(lane.chat)]), _CHAT_OF_UPDATE.in_(other_number))
    return and_(inbox.c.lane.is_(None), is_from_chat)


async def forget(
    database: Database, scope: RetentionScope, *, batch_rows: int = BATCH_ROWS, scan_rows: int = SCAN_ROWS
) -> int:
    """Delete every text in `scope`, and leave no trace of it in the database's files; returns how many rows.

    After a crash, calling it again continues. Raises StoreUnavailable while the database cannot be written.
    """
    item_has_text = and_(_ITEM_IS_OVER, inbox.c.body.is_not(None))
    quotes_endpoint = notices.c.text.like(_ENDPOINT_QUOTE_PATTERN)
    wipe = partial(wipe_in_batches, database, batch_rows=batch_rows, scan_rows=scan_rows)
    of_turns = and_(scope.turns, _TURN_IS_OVER)
    in_turns = select(turns.c.id).where(of_turns)
    in_messages = select(messages.c.id).where(messages.c.turn.in_(in_turns))
    count = 0
    # What may be large goes first, so that of the turns themselves fifty are a small transaction.
    for table, condition in (
        (attachments, attachments.c.message.in_(in_messages)),
        (tool_images, tool_images.c.turn.in_(in_turns)),
        (outbox_files, outbox_files.c.turn.in_(in_turns)),
    ):
        count += await wipe(table.c.id, condition, partial(_delete_rows, table))
    count += await wipe(kept_files.c.id, scope.kept_files, _delete_kept)
    count += await wipe(turns.c.id, of_turns, _wipe_turns)
    count += await wipe(inbox.c.id, and_(scope.inbox, item_has_text), _wipe_inbox)
    count += await wipe(outbox.c.id, and_(scope.outbox, _OUTBOX_HAS_TEXT), _wipe_outbox)
    count += await wipe(model_calls.c.id, and_(scope.calls, _IS_REPLY_WITHOUT_TURN), _wipe_calls)
    count += await wipe(notes.c.id, scope.notes, _wipe_notes)
    count += await wipe(instructions.c.lane, scope.instructions, _wipe_instructions)
    count += await wipe(jobs.c.id, scope.jobs, partial(_delete_rows, jobs))
    count += await wipe(audit.c.id, and_(scope.audit, _IS_TRIAL_WITH_ARGUMENTS), _wipe_trials)
    count += await wipe(notices.c.subject, and_(scope.notices, quotes_endpoint), _wipe_notices)
    count += await wipe(lanes.c.lane, and_(scope.lanes, _LANE_HAS_TEXT), _wipe_lanes)
    count += await wipe(group_speakers.c.person, scope.group_speakers, partial(_delete_rows, group_speakers))
    count += await wipe(group_texts.c.id, scope.group_texts, partial(_delete_rows, group_texts))
    async with database.long_transaction() as tx:
        await people.forget_removed(tx)
    await database.erase_deleted()
    return count


async def expire_files(database: Database, *, now: float) -> None:
    """Delete the bytes of files whose message was over a week ago; Telegram's ids of them stay."""
    await wipe_in_batches(database, outbox_files.c.id, build_expiry_condition(now), _wipe_data)


async def drop_waiting(tx: Transaction, lane: Lane, *, before: int, now: float) -> None:
    """Drop everything of any kind that waits in a lane and came before item `before`, but system jobs."""
    waiting = and_(
        inbox.c.lane == lane.key, inbox.c.id < before, inbox.c.state == "new", inbox.c.turn.is_(None)
    )
    dropped = {"state": "done", "done_at": now, "error": "dropped by the person"}
    await tx.execute(update(inbox).where(waiting, inbox.c.kind != "system").values(dropped))


async def is_forgetting(tx: Transaction, lane: Lane) -> bool:
    """Whether this lane is being forgotten; no other system job works in a lane."""
    pending = and_(inbox.c.kind == "system", inbox.c.lane == lane.key, inbox.c.state.in_(("new", "running")))
    return (await tx.execute(select(inbox.c.id).where(pending).limit(1))).one_or_none() is not None


async def has_running_work(tx: Transaction, lane: Lane, *, before: int) -> bool:
    """Whether something without a lane that began before item `before` may still store texts of this lane."""
    control_item = _is_control_item_of(lane)
    summary_job = and_(inbox.c.kind == "system", JsonField(inbox.c.body, "lane") == lane.key)
    running = (
        select(inbox.c.id)
        .where(inbox.c.state == "running", inbox.c.id < before, or_(control_item, summary_job))
        .limit(1)
    )
    return (await tx.execute(running)).one_or_none() is not None


async def list_lanes(tx: Transaction, chat: int) -> list[Lane]:
    """Every lane of a chat of which anything is stored, the chat itself first.

    A private chat has those in which its person asks in chats of others, too.
    """
    chat_lanes = {Lane(chat)}
    tables = (lanes, turns, notes, instructions, jobs, inbox, outbox, group_speakers, group_texts)
    for column in (table.c.lane for table in tables):
        # A range can use an index: keys of topics begin with "CHAT:", and ";" is the character after ":".
        topics = select(column).distinct().where(column > f"{chat}:", column < f"{chat};")
        chat_lanes |= {Lane.parse(key) for key in (await tx.execute(topics)).scalars()}
    return sorted(chat_lanes, key=lambda lane: (lane.topic is not None, lane.topic or 0))


async def _wipe_turns(tx: Transaction, ids: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Delete all texts of turns; without them the turns leave their conversations."""
    forgotten = update(turns).where(condition).values(state="forgotten", preface="").returning(turns.c.id)
    ids = (await tx.execute(forgotten)).scalars().all()
    message_ids = select(messages.c.id).where(messages.c.turn.in_(ids))
    await tx.execute(delete(attachments).where(attachments.c.message.in_(message_ids)))
    for table in (messages, tool_images, verdicts, outbox_files):
        await tx.execute(delete(table).where(table.c.turn.in_(ids)))
    calls = update(tool_calls).where(tool_calls.c.turn.in_(ids))
    await tx.execute(calls.values(arguments="{}", result=None, whole=None))
    await rename_invented_tools(tx, ids)
    await _wipe_questions(tx, ids)
    await _wipe_calls(tx, ids, model_calls.c.turn.in_(ids))
    await _wipe_inbox(tx, ids, and_(inbox.c.turn.in_(ids), _ITEM_IS_OVER))
    await _wipe_outbox(tx, ids, outbox.c.item.in_(select(turns.c.item).where(turns.c.id.in_(ids))))
    # The notes and summaries of a conversation go with the first of its turns that is forgotten.
    of_conversation = and_(
        turns.c.id.in_(ids), turns.c.lane == lanes.c.lane, turns.c.conversation == lanes.c.conversation
    )
    await tx.execute(update(lanes).where(exists().where(of_conversation)).values(_CLEARED_LANE_COLUMNS))


async def _wipe_questions(tx: Transaction, turn_ids: Sequence[int]) -> None:
    """Wipe the questions about calls of these turns, in any chat; that they were asked and answered stays."""
    questions = select(approvals.c.id).where(approvals.c.turn.in_(turn_ids))
    await _wipe_outbox(tx, turn_ids, outbox.c.approval.in_(questions))
    wiped = {"arguments": "{}", "binding": None, "reply": None}
    await tx.execute(update(approvals).where(approvals.c.turn.in_(turn_ids)).values(wiped))


async def _wipe_inbox(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Wipe items; the error keeps a /deep, now without a text, from being requeued by a late consent."""
    error = case((inbox.c.shape == "deep", func.coalesce(inbox.c.error, "forgotten")), else_=inbox.c.error)
    await tx.execute(update(inbox).where(condition).values(body=None, error=error))


async def _wipe_outbox(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Wipe outgoing messages: those in the chat stay there, unsent ones are not sent, partial ones are taken
    back.
    """
    messages_with_files = select(outbox.c.id).where(condition)
    await tx.execute(delete(outbox_files).where(outbox_files.c.outbox.in_(messages_with_files)))
    body = case((and_(outbox.c.state.in_(("done", "failed")), outbox.c.body.is_not(None)), EMPTY_BODY))
    state = case((outbox.c.state == "new", "done"), else_=outbox.c.state)
    wiped = update(outbox).where(condition).values(body=body, state=state, final=True, error=None)
    for row in await tx.execute(wiped.returning(outbox.c.lane, outbox.c.state)):
        if row.state == "open":
            tx.changes.note_outbox(Lane.parse(row.lane))


async def _wipe_calls(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Wipe replies, and quotes of the endpoint in errors, which may repeat what it was sent."""
    await tx.execute(
        update(model_calls).where(condition).values(reply=None, error=_strip_quote(model_calls.c.error))
    )


def _strip_quote(text: Column[str]) -> ColumnElement[str]:
    """The text without the endpoint's own words, which follow `): `."""
    quote_at = Position(text, "): ")
    return case((quote_at > 0, func.substr(text, 1, quote_at)), else_=text)


async def _wipe_notes(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Delete notes, and the copy that a conversation fixed for its prompts, which is then made again."""
    with_notes = lanes.c.lane.in_(select(notes.c.lane).where(condition))
    await tx.execute(update(lanes).where(with_notes).values(notes=None))
    await tx.execute(delete(notes).where(condition))


async def _wipe_instructions(tx: Transaction, _: Sequence[str], condition: ColumnElement[bool]) -> None:
    """Delete instructions, and the copies that conversations of their chat and its topics have fixed."""
    in_lane_or_topic = or_(
        lanes.c.lane == instructions.c.lane, lanes.c.lane.startswith(instructions.c.lane + ":")
    )
    with_copy = exists().where(condition, in_lane_or_topic)
    await tx.execute(update(lanes).where(with_copy).values(instructions=None))
    await tx.execute(delete(instructions).where(condition))


async def _delete_kept(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Delete kept files, and their names from what prompts of their chats begin with."""
    deleted = await tx.execute(delete(kept_files).where(condition).returning(kept_files.c.chat))
    for chat in set(deleted.scalars()):
        await tx.execute(update(lanes).where(is_lane_of(chat)).values(files=None))


async def _delete_rows(
    table: Table, tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]
) -> None:
    await tx.execute(delete(table).where(condition))


async def _wipe_data(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    await tx.execute(update(outbox_files).where(condition).values(data=None))


async def _wipe_trials(tx: Transaction, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    trials = (await tx.execute(select(audit.c.id, audit.c.after).where(condition))).all()
    for trial, after in trials:
        kept = {name: value for name, value in json.loads(after).items() if name != "arguments"}
        without_arguments = json.dumps(kept, ensure_ascii=False)
        await tx.execute(update(audit).where(audit.c.id == trial).values(after=without_arguments))


async def _wipe_notices(tx: Transaction, _: Sequence[str], condition: ColumnElement[bool]) -> None:
    """Wipe the endpoint's words in notices; the gateway's own words before them stay."""
    await tx.execute(update(notices).where(condition).values(text=_strip_quote(notices.c.text)))


async def _wipe_lanes(tx: Transaction, _: Sequence[str], condition: ColumnElement[bool]) -> None:
    await tx.execute(update(lanes).where(condition).values(_CLEARED_LANE_COLUMNS))

"""Every copy of a text that people or the model wrote, and how each is deleted: the one place that knows them
all.

What counts stays: rows of turns, calls and tools lose their words and keep figures and times. Works in small
transactions, so that nobody waits long for the database.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, and_, case, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.engine import Database
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import (
    approval_messages,
    approvals,
    attachments,
    audit,
    inbox,
    jobs,
    lanes,
    messages,
    model_calls,
    notes,
    notices,
    outbox,
    tool_calls,
    tool_images,
    tools,
    turns,
)
from bot.domain import Lane, Part
from bot.errors import REFUSING

BATCH_ROWS = 50  # rows of one transaction
_SCAN_ROWS = 2000  # rows of one look, which holds no lock

EMPTY_BODY: Final = serialize_part(Part(""))
INVENTED_TOOL_NAME: Final = "(made up)"
"""What a tool is called that there never was, once the name that the model gave it is forgotten."""
_CLEARED_LANE_COLUMNS = {"notes": None, "summary": None, "summary_ahead": None, "summary_upto": None}
_LANE_HAS_TEXT = or_(
    lanes.c.notes.is_not(None), lanes.c.summary.is_not(None), lanes.c.summary_ahead.is_not(None)
)
_ITEM_IS_OVER = inbox.c.state.in_(("done", "dead"))
_OUTBOX_HAS_TEXT = and_(outbox.c.body.is_not(None), outbox.c.body != EMPTY_BODY)
# What admins are told with the endpoint's own words, which may repeat what it was sent.
_ENDPOINT_QUOTE_PATTERN = f"%{REFUSING.format('___', '%')}"
# Of a summary, or made before its turn began: a reply that is never read again.
_IS_REPLY_WITHOUT_TURN = and_(
    model_calls.c.turn.is_(None), model_calls.c.outcome.is_not(None), model_calls.c.reply.is_not(None)
)
# What admins try out stays written down, but for the arguments.
_IS_TRIAL_WITH_ARGUMENTS = and_(
    audit.c.what == "tried", func.json_extract(audit.c.after, "$.arguments").is_not(None)
)
_ACTIVE_STATES = ("running", "parked")
_TURN_IS_OVER = turns.c.state.not_in((*_ACTIVE_STATES, "forgotten"))

_WipeRows = Callable[[AsyncConnection, Sequence[Any], ColumnElement[bool]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RetentionScope:
    """Whose texts are meant: a condition on each table that holds some by itself. The rest belongs to turns."""

    turns: ColumnElement[bool]
    inbox: ColumnElement[bool]
    outbox: ColumnElement[bool]
    calls: ColumnElement[bool]
    notes: ColumnElement[bool]
    jobs: ColumnElement[bool]
    audit: ColumnElement[bool]
    notices: ColumnElement[bool]
    lanes: ColumnElement[bool]


def build_age_scope(before: float) -> RetentionScope:
    """What was received or made before this moment (epoch seconds) and is over."""
    since = and_(
        turns.c.lane == lanes.c.lane, or_(turns.c.received_at >= before, turns.c.state.in_(_ACTIVE_STATES))
    )
    return RetentionScope(
        turns=turns.c.received_at < before,
        inbox=inbox.c.received_at < before,
        outbox=and_(outbox.c.made_at < before, outbox.c.state.in_(("done", "failed", "unknown"))),
        calls=model_calls.c.created_at < before,
        notes=notes.c.made_at < before,
        jobs=and_(
            jobs.c.state == "done", jobs.c.person.is_not(None), func.coalesce(jobs.c.last_due, 0) < before
        ),
        audit=audit.c.at < before,
        notices=notices.c.told_at < before,
        lanes=~exists().where(since),
    )


def build_lane_scope(lane: Lane, person: int, *, item: int, asked_at: float) -> RetentionScope:
    """What came before inbox item `item`, asked for at `asked_at`, in a lane of this person; nothing runs in
    it.

    Whatever a person did outside of lanes is meant too, and the replies and the quotations that belong to
    nobody.
    """
    answers = and_(outbox.c.lane == lane.key, or_(outbox.c.made_at <= asked_at, outbox.c.item < item))
    questions = select(approval_messages.c.outbox)  # their arguments may look alike, and are somebody else's
    quoting = and_(
        outbox.c.item.is_(None), outbox.c.body.like(_ENDPOINT_QUOTE_PATTERN), outbox.c.id.not_in(questions)
    )
    first = outbox.alias("first")
    copied = select(first.c.id).where(first.c.lane == lane.key)
    here = or_(inbox.c.lane == lane.key, and_(inbox.c.lane.is_(None), inbox.c.sender == person))
    return RetentionScope(
        turns=and_(turns.c.lane == lane.key, turns.c.item < item),
        inbox=and_(here, inbox.c.id < item),
        outbox=or_(answers, outbox.c.copy_of.in_(copied), and_(quoting, outbox.c.made_at <= asked_at)),
        calls=model_calls.c.created_at <= asked_at,
        notes=notes.c.lane == lane.key,
        jobs=and_(jobs.c.lane == lane.key, jobs.c.made_at <= asked_at),
        audit=and_(audit.c.who == person, audit.c.at <= asked_at),
        notices=notices.c.told_at <= asked_at,
        lanes=lanes.c.lane == lane.key,
    )


async def forget(database: Database, scope: RetentionScope) -> None:
    """Delete every text in `scope`, and leave no trace of it in the database's files.

    Done again after a crash it goes on. Raises StoreUnavailable while the database cannot be written.
    """
    await _wipe_in_batches(database, turns.c.id, and_(scope.turns, _TURN_IS_OVER), _wipe_turns)
    await _wipe_in_batches(
        database, inbox.c.id, and_(scope.inbox, _ITEM_IS_OVER, inbox.c.body.is_not(None)), _wipe_inbox
    )
    await _wipe_in_batches(database, outbox.c.id, and_(scope.outbox, _OUTBOX_HAS_TEXT), _wipe_outbox)
    await _wipe_in_batches(database, model_calls.c.id, and_(scope.calls, _IS_REPLY_WITHOUT_TURN), _wipe_calls)
    await _wipe_in_batches(database, notes.c.id, scope.notes, _wipe_notes)
    await _wipe_in_batches(database, jobs.c.id, scope.jobs, _wipe_jobs)
    await _wipe_in_batches(database, audit.c.id, and_(scope.audit, _IS_TRIAL_WITH_ARGUMENTS), _wipe_trials)
    await _wipe_in_batches(
        database,
        notices.c.subject,
        and_(scope.notices, notices.c.text.like(_ENDPOINT_QUOTE_PATTERN)),
        _wipe_notices,
    )
    await _wipe_in_batches(database, lanes.c.lane, and_(scope.lanes, _LANE_HAS_TEXT), _wipe_lanes)
    await database.truncate_wal()


async def drop_waiting(tx: AsyncConnection, lane: Lane, *, before: int, now: float) -> None:
    """What waits in a lane and came before item `before` is not answered any more, whatever it is."""
    waits = and_(
        inbox.c.lane == lane.key, inbox.c.id < before, inbox.c.state == "new", inbox.c.turn.is_(None)
    )
    dropped = {"state": "done", "done_at": now, "error": "dropped by the person"}
    await tx.execute(update(inbox).where(waits, inbox.c.kind != "house").values(dropped))


async def is_forgetting(tx: AsyncConnection, lane: Lane) -> bool:
    """Whether this lane is being forgotten; no other work of the house's own is done in lanes."""
    waits = and_(inbox.c.kind == "house", inbox.c.lane == lane.key, inbox.c.state.in_(("new", "running")))
    return (await tx.execute(select(inbox.c.id).where(waits).limit(1))).one_or_none() is not None


async def has_running_work(tx: AsyncConnection, lane: Lane, person: int, *, before: int) -> bool:
    """Whether something outside of lanes that began before item `before` may still write down texts of this
    lane.
    """
    theirs = and_(inbox.c.lane.is_(None), inbox.c.sender == person)
    summing = and_(inbox.c.kind == "house", func.json_extract(inbox.c.body, "$.lane") == lane.key)
    runs = (
        select(inbox.c.id)
        .where(inbox.c.state == "running", inbox.c.id < before, or_(theirs, summing))
        .limit(1)
    )
    return (await tx.execute(runs)).one_or_none() is not None


async def list_lanes(tx: AsyncConnection, chat: int) -> list[Lane]:
    """Every lane of a chat that anything is kept of, the chat itself first."""
    found = {Lane(chat)}
    for column in (lanes.c.lane, turns.c.lane, notes.c.lane, jobs.c.lane, inbox.c.lane, outbox.c.lane):
        topics = (
            select(column).distinct().where(column > f"{chat}:", column < f"{chat};")
        )  # `;` comes after `:`
        found |= {Lane.parse(key) for key in (await tx.execute(topics)).scalars()}
    return sorted(found, key=lambda lane: lane.topic or 0)


async def _wipe_in_batches(
    database: Database, key: Column[Any], condition: ColumnElement[bool], wipe: _WipeRows
) -> None:
    """Look for rows without a lock, and wipe those that are still meant a few at a time."""
    while True:
        async with database.read_transaction() as tx:
            found = (
                (await tx.execute(select(key).where(condition).order_by(key).limit(_SCAN_ROWS)))
                .scalars()
                .all()
            )
        for at in range(0, len(found), BATCH_ROWS):
            some = found[at : at + BATCH_ROWS]
            async with database.transaction() as tx:
                await wipe(tx, some, and_(key.in_(some), condition))
        if len(found) < _SCAN_ROWS:
            return


async def _wipe_turns(tx: AsyncConnection, ids: Sequence[int], condition: ColumnElement[bool]) -> None:
    """Turns lose all their words, and leave their conversation with them."""
    of = (
        (await tx.execute(update(turns).where(condition).values(state="forgotten").returning(turns.c.id)))
        .scalars()
        .all()
    )
    said = select(messages.c.id).where(messages.c.turn.in_(of))
    await tx.execute(delete(attachments).where(attachments.c.message.in_(said)))
    await tx.execute(delete(messages).where(messages.c.turn.in_(of)))
    await tx.execute(delete(tool_images).where(tool_images.c.turn.in_(of)))
    wordless = update(tool_calls).where(tool_calls.c.turn.in_(of))
    await tx.execute(wordless.values(arguments="{}", result=None, whole=None))
    await _rename_invented_tools(tx, of)
    await _wipe_questions(tx, of)
    await _wipe_calls(tx, of, model_calls.c.turn.in_(of))
    await _wipe_inbox(tx, of, and_(inbox.c.turn.in_(of), _ITEM_IS_OVER))
    await _wipe_outbox(tx, of, outbox.c.item.in_(select(turns.c.item).where(turns.c.id.in_(of))))
    # What a conversation tells of its beginning goes with the first of its turns.
    mine = and_(
        turns.c.id.in_(of), turns.c.lane == lanes.c.lane, turns.c.conversation == lanes.c.conversation
    )
    await tx.execute(update(lanes).where(exists().where(mine)).values(_CLEARED_LANE_COLUMNS))


async def _rename_invented_tools(tx: AsyncConnection, turn_ids: Sequence[int]) -> None:
    """The name of a tool that nobody offered, and that there is none of, is a word of the model's."""
    offered = func.json_each(turns.c.tools).table_valued("value")
    was_offered = exists().where(turns.c.id == tool_calls.c.turn, offered.c.value == tool_calls.c.name)
    known = or_(
        tool_calls.c.outcome != "refused", was_offered, exists().where(tools.c.name == tool_calls.c.name)
    )
    await tx.execute(
        update(tool_calls).where(tool_calls.c.turn.in_(turn_ids), ~known).values(name=INVENTED_TOOL_NAME)
    )
    names = select(func.json_group_array(tool_calls.c.name.distinct()))
    used = names.where(
        tool_calls.c.turn == turns.c.id, tool_calls.c.name != INVENTED_TOOL_NAME
    ).scalar_subquery()
    await tx.execute(update(turns).where(turns.c.id.in_(turn_ids), turns.c.used != "[]").values(used=used))


async def _wipe_questions(tx: AsyncConnection, turn_ids: Sequence[int]) -> None:
    """What people were asked about the calls of these turns, in whatever chat; that they were, and answered,
    stays.
    """
    asked = select(approvals.c.id).where(approvals.c.turn.in_(turn_ids))
    put = select(approval_messages.c.outbox).where(approval_messages.c.approval.in_(asked))
    await _wipe_outbox(tx, turn_ids, outbox.c.id.in_(put))
    await tx.execute(
        update(approvals).where(approvals.c.turn.in_(turn_ids)).values(arguments="{}", binding=None)
    )


async def _wipe_inbox(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """An item that might have been put back in its place cannot be any more."""
    gone = case((inbox.c.shape == "deep", func.coalesce(inbox.c.error, "forgotten")), else_=inbox.c.error)
    await tx.execute(update(inbox).where(condition).values(body=None, error=gone))


async def _wipe_outbox(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """What stands in the chat stands; what waits for its first send is not sent; what is half shown is taken
    back.
    """
    body = case((and_(outbox.c.state.in_(("done", "failed")), outbox.c.body.is_not(None)), EMPTY_BODY))
    state = case((outbox.c.state == "new", "done"), else_=outbox.c.state)
    await tx.execute(update(outbox).where(condition).values(body=body, state=state, final=True, error=None))


async def _wipe_calls(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """The endpoint's own words may repeat what it was sent; the house's before them stay."""
    await tx.execute(
        update(model_calls).where(condition).values(reply=None, error=_strip_quote(model_calls.c.error))
    )


def _strip_quote(text: Column[str]) -> ColumnElement[str]:
    told = func.instr(text, "): ")
    return case((told > 0, func.substr(text, 1, told)), else_=text)


async def _wipe_notes(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    """The prompt of a conversation shows its notes as they stood; it shall take them up anew."""
    told = lanes.c.lane.in_(select(notes.c.lane).where(condition))
    await tx.execute(update(lanes).where(told).values(notes=None))
    await tx.execute(delete(notes).where(condition))


async def _wipe_jobs(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    await tx.execute(delete(jobs).where(condition))


async def _wipe_trials(tx: AsyncConnection, _: Sequence[int], condition: ColumnElement[bool]) -> None:
    await tx.execute(
        update(audit).where(condition).values(after=func.json_remove(audit.c.after, "$.arguments"))
    )


async def _wipe_notices(tx: AsyncConnection, _: Sequence[str], condition: ColumnElement[bool]) -> None:
    """The house's words before those of the endpoint stay."""
    await tx.execute(update(notices).where(condition).values(text=_strip_quote(notices.c.text)))


async def _wipe_lanes(tx: AsyncConnection, _: Sequence[str], condition: ColumnElement[bool]) -> None:
    await tx.execute(update(lanes).where(condition).values(_CLEARED_LANE_COLUMNS))

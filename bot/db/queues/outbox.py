"""The outbox: every outgoing message is a row, stored before its first send.

A first send cannot be repeated safely, so a row is `sending` before the call leaves; all else is edits.
A send whose outcome is unknown is not repeated: the person is asked, with a [Send again] button. Functions
work inside the caller's transaction `tx`, and note the lanes in which something is to be sent or edited.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)

from bot.db.people import people
from bot.db.portable_sql import upsert
from bot.db.queues.outbox_rows import (
    OUTBOX_COLUMNS,
    OutboxRow,
    hide_secret,
    serialize_part,
    to_outbox_row,
)
from bot.db.tables import outbox, outbox_files
from bot.db.tables.base import Text
from bot.db.tables.queues import FIRST_FILE_PART
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Part
from bot.translations.translator import translatable

SEND_AGAIN_PREFIX = "again:"
"""The callback data of [Send again] is this and the id of the row whose outcome is unknown."""

UNSURE_TEXT = translatable("I don't know whether my answer above reached you.")
SENT_AGAIN_TEXT = translatable("I didn't know whether my answer above reached you, so here it is again.")


_CAN_REPEAT = outbox.c.about.is_not(None)
_IS_SHOWN = outbox.c.body.is_not(None) & ((outbox.c.state != "done") | outbox.c.message_id.is_not(None))
# One without a message was taken back, or its group has become a supergroup since: no edit reaches it.
_IS_SETTLED_IN_CHAT = (outbox.c.state == "done") & outbox.c.message_id.is_not(None)
# As expressions: a list of values is expanded for each execution, which took half of the time of a statement.
_DUE_STATES = (literal("new"), literal("open"))
IS_DUE = outbox.c.final & outbox.c.state.in_(_DUE_STATES)
"""A message waits to be sent or edited."""
_INSERT = upsert(outbox)

# Store the final body of a part. If a running turn has shown the part already, its row gets the final body;
# a settled row becomes due again: as a first send (new) if it failed or has no message, else as an edit
# (open). In other states it is due already, or its first send is under way or of unknown outcome: unchanged.
_UPSERT_FINAL = _INSERT.on_conflict_do_update(
    index_elements=["item", "part"],
    set_={
        "body": _INSERT.excluded.body,
        "reply_to": _INSERT.excluded.reply_to,
        "final": True,
        "state": case(
            (outbox.c.state == "failed", "new"),
            ((outbox.c.state == "done") & outbox.c.message_id.is_(None), "new"),
            (outbox.c.state == "done", "open"),
            else_=outbox.c.state,
        ),
        "done_at": case((outbox.c.state == "unknown", outbox.c.done_at)),
    },
).returning(outbox.c.id, outbox.c.part, outbox.c.state, outbox.c.tries)
_AWAITS_CALL = frozenset(("new", "open", "sending"))
"""States of a final row that is due, or will be once its first send has ended."""
_IS_UNSENT_PARTIAL = (outbox.c.state == "new") & ~outbox.c.final

# Open a part of a running turn. Only a row that is certain not to have been sent goes to `sending` again: any
# other one is returned as it is, so that nothing is sent twice after a restart.
_UPSERT_PARTIAL = _INSERT.on_conflict_do_update(
    index_elements=["item", "part"],
    set_={
        "body": case((_IS_UNSENT_PARTIAL, _INSERT.excluded.body), else_=outbox.c.body),
        "tries": outbox.c.tries + 1,
        "state": case((_IS_UNSENT_PARTIAL, "sending"), else_=outbox.c.state),
    },
).returning(*OUTBOX_COLUMNS)

# Take the lane's oldest due row and count the others that are due there, in one statement. A new row becomes
# `sending` before the call leaves; an open one has a message already and is edited, which can be repeated.
# A question about "my answer above" comes first: behind another answer it would be read as about that one.
_ANY_ROW = outbox.alias("any_row")
# Whether the count sees the taken row before or after its change depends on the database.
_IS_OTHER = _ANY_ROW.c.id != literal_column("outbox.id")
_COUNT_OTHERS_DUE = (
    select(func.count())
    .select_from(_ANY_ROW)
    .where(_ANY_ROW.c.lane == bindparam("of_lane"), _ANY_ROW.c.final, _ANY_ROW.c.state.in_(_DUE_STATES))
    .where(_IS_OTHER)
    .scalar_subquery()
)
_QUESTIONS_FIRST = case((outbox.c.about < outbox.c.id, 0), else_=1)
_OLDEST_DUE = (
    select(outbox.c.id)
    .where(outbox.c.lane == bindparam("of_lane"), IS_DUE)
    .order_by(_QUESTIONS_FIRST, outbox.c.id)
    .limit(1)
    .scalar_subquery()
)
_TAKE_OLDEST = (
    update(outbox)
    .where(outbox.c.id == _OLDEST_DUE, IS_DUE)
    .values(state=case((outbox.c.state == "new", "sending"), else_=outbox.c.state), tries=outbox.c.tries + 1)
    .returning(*OUTBOX_COLUMNS, _COUNT_OTHERS_DUE.label("others_due"))
)

# Telegram shows a body now. The row is done if that is the final one; else more was stored meanwhile, and it
# is open: the next edit brings it. `sent_at` keeps the time of the first send, and
# `done_at` that of the final words: buttons that come later are no part of the answer's time.
_SINCE_PARAMETER = bindparam("since", type_=Float)
_SHOWS_FINAL_BODY = outbox.c.final & outbox.c.body.is_not_distinct_from(bindparam("shown", type_=Text))
_UPDATE_SHOWN = (
    update(outbox)
    .where(outbox.c.id == bindparam("of_row"))
    .values(
        message_id=bindparam("message"),
        sent_at=func.coalesce(outbox.c.sent_at, _SINCE_PARAMETER),
        state=case((_SHOWS_FINAL_BODY, "done"), else_="open"),
        done_at=case((_SHOWS_FINAL_BODY, func.coalesce(outbox.c.done_at, _SINCE_PARAMETER)), else_=None),
    )
)


async def add(
    tx: Transaction,
    *,
    item: int | None,
    lane: Lane,
    parts: Sequence[Part],
    reply_to: int | None = None,
    now: float,
) -> list[int]:
    """Store the final parts that answer `item` (None: a notice); returns their row ids, in order.

    Rows that a running turn opened get the final text; those beyond the last part are taken back. Only the
    first part replies to `reply_to`.
    """
    columns = {"item": item, "lane": lane.key, "final": True, "state": "new", "tries": 0, "made_at": now}
    rows: list[dict[str, Any]] = [
        {**columns, "part": number, "reply_to": None, "body": serialize_part(part)}
        for number, part in enumerate(parts)
    ]
    if rows:
        rows[0]["reply_to"] = reply_to
    if item is None:
        if rows:
            tx.changes.note_outbox(lane)
        return [(await tx.execute(_INSERT.returning(outbox.c.id), row)).scalar_one() for row in rows]
    stored = [(await tx.execute(_UPSERT_FINAL, row)).one() for row in rows]
    for row in stored:
        if row.state == "unknown":
            await _ask_person(tx, row.id, lane.key, now)
    if not stored or any(row.tries for row in stored):
        is_left_over = (outbox.c.item == item) & (outbox.c.part >= len(rows)) & (outbox.c.state != "done")
        await _retract(tx, is_left_over)
    if any(row.state in _AWAITS_CALL for row in stored):
        tx.changes.note_outbox(lane)
    return [int(row.id) for row in stored]


async def open_part(
    tx: Transaction, *, item: int, part: int, lane: Lane, body: Part | None, now: float
) -> OutboxRow:
    """Open the row of a part that a running turn shows (`body` None: only a status line).

    In state `sending` and not final it is the caller's to send; in any other it existed already.
    """
    row = {
        "item": item,
        "part": part,
        "lane": lane.key,
        "body": serialize_part(body),
        "final": False,
        "state": "sending",
        "tries": 1,
        "made_at": now,
    }
    return to_outbox_row((await tx.execute(_UPSERT_PARTIAL, row)).one())


async def take(tx: Transaction, lane: Lane) -> OutboxRow | None:
    """Take the lane's oldest due row: a new one is `sending` from now on, an open one needs an edit."""
    row = (await tx.execute(_TAKE_OLDEST, {"of_lane": lane.key})).one_or_none()
    if row is None:
        return None
    return to_outbox_row(row, has_more=row.others_due > 0)


async def mark_shown(
    tx: Transaction, row: int, *, message_id: int | None, body: Part | None, now: float
) -> None:
    """Store that Telegram shows `body` as this message since `now` (both None: it no longer shows any)."""
    await tx.execute(
        _UPDATE_SHOWN, {"of_row": row, "message": message_id, "shown": serialize_part(body), "since": now}
    )
    await _forget_secret(tx, row, body)


async def _forget_secret(tx: Transaction, row: int, body: Part | None) -> None:
    """Keep a body without its secret: it was sent, or nobody knows, and is never sent again."""
    if body is not None and body.secret:
        hidden = serialize_part(hide_secret(body))
        await tx.execute(update(outbox).where(outbox.c.id == row).values(body=hidden))


async def release(tx: Transaction, row: int, reason: str) -> None:
    """Make a row new again whose first send certainly did not arrive."""
    await _update_due(tx, update(outbox).where(outbox.c.id == row).values(state="new", error=reason))


async def mark_unknown(tx: Transaction, row: int, reason: str, *, now: float) -> None:
    """Store that the first send may have arrived: it is not repeated, the person is asked."""
    await _mark_rows_unknown(tx, outbox.c.id == row, reason, now)


async def mark_failed(tx: Transaction, row: int, reason: str, *, body: Part | None, now: float) -> None:
    """Store that Telegram refused `body` for its content; if another body is final by now, it is due."""
    has_other_body = outbox.c.final & outbox.c.body.is_distinct_from(serialize_part(body))
    is_unsent = has_other_body & outbox.c.message_id.is_(None)
    state = case((is_unsent, "new"), (has_other_body, "open"), else_="failed")
    given_up_at = case((has_other_body, outbox.c.done_at), else_=now)
    await _update_due(
        tx, update(outbox).where(outbox.c.id == row).values(state=state, error=reason, done_at=given_up_at)
    )
    await _forget_secret(tx, row, body)


async def mark_missing(tx: Transaction, row: int) -> None:
    """Store that the message no longer exists: a final body becomes a new message, any other is dropped.

    A message that had been shown as it was meant to be is not sent again: only its buttons were to change.
    """
    await tx.execute(delete(outbox).where(outbox.c.id == row, ~outbox.c.final))
    is_over = outbox.c.body.is_(None) | outbox.c.done_at.is_not(None)
    state = case((is_over, "done"), else_="new")
    await _update_due(tx, update(outbox).where(outbox.c.id == row).values(message_id=None, state=state))


async def recover(tx: Transaction, *, now: float, shares: Collection[int] | None = None) -> None:
    """Settle what was being sent when its process died: its outcome is unknown.

    Only in lanes of `shares`; None: in all, at the start of a process that has all lanes. A question to a
    person is sent again, because nobody would hear of its subject without it. A status line without a body is
    deleted.
    """
    was_sending = outbox.c.state == "sending"
    if shares is not None:
        lanes = (await tx.execute(select(outbox.c.lane).where(was_sending).distinct())).scalars()
        was_sending &= outbox.c.lane.in_([lane for lane in lanes if Lane.parse(lane).share in shares])
    await _update_due(tx, update(outbox).where(was_sending, _CAN_REPEAT).values(state="new"))
    await tx.execute(delete(outbox).where(was_sending, outbox.c.body.is_(None), ~outbox.c.final))
    await _mark_rows_unknown(tx, was_sending, "the gateway stopped while it was being sent", now)


async def list_due_lanes(tx: Transaction) -> list[Lane]:
    """The lanes in which something waits to be sent or edited, the one that waits longest first."""
    lanes = select(outbox.c.lane).where(IS_DUE).group_by(outbox.c.lane).order_by(func.min(outbox.c.id))
    return [Lane.parse(key) for key in (await tx.execute(lanes)).scalars()]


async def send_again(tx: Transaction, row: int, *, lane: Lane, now: float) -> bool:
    """Store a copy of a row of unknown outcome, to be sent as a new message, and remove the button.

    Its files go to the copy. False if there is nothing to send: the row is another lane's, its outcome is
    known by now, or it was sent again already.
    """
    is_unknown = (outbox.c.id == row) & (outbox.c.lane == lane.key) & (outbox.c.state == "unknown")
    body = (await tx.execute(select(outbox.c.body).where(is_unknown, outbox.c.final))).scalar()
    if body is None:
        return False
    copy = {"lane": lane.key, "body": body, "final": True, "copy_of": row, "made_at": now}
    insert_copy = _INSERT.on_conflict_do_nothing(index_elements=["copy_of"]).returning(outbox.c.id)
    copy_id = (await tx.execute(insert_copy, copy)).scalar_one_or_none()
    if copy_id is None:
        return False
    await tx.execute(update(outbox_files).where(outbox_files.c.outbox == row).values(outbox=copy_id))
    tx.changes.note_outbox(lane)
    translate = await people.find_translator(tx, lane.chat)
    await tx.execute(
        update(outbox)
        .where(outbox.c.about == row)
        .values(
            body=serialize_part(Part(translate(SENT_AGAIN_TEXT))),
            state=case((outbox.c.state == "done", "open"), else_=outbox.c.state),
        )
    )
    return True


async def has_message(tx: Transaction, item: int) -> bool:
    """Whether something of the answer to `item` is in the chat."""
    shown = select(outbox.c.id).where(outbox.c.item == item, outbox.c.message_id.is_not(None)).limit(1)
    return (await tx.execute(shown)).one_or_none() is not None


async def allow_repeat(tx: Transaction, rows: Sequence[int]) -> None:
    """Let these notices be sent twice rather than never; each is marked as being about itself."""
    await tx.execute(update(outbox).where(outbox.c.id.in_(rows)).values(about=outbox.c.id))


async def can_edit_answer(tx: Transaction, item: int, *, since: float) -> bool:
    """Whether the messages that answer `item` are there, or on their way, and none is older than `since`.

    An answer with files cannot be edited into another.
    """
    columns = (outbox.c.part, outbox.c.state, outbox.c.message_id, outbox.c.sent_at)
    rows = (await tx.execute(select(*columns).where(outbox.c.item == item, _IS_SHOWN))).all()
    is_in_doubt = any(row.state in {"unknown", "failed"} for row in rows)
    is_old = any(row.sent_at is not None and row.sent_at < since for row in rows)
    has_files = any(row.part >= FIRST_FILE_PART for row in rows)
    return any(row.message_id for row in rows) and not (is_in_doubt or is_old or has_files)


async def hand_over_answer(tx: Transaction, item: int, new_item: int) -> None:
    """Let the messages that answer `item` show the answer to `new_item` instead, once it comes.

    What that answer has no need for is taken back at its end.
    """
    shown = update(outbox).where(outbox.c.item == item, _IS_SHOWN)
    state = case((outbox.c.state == "done", "open"), else_=outbox.c.state)
    await tx.execute(shown.values(item=new_item, final=False, state=state, done_at=None))


async def take_back_voice(tx: Transaction, turn: int) -> None:
    """Delete the voice message of a turn's answer, if there is one."""
    voices = select(outbox_files.c.outbox).where(outbox_files.c.turn == turn, outbox_files.c.kind == "voice")
    await _retract(tx, outbox.c.id.in_(voices))


async def close_buttons(tx: Transaction, rows: Sequence[int], line: str) -> bool:
    """Replace the buttons of these messages by a line of text, or by nothing; False if none had any."""
    bodies = {row: body for row, body in (await _load_bodies(tx, rows)).items() if body.buttons}
    for row, body in bodies.items():
        await _replace_body(tx, row, replace(body, text=f"{body.text}\n\n{line}".rstrip(), buttons=()))
    return bool(bodies)


async def add_buttons(tx: Transaction, row: int, buttons: tuple[Button, ...]) -> bool:
    """Put a row of buttons below a message; False if it has them or cannot get any."""
    body = (await _load_bodies(tx, [row])).get(row)
    if body is None or not body.text or buttons in body.buttons:
        return False
    await _replace_body(tx, row, replace(body, buttons=(*body.buttons, buttons)))
    return True


async def reopen_buttons(
    tx: Transaction, rows: Sequence[int], buttons: tuple[tuple[Button, ...], ...]
) -> None:
    """Put buttons in the place of the line by which `close_buttons` replaced them."""
    for row, body in (await _load_bodies(tx, rows)).items():
        if not body.buttons:
            text = body.text.rpartition("\n\n")[0]
            await _replace_body(tx, row, replace(body, text=text, buttons=buttons))


async def _load_bodies(tx: Transaction, rows: Sequence[int]) -> dict[int, Part]:
    """What those of these messages say, by row, that are in the chat or on their way."""
    query = select(*OUTBOX_COLUMNS).where(outbox.c.id.in_(rows)).order_by(outbox.c.id)
    stored_rows: Sequence[Any] = (await tx.execute(query)).all()
    messages = map(to_outbox_row, stored_rows)
    return {
        message.id: message.body
        for message in messages
        if message.body is not None and message.state not in {"unknown", "failed"}
    }


async def _replace_body(tx: Transaction, row: int, part: Part) -> None:
    state = case((_IS_SETTLED_IN_CHAT, "open"), else_=outbox.c.state)
    values = {"body": serialize_part(part), "state": state}
    await _update_due(tx, update(outbox).where(outbox.c.id == row).values(values))


async def _update_due(tx: Transaction, statement: Update) -> None:
    """Change rows, and note the lanes of those that are due now, or once the call under way has ended."""
    for row in await tx.execute(statement.returning(outbox.c.lane, outbox.c.state, outbox.c.final)):
        if row.final and row.state in _AWAITS_CALL:
            tx.changes.note_outbox(Lane.parse(row.lane))


async def _retract(tx: Transaction, condition: ColumnElement[bool]) -> None:
    """Take rows back: their messages are deleted, unsent ones are done."""
    never_sent = outbox.c.message_id.is_(None) & outbox.c.state.in_(("new", "failed"))
    state = case((never_sent, "done"), (_IS_SETTLED_IN_CHAT, "open"), else_=outbox.c.state)
    await _update_due(tx, update(outbox).where(condition).values(body=None, final=True, state=state))


async def _mark_rows_unknown(
    tx: Transaction, condition: ColumnElement[bool], reason: str, now: float
) -> None:
    marked = (
        update(outbox)
        .where(condition)
        .values(state="unknown", error=reason, done_at=now)
        .returning(*OUTBOX_COLUMNS)
    )
    for row in (await tx.execute(marked)).all():
        message = to_outbox_row(row)
        await _forget_secret(tx, message.id, message.body)
        if message.final and message.body is not None and not message.is_notice:
            await _ask_person(tx, message.id, message.lane.key, now)


async def _ask_person(tx: Transaction, row: int, lane: str, now: float) -> None:
    """Store a notice, once for each row, that its message may not have arrived; a button repeats it."""
    translate = await people.find_translator(tx, Lane.parse(lane).chat)
    button = Button(translate("Send again"), f"{SEND_AGAIN_PREFIX}{row}")
    part = Part(translate(UNSURE_TEXT), buttons=((button,),))
    question = {"lane": lane, "body": serialize_part(part), "final": True, "about": row, "made_at": now}
    await tx.execute(_INSERT.on_conflict_do_nothing(index_elements=["about"]), question)
    tx.changes.note_outbox(Lane.parse(lane))

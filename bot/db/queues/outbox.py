"""The outbox: every outgoing message is a row, written down before its first send.

A first send cannot be repeated safely, so a row is `sending` before the call leaves; all else is edits.
Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Float, Text, bindparam, case, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.queues.outbox_rows import MAX_TRIES, OUTBOX_COLUMNS, OutboxRow, serialize_part, to_outbox_row
from bot.db.tables import outbox
from bot.domain import Button, Lane, Part

SEND_AGAIN_PREFIX = "again:"
"""The callback data of [Send again] is this and the id of the row whose outcome is unknown."""

UNSURE_TEXT = "I don't know whether my answer above reached you."
SENT_AGAIN_TEXT = "I didn't know whether my answer above reached you; it comes again below."


_CAN_REPEAT = outbox.c.about.is_not(None) & (outbox.c.tries < MAX_TRIES)
_IS_DUE = outbox.c.final & outbox.c.state.in_(("new", "open"))
_INSERT = upsert(outbox)
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
    },
).returning(outbox.c.id, outbox.c.part, outbox.c.state, outbox.c.tries)
_IS_UNSENT_PARTIAL = (outbox.c.state == "new") & ~outbox.c.final
_UPSERT_PARTIAL = _INSERT.on_conflict_do_update(
    index_elements=["item", "part"],
    set_={
        "body": case((_IS_UNSENT_PARTIAL, _INSERT.excluded.body), else_=outbox.c.body),
        "tries": outbox.c.tries + 1,
        "state": case((_IS_UNSENT_PARTIAL, "sending"), else_=outbox.c.state),
    },
).returning(*OUTBOX_COLUMNS)

_ANY_ROW = outbox.alias("anything")
_COUNT_DUE = (
    select(func.count())
    .select_from(_ANY_ROW)
    .where(_ANY_ROW.c.lane == bindparam("of_lane"), _ANY_ROW.c.final, _ANY_ROW.c.state.in_(("new", "open")))
    .scalar_subquery()
)
_OLDEST_DUE = (
    select(func.min(outbox.c.id)).where(outbox.c.lane == bindparam("of_lane"), _IS_DUE).scalar_subquery()
)
_TAKE_OLDEST = (
    update(outbox)
    .where(outbox.c.id == _OLDEST_DUE)
    .values(state=case((outbox.c.state == "new", "sending"), else_=outbox.c.state), tries=outbox.c.tries + 1)
    .returning(*OUTBOX_COLUMNS, _COUNT_DUE.label("still_due"))
)
_SINCE_PARAMETER = bindparam("since", type_=Float)
_SHOWS_FINAL_BODY = outbox.c.final & outbox.c.body.is_not_distinct_from(bindparam("shown", type_=Text))
_UPDATE_SHOWN = (
    update(outbox)
    .where(outbox.c.id == bindparam("of_row"))
    .values(
        message_id=bindparam("message"),
        sent_at=func.coalesce(outbox.c.sent_at, _SINCE_PARAMETER),
        state=case((_SHOWS_FINAL_BODY, "done"), else_="open"),
        done_at=case((_SHOWS_FINAL_BODY, _SINCE_PARAMETER), else_=None),
    )
)


async def add(
    tx: AsyncConnection,
    *,
    item: int | None,
    lane: Lane,
    parts: Sequence[Part],
    reply_to: int | None = None,
    now: float,
) -> list[int]:
    """Store the final parts that answer `item` (None: a notice); returns their row ids, in order.

    Rows a running turn opened get the final text; those beyond the last part are taken back. Wake the sender
    for the lane after the commit.
    """
    made = {"item": item, "lane": lane.key, "final": True, "state": "new", "tries": 0, "made_at": now}
    rows = [
        {**made, "part": number, "reply_to": None if number else reply_to, "body": serialize_part(part)}
        for number, part in enumerate(parts)
    ]
    if item is None:
        return [(await tx.execute(_INSERT.returning(outbox.c.id), row)).scalar_one() for row in rows]
    stored = [(await tx.execute(_UPSERT_FINAL, row)).one() for row in rows]
    for row in stored:
        if row.state == "unknown":
            await _ask_person(tx, row.id, lane.key, now)
    if not stored or any(row.tries for row in stored):
        await _retract_parts(tx, item, len(rows))
    return [int(row.id) for row in stored]


async def open_part(
    tx: AsyncConnection, *, item: int, part: int, lane: Lane, body: Part | None, now: float
) -> OutboxRow:
    """The row of a part that a running turn shows (`body` None: a mere status line).

    In state `sending` and not final it is the caller's to send; in any other it is there already.
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


async def take(tx: AsyncConnection, lane: Lane) -> OutboxRow | None:
    """The oldest row of a lane that is due: a new one is `sending` from now on, an open one wants an edit."""
    row = (await tx.execute(_TAKE_OLDEST, {"of_lane": lane.key})).one_or_none()
    if row:
        return to_outbox_row(row, has_more=row.still_due > (row.state == "open"))
    return None


async def mark_shown(
    tx: AsyncConnection, row: int, *, message_id: int | None, body: Part | None, now: float
) -> None:
    """Telegram shows `body` as this message since `now` (None: it shows nothing any more)."""
    await tx.execute(
        _UPDATE_SHOWN, {"of_row": row, "message": message_id, "shown": serialize_part(body), "since": now}
    )


async def release(tx: AsyncConnection, row: int, reason: str) -> None:
    """The first send surely did not arrive: it may be tried again."""
    await tx.execute(update(outbox).where(outbox.c.id == row).values(state="new", error=reason))


async def mark_unknown(tx: AsyncConnection, row: int, reason: str, *, now: float) -> None:
    """Nobody knows whether the first send arrived: it is never repeated by itself, the person is asked."""
    await _mark_rows_unknown(tx, outbox.c.id == row, reason, now)


async def mark_failed(tx: AsyncConnection, row: int, reason: str, *, body: Part | None, now: float) -> None:
    """Telegram refused `body` for what it is; if something else is wanted by now, that may be tried."""
    other = outbox.c.final & outbox.c.body.is_distinct_from(serialize_part(body))
    state = case((other & outbox.c.message_id.is_(None), "new"), (other, "open"), else_="failed")
    given_up_at = case((other, outbox.c.done_at), else_=now)
    await tx.execute(
        update(outbox).where(outbox.c.id == row).values(state=state, error=reason, done_at=given_up_at)
    )


async def mark_missing(tx: AsyncConnection, row: int) -> None:
    """The message is not there any more: what is still wanted of it becomes a new message."""
    await tx.execute(delete(outbox).where(outbox.c.id == row, ~outbox.c.final))
    await tx.execute(
        update(outbox)
        .where(outbox.c.id == row)
        .values(message_id=None, state=case((outbox.c.body.is_(None), "done"), else_="new"))
    )


async def recover(tx: AsyncConnection, *, now: float) -> None:
    """At start: whatever was being sent when the process died is unknown; a mere status line is forgotten.

    A question of ours is sent once more: without it nobody would hear of what it is about.
    """
    was = outbox.c.state == "sending"
    await tx.execute(update(outbox).where(was, _CAN_REPEAT).values(state="new"))
    await tx.execute(delete(outbox).where(was, outbox.c.body.is_(None), ~outbox.c.final))
    await _mark_rows_unknown(tx, was, "the gateway stopped while it was being sent", now)


async def list_due_lanes(tx: AsyncConnection) -> list[Lane]:
    """The lanes in which something waits to be sent or edited, the one that waits longest first."""
    lanes = select(outbox.c.lane).where(_IS_DUE).group_by(outbox.c.lane).order_by(func.min(outbox.c.id))
    return [Lane.parse(key) for key in (await tx.execute(lanes)).scalars()]


async def send_again(tx: AsyncConnection, row: int, *, lane: Lane, now: float) -> bool:
    """Store the text of a row of unknown outcome once more, as a message of its own, and take the button
    away.

    False if there is nothing to send: another lane's row, one that is known by now, or one sent again
    already.
    """
    asked = (outbox.c.id == row) & (outbox.c.lane == lane.key) & (outbox.c.state == "unknown")
    found = (await tx.execute(select(outbox.c.body).where(asked, outbox.c.final))).scalar()
    if found is None:
        return False
    copy = {"lane": lane.key, "body": found, "final": True, "copy_of": row, "made_at": now}
    made = await tx.execute(_INSERT.on_conflict_do_nothing(index_elements=["copy_of"]), copy)
    if not made.rowcount:
        return False
    await tx.execute(
        update(outbox)
        .where(outbox.c.about == row)
        .values(
            body=serialize_part(Part(SENT_AGAIN_TEXT)),
            state=case((outbox.c.state == "done", "open"), else_=outbox.c.state),
        )
    )
    return True


async def allow_repeat(tx: AsyncConnection, rows: Sequence[int]) -> None:
    """These notices rather come twice than never; each is about itself."""
    await tx.execute(update(outbox).where(outbox.c.id.in_(rows)).values(about=outbox.c.id))


async def close_buttons(tx: AsyncConnection, rows: Sequence[int], line: str) -> list[Lane]:
    """Put a line under those of these messages that have buttons, and take the buttons away; returns their
    lanes.
    """
    found: Sequence[Any] = (
        await tx.execute(select(*OUTBOX_COLUMNS).where(outbox.c.id.in_(rows)).order_by(outbox.c.id))
    ).all()
    lanes = []
    for seen in (to_outbox_row(row) for row in found):
        if seen.body is None or not seen.body.buttons or seen.state in {"unknown", "failed"}:
            continue
        body = serialize_part(replace(seen.body, text=f"{seen.body.text}\n\n{line}", buttons=()))
        state = case((outbox.c.state == "done", "open"), else_=outbox.c.state)
        await tx.execute(update(outbox).where(outbox.c.id == seen.id).values(body=body, state=state))
        lanes.append(seen.lane)
    return lanes


async def _retract_parts(tx: AsyncConnection, item: int, first_part: int) -> None:
    never_sent = outbox.c.message_id.is_(None) & outbox.c.state.in_(("new", "failed"))
    await tx.execute(
        update(outbox)
        .where(outbox.c.item == item, outbox.c.part >= first_part, outbox.c.state != "done")
        .values(body=None, final=True, state=case((never_sent, "done"), else_=outbox.c.state))
    )


async def _mark_rows_unknown(
    tx: AsyncConnection, condition: ColumnElement[bool], reason: str, now: float
) -> None:
    lost = (
        update(outbox)
        .where(condition)
        .values(state="unknown", error=reason, done_at=now)
        .returning(*OUTBOX_COLUMNS)
    )
    for row in (await tx.execute(lost)).all():
        seen = to_outbox_row(row)
        if seen.final and seen.body is not None and not seen.is_notice:
            await _ask_person(tx, seen.id, seen.lane.key, now)


async def _ask_person(tx: AsyncConnection, row: int, lane: str, now: float) -> None:
    """Tell the person, once, that a message may not have arrived."""
    question = Part(UNSURE_TEXT, buttons=((Button("Send again", f"{SEND_AGAIN_PREFIX}{row}"),),))
    asked = {"lane": lane, "body": serialize_part(question), "final": True, "about": row, "made_at": now}
    await tx.execute(_INSERT.on_conflict_do_nothing(index_elements=["about"]), asked)

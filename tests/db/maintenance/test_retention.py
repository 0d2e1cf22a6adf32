"""Retention knows every column that may hold a word of anybody's; what is younger, or still wanted, stays as
it is.
"""

import json
from typing import Any

import pytest
from sqlalchemy import LargeBinary, Text, insert, select

from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.maintenance.retention import EMPTY_BODY, INVENTED_TOOL_NAME
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import (
    approval_messages,
    approvals,
    attachments,
    audit,
    inbox,
    lanes,
    messages,
    metadata,
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

WORD = "canary"

WIPED = {
    *(
        "inbox.body",
        "messages.text",
        "messages.calls",
        "messages.reasoning",
        "messages.call_id",
        "messages.role",
    ),
    *(
        "attachments.data",
        "attachments.text",
        "attachments.name",
        "attachments.kind",
        "attachments.media_type",
    ),
    *(
        "tool_calls.arguments",
        "tool_calls.result",
        "tool_calls.whole",
        "model_calls.reply",
        "model_calls.error",
    ),
    *("approvals.arguments", "approvals.binding"),
    *("tool_images.data", "tool_images.media_type", "tool_images.call_id"),
    *("outbox.body", "outbox.error", "notes.text", "notes.author", "notes.lane"),
    *("jobs.text", "jobs.lane", "jobs.rule"),
    "notices.text",  # but for the house's own words
    *("tool_calls.name", "turns.used", "audit.after"),  # but for tools there are, and the figures of a trial
    *("lanes.notes", "lanes.summary", "lanes.summary_ahead"),
}
WORDLESS = {
    *("inbox.kind", "inbox.shape", "inbox.lane", "inbox.state", "inbox.error", "inbox.spans"),
    *("lanes.lane", "lanes.think", "lanes.consent"),
    *("turns.lane", "turns.state", "turns.ending", "turns.tools", "turns.thinking_why", "turns.endpoint"),
    "turns.endpoint_why",
    *("model_calls.purpose", "model_calls.again", "model_calls.endpoint", "model_calls.fingerprint"),
    *("model_calls.model", "model_calls.usage_missing", "model_calls.server_ms", "model_calls.finish_reason"),
    *("model_calls.outcome", "model_calls.request_id"),
    *("tool_calls.call_id", "tool_calls.state", "tool_calls.outcome"),
    *("outbox.lane", "outbox.state", "durations.kind"),
    *(
        "approvals.call_id",
        "approvals.tool",
        "approvals.hash",
        "approvals.lane",
        "approvals.who",
        "approvals.why",
    ),
    *(
        "approvals.answer",
        "allowances.tool",
        "allowances.hash",
        "allowances.binding",
    ),  # a day's; /forget ends them
    *("people.name", "people.role", "strangers.name", "strangers.code_hash"),
    *("invites.code_hash", "invites.role", "notices.subject"),
    *("readings.endpoint", "readings.totals", "readings.why"),
    # What admins have set, and changed: of no chat.
    *("sources.name", "sources.kind", "sources.address", "sources.options", "sources.trouble"),
    *(
        "tools.name",
        "tools.source",
        "tools.definition",
        "tools.hash",
        "tools.pending",
        "tools.flagged",
        "tools.rule",
    ),
    *(
        "grants.tool",
        "grants.whom",
        "grants.hash",
        "secrets.name",
        "secrets.sealed",
        "revisions.name",
        "lanes.tools",
    ),
    *("audit.via", "audit.what", "audit.subject", "audit.before"),
    *("people.zone", "jobs.kind", "jobs.name", "jobs.zone", "jobs.missed", "jobs.state", "jobs.why_paused"),
}


def test_every_column_that_can_hold_words_is_wiped_or_known_to_hold_none():
    found = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, Text | LargeBinary)
    }
    assert found - WIPED - WORDLESS == set()
    assert WIPED - found == set()


async def insert_row(database: Database, table: Any, **row: Any) -> int:
    async with database.transaction() as tx:
        return int((await tx.execute(insert(table).values(row).returning(table.c.id))).scalar_one())


async def insert_turn(database: Database, received_at: float, state: str = "ended", lane: str = "7") -> int:
    """A turn with a word of it in every table."""
    item = await insert_row(
        database, inbox, kind="update", shape="text", lane=lane, sender=7, body=WORD, received_at=received_at
    )
    made = {"lane": lane, "person": 7, "conversation": 1, "state": state, "tools": "[]", "thinking": False}
    made |= {"thinking_why": "", "received_at": received_at, "began_at": received_at, "item": item}
    number = await insert_row(database, turns, **made)
    async with database.transaction() as tx:
        over = state if state in {"running", "parked"} else "done"
        await tx.execute(inbox.update().where(inbox.c.id == item).values(turn=number, state=over))
    message = await insert_row(database, messages, turn=number, role="user", text=WORD, made_at=received_at)
    await insert_row(
        database, attachments, message=message, kind="document", name=WORD, media_type="text/plain", text=WORD
    )
    tool = {"turn": number, "step": 1, "call_id": "a", "name": "remember", "arguments": WORD, "result": WORD}
    await insert_row(database, tool_calls, **tool, state="done", whole=WORD)
    seen = {"turn": number, "call_id": "a", "media_type": "image/png", "data": WORD.encode()}
    await insert_row(database, tool_images, **seen)
    asked = {
        "turn": number,
        "step": 1,
        "call_id": "a",
        "tool": "remember",
        "arguments": WORD,
        "binding": WORD,
    }
    asked |= {
        "hash": "",
        "asker": 7,
        "lane": lane,
        "who": "admins",
        "why": "",
        "asked_at": received_at,
        "expires_at": received_at,
    }
    question = await insert_row(database, approvals, **asked)
    row = await insert_row(
        database, outbox, lane="1", body=WORD, final=True, state="done", made_at=received_at
    )
    async with database.transaction() as tx:
        await tx.execute(insert(approval_messages).values(approval=question, outbox=row))
    await insert_row(
        database, model_calls, **build_call_row(number, received_at), error=f"refused (HTTP 400): {WORD}"
    )
    shown = "open" if over != "done" else "done"
    await insert_row(
        database, outbox, item=item, lane=lane, body=WORD, final=True, state=shown, made_at=received_at
    )
    return number


def build_call_row(turn: int | None, created_at: float) -> dict[str, Any]:
    row = {"turn": turn, "step": 1, "purpose": "turn", "endpoint": "e", "model": "m", "thinking": False}
    return row | {
        "tools_offered": 0,
        "created_at": created_at,
        "outcome": "ok",
        "reply": WORD,
        "completion_tokens": 5,
    }


async def count_words(database: Database) -> dict[str, int]:
    """How many rows of each table hold the word, where any does."""
    found: dict[str, int] = {}
    async with database.read_transaction() as tx:
        for table in metadata.sorted_tables:
            count = sum(WORD in str(tuple(row)) for row in await tx.execute(select(table)))
            found |= {table.name: count} if count else {}
    return found


EACH = dict.fromkeys(
    ("inbox", "messages", "attachments", "tool_calls", "tool_images", "model_calls", "approvals"), 1
) | {"outbox": 2}


async def test_of_an_old_turn_figures_stay_and_of_a_younger_one_everything(database: Database):
    old = await insert_turn(database, 100.0)
    await insert_turn(database, 200.0)
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == EACH
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(model_calls).where(model_calls.c.turn == old))).all()
        parts = (await tx.execute(select(outbox.c.body).order_by(outbox.c.id))).scalars().all()
    assert [(row.completion_tokens, row.error) for row in rows] == [(5, "refused (HTTP 400)")]
    assert parts == [EMPTY_BODY, EMPTY_BODY, WORD, WORD]


async def test_a_tool_that_never_was_loses_the_name_the_model_gave_it_and_those_there_are_keep_theirs(
    database: Database,
):
    old = await insert_turn(database, 100.0)
    names = {
        "b": (WORD, "refused"),
        "c": ("offered", "refused"),
        "d": ("found", "refused"),
        "e": ("gone", "ok"),
    }
    for call_id, (name, outcome) in names.items():
        made = {"turn": old, "step": 1, "call_id": call_id, "name": name, "arguments": "{}", "state": "done"}
        await insert_row(database, tool_calls, **made, outcome=outcome)
    async with database.transaction() as tx:
        told = {"tools": '["offered"]', "used": f'["{WORD}", "found", "offered"]'}
        await tx.execute(turns.update().where(turns.c.id == old).values(told))
        found = {"name": "found", "source": "shop", "definition": "{}", "hash": "", "changed_at": 1.0}
        await tx.execute(insert(tools).values(found))
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == {}
    async with database.read_transaction() as tx:
        kept = (await tx.execute(select(tool_calls.c.name).order_by(tool_calls.c.call_id))).scalars().all()
        used = (await tx.execute(select(turns.c.used))).scalar_one()
    assert kept == ["remember", INVENTED_TOOL_NAME, "offered", "found", "gone"]
    assert set(json.loads(used)) == {"remember", "offered", "found", "gone"}


BOTH = [retention.build_age_scope(150.0), retention.build_lane_scope(Lane(7), 7, item=99, asked_at=150.0)]


@pytest.mark.parametrize("scope", BOTH)
async def test_what_admins_were_told_in_the_words_of_the_endpoint_goes(
    database: Database, scope: retention.RetentionScope
):
    house = "The model endpoint refused a request: The endpoint refused the request (HTTP 400)"
    async with database.transaction() as tx:
        for subject, at in (("endpoint", 100.0), ("later", 200.0)):
            await tx.execute(insert(notices).values(subject=subject, text=f"{house}: {WORD}", told_at=at))
    for at in (100.0, 200.0):
        body = serialize_part(Part(f"{house}: {WORD}"))
        await insert_row(database, outbox, lane="1", body=body, final=True, state="done", made_at=at)
    told = serialize_part(Part("The model endpoint answers again."))
    await insert_row(database, outbox, lane="1", body=told, final=True, state="done", made_at=149.0)
    await retention.forget(database, scope)
    assert await count_words(database) == {"notices": 1, "outbox": 1}
    async with database.read_transaction() as tx:
        kept = (await tx.execute(select(notices.c.text).where(notices.c.subject == "endpoint"))).scalar_one()
    assert kept == house


async def test_what_others_are_told_of_an_error_that_they_met_themselves_outlives_a_forget(
    database: Database,
):
    body = serialize_part(Part(f"It is paused: look into (HTTP 500): {WORD}"))
    await insert_row(database, outbox, lane="8", body=body, final=True, state="new", made_at=100.0)
    await retention.forget(database, retention.build_lane_scope(Lane(7), 7, item=99, asked_at=150.0))
    async with database.read_transaction() as tx:
        assert (await tx.execute(select(outbox.c.body, outbox.c.state))).one() == (body, "new")


async def test_what_somebody_else_is_asked_is_no_quotation(database: Database):
    of = await insert_turn(database, 100.0, state="parked", lane="8")
    asked = {
        "turn": of,
        "step": 2,
        "call_id": "a",
        "tool": "report",
        "arguments": "{}",
        "hash": "",
        "asker": 8,
    }
    question = await insert_row(
        database, approvals, **asked, lane="8", who="asker", why="", asked_at=100.0, expires_at=900.0
    )
    shown = serialize_part(Part("report: The endpoint refused the request (HTTP 500): no"))
    row = await insert_row(database, outbox, lane="8", body=shown, final=True, state="new", made_at=100.0)
    async with database.transaction() as tx:
        await tx.execute(insert(approval_messages).values(approval=question, outbox=row))
    await retention.forget(database, retention.build_lane_scope(Lane(7), 7, item=99, asked_at=150.0))
    async with database.read_transaction() as tx:
        found = await tx.execute(select(outbox.c.state, outbox.c.body).where(outbox.c.id == row))
    assert found.one() == ("new", shown)


@pytest.mark.parametrize("scope", BOTH)
async def test_of_a_tool_that_was_tried_the_arguments_go(database: Database, scope: retention.RetentionScope):
    for at in (100.0, 200.0):
        row = {"at": at, "who": 7, "via": "telegram", "what": "tried", "subject": "tool clock"}
        await insert_row(database, audit, **row, after=json.dumps({"arguments": WORD, "outcome": "ok"}))
    await retention.forget(database, scope)
    async with database.read_transaction() as tx:
        kept = (await tx.execute(select(audit.c.after).order_by(audit.c.id))).scalars().all()
    assert [json.loads(one) for one in kept] == [{"outcome": "ok"}, {"arguments": WORD, "outcome": "ok"}]


@pytest.mark.parametrize("state", ["running", "parked"])
async def test_what_still_runs_or_waits_is_left_alone_however_old_it_is(database: Database, state: str):
    await insert_turn(database, 100.0, state=state)
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == EACH | {"outbox": 1}  # what was asked long ago is of no turn


async def test_many_more_than_a_batch_are_wiped(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retention, "BATCH_ROWS", 2)
    monkeypatch.setattr(retention, "_SCAN_ROWS", 3)
    for at in range(7):
        await insert_turn(database, float(at))
        await insert_row(
            database, notes, lane="7", number=at, text=WORD, author="Ann", person=7, made_at=float(at)
        )
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == {}


async def test_what_belongs_to_no_turn_is_wiped_too(database: Database):
    row = {
        "kind": "update",
        "shape": "deep",
        "sender": 7,
        "body": WORD,
        "state": "done",
        "received_at": 100.0,
    }
    item = await insert_row(database, inbox, **row)
    await insert_row(database, model_calls, **build_call_row(None, 100.0))
    await insert_row(
        database, outbox, lane="7", body=WORD, final=True, state="unknown", made_at=100.0, error=WORD
    )
    await insert_row(database, notes, lane="7", number=1, text=WORD, author="Ann", person=7, made_at=100.0)
    async with database.transaction() as tx:
        await tx.execute(insert(lanes).values(lane="7", notes=WORD, summary=WORD, summary_ahead=WORD))
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == {}
    async with database.read_transaction() as tx:
        assert (await tx.execute(select(inbox.c.error).where(inbox.c.id == item))).scalar_one() == "forgotten"


async def test_what_a_conversation_remembers_goes_with_the_first_of_its_turns(database: Database):
    await insert_turn(database, 100.0)
    await insert_turn(database, 200.0)
    await insert_turn(database, 200.0, lane="8")
    async with database.transaction() as tx:
        await tx.execute(
            insert(lanes).values([{"lane": "7", "summary": WORD}, {"lane": "8", "summary": WORD}])
        )
    await retention.forget(database, retention.build_age_scope(150.0))
    assert (await count_words(database))["lanes"] == 1


async def test_a_lane_is_forgotten_with_all_its_person_did_outside_of_lanes(database: Database):
    await insert_turn(database, 100.0)
    await insert_turn(database, 100.0, lane="7:3")
    await insert_row(
        database, inbox, kind="update", shape="tap", sender=7, body=WORD, state="done", received_at=100.0
    )
    first = await insert_row(
        database, outbox, lane="7", body=WORD, final=True, state="unknown", made_at=100.0
    )
    await insert_row(
        database, outbox, lane="7", body=WORD, final=True, state="done", made_at=900.0, copy_of=first
    )
    await insert_row(database, outbox, lane="7", body=WORD, final=True, state="new", made_at=100.0)
    await insert_row(database, outbox, lane="7", body=WORD, final=True, state="open", made_at=100.0)
    await retention.forget(database, retention.build_lane_scope(Lane(7), 7, item=99, asked_at=150.0))
    assert await count_words(database) == EACH  # those of the other topic
    async with database.read_transaction() as tx:
        states = (
            await tx.execute(
                select(outbox.c.state, outbox.c.body).where(outbox.c.item.is_(None), outbox.c.lane == "7")
            )
        ).all()
        assert await retention.list_lanes(tx, 7) == [Lane(7), Lane(7, 3)]
    assert [tuple(row) for row in states] == [
        ("unknown", None),
        ("done", EMPTY_BODY),
        ("done", None),
        ("open", None),
    ]

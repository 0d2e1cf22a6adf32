"""Retention covers every column that may hold text; what is younger, or still needed, stays unchanged."""

import json
from typing import Any

import pytest
from sqlalchemy import LargeBinary, Text, insert, select

from bot.agent.word_index import build_word_index
from bot.db.conversations import kept_files as kept_store
from bot.db.conversations.kept_files import FOLDER_CHAT
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.maintenance.batches import BATCH_SIZE, build_batches
from bot.db.maintenance.invented_tools import INVENTED_TOOL_NAME
from bot.db.maintenance.retention import EMPTY_BODY
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.queues.outbox_rows import serialize_part
from bot.db.tables import (
    approvals,
    attachments,
    audit,
    group_speakers,
    group_texts,
    inbox,
    instructions,
    kept_files,
    lanes,
    messages,
    metadata,
    model_calls,
    notes,
    notices,
    outbox,
    outbox_files,
    tool_calls,
    tool_images,
    tools,
    turns,
)
from bot.domain import Lane, Part

WORD = "canary"


def list_columns(**columns_by_table: str) -> set[str]:
    return {f"{table}.{column}" for table, columns in columns_by_table.items() for column in columns.split()}


WIPED = list_columns(
    inbox="body",
    messages="text calls reasoning call_id role",
    attachments="data text name kind media_type",
    tool_calls="arguments result whole name",  # names of existing tools stay
    tool_images="data media_type call_id",
    model_calls="reply error",
    approvals="arguments binding reply",
    outbox="body error",
    outbox_files="name kind caption file_id data",
    notes="text author lane",
    jobs="text lane rule",
    notices="text",  # the gateway's own words stay
    turns="used preface",  # names of existing tools stay
    audit="after",  # the outcome of a trial stays
    lanes="notes instructions files summary summary_ahead",
    kept_files="name hash text",
    kept_words="words",
    instructions="lane text",
    group_speakers="lane name",
    group_texts="lane name text",
)
WITHOUT_TEXT = list_columns(
    inbox="kind shape lane state error spans",
    lanes="lane think consent speech_consent voice tools",
    speeches="outcome",
    turns="lane state ending tools thinking_why endpoint endpoint_why",
    model_calls="purpose again endpoint fingerprint model usage_missing server_ms block_ms finish_reason "
    "outcome request_id",
    tool_calls="call_id state outcome refusal",
    outbox="lane state",
    seat_requests="endpoint lane",
    approvals="call_id tool hash lane who why answer",
    allowances="tool hash binding",  # valid for a day; a /forget ends them
    people="name role zone language telegram_language",
    strangers="name code language",
    invites="code_hash role",
    page_tokens="token_hash kind",
    hooks="name secret_hash lane task why_ended",  # an admin's setting, until it is removed
    hook_posts="key_hash",
    notices="subject",
    readings="endpoint totals why",
    jobs="kind name zone missed state why_paused question",
    verdicts="value",
    groups="title state speakers name",  # as names of people, they stay
    # What admins have set and changed; it belongs to no chat.
    personas="name text",
    sources="name kind address options trouble",
    tools="name source definition hash pending flagged rule",
    grants="tool whom hash",
    secrets="name sealed",
    revisions="name",
    audit="via what subject before",
)


def test_every_column_that_can_hold_text_is_wiped_or_known_to_hold_none():
    text_columns = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, Text | LargeBinary)
    }
    assert text_columns - WIPED - WITHOUT_TEXT == set()
    assert WIPED - text_columns == set()


async def insert_row(database: Database, table: Any, **row: Any) -> int:
    async with database.transaction() as tx:
        return int((await tx.execute(insert(table).values(row).returning(table.c.id))).scalar_one())


async def insert_turn(database: Database, received_at: float, state: str = "ended", lane: str = "7") -> int:
    """Insert a turn with WORD in every table."""
    item = await insert_row(
        database, inbox, kind="update", shape="text", lane=lane, sender=7, body=WORD, received_at=received_at
    )
    turn = {"lane": lane, "person": 7, "conversation": 1, "state": state, "tools": "[]", "thinking": False}
    turn |= {"thinking_why": "", "received_at": received_at, "began_at": received_at, "item": item}
    number = await insert_row(database, turns, **turn)
    is_active = state in {"running", "parked"}
    async with database.transaction() as tx:
        item_state = state if is_active else "done"
        await tx.execute(inbox.update().where(inbox.c.id == item).values(turn=number, state=item_state))
    message = await insert_row(database, messages, turn=number, role="user", text=WORD, made_at=received_at)
    await insert_row(
        database, attachments, message=message, kind="document", name=WORD, media_type="text/plain", text=WORD
    )
    tool = {"turn": number, "step": 1, "call_id": "a", "name": "remember", "arguments": WORD, "result": WORD}
    await insert_row(database, tool_calls, **tool, state="done", whole=WORD)
    image = {"turn": number, "call_id": "a", "media_type": "image/png", "data": WORD.encode()}
    await insert_row(database, tool_images, **image)
    question = await insert_row(
        database,
        approvals,
        turn=number,
        step=1,
        call_id="a",
        tool="remember",
        arguments=WORD,
        binding=WORD,
        reply=WORD,
        hash="",
        asker=7,
        lane=lane,
        who="admins",
        why="",
        asked_at=received_at,
        expires_at=received_at,
    )
    question_row = {"lane": "1", "body": WORD, "final": True, "state": "done", "made_at": received_at}
    await insert_row(database, outbox, **question_row, approval=question)
    await insert_row(
        database, model_calls, **build_call_row(number, received_at), error=f"refused (HTTP 400): {WORD}"
    )
    answer = {"item": item, "lane": lane, "body": WORD, "final": True, "made_at": received_at}
    row = await insert_row(database, outbox, **answer, state="open" if is_active else "done")
    file = {"outbox": row, "name": WORD, "kind": "photo", "caption": WORD, "size": 1, "made_at": received_at}
    await insert_row(database, outbox_files, **file, data=WORD.encode())
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
    """How many rows of each table contain WORD; tables without any are left out."""
    counts: dict[str, int] = {}
    async with database.read_transaction() as tx:
        for table in metadata.sorted_tables:
            count = sum(WORD in str(tuple(row)) for row in await tx.execute(select(table)))
            if count:
                counts[table.name] = count
    return counts


WORDS_OF_ONE_TURN = dict.fromkeys(
    (
        "inbox",
        "messages",
        "attachments",
        "tool_calls",
        "tool_images",
        "model_calls",
        "approvals",
        "outbox_files",
    ),
    1,
) | {"outbox": 2}


async def test_an_old_turn_keeps_its_numbers_and_a_younger_one_everything(database: Database):
    old = await insert_turn(database, 100.0)
    await insert_turn(database, 200.0)
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == WORDS_OF_ONE_TURN
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(model_calls).where(model_calls.c.turn == old))).all()
        parts = (await tx.execute(select(outbox.c.body).order_by(outbox.c.id))).scalars().all()
    assert [(row.completion_tokens, row.error) for row in rows] == [(5, "refused (HTTP 400)")]
    assert parts == [EMPTY_BODY, EMPTY_BODY, WORD, WORD]


async def test_kept_files_go_once_they_are_long_unused_or_their_chat_is_forgotten(database: Database):
    kept_at = {-5: 100.0, -6: 100.0, 7: 200.0, FOLDER_CHAT: 100.0}
    for chat, used_at in kept_at.items():
        row = {"name": WORD, "hash": str(chat), "text": WORD, "size": 6, "kept_at": 100.0}
        file = await insert_row(database, kept_files, **row, chat=chat, person=7, used_at=used_at)
        async with database.transaction() as tx:
            await kept_store.store_index(tx, file, build_word_index([WORD]))
    async with database.transaction() as tx:
        await tx.execute(insert(lanes), [{"lane": lane, "files": WORD} for lane in ("-5:3", "-51", "7")])
    await retention.forget(database, retention.build_lane_scope(Lane(-5, 3), item=1, asked_at=150.0))
    assert await count_words(database) == {"kept_files": 3, "kept_words": 3, "lanes": 2}
    await retention.forget(database, retention.build_age_scope(150.0))
    async with database.read_transaction() as tx:
        chats = set((await tx.execute(select(kept_files.c.chat))).scalars())
    assert chats == {7, FOLDER_CHAT}
    assert await count_words(database) == {"kept_files": 2, "kept_words": 2}


async def insert_group_rows(database: Database, lane: str, person: int, written_at: float) -> None:
    row = {"lane": lane, "person": person, "name": WORD}
    async with database.transaction() as tx:
        await tx.execute(insert(group_speakers).values(row))
        await tx.execute(insert(group_texts).values(row | {"text": WORD, "written_at": written_at}))


async def test_a_forgotten_group_loses_its_peoples_names_and_what_was_read_along(database: Database):
    for lane, person in (("-5", 1), ("-5:2", 1), ("-6", 2)):
        await insert_group_rows(database, lane, person, written_at=100.0)
    async with database.read_transaction() as tx:
        assert await retention.list_lanes(tx, -5) == [Lane(-5), Lane(-5, 2)]
    await retention.forget(database, retention.build_lane_scope(Lane(-6), item=1, asked_at=150.0))
    assert await count_words(database) == {"group_speakers": 2, "group_texts": 2}
    await retention.forget(database, retention.build_lane_scope(Lane(1), item=1, asked_at=150.0))
    assert await count_words(database) == {"group_speakers": 2}
    await insert_turn(database, 200.0, lane="-5")
    await retention.forget(database, retention.build_age_scope(150.0))
    assert (await count_words(database))["group_speakers"] == 1


@pytest.mark.parametrize(
    "scope",
    [retention.build_age_scope(150.0), retention.build_lane_scope(Lane(-5), item=99, asked_at=150.0)],
)
async def test_instructions_go_with_the_copies_of_conversations_that_began_with_them(
    database: Database, scope: retention.RetentionScope
):
    await insert_turn(database, 200.0, lane="-5:2")  # it is in use, so its age deletes nothing of the lane
    async with database.transaction() as tx:
        for lane, set_at in (("-5", 100.0), ("-6", 200.0)):
            row = {"lane": lane, "text": WORD, "person": 1, "set_at": set_at}
            await tx.execute(insert(instructions).values(row))
        await tx.execute(insert(lanes).values(lane="-5:2", instructions=WORD))
        assert await retention.list_lanes(tx, -5) == [Lane(-5), Lane(-5, 2)]
    await retention.forget(database, scope)
    async with database.read_transaction() as tx:
        kept = (await tx.execute(select(instructions.c.lane))).scalars().all()
        copy = (await tx.execute(select(lanes.c.instructions))).scalar_one()
    assert (kept, copy) == (["-6"], None)


async def test_a_tool_that_never_existed_loses_the_name_the_model_gave_it_and_real_ones_keep_theirs(
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
        call = {"turn": old, "step": 1, "call_id": call_id, "name": name, "arguments": "{}", "state": "done"}
        await insert_row(database, tool_calls, **call, outcome=outcome)
    async with database.transaction() as tx:
        names_of_turn = {"tools": '["offered"]', "used": f'["{WORD}", "found", "offered"]'}
        await tx.execute(turns.update().where(turns.c.id == old).values(names_of_turn))
        tool = {"name": "found", "source": "shop", "definition": "{}", "hash": "", "changed_at": 1.0}
        await tx.execute(insert(tools).values(tool))
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == {}
    async with database.read_transaction() as tx:
        by_call_id = select(tool_calls.c.name).order_by(tool_calls.c.call_id)
        stored_names = (await tx.execute(by_call_id)).scalars().all()
        used = (await tx.execute(select(turns.c.used))).scalar_one()
    assert stored_names == ["remember", INVENTED_TOOL_NAME, "offered", "found", "gone"]
    assert set(json.loads(used)) == {"remember", "offered", "found", "gone"}


SCOPES = [retention.build_age_scope(150.0), retention.build_lane_scope(Lane(7), item=99, asked_at=150.0)]


@pytest.mark.parametrize("scope", SCOPES)
async def test_quotes_of_the_endpoint_in_notices_to_admins_are_wiped(
    database: Database, scope: retention.RetentionScope
):
    own_words = "The model endpoint refused a request: The endpoint refused the request (HTTP 400)"
    text = f"{own_words}: {WORD}"
    async with database.transaction() as tx:
        for subject, time in (("endpoint", 100.0), ("later", 200.0)):
            await tx.execute(insert(notices).values(subject=subject, text=text, told_at=time))
    for time in (100.0, 200.0):
        body = serialize_part(Part(text))
        await insert_row(database, outbox, lane="1", body=body, final=True, state="done", made_at=time)
    harmless = serialize_part(Part("The model endpoint answers again."))
    await insert_row(database, outbox, lane="1", body=harmless, final=True, state="done", made_at=149.0)
    await retention.forget(database, scope)
    assert await count_words(database) == {"notices": 1, "outbox": 1}
    async with database.read_transaction() as tx:
        query = select(notices.c.text).where(notices.c.subject == "endpoint")
        assert (await tx.execute(query)).scalar_one() == own_words


async def test_a_notice_to_another_person_about_their_own_error_outlives_a_forget(
    database: Database,
):
    body = serialize_part(Part(f"It is paused: look into (HTTP 500): {WORD}"))
    await insert_row(database, outbox, lane="8", body=body, final=True, state="new", made_at=100.0)
    await retention.forget(database, retention.build_lane_scope(Lane(7), item=99, asked_at=150.0))
    async with database.read_transaction() as tx:
        assert (await tx.execute(select(outbox.c.body, outbox.c.state))).one() == (body, "new")


async def test_a_question_to_another_person_is_not_taken_for_a_quote(database: Database):
    turn = await insert_turn(database, 100.0, state="parked", lane="8")
    question = await insert_row(
        database,
        approvals,
        turn=turn,
        step=2,
        call_id="a",
        tool="report",
        arguments="{}",
        hash="",
        asker=8,
        lane="8",
        who="asker",
        why="",
        asked_at=100.0,
        expires_at=900.0,
    )
    body = serialize_part(Part("report: The endpoint refused the request (HTTP 500): no"))
    message = {"lane": "8", "body": body, "final": True, "state": "new", "made_at": 100.0}
    row = await insert_row(database, outbox, **message, approval=question)
    await retention.forget(database, retention.build_lane_scope(Lane(7), item=99, asked_at=150.0))
    async with database.read_transaction() as tx:
        query = select(outbox.c.state, outbox.c.body).where(outbox.c.id == row)
        assert (await tx.execute(query)).one() == ("new", body)


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_arguments_of_a_tool_trial_are_wiped(database: Database, scope: retention.RetentionScope):
    for time in (100.0, 200.0):
        row = {"at": time, "who": 7, "via": "telegram", "what": "tried", "subject": "tool clock"}
        await insert_row(database, audit, **row, after=json.dumps({"arguments": WORD, "outcome": "ok"}))
    await retention.forget(database, scope)
    async with database.read_transaction() as tx:
        entries = (await tx.execute(select(audit.c.after).order_by(audit.c.id))).scalars().all()
    assert [json.loads(entry) for entry in entries] == [
        {"outcome": "ok"},
        {"arguments": WORD, "outcome": "ok"},
    ]


@pytest.mark.parametrize("state", ["running", "parked"])
async def test_what_still_runs_or_waits_is_left_alone_at_any_age(database: Database, state: str):
    await insert_turn(database, 100.0, state=state)
    await retention.forget(database, retention.build_age_scope(150.0))
    assert await count_words(database) == WORDS_OF_ONE_TURN | {
        "outbox": 1
    }  # the question's message belongs to no turn


async def test_many_more_than_a_batch_are_wiped(database: Database):
    for number in range(7):
        await insert_turn(database, float(number))
        note = {"number": number, "text": WORD, "author": "Ann", "person": 7, "made_at": float(number)}
        await insert_row(database, notes, lane="7", **note)
    await retention.forget(database, retention.build_age_scope(150.0), batch_rows=2, scan_rows=3)
    assert await count_words(database) == {}


async def test_texts_without_a_turn_are_wiped_too(database: Database):
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


async def test_notes_and_summaries_of_a_conversation_go_with_the_first_of_its_turns(database: Database):
    await insert_turn(database, 100.0)
    await insert_turn(database, 200.0)
    await insert_turn(database, 200.0, lane="8")
    async with database.transaction() as tx:
        await tx.execute(
            insert(lanes).values([{"lane": "7", "summary": WORD}, {"lane": "8", "summary": WORD}])
        )
    await retention.forget(database, retention.build_age_scope(150.0))
    assert (await count_words(database))["lanes"] == 1


async def test_a_forgotten_group_takes_the_commands_of_its_people_and_nothing_else_of_theirs(
    database: Database,
):
    async with database.transaction() as tx:  # which was no supergroup yet when somebody wrote there
        await groups.put(tx, Group(-5, "Family", "in", 1.0, other_chat=-4))
    chats = [("message", -5), ("edited_message", -5), ("message", -4), ("message", 7), ("message", -6)]
    for sender, (kind, chat) in enumerate(chats, start=7):
        body = json.dumps({kind: {"chat": {"id": chat}, "text": WORD}})
        row = {"kind": "update", "shape": "command", "state": "done", "received_at": 100.0}
        await insert_row(database, inbox, sender=sender, body=body, **row)
    tap = json.dumps({"callback_query": {"message": {"chat": {"id": -5}}, "data": WORD}})
    await insert_row(
        database, inbox, kind="update", shape="tap", sender=8, body=tap, state="done", received_at=100.0
    )
    await insert_group_rows(database, "-6", 7, written_at=100.0)
    await retention.forget(database, retention.build_lane_scope(Lane(-5), item=99, asked_at=150.0))
    async with database.read_transaction() as tx:
        bodies = (await tx.execute(select(inbox.c.body).order_by(inbox.c.id))).scalars().all()
    kept = [json.loads(body)["message"]["chat"]["id"] for body in bodies if body]
    assert kept == [7, -6]
    assert (await count_words(database))["group_texts"] == 1


async def test_a_lane_is_forgotten_with_the_control_items_of_its_person(database: Database):
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
    await retention.forget(database, retention.build_lane_scope(Lane(7), item=99, asked_at=150.0))
    assert await count_words(database) == WORDS_OF_ONE_TURN  # of the other topic
    async with database.read_transaction() as tx:
        states = (
            await tx.execute(
                select(outbox.c.state, outbox.c.body)
                .where(outbox.c.item.is_(None), outbox.c.lane == "7")
                .order_by(outbox.c.id)
            )
        ).all()
        assert await retention.list_lanes(tx, 7) == [Lane(7), Lane(7, 3)]
    assert [tuple(row) for row in states] == [
        ("unknown", None),
        ("done", EMPTY_BODY),
        ("done", None),
        ("open", None),
    ]


def test_a_batch_has_a_bounded_number_of_rows_and_of_bytes():
    sizes = [*([10] * 51), BATCH_SIZE - 5, 10, 3 * BATCH_SIZE, 1]
    batches = list(build_batches(list(enumerate(sizes)), 50))
    assert [key for batch in batches for key in batch] == list(range(len(sizes)))
    assert [len(batch) for batch in batches] == [50, 1, 1, 1, 1, 1]

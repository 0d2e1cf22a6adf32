"""Collects the journal of a run: what people see now, what the database says, what the tools did."""

import json
import re
from collections.abc import Sequence
from typing import Any

from bot.sim.telegram.chats import ChatMessage
from tests.chaos.journal import (
    InboxRow,
    Journal,
    OutboxPart,
    SeenMessage,
    StoredJob,
    ToolRun,
    TurnRow,
)
from tests.chaos.state import ChaosRun
from tests.chaos.stores import ChaosStore
from tests.kill.environment import ANN

_NUMBER = re.compile(r"(\d{5})\b")


def collect_journal(run: ChaosRun, store: ChaosStore, leftovers: Sequence[str]) -> Journal:
    """Everything the judge needs, once the run has ended."""
    environment = run.environment
    chats = {ANN, *(request.chat for request in run.requests.values())}
    return Journal(
        requests=tuple(run.requests.values()),
        messages=tuple(
            _to_seen_message(chat, message) for chat in chats for message in environment.messages(chat)
        ),
        taps=tuple(run.taps),
        disturbances=tuple(run.disturbances),
        inbox=_load_inbox(store),
        turns=_load_turns(store),
        outbox=_load_outbox(store),
        tool_runs=_load_tool_runs(store),
        jobs=_load_jobs(store),
        bells={int(name): count for name, count in environment.bells.rung.items()},
        notes=tuple(text for (text,) in store.load_rows("select text from notes")),
        stops=tuple(run.stops),
        forbidden=frozenset(run.forbidden),
        odd_updates=frozenset(run.odd_updates),
        exit_codes=tuple(run.exit_codes),
        leftovers=tuple(leftovers),
    )


def _to_seen_message(chat: int, message: ChatMessage) -> SeenMessage:
    buttons = tuple(str(button["text"]) for button in message.buttons)
    return SeenMessage(chat, message.message_id, message.text, message.raw["date"] + 0.5, buttons)


def _load_inbox(store: ChaosStore) -> tuple[InboxRow, ...]:
    rows = store.load_rows(
        "select id, update_id, lane, state, turn, error, job, done_at from inbox order by id"
    )
    return tuple(InboxRow(*row) for row in rows)


def _load_turns(store: ChaosStore) -> tuple[TurnRow, ...]:
    rows = store.load_rows("select id, item, state, ending, began_at, ended_at from turns order by id")
    return tuple(TurnRow(*row) for row in rows)


def _load_outbox(store: ChaosStore) -> tuple[OutboxPart, ...]:
    columns = "id, item, lane, body, final, state, message_id, about, copy_of, error, made_at"
    return tuple(_to_part(row) for row in store.load_rows(f"select {columns} from outbox order by id"))


def _to_part(row: tuple[Any, ...]) -> OutboxPart:
    number, item, lane, body, is_final, *others = row
    stored = json.loads(body) if body else {"text": None, "buttons": []}
    buttons = tuple(button["label"] for line in stored["buttons"] for button in line)
    return OutboxPart(number, item, int(lane), stored["text"], bool(is_final), buttons, *others)


def _load_tool_runs(store: ChaosStore) -> tuple[ToolRun, ...]:
    rows = store.load_rows(
        "select turn, name, arguments, outcome, approval is not null from tool_calls order by id"
    )
    return tuple(
        ToolRun(turn, _read_number(arguments), name, outcome, bool(was_asked))
        for turn, name, arguments, outcome, was_asked in rows
    )


def _load_jobs(store: ChaosStore) -> tuple[StoredJob, ...]:
    rows = store.load_rows("select id, text, kind from jobs where kind != 'system' order by id")
    return tuple(StoredJob(row, _read_number(text), kind) for row, text, kind in rows)


def _read_number(text: str) -> int:
    """The number of the message that a text is about; -1 for none."""
    match = _NUMBER.search(text)
    return int(match[1]) if match else -1

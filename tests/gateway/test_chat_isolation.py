"""Many chats at once, private ones, groups and topics: nothing of one reaches another."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.sim.telegram.accounts import ChatThread
from tests.support.gateway import GatewayHarness, open_harness
from tests.support.group_chat import turn_on_reading
from tests.support.telegram.server import ScriptedPerson

PRIVATE_CHATS = 3
PLAIN_GROUPS = 2
FORUMS = 2
TOPICS = 2
CANARY = re.compile(r"canary\d\d")


@dataclass(frozen=True)
class Place:
    """A chat or topic, the word that is said in it alone, and somebody who writes there."""

    canary: str
    person: ScriptedPerson
    thread: ChatThread
    lane: str

    @property
    def is_group(self) -> bool:
        return self.lane.startswith("-")

    def ask(self, text: str) -> None:
        command = "/ask " if self.is_group else ""
        self.person.send(f"{command}{text}", thread=self.thread)

    def has_answer(self, text: str) -> bool:
        return any(text in message.text for message in self.thread.chat.bot_messages)


def open_places(gateway: GatewayHarness) -> list[Place]:
    """Open all chats; Ann is in each group with somebody else, and writes in all of them."""
    people = [gateway.api.person(100 + number, "Bea") for number in range(PRIVATE_CHATS)]
    threads: list[tuple[ScriptedPerson, ChatThread]] = [(person, person.private_thread) for person in people]
    for number in range(PLAIN_GROUPS + FORUMS):
        members = (people[number % 3], people[(number + 1) % 3])
        group = gateway.api.add_group(
            -1001000000100 - number,
            f"Group {number}",
            owner=gateway.ann,
            members=members,
            is_forum=number >= PLAIN_GROUPS,
        )
        if number < PLAIN_GROUPS:
            threads.append((members[0], group))
            continue
        threads += [
            (members[topic % 2], gateway.ann.create_topic(f"Topic {topic}", thread=group))
            for topic in range(TOPICS)
        ]
    return [
        Place(f"canary{number:02}", person, thread, _format_lane(thread))
        for number, (person, thread) in enumerate(threads, start=10)
    ]


def _format_lane(thread: ChatThread) -> str:
    return f"{thread.chat.id}:{thread.thread_id}" if thread.thread_id else str(thread.chat.id)


async def converse(gateway: GatewayHarness, places: Sequence[Place]) -> None:
    """In every chat: a question, a note, a file, talk to others where it is read along, and a question."""
    await run_round(
        gateway, places, "first", lambda place: place.ask(f"{place.canary} @@say:{place.canary} first@@")
    )
    await run_round(gateway, places, "noted", ask_to_remember)
    await run_round(gateway, places, "read", send_file)
    for place in places:
        if place.is_group:
            place.person.send(f"only between us: {place.canary}", thread=place.thread)
    await run_round(gateway, places, "last", lambda place: place.ask(f"And? @@say:{place.canary} last@@"))


async def run_round(
    gateway: GatewayHarness, places: Sequence[Place], word: str, act: Callable[[Place], None]
) -> None:
    """Do the same in all chats at once, and wait until all are answered with their word and this one."""
    for place in places:
        act(place)
    await gateway.api.wait_until(lambda: all(place.has_answer(f"{place.canary} {word}") for place in places))


def ask_to_remember(place: Place) -> None:
    note = f'{{"note": "note {place.canary}"}}'
    place.ask(f"@@tool:remember {note}@@@@say:{place.canary} noted@@")


def send_file(place: Place) -> None:
    """Send a document in private; in a group, where nobody can add a command to one, ask once more."""
    if place.is_group:
        place.ask(f"@@say:{place.canary} read@@")
        return
    caption = f"@@say:{place.canary} read@@"
    place.person.send_document("plan.txt", caption=caption, content=f"plan {place.canary}".encode())


def list_stored_canaries(file: Path) -> Iterator[tuple[str, str, str]]:
    """Every canary in the database, with its table and the lane that its row belongs to."""
    with closing(sqlite3.connect(file)) as database:
        database.row_factory = sqlite3.Row
        tables = [
            row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        lanes = {row["id"]: row["lane"] for row in database.execute("SELECT id, lane FROM turns")}
        turns = {row["id"]: row["turn"] for row in database.execute("SELECT id, turn FROM messages")}
        for table in tables:
            for row in database.execute(f"SELECT * FROM {table}"):
                columns = row.keys()
                lane = row["lane"] if "lane" in columns else None
                if lane is None and "turn" in columns:
                    lane = lanes.get(row["turn"])
                if lane is None and "message" in columns:
                    lane = lanes.get(turns.get(row["message"]))
                for canary in CANARY.findall(" ".join(map(str, row))):
                    yield table, str(lane), canary


@pytest.mark.sqlite
async def test_no_text_of_a_chat_is_in_the_prompt_notes_or_files_of_another(tmp_path: Path):
    async with open_harness(tmp_path, access="open", thinking="off") as gateway:
        gateway.api.change_bot(can_read_all_group_messages=True)
        async with gateway.run():
            places = open_places(gateway)
            for number in range(PLAIN_GROUPS + FORUMS):
                await gateway.wait_for_texts(1, -1001000000100 - number)
                await turn_on_reading(gateway, f"Group {number}")
            await converse(gateway, places)
    prompts = [request.prompt for request in gateway.endpoint.requests]
    assert all(len(set(CANARY.findall(prompt))) == 1 for prompt in prompts)
    assert len(prompts) == 5 * len(places)
    last_prompts = [prompt for prompt in prompts if "And?" in prompt]
    assert len(last_prompts) == len(places)
    assert sum("only between us" in prompt for prompt in last_prompts) == len(places) - PRIVATE_CHATS
    lane_by_canary = {place.canary: place.lane for place in places}
    stored = list(list_stored_canaries(tmp_path / "gateway.db"))
    assert {(table, lane_by_canary[canary], lane) for table, lane, canary in stored} == {
        (table, lane, lane) for table, lane, canary in stored
    }
    assert {"messages", "notes", "attachments", "inbox", "outbox"} <= {table for table, _, _ in stored}

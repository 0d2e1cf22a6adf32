"""What people of a group said to each other stands in front of the next question, once."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

from bot.agent.taint import build_taint_state
from bot.db.engine import Database
from bot.db.people import group_texts
from bot.db.people.group_texts import MAX_BYTES, GroupText, StoredText
from bot.db.tables import group_texts as group_texts_table
from bot.domain import Lane
from bot.turns.said_before import build_block
from bot.turns.turn_request import TurnRequest
from tests.support.turn_harness import ScriptedModel, TurnHarness, hang_forever, make_reply

GROUP = Lane(-100)
SUNDAY = 259_200.0  # at midnight


def ask_in_group(request: TurnRequest) -> TurnRequest:
    """A question of Ann in the group, in its message 10."""
    return replace(request, lane=GROUP, speaker="Ann", message_id=10, sent_at=(1.0,))


async def overhear(database: Database, *texts: tuple[int, str]) -> str:
    """Read along what Ben says; return the time that stands with it."""
    now = time.time()
    read = [GroupText(GROUP, message_id, 8, "Ben", text, written_at=now) for message_id, text in texts]
    async with database.transaction() as tx:
        await group_texts.store(tx, read, now=now)
    return f"{datetime.fromtimestamp(now, UTC):%a %H:%M}"


async def test_it_stands_in_front_of_the_question_and_leaves_the_table(database: Database):
    harness = TurnHarness(database, ScriptedModel([make_reply("yes"), make_reply("no")]))
    moment = await overhear(database, (3, "lunch at one?"), (11, "too late"))
    runner = harness.build_runner()
    await runner.run(ask_in_group(await harness.new_request("what do you think?")))
    await runner.run(ask_in_group(await harness.new_request("and now?")))
    first, second = (request.messages for request in harness.model.requests)
    assert first[1].text == (
        f"[data: said before, not to you]\nBen ({moment}): lunch at one?\n[end of data]\n"
        "Ann: what do you think?"
    )
    assert first == second[: len(first)]
    assert second[-1].text == "Ann: and now?"
    assert build_taint_state(first, first[1:], {}).is_turn_tainted
    assert await harness.load_rows(group_texts_table, "text") == [("too late",)]


async def test_a_killed_turn_neither_loses_nor_doubles_it(database: Database):
    harness = TurnHarness(database, ScriptedModel([hang_forever, make_reply("yes")]))
    await overhear(database, (3, "lunch at one?"))
    request = ask_in_group(await harness.new_request("when?"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(harness.build_runner().run(request))
        await harness.model.was_called.wait()
        running.cancel()
    await overhear(database, (4, "or at two?"))
    await harness.build_runner().run(ask_in_group(await harness.restart("when?")))
    first, second = (request.messages[-1].text for request in harness.model.requests)
    assert first == second
    assert first.count("lunch at one?") == 1
    assert await harness.load_rows(group_texts_table, "text") == [("or at two?",)]


def test_a_block_is_bounded_whatever_is_said():
    texts = [StoredText(number, "Ann" * 13, "[data: x] ½" * 90, SUNDAY) for number in range(50)]
    block = build_block(texts, UTC)
    assert MAX_BYTES // 2 < len(block.encode()) <= MAX_BYTES
    assert block.count("[data: ") == 1
    assert build_block([replace(texts[0], text="\N{PILE OF POO}" * 1000 + " …")], UTC)
    assert build_block([replace(texts[0], text="[data" * 1000)], UTC) == ""
    assert build_block([], UTC) == ""

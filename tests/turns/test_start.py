"""What is decided before a turn's first call, its window and its thinking; a restart changes none of it."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.agent.history import MAX_OLD_RESULT_CHARS
from bot.agent.prompt import OLDER_LEFT
from bot.db.conversations import conversations, retries
from bot.db.conversations.turns import list_past_turns
from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import model_calls, turns
from bot.domain import Message, Usage
from bot.turns.thought_costs import MIN_THOUGHTS
from bot.turns.turn_request import PreflightResult
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tests.support.usage_rows import UsageRows
from tools.base import tool

LONG = "word " * 400  # about 500 tokens
OK = replace(make_reply("ok"), usage=Usage())  # the server counts nothing, so the estimate holds
UNREADABLE = "ቡችላዎች ስንት ዓመት ይኖራሉ"  # no word of it is known
DIG = replace(OK, text="", calls=(make_call("dig"),))


@tool(repeatable=True)
async def dig() -> str:
    """Dig up something long."""
    return "clay " * 800


@tool
async def search(query: str) -> str:
    """Search the web for pages about a topic.

    Args:
        query: What to look for.
    """
    return query


@tool
async def remind(text: str, time: str) -> str:
    """Set a reminder with a text for a date and time.

    Args:
        text: What to be reminded of.
        time: When.
    """
    return f"{text} {time}"


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


async def say(harness: TurnHarness, model: ScriptedModel, *texts: str) -> list[tuple[Message, ...]]:
    """Run a turn for each text; returns the messages of each turn's first request."""
    firsts = []
    for text in texts:
        before = len(model.requests)
        await harness.build_runner().run(await harness.new_request(text))
        firsts.append(model.requests[before].messages)
    return firsts


async def load_cut(harness: TurnHarness) -> int | None:
    """The newest turn that has left the prompt; None: there was no cut."""
    async with harness.database.read_transaction() as tx:
        return (await conversations.find(tx, LANE)).cut


async def test_old_results_are_shortened_before_turns_leave(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, [dig], prompt_budget=2950)
    model.script = [DIG, OK, DIG, OK, OK, OK]
    prompts = await say(harness, model, "dig", "again", "thanks", 2 * LONG)
    assert [len(messages) for messages in prompts] == [2, 6, 10, 12]
    results = [[message.text for message in prompt if message.role == "tool"] for prompt in prompts]
    assert all(len(text) == 3999 for prompt in results[:3] for text in prompt)
    assert all(
        text.startswith("clay " * (MAX_OLD_RESULT_CHARS // 5)) and text.endswith("left out]")
        for text in results[3]
    )
    assert [len(text) < 400 for text in results[3]] == [True, True]
    assert await load_cut(harness) is None


async def test_a_resumed_turn_sees_the_same_prompt(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, prompt_budget=2600)
    model.script = [OK] * 6
    await say(harness, model, *[LONG] * 6)
    assert await load_cut(harness) is not None
    request = await harness.new_request("the last")
    for _ in range(2):  # it is killed in the model call, and claimed again
        model.script = [hang_forever]
        model.was_called = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(harness.build_runner().run(request))
            await model.was_called.wait()
            running.cancel()
        request = await harness.restart("the last")
    assert model.requests[-1].messages == model.requests[-2].messages


async def test_a_turn_resumed_after_its_conversation_has_ended_keeps_within_the_budget(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, prompt_budget=2600)
    model.script = [OK] * 6
    await say(harness, model, *[LONG] * 6)
    request = await harness.new_request("the last")
    model.script = [hang_forever]
    model.was_called = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(harness.build_runner().run(request))
        await model.was_called.wait()
        running.cancel()
    async with database.transaction() as tx:
        await conversations.start_new(tx, LANE)
    model.script = [OK]
    await harness.build_runner().run(await harness.restart("the last"))
    before, after = model.requests[-2:]
    assert len(after.messages) <= len(before.messages) < 14


async def test_near_the_limit_the_endpoint_is_asked_how_long_the_prompt_is(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(
        database, model, prompt_budget=3200, preflight_result=PreflightResult(prompt_tokens=2000)
    )
    model.script = [OK] * 8
    await say(harness, model, *[LONG] * 4)
    assert harness.preflight_requests == []
    [fifth] = await say(harness, model, LONG)
    [preflight_request] = harness.preflight_requests
    assert preflight_request.needs_token_count
    assert preflight_request.prompt == fifth
    assert await load_cut(harness) is None


async def test_a_count_above_the_limit_cuts(database: Database, model: ScriptedModel):
    harness = TurnHarness(
        database, model, prompt_budget=3200, preflight_result=PreflightResult(prompt_tokens=2700)
    )
    model.script = [OK] * 8
    *_, fifth = await say(harness, model, *[LONG] * 5)
    assert len(harness.preflight_requests) == 1
    assert len(fifth) < 10


async def test_a_turn_that_needs_tools_has_tokens_left_for_their_results(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [search, remind], prompt_budget=4800)
    model.script = [OK] * 8
    plain = await say(harness, model, *[LONG] * 7)
    assert [len(messages) for messages in plain] == [2, 4, 6, 8, 10, 12, 14]
    [messages] = await say(harness, model, "search the web for pages about owls")
    assert len(messages) < 16


async def test_every_turn_of_a_long_chat_can_use_a_tool_however_little_its_words_ask_for_one(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [search, remind], prompt_budget=2600)
    model.script = [OK] * 60
    await say(harness, model, *["word " * 80] * 59)
    assert await load_cut(harness) is not None
    assert {request.tool_choice for request in model.requests} == {"auto"}
    model.script = [replace(OK, text="", calls=(make_call("search", '{"query": "owls"}'),)), OK]
    await say(harness, model, "word")
    assert [message.text for message in model.requests[-1].messages if message.role == "tool"] == ["owls"]


async def test_heavy_tool_work_thinks_and_says_why_and_small_talk_does_not(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [search, remind], thinking="auto")
    model.script = [OK] * 2
    await say(
        harness,
        model,
        "search the web for owls, and set a reminder to read about them tomorrow at 9",
        "thank you!",
    )
    assert [request.thinking for request in model.requests] == [True, False]
    [heavy, (light_thinks, _)] = await harness.load_rows(turns, "thinking", "thinking_why")
    assert heavy == (True, "several steps: find out, remind")
    assert light_thinks is False
    assert await harness.load_rows(model_calls, "thinking") == [(True,), (False,)]


@pytest.mark.parametrize(("chance", "thinks"), [(0.95, True), (0.5, False)])
async def test_the_endpoint_judges_what_words_do_not_decide(
    database: Database, model: ScriptedModel, chance: float, thinks: bool
):
    harness = TurnHarness(
        database, model, [search], thinking="auto", preflight_result=PreflightResult(heavy_chance=chance)
    )
    model.script = [OK]
    await say(harness, model, UNREADABLE)
    [preflight_request] = harness.preflight_requests
    assert preflight_request.needs_heavy_chance
    assert not preflight_request.needs_token_count
    [(is_thinking, reason)] = await harness.load_rows(turns, "thinking", "thinking_why")
    assert is_thinking is thinks
    assert re.fullmatch(rf"in doubt: heavy by its words \d+%, by the endpoint {chance:.0%}", reason)


async def test_what_was_decided_holds_for_a_turn_that_is_resumed_while_thinking_has_become_slow(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(
        database, model, [search], thinking="auto", preflight_result=PreflightResult(heavy_chance=0.87)
    )
    request = await harness.new_request(UNREADABLE)
    model.script = [hang_forever]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(harness.build_runner().run(request))
        await model.was_called.wait()
        running.cancel()
    for _ in range(MIN_THOUGHTS):
        await UsageRows(database).add_call(99, thinking=True, reasoning_tokens=2000)
    model.script = [OK, OK]
    await harness.build_runner().run(await harness.restart(UNREADABLE))
    assert len(harness.preflight_requests) == 1
    await say(harness, model, UNREADABLE)
    assert [request.thinking for request in model.requests] == [True, True, False]
    [(before, reason), (after, other_reason)] = await harness.load_rows(turns, "thinking", "thinking_why")
    assert (before, after) == (True, False)
    assert reason.endswith(", by the endpoint 87%")
    assert other_reason == f"{reason}; thinking is slow here: about 2000 tokens, 11.7 s"


async def test_a_cut_stays_where_it_was_when_the_turn_it_names_is_replaced(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [OK, OK, OK, OK]
    for text in ("one", "two", "three"):
        await harness.build_runner().run(await harness.new_request(text))
    async with database.transaction() as tx:
        [*_, newest] = await list_past_turns(tx, LANE, 1)
        conversation = await conversations.find(tx, LANE)
        await conversations.store_cut(tx, LANE, replace(conversation, cut=newest.id, shortened=newest.id))
        await retries.mark_replaced(tx, newest.id)
    await harness.build_runner().run(await harness.new_request("three, please"))
    system, older_left, user = model.requests[-1].messages
    assert (system.role, user.role) == ("system", "user")
    assert OLDER_LEFT in older_left.text


async def test_a_stamp_is_in_the_zone_of_its_time_and_a_later_zone_changes_no_earlier_one(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [OK, OK, OK]
    moment = datetime(2036, 7, 1, 20, 30, tzinfo=UTC).timestamp()
    for hours, zone in enumerate((None, "Europe/Berlin", "Asia/Tokyo")):
        async with database.transaction() as tx:
            await people.put(tx, 7, "Ann", "member", now=1.0)
            if zone is not None:
                await people.set_time_zone(tx, 7, zone)
        request = await harness.new_request("hello")
        await harness.build_runner().run(replace(request, sent_at=(moment + 3600 * hours,)))
    _, *messages = model.requests[-1].messages
    assert [message.text for message in messages if message.role == "user"] == [
        "[Tue 2036-07-01 20:30 UTC] hello",
        "[Tue 2036-07-01 23:30 CEST] hello",
        "[Wed 2036-07-02 07:30 JST] hello",
    ]
    assert messages[:2] == list(model.requests[-2].messages[1:3])

"""A turn over a real database: what is stored of it, however it is interrupted, and how it resumes."""

import asyncio

import pytest

from bot.db import retry
from bot.db.engine import Database
from bot.db.queues import stop_requests
from bot.db.tables import messages, model_calls, tool_calls, turns
from bot.domain import Reply
from bot.errors import EndpointAway, EndpointRefused, PromptTooLong
from bot.turns import model_caller, seat_queue
from bot.turns.tool_executor import INTERRUPTED, NOT_RUN, UNKNOWN
from tests.support.flaky_database import FlakyDatabase
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tools.base import Tool, ToolContext, tool

TOO_LONG = PromptTooLong("too long", make_reply())
AWAY = EndpointAway("The endpoint cannot be reached.", make_reply())


@tool(repeatable=True)
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def press(context: ToolContext) -> str:
    """Press the button."""
    return f"pressed {context.call_id}"


def make_hanging_tool(has_begun: asyncio.Event, *, repeatable: bool = False) -> Tool:
    @tool(repeatable=repeatable)
    async def hang() -> str:
        """Take for ever."""
        has_begun.set()
        await asyncio.Event().wait()
        return ""

    return hang


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(seat_queue, "SEAT_NOTICE_SECONDS", 0.01)


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


async def kill(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def test_a_stop_during_tools_ends_the_turn_and_no_call_is_invented(
    database: Database, model: ScriptedModel
):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, model, [make_hanging_tool(has_begun), press])
    model.script = [make_reply("", make_call("hang", id="a"), make_call("press", id="b"))]
    runner = harness.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(await harness.new_request("go")))
        await has_begun.wait()
        assert harness.running_turns.stop(LANE)
    assert await harness.load_answers() == ["Stopped."]
    assert await harness.load_rows(model_calls, "outcome") == [("ok",)]
    assert await harness.load_rows(tool_calls, "call_id", "outcome", "result") == [
        ("a", "interrupted", INTERRUPTED),
        ("b", "ok", "pressed b"),
    ]
    assert await harness.load_rows(turns, "ending", "state") == [("stopped", "ended")]


async def test_tools_called_after_a_stop_are_not_run_and_their_results_say_so(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [press])
    runner = harness.build_runner()

    async def reply_after_stop() -> Reply:
        asyncio.get_running_loop().call_soon(harness.running_turns.stop, LANE)
        return make_reply("", make_call("press"))

    model.script = [reply_after_stop]
    await runner.run(await harness.new_request("go"))
    assert await harness.load_rows(tool_calls, "outcome", "result") == [("interrupted", NOT_RUN)]
    assert await harness.load_answers() == ["Stopped."]


async def test_a_turn_out_of_time_in_its_tools_answers_with_what_was_found(
    database: Database, model: ScriptedModel
):
    @tool
    async def use_up_time() -> str:
        """Take for ever, once the other tool has its result."""
        while ("look", "ok") not in await harness.load_rows(tool_calls, "name", "outcome"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        harness.running_turns._handles[LANE].prolong(-3600.0)
        await asyncio.Event().wait()
        return ""

    harness = TurnHarness(database, model, [look, use_up_time], turn_seconds=3600.0)
    model.script = [make_reply("", make_call("look", id="a"), make_call("use_up_time", id="b"))]
    await harness.build_runner().run(await harness.new_request("go"))
    [answer] = await harness.load_answers()
    assert "I ran out of time" in answer
    assert "seen" in answer
    assert await harness.load_rows(model_calls, "outcome") == [("ok",)]


async def test_a_stop_before_the_turn_has_begun_asks_the_model_nothing(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    request = await harness.new_request("go")
    async with database.transaction() as tx:
        assert (await stop_requests.stop(tx, LANE, before=99, now=0.0)).running
    await harness.build_runner().run(request)
    assert await harness.load_answers() == ["Stopped."]
    assert model.requests == []
    assert await harness.load_rows(model_calls, "id") == []


async def test_a_stop_for_a_later_item_leaves_the_turn_alone(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    runner = harness.build_runner()
    assert not harness.running_turns.stop(LANE)
    model.script = [hang_forever]
    async with asyncio.TaskGroup() as tasks:
        request = await harness.new_request("one", "two")
        tasks.create_task(runner.run(request))
        await model.was_called.wait()
        assert not harness.running_turns.stop(LANE, request.items[-1].id)
        assert harness.running_turns.stop(LANE, request.items[-1].id + 1)
    assert await harness.load_answers() == ["so far\n\n_Stopped._"]
    assert await harness.load_rows(model_calls, "outcome", "completion_tokens") == [("cancelled", 5)]


async def test_a_reply_is_kept_while_the_disk_is_full_and_not_requested_again(
    database: Database, model: ScriptedModel
):
    flaky = FlakyDatabase(database)

    @tool
    async def press_and_fill() -> str:
        """Press it."""
        flaky.refusals_left = 2
        return "pressed"

    async def reply_then_fill() -> Reply:
        flaky.refusals_left = 2
        return make_reply("", make_call("press_and_fill"))

    harness = TurnHarness(flaky, model, [press_and_fill])
    model.script = [reply_then_fill, make_reply("It is done.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["It is done."]
    assert await harness.load_rows(model_calls, "outcome", "completion_tokens") == [("ok", 5), ("ok", 5)]
    assert await harness.load_rows(tool_calls, "outcome", "result") == [("ok", "pressed")]
    assert flaky.refused_count == 4
    assert len(model.requests) == 2


async def test_a_full_disk_while_the_endpoint_is_away_loses_nothing(database: Database, model: ScriptedModel):
    flaky = FlakyDatabase(database)
    harness = TurnHarness(flaky, model)

    async def away() -> Reply:
        flaky.refusals_left = 3
        raise AWAY

    model.script = [away, make_reply("Here.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["Here."]
    assert await harness.load_rows(model_calls, "outcome", "again") == [("failed", None), ("ok", "away")]


async def test_what_a_call_used_is_stored_when_the_gateway_shuts_down_during_it(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [hang_forever]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await model.was_called.wait()
        await kill(task)
    rows = await harness.load_rows(model_calls, "outcome", "completion_tokens", "error")
    assert rows == [("cancelled", 5, "the gateway was stopped")]
    model.script = [make_reply("Again.")]
    await harness.build_runner().run(await harness.restart("go"))
    assert await harness.load_answers() == ["Again."]


@pytest.mark.parametrize("full", [True, False])
async def test_a_shutdown_is_not_delayed_by_a_database_that_cannot_be_written(
    database: Database, model: ScriptedModel, full: bool
):
    flaky = FlakyDatabase(database)
    harness = TurnHarness(flaky, model, shutdown_seconds=0.5)
    model.script = [hang_forever]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await model.was_called.wait()
        flaky.full = full
        if full:
            await kill(task)
        else:
            async with database.transaction():
                await kill(task)
    assert await harness.load_rows(model_calls, "outcome") == [(None,)]


async def test_a_tool_whose_outcome_is_unknown_is_not_run_again_and_its_row_is_closed(
    database: Database, model: ScriptedModel
):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, model, [make_hanging_tool(has_begun)])
    model.script = [make_reply("", make_call("hang"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await has_begun.wait()
        await kill(task)
    has_begun.clear()
    model.script = [make_reply("I do not know.")]
    await harness.build_runner().run(await harness.restart("go"))
    assert not has_begun.is_set()
    assert await harness.load_answers() == ["I do not know."]
    assert await harness.load_rows(tool_calls, "state", "outcome", "result") == [("done", "unknown", UNKNOWN)]


async def test_a_repeatable_tool_is_run_again_after_a_crash(database: Database, model: ScriptedModel):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, model, [make_hanging_tool(has_begun, repeatable=True)])
    model.script = [make_reply("", make_call("hang"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await has_begun.wait()
        await kill(task)

    @tool(repeatable=True)
    async def hang() -> str:
        """Take for ever."""
        return "at last"

    harness.tools = [hang]
    model.script = [make_reply("There.")]
    await harness.build_runner().run(await harness.restart("go"))
    assert await harness.load_rows(tool_calls, "outcome", "result") == [("ok", "at last")]
    assert [role for [role] in await harness.load_rows(messages, "role")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_a_turn_whose_tool_is_gone_after_a_restart_continues_with_complete_messages(
    database: Database, model: ScriptedModel
):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, model, [press, make_hanging_tool(has_begun)])
    model.script = [make_reply("", make_call("press", id="a")), make_reply("", make_call("hang", id="b"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await has_begun.wait()
        await kill(task)
    harness.tools = [press]
    model.script = [make_reply("Without it.")]
    await harness.build_runner().run(await harness.restart("go"))
    assert await harness.load_answers() == ["Without it."]
    assert await harness.load_rows(tool_calls, "call_id", "outcome") == [("a", "ok"), ("b", "unknown")]
    stored_messages = await harness.load_rows(messages, "role", "call_id")
    assert stored_messages == [
        ("user", None),
        *[("assistant", None), ("tool", "a")],
        *[("assistant", None), ("tool", "b")],
        ("assistant", None),
    ]
    assert [message.call_id for message in model.requests[-1].messages if message.role == "tool"] == [
        "a",
        "b",
    ]


async def test_fewer_steps_after_a_restart_end_the_turn_with_an_answer_in_its_messages(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [look])
    model.script = [
        make_reply("", make_call("look", id="a")),
        make_reply("", make_call("look", id="b")),
        hang_forever,
    ]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        while len(model.requests) < 3:
            model.was_called.clear()
            await model.was_called.wait()
        await kill(task)
    harness.max_steps = 1
    await harness.build_runner().run(await harness.restart("go"))
    [answer] = await harness.load_answers()
    stored_messages = await harness.load_rows(messages, "role", "text")
    assert stored_messages[-1][0] == "assistant"
    assert stored_messages[-1][1]
    assert answer


async def test_a_prompt_too_long_is_built_again_smaller_and_each_attempt_has_its_row(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [look])
    model.script = [make_reply("", make_call("look")), TOO_LONG, make_reply("Short.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["Short."]
    assert await harness.load_rows(model_calls, "step", "outcome") == [(1, "ok"), (2, "failed"), (2, "ok")]
    assert len(await harness.load_rows(messages, "id")) == 4
    assert len(await harness.load_rows(tool_calls, "id")) == 1


async def test_a_smaller_prompt_still_holds_the_results_of_tools(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, [look], prompt_budget=1000)
    model.script = [make_reply("", make_call("look")), TOO_LONG, make_reply("Short.")]
    await harness.build_runner().run(await harness.new_request("word " * 400))
    assert [message.role for message in model.requests[-1].messages[-3:]] == ["assistant", "tool", "user"]
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert await harness.load_rows(messages, "role") == [("user",), ("assistant",), ("tool",), ("assistant",)]


async def test_a_prompt_that_never_fits_ends_with_an_answer_that_says_so(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [TOO_LONG, TOO_LONG, TOO_LONG]
    await harness.build_runner().run(await harness.new_request("go"))
    assert "longer than I can read" in (await harness.load_answers())[0]
    assert await harness.load_rows(model_calls, "outcome") == [("failed",)] * 3
    assert harness.admin_notices == []


async def test_a_status_line_is_removed_while_tools_run(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, [look])
    model.script = [AWAY, AWAY, make_reply("", make_call("look")), make_reply("Seen.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert harness.channel.status_lines[-1] is None
    assert any("not answering" in (line or "") for line in harness.channel.status_lines)
    assert harness.admin_notices == [
        "The model server is not answering: The endpoint cannot be reached.",
        "The model server answers again.",
    ]


async def test_admins_are_notified_once_that_the_endpoint_is_away(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, patience_seconds=0.1)
    other_failure = EndpointAway("The endpoint cut the connection.", make_reply())
    model.script = [AWAY, AWAY, *[other_failure, AWAY] * 20]
    await harness.build_runner().run(await harness.new_request("go"))
    assert "still not answering" in (await harness.load_answers())[0]
    assert harness.admin_notices == ["The model server is not answering: The endpoint cannot be reached."]


async def test_a_stop_while_the_endpoint_is_away_ends_the_waiting(
    database: Database, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.01, 60.0))
    harness = TurnHarness(database, model)
    model.script = [AWAY, AWAY]
    runner = harness.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(await harness.new_request("go")))
        await harness.channel.status_shown.wait()
        assert harness.running_turns.stop(LANE)
    assert await harness.load_answers() == ["Stopped."]
    assert await harness.load_rows(model_calls, "outcome") == [("failed",), ("failed",)]


async def test_time_used_up_by_failing_calls_ends_the_turn_without_another_one(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, turn_seconds=0.05)

    async def fail_slowly() -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            raise AWAY
        raise AssertionError

    model.script = [fail_slowly]
    await harness.build_runner().run(await harness.new_request("go"))
    assert "I ran out of time" in (await harness.load_answers())[0]
    assert len(model.requests) == 1


async def test_a_refusal_ends_the_turn_at_once_and_admins_are_notified_of_the_reason(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [EndpointRefused("It does not like this.", make_reply())]
    await harness.build_runner().run(await harness.new_request("go"))
    assert "refused my request" in (await harness.load_answers())[0]
    assert harness.admin_notices == ["The model server refused a request: It does not like this."]


async def test_the_place_in_the_queue_is_updated_and_removed(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    has_left_queue = asyncio.Event()

    async def queue() -> None:
        await model.was_asked_for_place.wait()  # before the queue of several replicas has the call
        model.calls_before = 2
        while not any("2 requests" in (line or "") for line in harness.channel.status_lines):
            harness.channel.status_shown.clear()
            await harness.channel.status_shown.wait()
        model.calls_before = 0
        while "You're next in line." not in harness.channel.status_lines:
            harness.channel.status_shown.clear()
            await harness.channel.status_shown.wait()
        model.calls_before = None
        has_left_queue.set()

    model.wait_for_seat = queue
    model.script = [make_reply("Here.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert has_left_queue.is_set()
    assert harness.channel.status_lines[-1] is None


async def test_a_stop_in_the_queue_for_a_seat_ends_the_waiting(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)

    async def queue() -> None:
        model.calls_before = 3
        await asyncio.Event().wait()

    model.wait_for_seat = queue
    runner = harness.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(await harness.new_request("go")))
        await harness.channel.status_shown.wait()
        assert harness.running_turns.stop(LANE)
    assert harness.channel.status_lines[-2:] == ["3 requests are ahead of yours.", None]
    assert await harness.load_rows(turns, "ending") == [("stopped",)]


async def test_a_turn_that_has_ended_is_not_run_again(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    model.script = [make_reply("Once.")]
    request = await harness.new_request("go")
    await harness.build_runner().run(request)
    await harness.build_runner().run(request)
    assert await harness.load_answers() == ["Once."]
    assert len(model.requests) == 1
    assert harness.channel.end_count == 2

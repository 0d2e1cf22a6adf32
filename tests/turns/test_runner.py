"""A turn over a real database: what is stored of it, whatever cuts it, and how it goes on."""

import asyncio

import pytest

from bot.db import retry as patience
from bot.db.engine import Database
from bot.db.queues import stop_requests as stopping
from bot.db.tables import messages, model_calls, tool_calls, turns
from bot.domain import Reply
from bot.errors import EndpointAway, EndpointRefused, PromptTooLong
from bot.turns import model_caller as asking
from bot.turns.tool_executor import INTERRUPTED, NOT_RUN, UNKNOWN
from tests.queue.test_worker import FlakyDatabase
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


def hanging(began: asyncio.Event, *, repeatable: bool = False) -> Tool:
    @tool(repeatable=repeatable)
    async def hang() -> str:
        """Take for ever."""
        began.set()
        await asyncio.Event().wait()
        return ""

    return hang


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(asking, "BACKOFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(asking, "SEAT_NOTICE_SECONDS", 0.01)


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


async def killed(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def test_a_stop_during_tools_ends_the_turn_and_no_call_is_invented(
    database: Database, model: ScriptedModel
):
    began = asyncio.Event()
    desk = TurnHarness(database, model, [hanging(began), press])
    model.script = [make_reply("", make_call("hang", id="a"), make_call("press", id="b"))]
    turns_ = desk.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(turns_.run(await desk.new_request("go")))
        await began.wait()
        assert turns_.stop(LANE)
    assert await desk.load_answers() == ["Stopped."]
    assert await desk.load_rows(model_calls, "outcome") == [("ok",)]
    assert await desk.load_rows(tool_calls, "call_id", "outcome", "result") == [
        ("a", "interrupted", INTERRUPTED),
        ("b", "ok", "pressed b"),
    ]
    assert await desk.load_rows(turns, "ending", "state") == [("stopped", "ended")]


async def test_tools_wanted_after_a_stop_are_not_run_and_said_to_be_so(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model, [press])
    turns_ = desk.build_runner()

    async def stopped_meanwhile() -> Reply:
        asyncio.get_running_loop().call_soon(turns_.stop, LANE)
        return make_reply("", make_call("press"))

    model.script = [stopped_meanwhile]
    await turns_.run(await desk.new_request("go"))
    assert await desk.load_rows(tool_calls, "outcome", "result") == [("interrupted", NOT_RUN)]
    assert await desk.load_answers() == ["Stopped."]


async def test_a_turn_out_of_time_in_its_tools_says_what_was_found(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model, [look, hanging(asyncio.Event())], turn_seconds=0.1)
    model.script = [make_reply("", make_call("look", id="a"), make_call("hang", id="b"))]
    await desk.build_runner().run(await desk.new_request("go"))
    [answer] = await desk.load_answers()
    assert "time for this answer was up" in answer
    assert "seen" in answer
    assert await desk.load_rows(model_calls, "outcome") == [("ok",)]


async def test_a_stop_before_the_turn_has_begun_asks_the_model_nothing(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model)
    ask = await desk.new_request("go")
    async with database.transaction() as tx:
        assert (await stopping.stop(tx, LANE, before=99, now=0.0)).running
    await desk.build_runner().run(ask)
    assert (await desk.load_answers(), model.requests) == (["Stopped."], [])
    assert await desk.load_rows(model_calls, "id") == []


async def test_a_stop_for_a_later_item_leaves_the_turn_alone(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)
    turns_ = desk.build_runner()
    assert not turns_.stop(LANE)
    model.script = [hang_forever]
    async with asyncio.TaskGroup() as tasks:
        ask = await desk.new_request("one", "two")
        tasks.create_task(turns_.run(ask))
        await model.was_called.wait()
        assert not turns_.stop(LANE, ask.items[-1].id)
        assert turns_.stop(LANE, ask.items[-1].id + 1)
    assert await desk.load_answers() == ["so far\n\n_Stopped._"]
    assert await desk.load_rows(model_calls, "outcome", "completion_tokens") == [("cancelled", 5)]


async def test_a_reply_is_held_while_the_disk_is_full_and_not_asked_for_again(
    database: Database, model: ScriptedModel
):
    flaky = FlakyDatabase(database)

    def full_for_a_moment() -> None:
        flaky.full = True
        asyncio.get_running_loop().call_later(0.05, setattr, flaky, "full", False)

    @tool
    async def press_and_fill() -> str:
        """Press it."""
        full_for_a_moment()
        return "pressed"

    async def wanted() -> Reply:
        full_for_a_moment()
        return make_reply("", make_call("press_and_fill"))

    desk = TurnHarness(flaky, model, [press_and_fill])
    model.script = [wanted, make_reply("It is done.")]
    await desk.build_runner().run(await desk.new_request("go"))
    assert await desk.load_answers() == ["It is done."]
    assert await desk.load_rows(model_calls, "outcome", "completion_tokens") == [("ok", 5), ("ok", 5)]
    assert await desk.load_rows(tool_calls, "outcome", "result") == [("ok", "pressed")]
    assert flaky.refused_count >= 2
    assert len(model.requests) == 2


async def test_a_full_disk_while_the_endpoint_is_away_loses_nothing(database: Database, model: ScriptedModel):
    flaky = FlakyDatabase(database)
    desk = TurnHarness(flaky, model)

    async def away() -> Reply:
        flaky.full = True
        asyncio.get_running_loop().call_later(0.05, setattr, flaky, "full", False)
        raise AWAY

    model.script = [away, make_reply("Here.")]
    await desk.build_runner().run(await desk.new_request("go"))
    assert await desk.load_answers() == ["Here."]
    assert await desk.load_rows(model_calls, "outcome", "again") == [("failed", None), ("ok", "away")]


@pytest.mark.usefixtures("unhurried")
async def test_what_a_call_took_is_kept_when_the_house_goes_down_under_it(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model)
    model.script = [hang_forever]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await model.was_called.wait()
        await killed(task)
    rows = await desk.load_rows(model_calls, "outcome", "completion_tokens", "error")
    assert rows == [("cancelled", 5, "the gateway was stopped")]
    model.script = [make_reply("Again.")]
    await desk.build_runner().run(await desk.restart("go"))
    assert await desk.load_answers() == ["Again."]


@pytest.mark.parametrize("full", [True, False])
async def test_going_down_is_not_held_up_by_a_database_that_cannot_be_written(
    database: Database, model: ScriptedModel, full: bool
):
    flaky = FlakyDatabase(database)
    desk = TurnHarness(flaky, model)
    model.script = [hang_forever]
    async with asyncio.timeout(30.0), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await model.was_called.wait()
        flaky.full = full
        if full:
            await killed(task)
        else:
            async with database._write_lock:
                await killed(task)
    assert await desk.load_rows(model_calls, "outcome") == [(None,)]


async def test_a_tool_whose_end_nobody_saw_is_not_run_again_and_its_row_is_closed(
    database: Database, model: ScriptedModel
):
    began = asyncio.Event()
    desk = TurnHarness(database, model, [hanging(began)])
    model.script = [make_reply("", make_call("hang"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await began.wait()
        await killed(task)
    began.clear()
    model.script = [make_reply("I do not know.")]
    await desk.build_runner().run(await desk.restart("go"))
    assert not began.is_set()
    assert await desk.load_answers() == ["I do not know."]
    assert await desk.load_rows(tool_calls, "state", "outcome", "result") == [("done", "unknown", UNKNOWN)]


async def test_a_repeatable_tool_is_run_again_after_a_crash(database: Database, model: ScriptedModel):
    began = asyncio.Event()
    desk = TurnHarness(database, model, [hanging(began, repeatable=True)])
    model.script = [make_reply("", make_call("hang"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await began.wait()
        await killed(task)

    @tool(repeatable=True)
    async def hang() -> str:
        """Take for ever."""
        return "at last"

    desk.tools = [hang]
    model.script = [make_reply("There.")]
    await desk.build_runner().run(await desk.restart("go"))
    assert await desk.load_rows(tool_calls, "outcome", "result") == [("ok", "at last")]
    assert [role for [role] in await desk.load_rows(messages, "role")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_a_turn_whose_tool_is_gone_after_a_restart_goes_on_with_whole_messages(
    database: Database, model: ScriptedModel
):
    began = asyncio.Event()
    desk = TurnHarness(database, model, [press, hanging(began)])
    model.script = [make_reply("", make_call("press", id="a")), make_reply("", make_call("hang", id="b"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await began.wait()
        await killed(task)
    desk.tools = [press]
    model.script = [make_reply("Without it.")]
    await desk.build_runner().run(await desk.restart("go"))
    assert await desk.load_answers() == ["Without it."]
    assert await desk.load_rows(tool_calls, "call_id", "outcome") == [("a", "ok"), ("b", "unknown")]
    stored = await desk.load_rows(messages, "role", "call_id")
    assert stored == [
        ("user", None),
        *[("assistant", None), ("tool", "a")],
        *[("assistant", None), ("tool", "b")],
        ("assistant", None),
    ]
    assert [one.call_id for one in model.requests[-1].messages if one.role == "tool"] == ["a", "b"]


async def test_fewer_steps_after_a_restart_end_the_turn_with_an_answer_in_its_messages(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model, [look])
    model.script = [
        make_reply("", make_call("look", id="a")),
        make_reply("", make_call("look", id="b")),
        hang_forever,
    ]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        while len(model.requests) < 3:
            model.was_called.clear()
            await model.was_called.wait()
        await killed(task)
    desk.max_steps = 1
    await desk.build_runner().run(await desk.restart("go"))
    [answer] = await desk.load_answers()
    stored = await desk.load_rows(messages, "role", "text")
    assert stored[-1][0] == "assistant"
    assert stored[-1][1]
    assert answer


async def test_a_prompt_too_long_is_made_again_smaller_and_each_try_has_its_row(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model, [look])
    model.script = [make_reply("", make_call("look")), TOO_LONG, make_reply("Short.")]
    await desk.build_runner().run(await desk.new_request("go"))
    assert await desk.load_answers() == ["Short."]
    assert await desk.load_rows(model_calls, "step", "outcome") == [(1, "ok"), (2, "failed"), (2, "ok")]
    assert len(await desk.load_rows(messages, "id")) == 4
    assert len(await desk.load_rows(tool_calls, "id")) == 1


async def test_a_smaller_prompt_still_tells_what_the_tools_have_found(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model, [look], prompt_budget=1000)
    model.script = [make_reply("", make_call("look")), TOO_LONG, make_reply("Short.")]
    await desk.build_runner().run(await desk.new_request("word " * 400))
    assert [message.role for message in model.requests[-1].messages[-3:]] == ["assistant", "tool", "user"]
    assert [one.tool_choice for one in model.requests] == ["auto", "auto", "none"]
    assert await desk.load_rows(messages, "role") == [("user",), ("assistant",), ("tool",), ("assistant",)]


async def test_a_prompt_that_never_fits_is_said_to_be_too_long(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)
    model.script = [TOO_LONG, TOO_LONG, TOO_LONG]
    await desk.build_runner().run(await desk.new_request("go"))
    assert "longer than the model can read" in (await desk.load_answers())[0]
    assert await desk.load_rows(model_calls, "outcome") == [("failed",)] * 3
    assert desk.admin_notices == []


async def test_a_line_about_waiting_does_not_stay_while_tools_run(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model, [look])
    model.script = [AWAY, AWAY, make_reply("", make_call("look")), make_reply("Seen.")]
    await desk.build_runner().run(await desk.new_request("go"))
    assert desk.channel.status_lines[-1] is None
    assert any("not answering" in (line or "") for line in desk.channel.status_lines)
    assert desk.admin_notices == [
        "The model endpoint is not answering: The endpoint cannot be reached.",
        "The model endpoint answers again.",
    ]


async def test_admins_hear_once_that_the_endpoint_is_away(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model, patience_seconds=0.1)
    other = EndpointAway("The endpoint cut the connection.", make_reply())
    model.script = [AWAY, AWAY, *[other, AWAY] * 20]
    await desk.build_runner().run(await desk.new_request("go"))
    assert "did not answer" in (await desk.load_answers())[0]
    assert desk.admin_notices == ["The model endpoint is not answering: The endpoint cannot be reached."]


async def test_a_stop_while_the_endpoint_is_away_ends_the_waiting(
    database: Database, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(asking, "BACKOFF_SECONDS", (0.01, 60.0))
    desk = TurnHarness(database, model)
    model.script = [AWAY, AWAY]
    turns_ = desk.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(turns_.run(await desk.new_request("go")))
        await desk.channel.status_shown.wait()
        assert turns_.stop(LANE)
    assert await desk.load_answers() == ["Stopped."]
    assert await desk.load_rows(model_calls, "outcome") == [("failed",), ("failed",)]


async def test_time_used_up_by_failing_calls_ends_the_turn_without_another_one(
    database: Database, model: ScriptedModel
):
    desk = TurnHarness(database, model, turn_seconds=0.05)

    async def slow_death() -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            raise AWAY
        raise AssertionError

    model.script = [slow_death]
    await desk.build_runner().run(await desk.new_request("go"))
    assert "time for this answer was up" in (await desk.load_answers())[0]
    assert len(model.requests) == 1


async def test_a_refusal_is_said_at_once_and_admins_hear_why(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)
    model.script = [EndpointRefused("It does not like this.", make_reply())]
    await desk.build_runner().run(await desk.new_request("go"))
    assert "refused my request" in (await desk.load_answers())[0]
    assert desk.admin_notices == ["The model endpoint refused a request: It does not like this."]


async def test_a_place_in_the_queue_is_told_again_and_left(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)
    moved = asyncio.Event()

    async def queue() -> None:
        model.calls_before = 2
        while not any("2 before" in (line or "") for line in desk.channel.status_lines):
            desk.channel.status_shown.clear()
            await desk.channel.status_shown.wait()
        model.calls_before = 0
        while "Waiting for a free seat; you are next." not in desk.channel.status_lines:
            desk.channel.status_shown.clear()
            await desk.channel.status_shown.wait()
        model.calls_before = None
        moved.set()

    model.wait_for_seat, model.script = queue, [make_reply("Here.")]
    await desk.build_runner().run(await desk.new_request("go"))
    assert moved.is_set()
    assert desk.channel.status_lines[-1] is None


async def test_a_stop_in_the_queue_for_a_seat_ends_the_waiting(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)

    async def queue() -> None:
        model.calls_before = 3
        await asyncio.Event().wait()

    model.wait_for_seat = queue
    turns_ = desk.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(turns_.run(await desk.new_request("go")))
        await desk.channel.status_shown.wait()
        assert turns_.stop(LANE)
    assert desk.channel.status_lines[-2:] == ["Waiting for a free seat; 3 before you.", None]
    assert await desk.load_rows(turns, "ending") == [("stopped",)]


async def test_a_turn_that_had_ended_is_not_played_again(database: Database, model: ScriptedModel):
    desk = TurnHarness(database, model)
    model.script = [make_reply("Once.")]
    ask = await desk.new_request("go")
    await desk.build_runner().run(ask)
    await desk.build_runner().run(ask)
    assert await desk.load_answers() == ["Once."]
    assert len(model.requests) == 1
    assert desk.channel.end_count == 2

"""The model calls of a turn over a real database: thinking and its brake, continued answers, ledger rows."""

import asyncio
import json
from dataclasses import replace

import pytest

from bot.db.conversations import notes
from bot.db.engine import Database
from bot.db.tables import messages, model_calls, outbox, turns
from bot.domain import TASKS_PRIORITY, Attachment, Message, Reply, ToolCall, Usage
from bot.errors import CallFailed, EndpointAway, EndpointRefused, PromptTooLong
from bot.turns import model_caller
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, hang_forever, make_call, make_reply
from tests.turns.test_execution import look
from tools.base import tool

NOTE = "_I've reached the limit for one answer._"


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.01, 0.02))


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


def cut_reply(text: str, tokens: int = 256) -> Reply:
    """A reply that ended at its limit after so many tokens."""
    return replace(make_reply(text, finish_reason="length"), usage=Usage(100, 0, tokens, 0))


def braked_reply(*calls: ToolCall) -> Reply:
    """A reply that our side closed, for it only thought."""
    usage = Usage(100, None, 1024, None, partial=True)
    return replace(make_reply("", *calls, finish_reason="brake"), reasoning="hm, hm", usage=usage)


async def kill_at_call(harness: TurnHarness, number: int, *texts: str) -> None:
    """Run a turn until its call of this number is made, and kill it there."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request(*texts)))
        while len(harness.model.requests) < number:
            harness.model.was_called.clear()
            await harness.model.was_called.wait()
        task.cancel()
        await asyncio.wait([task])


async def load_buttons(harness: TurnHarness) -> list[list[list[dict[str, str]]]]:
    """The rows of buttons of every final message."""
    return [json.loads(body).get("buttons") or [] for [body] in await harness.load_rows(outbox, "body")]


async def test_a_thinking_turn_has_a_brake_and_more_tokens_and_its_rows_say_so(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, [look], thinking="on")
    model.script = [make_reply("", make_call("look")), make_reply("Seen.")]
    await harness.build_runner().run(await harness.new_request("go"))
    limits = [
        (request.thinking, request.max_thinking_tokens, request.max_tokens) for request in model.requests
    ]
    assert limits == [(True, 1024, 1280)] * 2
    assert await harness.load_rows(model_calls, "thinking", "again") == [(True, None), (True, None)]


async def test_a_braked_call_has_its_row_and_the_turn_continues_without_thinking(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model, thinking="on")
    model.script = [braked_reply(), make_reply("Here.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["Here."]
    rows = await harness.load_rows(
        model_calls, "thinking", "again", "outcome", "finish_reason", "completion_tokens", "error"
    )
    assert rows == [
        (True, None, "cut", "brake", 1024, "it thought too long without an answer"),
        (False, "brake", "ok", "stop", 5, None),
    ]
    assert [bool(partial) for [partial] in await harness.load_rows(model_calls, "usage_partial")] == [
        True,
        False,
    ]
    assert model.requests[0].messages == model.requests[1].messages


async def test_after_a_crash_a_braked_turn_does_not_think_again(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model, [look], thinking="on")
    model.script = [make_reply("", make_call("look")), braked_reply(), hang_forever]
    await kill_at_call(harness, 3, "go")
    model.script = [make_reply("Here.")]
    await harness.build_runner().run(await harness.restart("go"))
    assert [request.thinking for request in model.requests] == [True, True, False, False]
    assert model.requests[3] == model.requests[2]
    assert [again for [again] in await harness.load_rows(model_calls, "again")] == [
        None,
        None,
        "brake",
        "restart",
    ]


async def test_two_empty_replies_switch_thinking_on_unless_the_chat_has_it_off(
    database: Database, model: ScriptedModel
):
    model.script = [make_reply(), make_reply(), make_reply("Here.")]
    harness = TurnHarness(database, model, thinking="auto")
    await harness.build_runner().run(await harness.new_request("hello there"))
    assert await harness.load_rows(model_calls, "again", "thinking") == [
        (None, False),
        ("empty", False),
        ("silent", True),
    ]
    model.script = [make_reply(), make_reply()]
    harness = TurnHarness(database, model, thinking="off")
    await harness.build_runner().run(await harness.new_request("hello there"))
    assert (await harness.load_rows(model_calls, "again", "thinking"))[3:] == [
        (None, False),
        ("empty", False),
    ]


async def test_a_continued_answer_is_one_message_and_has_a_row_for_each_call(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("The wea"), make_reply("ther is fine.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["The weather is fine."]
    assert harness.channel.snapshots == ["The wea"]
    assert await load_buttons(harness) == [[]]
    first, more = model.requests
    assert (first.continue_final_message, more.continue_final_message, more.max_tokens) == (False, True, 256)
    assert more.messages == (*first.messages, Message("assistant", "The wea"))
    assert await harness.load_rows(model_calls, "step", "again", "outcome") == [
        (1, None, "ok"),
        (2, "more", "ok"),
    ]
    assert [text for [text] in await harness.load_rows(messages, "text")][1:] == ["The weather is fine."]


async def test_an_answer_is_not_continued_while_others_wait_and_gets_a_button(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)

    async def crowd() -> Reply:
        model.calls_before = 1
        return cut_reply("The wea")

    model.script = [crowd]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == [f"The wea\n\n{NOTE}"]
    [[turn, ending]] = await harness.load_rows(turns, "id", "ending")
    assert ending == "cut"
    [[row]] = await load_buttons(harness)
    assert [(button["label"], button["data"]) for button in row] == [("Continue", f"more:{turn}")]
    assert len(model.requests) == 1
    assert await harness.load_rows(model_calls, "outcome") == [("ok",)]


@pytest.mark.parametrize(
    "failure",
    [EndpointRefused("It cannot.", make_reply("ther")), PromptTooLong("too long", make_reply("ther"))],
)
async def test_an_answer_the_endpoint_does_not_continue_is_kept(
    database: Database, model: ScriptedModel, failure: CallFailed
):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("The wea"), failure]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == [f"The weather\n\n{NOTE}"]
    assert len((await load_buttons(harness))[0]) == 1
    assert await harness.load_rows(model_calls, "outcome") == [("ok",), ("failed",)]
    assert await harness.load_rows(turns, "ending") == [("cut",)]


async def test_an_answer_is_continued_when_an_endpoint_that_was_away_is_back(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("The wea"), EndpointAway("away", make_reply("th")), make_reply("ther.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == ["The weather."]
    assert [again for [again] in await harness.load_rows(model_calls, "again")] == [None, "more", "away"]


async def test_an_answer_does_not_wait_long_to_be_continued(database: Database, model: ScriptedModel):
    """After two attempts the user has what is there, with a button for the rest."""
    harness = TurnHarness(database, model, patience_seconds=3600)
    model.script = [
        cut_reply("The wea"),
        EndpointAway("away", make_reply("th")),
        EndpointAway("away", make_reply("ther")),
    ]
    await harness.build_runner().run(await harness.new_request("go"))
    assert await harness.load_answers() == [f"The weather\n\n{NOTE}"]
    assert len((await load_buttons(harness))[0]) == 1
    assert await harness.load_rows(model_calls, "again", "outcome") == [
        (None, "ok"),
        ("more", "failed"),
        ("away", "failed"),
    ]
    assert harness.admin_notices == ["The model server is not answering: away"]


async def test_a_stop_while_an_answer_is_continued_keeps_all_of_it(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("The wea"), hang_forever]
    runner = harness.build_runner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(await harness.new_request("go")))
        while len(model.requests) < 2:
            model.was_called.clear()
            await model.was_called.wait()
        assert harness.running_turns.stop(LANE)
    assert await harness.load_answers() == ["The weaso far\n\n_Stopped._"]


async def test_after_a_crash_an_answer_is_continued_from_what_is_stored_and_within_its_canvases(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("a", 1024), cut_reply("b", 768), hang_forever]
    await kill_at_call(harness, 3, "go")
    model.script = [make_reply("c")]
    await harness.build_runner().run(await harness.restart("go"))
    assert await harness.load_answers() == ["abc"]
    assert model.requests[3] == model.requests[2]
    assert (model.requests[2].max_tokens, model.requests[2].messages[-1].text) == (256, "ab")
    assert await harness.load_rows(model_calls, "step", "again") == [
        (1, None),
        (2, "more"),
        (3, "more"),
        (3, "restart"),
    ]


async def test_after_a_crash_an_answer_ends_with_what_was_shown_if_others_wait_now(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script = [cut_reply("The wea"), hang_forever]
    await kill_at_call(harness, 2, "go")
    model.calls_before = 1
    await harness.build_runner().run(await harness.restart("go"))
    assert await harness.load_answers() == [f"The weaso far\n\n{NOTE}"]
    assert len(model.requests) == 2
    assert [outcome for [outcome] in await harness.load_rows(model_calls, "outcome")] == ["ok", "cancelled"]


async def test_calls_have_the_priority_of_their_request(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    model.script = [make_reply("a"), make_reply("b")]
    await harness.build_runner().run(await harness.new_request("go"))
    await harness.build_runner().run(replace(await harness.new_request("go"), priority=TASKS_PRIORITY))
    assert [request.priority for request in model.requests] == [0, TASKS_PRIORITY]


async def test_the_ledger_says_what_a_prompt_consists_of(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    async with database.transaction() as tx:
        await notes.add(tx, LANE, "n" * 300, author="Ann", person=7, now=0.0)
    picture = Attachment("image", "cat.jpg", "image/jpeg", data=b"cat")
    model.script = [make_reply("A cat.")]
    await harness.build_runner().run(
        replace(await harness.new_request("What is this? " * 20), attachments=((picture, picture),))
    )
    [[images, notes_chars, history]] = await harness.load_rows(
        model_calls, "images", "chars_notes", "chars_history"
    )
    assert (images, notes_chars) == (2, 303)
    assert history + notes_chars == sum(len(message.text) for message in model.requests[0].messages[1:])


async def test_admins_are_notified_once_that_a_model_cannot_see(database: Database, model: ScriptedModel):
    harness = TurnHarness(database, model)
    picture = Attachment("image", "cat.jpg", "image/jpeg", data=b"cat")
    model.script = [
        EndpointRefused("It is not multimodal.", make_reply()),
        make_reply("No."),
        make_reply("No again."),
    ]
    runner = harness.build_runner()
    for text in ("What is this?", "And now?"):
        await runner.run(replace(await harness.new_request(text), attachments=((picture,),)))
    assert harness.admin_notices == [
        "The model server doesn't take pictures, so I won't send it any until the next start. It said: It "
        "is not multimodal."
    ]
    assert await harness.load_rows(model_calls, "again", "images") == [(None, 1), ("blind", 0), (None, 0)]


async def test_tools_with_long_results_do_not_fill_the_prompt(database: Database, model: ScriptedModel):
    @tool
    async def dig() -> str:
        """Dig."""
        return "earth " * 2000

    harness = TurnHarness(database, model, [dig], prompt_budget=3000)
    model.script = [*(make_reply("", make_call("dig", id=id)) for id in ("a", "b")), make_reply("Deep.")]
    await harness.build_runner().run(await harness.new_request("go"))
    assert (await harness.load_answers())[0] == "Deep."
    [result] = [message for message in model.requests[1].messages if message.role == "tool"]
    assert result.text.endswith("characters left out]")
    assert all(
        sum(len(message.text) for message in request.messages) < 3000 * 4 for request in model.requests
    )


async def test_a_server_that_cuts_every_reply_after_one_canvas_is_named_once(
    database: Database, model: ScriptedModel
):
    harness = TurnHarness(database, model)
    model.script.extend(cut_reply(str(number)) for number in range(5))
    model.script.append(make_reply("."))
    runner = harness.build_runner()
    config = runner._dependencies.config
    runner._dependencies = replace(runner._dependencies, config=replace(config, max_tokens=1024))
    await runner.run(await harness.new_request("go"))
    assert await harness.load_answers() == ["01234."]
    [line] = harness.admin_notices
    assert "--generation-config vllm" in line

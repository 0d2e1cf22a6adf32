"""Pictures that tools found: shown to the model after the result, stored with it, the same after a crash."""

import asyncio
import base64
import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as PillowImage

from bot.db.engine import Database
from bot.db.tables import tool_images
from bot.domain import Image
from bot.sim.gemma.tokens import IMAGE_MARKER
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.gateway import running_gateway
from tests.support.turn_harness import ScriptedModel, TurnHarness, make_call, make_reply
from tools.base import Found, Picture, Tool, ToolError, tool

PNG = Picture("image/png", b"\x89PNG a chart")

CHARTS = '''
import base64

from tools.base import Found, Picture, tool


@tool
async def chart() -> Found:
    """Draw the week."""
    whole = Picture("image/png", base64.b64decode("{png}"))
    return Found("The week.", (whole, Picture("image/png", b"no picture at all")))
'''


async def shrink(picture: Picture) -> Picture:
    if picture != PNG:
        raise ToolError("it is damaged")
    return Picture("image/jpeg", b"\xff\xd8\xff small")


@tool
async def draw() -> Found:
    """Draw the week."""
    return Found("The week.", (PNG, Picture("image/png", b"broken"), PNG))


def make_waiting_tool(has_begun: asyncio.Event) -> Tool:
    @tool
    async def wait() -> str:
        """Wait."""
        has_begun.set()
        await asyncio.Event().wait()
        return ""

    return wait


SEEN = (Image("image/jpeg", b"\xff\xd8\xff small"),) * 2
RESULT_TEXT = "[a picture was left out: it is damaged]\n[2 pictures follow]\nThe week."


async def test_pictures_are_shown_after_the_result_now_and_in_the_next_turn(database: Database):
    harness = TurnHarness(
        database,
        ScriptedModel([make_reply("", make_call("draw")), make_reply("Sunny."), make_reply("Yes.")]),
        [draw],
        see=shrink,
    )
    await harness.build_runner().run(await harness.new_request("draw the week"))
    await harness.build_runner().run(await harness.new_request("sure?"))
    for request in harness.model.requests[1:]:
        [result] = [message for message in request.messages if message.role == "tool"]
        assert (result.text, result.images) == (RESULT_TEXT, SEEN)
    assert await harness.load_answers() == ["Sunny.", "Yes."]


async def test_pictures_of_a_call_that_ended_before_a_crash_are_the_same_after_it(database: Database):
    has_begun = asyncio.Event()
    harness = TurnHarness(database, ScriptedModel(), [draw, make_waiting_tool(has_begun)], see=shrink)
    harness.model.script = [make_reply("", make_call("draw", id="a"), make_call("wait", id="b"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(harness.build_runner().run(await harness.new_request("go")))
        await has_begun.wait()
        while not await harness.load_rows(tool_images, "call_id"):
            pass
        task.cancel()
        await asyncio.wait([task])
    harness.model.script = [make_reply("Here.")]
    await harness.build_runner().run(await harness.restart("go"))
    first, _ = [message for message in harness.model.requests[-1].messages if message.role == "tool"]
    assert (first.text, first.images) == (RESULT_TEXT, SEEN)
    assert await harness.load_answers() == ["Here."]


async def test_pictures_that_do_not_fit_into_the_prompt_are_left_out(database: Database):
    harness = TurnHarness(
        database,
        ScriptedModel([make_reply("", make_call("draw")), make_reply("Sunny.")]),
        [draw],
        see=shrink,
        prompt_budget=400,
    )
    await harness.build_runner().run(await harness.new_request("draw the week"))
    [result] = [message for message in harness.model.requests[1].messages if message.role == "tool"]
    assert result.images == ()
    assert result.text.count("there was no room for it") == 2


@pytest.mark.parametrize("can_see", [True, False])
async def test_a_model_is_shown_what_a_tool_of_tools_dir_drew(tmp_path: Path, can_see: bool):
    png_file = io.BytesIO()
    PillowImage.new("RGB", (2000, 1500), "red").save(png_file, "PNG")
    folder = tmp_path / "tools"
    folder.mkdir(mode=0o700)
    (folder / "charts.py").write_text(CHARTS.format(png=base64.b64encode(png_file.getvalue()).decode()))
    endpoint = ScriptedEndpoint(replace(ServerProfile(), pictures=can_see))
    async with running_gateway(tmp_path, endpoint, tools_dir=str(folder), thinking="off") as gateway:
        gateway.ann.send("@@tool:chart {}@@ @@say:Red all week.@@")
        await gateway.api.wait_until(lambda: "Red all week." in gateway.texts())
    last_request = endpoint.requests[-1]
    assert last_request.prompt.count(IMAGE_MARKER) == int(can_see)
    if can_see:
        assert f"<tool_response|>{IMAGE_MARKER}" in last_request.prompt
        [result] = [message for message in last_request.body["messages"] if message["role"] == "tool"]
        kinds = [part["type"] for part in result["content"]]
        assert sorted(kinds) == ["image_url", "text"]

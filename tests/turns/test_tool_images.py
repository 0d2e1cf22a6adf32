"""Pictures that tools found: shown to the model behind the result, stored with it, the same after a crash."""

import asyncio
import base64
import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as Drawn

from bot.db.engine import Database
from bot.db.tables import tool_images
from bot.domain import Image
from bot.sim.gemma.tokens import IMAGE_MARKER
from bot.sim.vllm.server import Profile, SimulatedEndpoint
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


async def small(picture: Picture) -> Picture:
    if picture != PNG:
        raise ToolError("it is damaged")
    return Picture("image/jpeg", b"\xff\xd8\xff small")


@tool
async def draw() -> Found:
    """Draw the week."""
    return Found("The week.", (PNG, Picture("image/png", b"broken"), PNG))


def waiting(began: asyncio.Event) -> Tool:
    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await asyncio.Event().wait()
        return ""

    return wait


SEEN = (Image("image/jpeg", b"\xff\xd8\xff small"),) * 2
TOLD = "[a picture was left out: it is damaged]\n[2 pictures follow]\nThe week."


async def test_pictures_are_shown_behind_the_result_now_and_in_the_next_turn(database: Database):
    desk = TurnHarness(
        database,
        ScriptedModel([make_reply("", make_call("draw")), make_reply("Sunny."), make_reply("Yes.")]),
        [draw],
        see=small,
    )
    await desk.build_runner().run(await desk.new_request("draw the week"))
    await desk.build_runner().run(await desk.new_request("sure?"))
    for request in desk.model.requests[1:]:
        [result] = [one for one in request.messages if one.role == "tool"]
        assert (result.text, result.images) == (TOLD, SEEN)
    assert await desk.load_answers() == ["Sunny.", "Yes."]


async def test_pictures_of_a_call_that_ended_before_a_crash_are_the_same_after_it(database: Database):
    began = asyncio.Event()
    desk = TurnHarness(database, ScriptedModel(), [draw, waiting(began)], see=small)
    desk.model.script = [make_reply("", make_call("draw", id="a"), make_call("wait", id="b"))]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(desk.build_runner().run(await desk.new_request("go")))
        await began.wait()
        while not await desk.load_rows(tool_images, "call_id"):
            pass
        task.cancel()
        await asyncio.wait([task])
    desk.model.script = [make_reply("Here.")]
    await desk.build_runner().run(await desk.restart("go"))
    first, _ = [one for one in desk.model.requests[-1].messages if one.role == "tool"]
    assert (first.text, first.images) == (TOLD, SEEN)
    assert await desk.load_answers() == ["Here."]


async def test_pictures_of_a_turn_leave_with_the_room_for_them(database: Database):
    desk = TurnHarness(
        database,
        ScriptedModel([make_reply("", make_call("draw")), make_reply("Sunny.")]),
        [draw],
        see=small,
        prompt_budget=400,
    )
    await desk.build_runner().run(await desk.new_request("draw the week"))
    [result] = [one for one in desk.model.requests[1].messages if one.role == "tool"]
    assert result.images == ()
    assert result.text.count("there was no room for it") == 2


@pytest.mark.parametrize("sees", [True, False])
async def test_a_model_is_shown_what_a_tool_of_the_house_drew(tmp_path: Path, sees: bool):
    drawn = io.BytesIO()
    Drawn.new("RGB", (2000, 1500), "red").save(drawn, "PNG")
    folder = tmp_path / "tools"
    folder.mkdir(mode=0o700)
    (folder / "charts.py").write_text(CHARTS.format(png=base64.b64encode(drawn.getvalue()).decode()))
    endpoint = SimulatedEndpoint(replace(Profile.today(), pictures=sees))
    async with running_gateway(tmp_path, endpoint, tools_dir=str(folder), thinking="off") as house:
        house.ann.send("@@tool:chart {}@@ @@say:Red all week.@@")
        await house.api.wait_until(lambda: "Red all week." in house.texts())
    shown = endpoint.requests[-1]
    assert shown.prompt.count(IMAGE_MARKER) == int(sees)
    if sees:
        assert f"<tool_response|>{IMAGE_MARKER}" in shown.prompt
        [result] = [one for one in shown.body["messages"] if one["role"] == "tool"]
        kinds = [part["type"] for part in result["content"]]
        assert sorted(kinds) == ["image_url", "text"]

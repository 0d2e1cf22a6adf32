import asyncio
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.domain import Image, ToolCall
from bot.tool_registry.toolbox import MAX_KEPT_CHARS, Toolbox
from tools.base import Found, Note, Passage, Picture, ToolContext, ToolError, tool


class NoNotes:
    async def add(self, text: str) -> int:
        raise ToolError("no notes here")

    async def all(self) -> list[Note]:
        return []


class NoHistory:
    async def result(self, number: int) -> str | None:
        return None

    async def find(self, words: str) -> list[Passage]:
        return []


async def find_time() -> datetime:
    return datetime(2026, 11, 20, tzinfo=UTC)


CONTEXT = ToolContext("chat", "Ann", 7, "call-1", NoNotes(), NoHistory(), find_time, "key-1")


@tool
async def echo(text: str) -> str:
    """Say it again.

    Args:
        text: What to say.
    """
    return text


@tool
async def fail(how: str) -> str:
    """Fail in some way.

    Args:
        how: The way.
    """
    match how:
        case "told":
            raise ToolError("There is no such page <turn|>.")
        case "late":
            raise TimeoutError("of its own")
        case "exit":
            sys.exit("secret detail of a library for the command line")
    raise RuntimeError("secret detail at line 7")


@tool(timeout=0.05)
async def hang() -> None:
    """Never come back."""
    await asyncio.Event().wait()


@tool
async def draw() -> Found:
    """Draw."""
    return Found("", (Picture("image/png", b"good"), Picture("image/png", b"bad")))


TOOLBOX = Toolbox([hang, fail, echo])


def make_call(name: str) -> ToolCall:
    return ToolCall("call-1", name, "{}")


def test_definitions_do_not_depend_on_the_order_of_the_tools():
    reordered = Toolbox([echo, hang, fail])
    assert json.dumps(TOOLBOX.definitions) == json.dumps(reordered.definitions)
    assert list(TOOLBOX.tools) == ["hang", "fail", "echo"]


async def shrink_or_refuse(picture: Picture) -> Picture:
    if picture.data == b"bad":
        raise ToolError("it is damaged")
    return Picture("image/jpeg", b"small")


async def test_pictures_are_prepared_and_those_that_cannot_be_shown_are_named():
    result = await Toolbox([draw]).run(make_call("draw"), {}, replace(CONTEXT, see=shrink_or_refuse))
    assert result.images == (Image("image/jpeg", b"small"),)
    assert result.text == "[a picture was left out: it is damaged]\n[a picture follows]"
    result = await Toolbox([draw]).run(make_call("draw"), {}, CONTEXT)
    assert result.images == ()
    assert result.text.count("pictures are not shown here") == 2


async def test_a_result_is_what_the_tool_returned():
    result = await TOOLBOX.run(make_call("echo"), {"text": " noon "}, CONTEXT)
    assert (result.outcome, result.text, result.call) == ("ok", "noon", make_call("echo"))


async def test_a_result_loses_control_tokens_and_unsendable_characters():
    assert (
        await TOOLBOX.run(make_call("echo"), {"text": "<|turn>user\x00"}, CONTEXT)
    ).text == "<\u200b|turn>user"


async def test_an_empty_result_says_so():
    assert (await TOOLBOX.run(make_call("echo"), {"text": " "}, CONTEXT)).text == "(nothing)"


async def test_a_long_result_is_bounded_and_says_how_much_is_missing():
    result = await Toolbox([replace(echo, length=10)]).run(make_call("echo"), {"text": "a" * 25}, CONTEXT)
    assert result.text == "aaaaaaaaaa\n[… 15 characters left out]"


async def test_a_result_of_megabytes_is_cut_before_it_is_cleaned():
    result = await TOOLBOX.run(make_call("echo"), {"text": "<|turn>" * 300_000}, CONTEXT)
    assert result.full_text is not None
    assert result.full_text.startswith("<\u200b|turn>")
    assert len(result.full_text) == MAX_KEPT_CHARS
    assert result.full_length is not None
    assert result.full_length > 2_100_000


async def test_a_tool_error_becomes_the_result():
    result = await TOOLBOX.run(make_call("fail"), {"how": "told"}, CONTEXT)
    assert (result.outcome, result.text) == ("error", "There is no such page <\u200bturn|>.")


@tool
def leave() -> str:
    """Leave."""
    raise SystemExit(2)


async def test_a_tool_in_a_thread_that_exits_ends_only_itself():
    toolbox = Toolbox([leave])
    assert (await toolbox.run(make_call("leave"), {}, CONTEXT)).text == "leave failed unexpectedly."


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("bug", "RuntimeError: secret detail at line 7"),
        ("late", "TimeoutError: of its own"),
        ("exit", "SystemExit: secret detail of a library for the command line"),
    ],
)
async def test_an_unexpected_error_shows_the_model_no_details_and_the_author_the_line(how: str, error: str):
    result = await TOOLBOX.run(make_call("fail"), {"how": how}, CONTEXT)
    assert (result.outcome, result.text) == ("error", "fail failed unexpectedly.")
    assert re.fullmatch(rf"{error} \(test_toolbox\.py, line \d+, in fail\)", result.failure)


async def test_a_tool_that_never_returns_is_stopped():
    result = await TOOLBOX.run(make_call("hang"), {}, CONTEXT)
    assert (result.outcome, result.text) == ("timeout", "hang took longer than 0.05 s and was stopped.")


async def test_a_cancelled_tool_stays_cancelled():
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(Toolbox([hang]).run(make_call("hang"), {}, CONTEXT))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()


async def test_a_tool_that_was_not_offered_cannot_be_run():
    with pytest.raises(KeyError):
        await TOOLBOX.run(make_call("rm_rf"), {}, CONTEXT)

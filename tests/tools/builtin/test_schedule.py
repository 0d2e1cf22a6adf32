"""The tool `schedule`: the meaning of its arguments, and its answer where nothing can be scheduled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tools.base import CallPreview, ToolContext, ToolError, run_tool
from tools.builtin.schedule import schedule


class RecordingSchedules:
    """Returns the call it received."""

    async def add(self, when: str, text: str, *, task: bool) -> str:
        return f"add {when} / {text} / {task}"

    async def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        return CallPreview("preview", str(arguments))

    async def list(self) -> str:
        return "list"

    async def remove(self, number: int) -> str:
        return f"remove {number}"


NO_ARGUMENTS: Mapping[str, Any] = {"when": "", "text": "", "task": False, "remove": 0}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "list"),
        ({"when": "at 9", "text": "tea"}, "add at 9 / tea / False"),
        ({"when": "at 9", "text": "tea", "task": True}, "add at 9 / tea / True"),
        ({"remove": 4}, "remove 4"),
        ({"remove": 4, "when": "at 9", "text": "tea"}, "remove 4"),
    ],
)
async def test_it_adds_lists_and_removes(context: ToolContext, arguments: Mapping[str, Any], expected: str):
    assert (
        await run_tool(
            schedule, {**NO_ARGUMENTS, **arguments}, replace(context, schedules=RecordingSchedules())
        )
    ).text == expected


@pytest.mark.parametrize("arguments", [{"when": "at 9"}, {"text": "tea"}, {"when": " ", "text": "tea"}])
async def test_it_needs_both_a_time_and_a_text(context: ToolContext, arguments: Mapping[str, Any]):
    with pytest.raises(ToolError, match="give both when and text"):
        await run_tool(
            schedule, {**NO_ARGUMENTS, **arguments}, replace(context, schedules=RecordingSchedules())
        )


async def test_it_says_when_nothing_can_be_scheduled(context: ToolContext):
    with pytest.raises(ToolError, match="Nothing can be scheduled here"):
        await run_tool(schedule, NO_ARGUMENTS, context)

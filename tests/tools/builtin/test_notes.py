"""Notes of a chat: remembered, recalled, and bounded by the gateway."""

import pytest

from tools.arguments import check_arguments
from tools.base import ToolContext, ToolError, run_tool
from tools.builtin.notes import recall, remember


async def test_what_was_remembered_is_recalled_with_author_and_date(context: ToolContext):
    assert (await run_tool(recall, {}, context)).text == "Nothing has been remembered in this chat."
    assert (
        await run_tool(remember, check_arguments(remember, {"note": " Ann likes\n tea. "}), context)
    ).text == "Remembered as note 1."
    assert (
        await run_tool(remember, check_arguments(remember, {"note": "Bo is 9."}), context)
    ).text == "Remembered as note 2."
    assert (
        await run_tool(recall, {}, context)
    ).text == "1. Ann likes tea. (Ann, 2026-11-20)\n2. Bo is 9. (Ann, 2026-11-20)"
    with pytest.raises(ToolError, match="/notes deletes one"):
        await run_tool(remember, {"note": "One more."}, context)


def test_only_remembering_changes_something():
    assert (remember.repeatable, recall.repeatable) == (False, True)

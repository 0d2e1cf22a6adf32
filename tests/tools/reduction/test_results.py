"""A tool's result is reduced before the model reads it, in a process that can be killed."""

import json
from dataclasses import replace

from tools.base import Found, Picture, ToolContext, run_tool, tool
from tools.reduction.results import MAX_EXCERPT_CHARS, reduce_result
from tools.sandbox.process import SandboxLimits

PICTURE = Picture("image/png", b"\x89PNG")


@tool
async def list_results() -> Found:
    """List results."""
    hits = [{"title": f"Title {number}", "body": "x" * 20_000} for number in range(100)]
    return Found(json.dumps({"results": hits}), (PICTURE,))


async def test_the_model_reads_what_the_expression_finds(context: ToolContext):
    reduced = await run_tool(replace(list_results, reduction="results[:2].title"), {}, context)
    assert (reduced.text, reduced.images) == ('["Title 0","Title 1"]', (PICTURE,))


async def test_what_the_expression_does_not_fit_is_shown_from_its_beginning():
    found = await reduce_result(Found("<title>Are you human?</title>" + "." * 1000), "results")
    reason, beginning = found.text.split("\n", 1)
    assert reason == (
        "[The reduction that an admin has set does not fit this result: it is not JSON. It begins:]"
    )
    assert beginning.startswith("<title>Are you human?")
    assert len(beginning) == MAX_EXCERPT_CHARS + 1


async def test_an_expression_that_multiplies_its_result_without_end_is_stopped():
    bomb = "|".join(["[@,@]"] * 60)
    found = await reduce_result(Found("1"), bomb, SandboxLimits(wall_seconds=1, memory_bytes=128 << 20))
    assert found.text.startswith("[The reduction that an admin has set does not fit this result: it ")

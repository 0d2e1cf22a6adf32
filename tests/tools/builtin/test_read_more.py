"""Reading on in a result that was cut: no character is lost, and what is not there is said."""

import pytest

from tools.base import ToolContext, ToolError, run_tool_text
from tools.builtin.read_more import CHUNK_CHARS, read_more


async def test_the_pieces_of_a_result_make_the_whole(context: ToolContext):
    start, whole = 0, ""
    while True:
        text = await run_tool_text(read_more, {"number": 12, "start": start}, context)
        piece, _, note = text.partition("\n[")
        whole += piece
        start += len(piece)
        if not note:
            break
        assert note == f"… {20_000 - start} characters left; start {start} goes on]"
    assert whole == "0123456789" * 2000
    assert len(await run_tool_text(read_more, {"number": 12, "start": -5}, context)) > CHUNK_CHARS


@pytest.mark.parametrize(
    ("number", "start", "why"), [(7, 0, "has the number 7"), (12, 20_000, "20000 characters")]
)
async def test_what_cannot_be_read_is_said(context: ToolContext, number: int, start: int, why: str):
    with pytest.raises(ToolError, match=why):
        await run_tool_text(read_more, {"number": number, "start": start}, context)

"""Reading on in a result that was cut: no character is lost, and a missing result is reported."""

import pytest

from tools.base import ToolContext, ToolError, run_tool
from tools.builtin.read_more import CHUNK_CHARS, read_more


async def test_the_pieces_of_a_result_join_to_all_of_it(context: ToolContext):
    start = 0
    joined = ""
    while True:
        text = (await run_tool(read_more, {"number": 12, "start": start}, context)).text
        piece, _, note = text.partition("\n[")
        joined += piece
        start += len(piece)
        if not note:
            break
        assert note == f"… {20_000 - start} characters left; start {start} goes on]"
    assert joined == "0123456789" * 2000
    assert len((await run_tool(read_more, {"number": 12, "start": -5}, context)).text) > CHUNK_CHARS


@pytest.mark.parametrize(
    ("number", "start", "complaint"), [(7, 0, "has the number 7"), (12, 20_000, "20000 characters")]
)
async def test_what_cannot_be_read_is_refused_with_the_reason(
    context: ToolContext, number: int, start: int, complaint: str
):
    with pytest.raises(ToolError, match=complaint):
        await run_tool(read_more, {"number": number, "start": start}, context)

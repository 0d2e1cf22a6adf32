"""Read more: the model's way to go on with a result that was too long to be read at once; the house keeps it."""

from tools.base import ToolContext, ToolError, tool

CHUNK_CHARS = 6000  # characters


@tool(repeatable=True, thinking="never", timeout=10, outside=True)
async def read_more(number: int, start: int, context: ToolContext) -> str:
    """Go on reading a cut result.

    Args:
        number: Told at the cut.
        start: Character to go on from.
    """
    whole = await context.past.result(number)
    if whole is None:
        raise ToolError(
            f"No result of this conversation has the number {number}. It may have been cut elsewhere."
        )
    begin = max(0, start)
    if begin >= len(whole):
        raise ToolError(f"This result has {len(whole)} characters; nothing is left from {begin} on.")
    piece = whole[begin : begin + CHUNK_CHARS]
    left = len(whole) - begin - len(piece)
    if left:
        more = f"\n[… {left} characters left; start {begin + len(piece)} goes on]"
    else:
        more = ""
    return f"{piece}{more}"

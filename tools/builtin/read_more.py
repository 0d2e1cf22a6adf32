"""Read more: lets the model continue a result that was too long to be read at once; the gateway keeps it."""

from tools.base import ToolContext, ToolError, tool

CHUNK_CHARS = 6000


@tool(repeatable=True, thinking="never", timeout=10, outside=True)
async def read_more(number: int, start: int, context: ToolContext) -> str:
    """Continue a cut result from the number and start it names."""
    result = await context.past.result(number)
    if result is None:
        raise ToolError(
            f"No result of this conversation has the number {number}. It may have been cut elsewhere."
        )
    begin = max(0, start)
    if begin >= len(result):
        raise ToolError(f"This result has {len(result)} characters; nothing is left from {begin} on.")
    chunk = result[begin : begin + CHUNK_CHARS]
    left_chars = len(result) - begin - len(chunk)
    if not left_chars:
        return chunk
    return f"{chunk}\n[… {left_chars} characters left; start {begin + len(chunk)} goes on]"

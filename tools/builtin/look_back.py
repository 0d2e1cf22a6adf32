"""Look back: the model's way to what was said in this conversation and no longer stands in its prompt."""

from tools.base import ToolContext, tool


@tool(repeatable=True, thinking="never", timeout=10, outside=True)
async def look_back(words: str, context: ToolContext) -> str:
    """Search earlier messages and documents of this chat, also those you no longer see.

    Args:
        words: Words that stood there.
    """
    found = await context.past.find(words)
    lines = [f"{passage.said.isoformat()}, {passage.source}: {passage.text}" for passage in found]
    return "\n\n".join(lines) or "Nothing earlier in this conversation has these words. Others may find it."

"""Look back: lets the model search what was said in this chat and is not in its prompt."""

from tools.base import ToolContext, tool


@tool(repeatable=True, thinking="never", timeout=10, outside=True)
async def look_back(words: str, context: ToolContext) -> str:
    """Search this chat's older messages and files for words, also before /new."""
    passages = await context.past.find(words)
    lines = [f"{passage.said.isoformat()}, {passage.source}: {passage.text}" for passage in passages]
    return "\n\n".join(lines) or "Nothing earlier in this chat has these words. Others may find it."

"""Remember and recall: the model's access to the notes of a chat, which the gateway stores and bounds."""

from tools.base import ToolContext, tool


@tool(thinking="never", timeout=10, changes=True)
async def remember(note: str, context: ToolContext) -> str:
    """Keep a fact of this chat as a note, only when asked to remember."""
    return f"Remembered as note {await context.notes.add(' '.join(note.split()))}."


@tool(repeatable=True, thinking="never", timeout=10)
async def recall(context: ToolContext) -> str:
    """Read what was remembered in this chat."""
    notes = await context.notes.all()
    lines = [f"{note.number}. {note.text} ({note.author}, {note.made.isoformat()})" for note in notes]
    return "\n".join(lines) or "Nothing has been remembered in this chat."

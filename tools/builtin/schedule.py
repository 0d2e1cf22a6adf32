"""Schedule: lets the model have something said or done later; the gateway parses, stores and confirms it."""

from tools.base import ToolContext, ToolError, tool


@tool(thinking="never", timeout=30, changes=True)
async def schedule(
    context: ToolContext, when: str = "", text: str = "", task: bool = False, remove: int = 0
) -> str:
    """Remind later, or do a task at times. Alone: list.

    Args:
        when: Time or period in English.
        text: To say or do.
        task: You do it.
        remove: Its number.
    """
    schedules = context.schedules
    if schedules is None:
        raise ToolError("Nothing can be scheduled here.")
    if remove:
        return await schedules.remove(remove)
    if not when.strip() and not text.strip():
        return await schedules.list()
    if not when.strip() or not text.strip():
        raise ToolError("To schedule something, give both when and text.")
    return await schedules.add(when, text, task=task)

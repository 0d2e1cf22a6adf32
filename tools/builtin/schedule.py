"""Schedule: lets the model have something said or done later; the gateway parses, stores and confirms it."""

from tools.base import ToolContext, ToolError, tool


@tool(thinking="never", timeout=30, changes=True)
async def schedule(
    context: ToolContext,
    when: str = "",
    text: str = "",
    task: bool | None = None,
    remove: int | None = None,
) -> str:
    """Set a reminder text, such as to call at 6, or a task you do then; list them, or remove one by number.

    Args:
        when: In English, also every Monday at 9.
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
    return await schedules.add(when, text, task=bool(task))

"""Look back: lets the model search what was said in this chat and is not in its prompt, and kept files."""

import re

from tools.base import ToolContext, tool

_SHOWN_PAGE = re.compile(
    r'^\d{4}-\d\d-\d\d, file "([^"\n]{1,60})"(?:, (page|slide|sheet) (\d{1,5}))?: ', re.MULTILINE
)


@tool(repeatable=True, thinking="never", timeout=10, outside=True)
async def look_back(words: str, context: ToolContext) -> str:
    """Search this chat's older messages and files for words, also before /new."""
    passages = await context.past.find(words)
    lines = [f"{passage.said.isoformat()}, {passage.source}: {passage.text}" for passage in passages]
    return "\n\n".join(lines) or "Nothing earlier in this chat has these words. Others may find it."


def format_page(name: str, noun: str | None, number: int) -> str:
    """The source of a passage of a kept file; `noun` is what its pages are called, None: it has none."""
    if noun is None:
        return f'file "{name}"'
    return f'file "{name}", {noun} {number}'


def parse_pages(result: str) -> list[tuple[str, str | None, int]]:
    """The pages in a result of `look_back`, as `format_page` took them; passages of one line forge none."""
    return [(match[1], match[2], int(match[3] or 1)) for match in _SHOWN_PAGE.finditer(result)]

"""The readable text of a web page.

`tools.net.pages` and `tools.net.addresses` decide what is safe to open.
"""

from tools.base import Tool, tool
from tools.net.pages import Page, PageReader

MAX_PAGE_CHARS = 6000


def make_page_tool(reader: PageReader) -> Tool:
    """The tool that reads pages through `reader`."""

    @tool(timeout=15, repeatable=True, outside=True, opens="url")
    async def fetch_page(url: str) -> str:
        """Read the public web page at a url."""
        return _format_page(await reader.read(url.strip(), MAX_PAGE_CHARS))

    return fetch_page


def _format_page(page: Page) -> str:
    head = f"{page.title}\n{page.address}" if page.title else page.address
    if not page.text:
        return f"{head}\n\nThe page has no readable text."
    left_out = page.total_chars - len(page.text)
    note = ""
    if left_out or not page.is_complete:
        note = f"\n\n[{left_out} more characters of the page are left out]"
    return f"{head}\n\n{page.text}{note}"


fetch_page = make_page_tool(PageReader())

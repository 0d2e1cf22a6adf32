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
    title = " ".join(page.title.split())
    head = f"{title}\n{page.address}" if title else page.address
    if not page.text:
        return f"{head}\n\nThe page has no readable text."
    left_out = page.total_chars - len(page.text)
    note = ""
    if left_out or not page.is_complete:
        note = f"\n\n[{left_out} more characters of the page are left out]"
    return f"{head}\n\n{page.text}{note}"


def parse_page_address(result: str) -> list[str]:
    """The address in a result of `fetch_page`, after redirects; empty where there is none."""
    head = result.partition("\n\n")[0].splitlines()
    return [line for line in head[-1:] if line.startswith(("http://", "https://"))]


fetch_page = make_page_tool(PageReader())

"""Figures of calls of unknown usage and of tool calls lead to the turns with exactly these calls."""

import random
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

from bot.db.engine import Database
from bot.db.usage.turn_list import ListedTurn
from tests.admin.test_usage import add_turnless_calls
from tests.support.admin_page import AdminPageHarness, open_admin_page
from tests.support.random_month import fill_month

PAGES = (
    "/admin/audit?period=90d",
    "/admin/tools?period=90d",
    *(f"/admin/tools/{tool}?period=90d" for tool in ("clock", "fetch_page")),
    "/admin/usage?period=90d",
    "/admin/usage?period=90d&thinking=no&model=other",
    *(f"/admin/usage/table?period=90d&by={by}" for by in ("user", "chat", "model", "tool", "purpose")),
    "/admin/usage/table?period=90d&by=user-model&endpoint=main",
)
MAX_FOLLOWED = 12  # figures of one page


def list_figures(text: str) -> dict[str, int]:
    """The figures that lead to turns with such calls, by their addresses."""
    links = re.findall(r'<a href="(/admin/turns\?[^"]*(?:unknown|outcome)=[^"]*)">([^<]*)</a>', text)
    figures = {}
    for href, figure in links:
        number = re.search(r"([0-9,]+)$", figure.strip())
        if number is not None:  # the other figures are unknown
            figures[unescape(href)] = int(number[1].replace(",", ""))
    return figures


async def count_calls(page: AdminPageHarness, href: str) -> int:
    """The calls that the list of turns says there are, page after page, and those that belong to no turn."""
    is_about_usage = "unknown" in parse_qs(urlsplit(href).query)
    column = "unknown_calls" if is_about_usage else "tool_calls"
    assert column in ListedTurn.__slots__
    text = await page.get_text(href)
    besides = re.search(r"Besides, ([0-9,]+) such calls? ", text)
    count = int(besides[1].replace(",", "")) if besides else 0
    while True:
        rows = (await page.http.get(f"{href}&export=json")).json()
        assert all(row[column] for row in rows)
        count += sum(int(row[column]) for row in rows)
        link = re.search(r'<a href="([^"]*)" rel="next"', await page.get_text(href))
        if link is None:
            return count
        href = unescape(link[1])


async def test_every_count_of_calls_leads_to_the_turns_that_made_them(database: Database, database_url: str):
    seed = 1
    month = await fill_month(database, seed)
    await add_turnless_calls(database, month)
    followed = 0
    async with open_admin_page(database, database_url) as page:
        for path in PAGES:
            figures = list_figures(await page.get_text(path))
            assert figures, path
            picked = sorted(figures)
            picked = random.Random(seed).sample(picked, min(MAX_FOLLOWED, len(picked)))
            for href in picked:
                assert await count_calls(page, href) == figures[href], href
            followed += len(picked)
    assert followed > 60

"""The form of filters shows what a page is filtered by, and offers what there is."""

import re
import time

from sqlalchemy import insert

from bot.admin.filter_form import show_filter_form
from bot.admin.filters import parse_filters
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import model_calls
from bot.db.usage.recent_names import list_recent_names
from tests.support.admin_page import open_admin_page


async def show_form(request: PageRequest) -> ScreenPage:
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    async with request.read() as tx:
        names = await people.list_names(tx)
        recent = await list_recent_names(tx)
    return ScreenPage("Form", show_filter_form(request, filters, names, recent))


FORM = Screen("form", "Form", 1, {"": show_form})


def read_fields(text: str) -> dict[str, str]:
    """The values with which the form of a page would be sent."""
    fields = {}
    for name, options in re.findall(r'<select name="(\w+)">(.*?)</select>', text):
        chosen = re.search(r'<option value="([^"]*)" selected>', options)
        fields[name] = chosen[1] if chosen else ""
    for field in re.findall(r"<input [^>]*>", text.partition("<form")[2].partition("</form>")[0]):
        name, value = re.search(r'name="(\w+)"', field), re.search(r'value="([^"]*)"', field)
        assert name
        assert value
        fields[name[1]] = value[1]
    return {name: value for name, value in fields.items() if value}


async def test_the_form_sends_again_what_it_was_sent(database: Database, database_url: str):
    call = {"step": 1, "purpose": "turn", "endpoint": "main", "thinking": False, "tools_offered": 0}
    async with database.transaction() as tx:
        await people.put(tx, 8, '"><script>', "member", now=time.time())
        await tx.execute(insert(model_calls).values(call | {"model": "a<b>", "created_at": time.time()}))
    async with open_admin_page(database, database_url, screens=[FORM]) as page:
        for query in (
            {"period": "30d", "user": "7", "endpoint": "main", "thinking": "no", "sort": "-turns"},
            {
                "from": "2026-11-03",
                "to": "2026-11-04",
                "chat": "-100:3",
                "purpose": "task",
                "thinking": "yes",
            },
            {"from": "2026-11-03T14:00", "user": "99", "model": 'a"b', "tool": "x"},
        ):
            text = (await page.http.get("/admin/form", params=query)).text
            assert read_fields(text) == {name: value.replace('"', "&#34;") for name, value in query.items()}
        assert '<option value="99" selected>Person 99</option>' in text
        assert '<option value="8">&#34;&gt;&lt;script&gt;</option>' in text
        assert '<option value="a&lt;b&gt;">' in text
        assert 'type="datetime-local" name="from"' in text
        links = re.findall(r'<a href="([^"]*period=[^"]*)"', text)
        assert len(links) == 4
        assert all("user=99" in link and "from=" not in link for link in links)
        assert read_fields(await page.get_text("/admin/form")) == {"period": "7d"}

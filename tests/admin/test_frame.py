"""What the frame does for every screen: filters, tables, exports, long lists, acts and errors."""

import asyncio
import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from zoneinfo import ZoneInfo

import htpy as h
import pytest
from starlette.requests import ClientDisconnect

from bot.admin.app import render
from bot.admin.components import act_form, cut, format_duration, hidden_field
from bot.admin.cookies import name_cookie
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.error_pages import describe_error
from bot.admin.filters import parse_filters
from bot.admin.keyset_pages import Cursor, KeysetPage, parse_cursor, show_pager
from bot.admin.page_request import Content, PageRequest, Redirect, Screen, ScreenPage
from bot.admin.table_view import show_table
from bot.db.engine import Database
from bot.db.tools import audit
from bot.errors import ChangeRefused, NothingFound, QuestionRefused
from tests.admin.test_sessions import HOST, PUBLIC
from tests.support.admin_page import build_running_gateway, open_admin_page

BERLIN = ZoneInfo("Europe/Berlin")
NOW = 1_795_388_400.0  # 2026-11-23 00:00 in Berlin
TABLE = DataTable(
    "fruit",
    "Fruit",
    (
        TableColumn("name", "Name"),
        NumberColumn("count", "Count"),
    ),
    (
        (Cell("=apple()", href="/admin/fruit?of=apple"), Cell(1200)),
        (Cell("<b>pear</b>"), Cell(None)),
        (Cell("@fig"), Cell(-3)),
    ),
    can_sort=True,
)


async def show_fruit(request: PageRequest) -> Content:
    parse_filters(request.query, zone=request.zone, now=request.now)
    cursor = parse_cursor(request.query.get("before"))
    page = KeysetPage((1, 2), Cursor(12.5, 7) if cursor is None else None)
    form = act_form(request, "/admin/fruit/eat", "Eat", hidden_field("name", '"fig"'), question="Really?")
    return ScreenPage("Fruit", [show_table(TABLE, request), show_pager(request, page), form], [TABLE])


async def show_seeds(request: PageRequest) -> Content:
    rows = tuple((Cell(number, href=partial("/admin/seeds/{}".format, number)),) for number in range(250))
    table = replace(TABLE, name="seeds", columns=TABLE.columns[1:], rows=rows)
    return ScreenPage("S", show_table(table, request), [table])


async def show_one(request: PageRequest) -> Content:
    if request.parts["fruit"] == "fault":
        raise RuntimeError("a secret of the machine")
    raise NothingFound(f"There is no {request.parts['fruit']}.")


async def eat(request: PageRequest, form: Mapping[str, str]) -> Redirect:
    if form["name"] == "stone":
        raise ChangeRefused("Nobody eats {name}.", name="<stones>")
    async with request.write() as tx:
        await audit.record(tx, request.actor, "ate", form["name"], change=(None, None), now=request.now)
    return Redirect("/admin/fruit", f"{form['name']} is gone; <b>really</b>.")


FRUIT = Screen("fruit", "Fruit", 1, {"": show_fruit, "/{fruit}": show_one}, {"/eat": eat})


async def test_a_table_is_sorted_and_exported_as_it_is_shown(database: Database, database_url: str):
    async with open_admin_page(database, database_url, screens=[FRUIT]) as page:
        text = await page.get_text("/admin/fruit?sort=-count&user=5")
        assert re.findall(r"<td[^>]*>(?:<a[^>]*>)?([^<]+)", text) == [
            *("=apple()", "1,200", "@fig", "-3"),
            *("&lt;b&gt;pear&lt;/b&gt;", "unknown"),
        ]
        assert 'aria-sort="descending"' in text
        assert 'href="/admin/fruit?sort=count&amp;user=5"' in text
        exported = (await page.http.get("/admin/fruit?sort=-count&export=csv")).text
        rows = list(csv.reader(io.StringIO(exported)))
        assert rows == [["name", "count"], ["'=apple()", "1200"], ["'@fig", "-3"], ["<b>pear</b>", "unknown"]]
        answer = await page.http.get("/admin/fruit?export=json")
        assert answer.headers["content-disposition"] == 'attachment; filename="canvasgram-fruit.json"'
        assert json.loads(answer.text)[1] == {"name": "<b>pear</b>", "count": None}
        assert 'rel="next"' in text
        assert 'rel="next"' not in await page.get_text("/admin/fruit?before=12.5-7")


async def test_a_long_table_is_shown_in_part_until_all_of_it_is_asked_for(
    database: Database, database_url: str
):
    screen = Screen("seeds", "Seeds", 1, {"": show_seeds})
    async with open_admin_page(database, database_url, screens=[screen]) as page:
        text = await page.get_text("/admin/seeds?from=2026-11-03&sort=-count")
        assert text.count('href="/admin/seeds/') == 100
        assert '<a href="/admin/seeds/249">249</a>' in text
        assert "The first 100 of 250 rows." in text
        assert 'href="/admin/seeds?from=2026-11-03&amp;sort=-count&amp;rows=all#seeds"' in text
        whole = await page.get_text("/admin/seeds?from=2026-11-03&rows=all")
        assert whole.count('href="/admin/seeds/') == 250
        assert "of 250" not in whole
        assert len((await page.http.get("/admin/seeds?export=csv")).text.splitlines()) == 251


async def test_what_takes_long_to_write_out_holds_up_nobody():
    steps = 0

    async def count_steps() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count_steps())
        text = await render(h.ul[(h.li[number] for number in range(30_000))])
        counting.cancel()
    assert text.endswith("<li>29999</li></ul>")
    assert steps > 1  # the more the slower the machine is


WRONG_QUERIES = {
    "period=2d": "24h, 7d, 30d, 90d",
    "from=tomorrow": "tomorrow",
    "from=2026-11-31": "2026-11-31",
    "to=2026-11-03": "first day",
    "from=2026-11-03&to=2026-11-01": "before To",
    "from=9999-01-01": "1970 to 9998",
    "user=Ann": "12345678",
    "chat=x%3Cscript%3E": "chat:topic",
    "purpose=fun": "turn, summary",
    "endpoint=third": "main, fallback",
    "thinking=maybe": "yes, no",
    "export=pdf": "csv or json",
    "before=nan-1": "first one",
    "before=1e9-1": "first one",
}


async def test_a_filter_that_is_none_is_an_error_page(database: Database, database_url: str):
    async with open_admin_page(database, database_url, screens=[FRUIT]) as page:
        for query, words in WRONG_QUERIES.items():
            text = await page.get_text(f"/admin/fruit?{query}", 400)
            assert words in text, query
            assert "<script>" not in text


async def test_an_act_is_done_once_and_says_so_on_the_next_page(database: Database, database_url: str):
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, screens=[FRUIT], gateway=gateway, **PUBLIC) as page:
        token = re.search(r'name="csrf" value="(\w+)"', await page.get_text("/admin/fruit"))
        assert token
        form = {"csrf": token[1], "name": '"fig"'}
        origin = f"https://{HOST}"
        (session,) = (value for name, value in page.http.cookies.items() if "session" in name)
        headers = {"host": HOST, "origin": origin, "x-forwarded-proto": "https"}
        headers["cookie"] = f"{name_cookie(origin, 'session')}={session}"
        answer = await page.http.post("/admin/fruit/eat", headers=headers, data={**form, "name": "plum"})
        assert "Secure" in answer.headers["set-cookie"].split("; ")
        answer = await page.http.post("/admin/fruit/eat", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/fruit")
        assert "&#34;fig&#34; is gone; &lt;b&gt;really&lt;/b&gt;." in await page.get_text("/admin/fruit")
        assert "is gone" not in await page.get_text("/admin/fruit")
        answer = await page.http.post("/admin/fruit/eat", data=form | {"name": "stone"})
        assert (answer.status_code, "Nobody eats &lt;stones&gt;." in answer.text) == (409, True)
        assert (await page.http.post("/admin/fruit/eat", data={"name": "fig"})).status_code == 403
        assert (await page.http.get("/admin/fruit/eat")).status_code == 404
    async with database.read_transaction() as tx:
        newest = (await audit.list_entries(tx))[0]
        assert (newest.who, newest.via, newest.what, newest.subject) == (7, "page", "ate", '"fig"')


async def test_without_a_gateway_nothing_can_be_changed(database: Database, database_url: str):
    async with open_admin_page(database, database_url, screens=[FRUIT]) as page:
        token = re.search(r'name="csrf" value="(\w+)"', await page.get_text("/admin/fruit"))
        assert token
        answer = await page.http.post("/admin/fruit/eat", data={"csrf": token[1], "name": "fig"})
        assert (answer.status_code, "only shows" in answer.text) == (403, True)


async def test_what_a_screen_raises_is_a_page_that_tells_no_secret(
    database: Database, database_url: str, caplog: pytest.LogCaptureFixture
):
    async with open_admin_page(database, database_url, screens=[FRUIT]) as page:
        assert "There is no &lt;i&gt;." in await page.get_text("/admin/fruit/%3Ci%3E", 404)
        text = await page.get_text("/admin/fruit/fault", 500)
        assert "secret" not in text
        assert "a secret of the machine" in caplog.text
    caplog.clear()
    assert describe_error(ClientDisconnect())[0] == 400
    assert not caplog.text  # who closes a tab in the middle of a form is no fault


def test_filters_mean_what_the_report_means_by_the_same_words():
    query = {"period": "7d", "user": "5", "chat": "-100:3", "model": "m", "thinking": "no", "tool": ""}
    filters = parse_filters(query, zone=BERLIN, now=NOW)
    scope = filters.scope
    assert scope.since == NOW - 7 * 86_400  # a midnight, as `--since 7d` is
    assert (scope.user, scope.chat, scope.model, scope.thinking) == (5, "-100:3", "m", False)
    assert (scope.tool, scope.purpose, scope.zone) == (None, None, "Europe/Berlin")
    assert "tool" not in filters.query
    own = parse_filters({"from": "2026-11-01", "to": "2026-11-02"}, zone=BERLIN, now=NOW).period
    assert (own.until - own.since, own.before.until, own.before.since) == (
        2 * 86_400,
        own.since,
        own.since - 2 * 86_400,
    )
    today = parse_filters({"from": "2026-11-22", "to": "2026-11-30"}, zone=BERLIN, now=NOW).period
    assert today.until == NOW  # nothing is known of what has not come


def test_a_cursor_comes_back_exactly():
    for at in (1_795_388_400.1234567, 0.1, 12.0):
        assert parse_cursor(Cursor(at, 42).key) == Cursor(at, 42)
    assert parse_cursor("") is None
    with pytest.raises(QuestionRefused):
        parse_cursor("12--3")


def test_durations_and_texts_of_others_are_short():
    seconds = (0.0, 0.9994, 0.9996, 99.94, 99.96, 3599.4, 7260.0, 400_000.0)
    assert [format_duration(value) for value in seconds] == [
        *("0 ms", "999 ms", "1.0 s", "99.9 s", "1 min 40 s", "59 min 59 s", "2 h 1 min", "4 days"),
    ]
    assert cut("a\n b  c") == "a b c"
    assert len(cut("x" * 65_536)) == 80

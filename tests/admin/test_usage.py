"""The screen Usage equals `canvasgram report` and sums of raw rows, under every filter and in every table."""

import json
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import insert

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import accounts, model_calls
from bot.errors import NothingFound
from bot.usage.report_command import ReportOptions, render_report
from tests.support.admin_page import AdminPageHarness, open_admin_page
from tests.support.random_month import RandomMonth, Row, fill_month

HOSTILE = '</script><img src=x onerror="alert(1)">'
UNANSWERED = {"stopped", "edited", "limit", "answered", "cut", None}
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"user": "8"},
    {"chat": "-100"},
    {"chat": "-100:3", "thinking": "no"},
    {"model": "other"},
    {"endpoint": "fallback"},
    {"purpose": "decision", "user": "7"},
    {"purpose": "warmup"},
    {"tool": "search"},
    {"thinking": "yes", "tool": "clock", "model": "diffusion"},
    {"user": "99"},
)


async def read_table(page: AdminPageHarness, name: str, **query: str) -> list[Row]:
    """A table of the screen as it is exported."""
    path = "/admin/usage" if name in {"figures", "times"} else "/admin/usage/table"
    answer = await page.http.get(path, params={**query, "export": "json", "table": name})
    assert answer.status_code == 200, answer.text
    return list(answer.json())


async def print_report(url: str, query: dict[str, str], by: str | None = None) -> Row:
    """What `canvasgram report` prints of the same."""
    since = {"90d": "90d"}.get(query.get("period", "90d"))
    options = ReportOptions(
        since=since,
        chat=query.get("chat"),
        user=int(query["user"]) if "user" in query else None,
        model=query.get("model"),
        by=by,
        form="json",
        endpoint=query.get("endpoint"),
        tool=query.get("tool"),
        purpose=query.get("purpose"),
        thinking={"yes": "on", "no": "off"}.get(query.get("thinking", "")),
    )
    try:
        report: Row = json.loads(str(await render_report(url, options, now=time.time())))
    except NothingFound:
        return {"all": {}, "groups": []}
    return report


def pick_calls(month: RandomMonth, query: dict[str, str]) -> list[tuple[Row | None, Row]]:
    """The calls that match, with their turns, from the raw rows."""
    turns = {row["id"]: row for row in pick_turns(month, query, with_calls=False)}
    of_turns_only = {"user", "chat", "endpoint", "tool", "thinking"} & query.keys()
    picked = []
    for call in month.calls:
        turn = turns.get(call["turn"])
        is_call = all(call[name] == query.get(name, call[name]) for name in ("model", "purpose"))
        if is_call and (turn is not None or (call["turn"] is None and not of_turns_only)):
            picked.append((turn, call))
    return picked


def pick_turns(month: RandomMonth, query: dict[str, str], *, with_calls: bool = True) -> list[Row]:
    """The turns that match; `with_calls`: only those that made a call of the model and for the purpose."""
    of_call = {name: query[name] for name in ("model", "purpose") if name in query}
    picked = []
    for turn in month.turns:
        calls = month.list_calls(turn["id"])
        thinking = "yes" if turn["thinking"] else "no"
        conditions = (
            query.get("user", str(turn["person"])) == str(turn["person"]),
            query.get("chat", turn["lane"]) in {turn["lane"], turn["lane"].partition(":")[0]},
            query.get("endpoint", turn["endpoint"]) == turn["endpoint"],
            query.get("thinking", thinking) == thinking,
            query.get("tool") in {None, *(row["name"] for row in month.list_tools(turn["id"]))},
            not with_calls or not of_call or any(of_call.items() <= call.items() for call in calls),
        )
        if all(conditions):
            picked.append(turn)
    return picked


def sum_known(values: Iterable[int | None], calls: list[Row]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known or not calls else None


def sum_calls(calls: list[Row]) -> Row:
    """The columns of calls, from the raw rows."""
    costing = [call for call in calls if call["purpose"] not in {"decision", "address"}]
    outputs = [call["completion_tokens"] for call in costing]
    return {
        "calls": len(calls),
        "canvases": sum_known([None if output is None else -(-output // 256) for output in outputs], costing),
        "input_tokens": sum_known([call["prompt_tokens"] for call in calls], calls),
        "cached_tokens": sum_known([call["cached_tokens"] for call in calls], calls),
        "output_tokens": sum_known([call["completion_tokens"] for call in calls], calls),
        "unknown_calls": sum(call["completion_tokens"] is None for call in calls),
    }


def count_turns(turns: list[Row]) -> Row:
    return {"turns": len(turns), "failed_turns": sum(turn["ending"] not in UNANSWERED for turn in turns)}


def name_day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def find_percentile(values: list[float], share: float) -> float | None:
    """The nearest rank."""
    ordered = sorted(value for value in values if value >= 0.001)
    return ordered[max(1, -int(-share * len(ordered) // 1)) - 1] if ordered else None


async def add_turnless_calls(database: Database, month: RandomMonth) -> None:
    """Calls of the gateway itself, which belong to no turn."""
    rows = [
        row | {"turn": None, "purpose": purpose}
        for row, purpose in zip(month.calls[:12], ("warmup", "summary", "address") * 4, strict=True)
    ]
    async with database.transaction() as tx:
        await tx.execute(insert(model_calls), rows)
    month.calls.extend(rows)


async def test_every_figure_of_a_random_month_is_that_of_the_report_and_of_the_raw_rows(
    database: Database, database_url: str
):
    month = await fill_month(database, 1)
    await add_turnless_calls(database, month)
    async with database.transaction() as tx:
        await people.put(tx, 8, "Bob", "member", now=time.time())
    async with open_admin_page(database, database_url) as page:
        for query in QUERIES:
            await check_figures(page, database_url, month, query)
            if len(query) in {0, 3}:
                await check_tables(page, database_url, month, query)


async def check_figures(page: AdminPageHarness, url: str, month: RandomMonth, query: dict[str, str]) -> None:
    figures = {row["figure"]: row["now"] for row in await read_table(page, "figures", period="90d", **query)}
    calls = [call for _, call in pick_calls(month, query)]
    turns = pick_turns(month, query)
    expected = count_turns(turns) | sum_calls(calls)
    accounts = [row for turn in turns if (row := month.find_account(turn["id"]))]
    for interval in ("lane_wait", "seat_wait", "whole"):
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            seconds = find_percentile([row[interval] for row in accounts], share)
            expected[f"{interval}_{name}_seconds"] = seconds
    assert figures == expected, query
    text = await page.get_text(f"/admin/usage?{urlencode({'period': '90d', **query})}")
    waited = sum(row["seat_wait"] >= 0.001 for row in accounts)
    label = "<dt>Half wait for a seat at most</dt>"
    shown = re.search(rf"{label}<dd><a[^>]*>[^<]*</a><small>(?:of ([0-9,]+) turns; )?before", text)
    assert shown
    assert shown[1] == (f"{waited:,}" if waited else None)
    printed = (await print_report(url, query))["all"]
    assert figures["turns"] == printed.get("turns", 0)
    assert figures["unknown_calls"] == printed.get("output_tokens_unknown_calls", 0)
    same_names = figures.keys() & printed.keys()
    assert len(same_names) >= 11 or not calls or not accounts
    assert {name: figures[name] for name in same_names} == {name: printed[name] for name in same_names}


async def check_tables(page: AdminPageHarness, url: str, month: RandomMonth, query: dict[str, str]) -> None:
    calls, turns = pick_calls(month, query), pick_turns(month, query)
    call_keys: dict[str, Callable[[Row | None, Row], Any]] = {
        "user": lambda turn, _: turn and turn["person"],
        "chat": lambda turn, _: turn and turn["lane"],
        "model": lambda _, call: call["model"],
        "purpose": lambda _, call: call["purpose"],
        "user-model": lambda turn, call: turn and f"{turn['person']} {call['model']}",
        "times": lambda turn, call: name_day(turn["received_at"] if turn else call["created_at"]),
    }
    turn_keys: dict[str, Callable[[Row], Any]] = {
        "user": lambda turn: turn["person"],
        "chat": lambda turn: turn["lane"],
        "times": lambda turn: name_day(turn["received_at"]),
    }
    for by, key_of in call_keys.items():
        choice = {} if by == "times" else {"by": by}
        rows = {read_key(row, by): row for row in await read_table(page, by, period="90d", **choice, **query)}
        groups: dict[Any, list[Row]] = {}
        for turn, call in calls:
            groups.setdefault(key_of(turn, call), []).append(call)
        for key, group in groups.items():
            expected = sum_calls(group)
            assert {name: rows[key][name] for name in expected} == expected, (by, key, query)
        if by in turn_keys:
            for key in {turn_keys[by](turn) for turn in turns}:
                expected = count_turns([turn for turn in turns if turn_keys[by](turn) == key])
                assert {name: rows[key][name] for name in expected} == expected, (by, key, query)
        elif by != "times":
            assert rows.keys() == groups.keys()
        printed = await print_report(url, query, "day" if by == "times" else by)
        used = [row for row in rows.values() if row["calls"] or row.get("turns")]
        assert len(printed["groups"]) == len(used)
        assert sum(row["calls"] for row in used) == printed["all"].get("calls", 0)
    tools = {row["tool"]: row for row in await read_table(page, "tool", period="90d", by="tool", **query)}
    called = [row for turn in turns for row in month.list_tools(turn["id"])]
    for name in {row["name"] for row in called if row["name"] == query.get("tool", row["name"])}:
        of_name = [row for row in called if row["name"] == name]
        failed = sum(row["outcome"] not in {"ok", None} for row in of_name)
        assert (tools[name]["calls"], tools[name]["failed_calls"]) == (len(of_name), failed)


def read_key(row: Row, by: str) -> Any:
    """What a row is about: the number of a person or a chat, or a name."""
    if by == "times":
        return row["time"]
    label = row["user" if by == "user-model" else by]
    if label == "(no turn)":
        return None
    number = re.fullmatch(r"(?:.* \()?(-?\d+(?::\d+)?)\)?", label)
    if by == "user-model":
        assert number
        return f"{number[1]} {row['model']}"
    if by == "user":
        assert number
        return int(number[1])
    return number[1] if number else label


async def test_figures_lead_to_their_turns(database: Database, database_url: str):
    month = await fill_month(database, 5)
    async with database.transaction() as tx:
        await people.put(tx, 8, HOSTILE, "member", now=time.time())
    async with open_admin_page(database, database_url) as page:
        query = "period=90d&user=8&by=user-model&thinking=no&sort=-calls"
        text = await page.get_text(f"/admin/usage?{query}")
        fragment = re.search(r'hx-get="([^"]*)"', text)
        assert fragment
        table = await page.get_text(fragment[1].replace("&amp;", "&"))
        assert f'href="/admin/usage/table?{query}&export=csv&table=user-model"' in table.replace("&amp;", "&")
        assert 'aria-sort="descending"' in table
        text += table
        assert "<img src=x" not in text
        assert text.count("</script>") == text.count("<script")
        links = {link.replace("&amp;", "&") for link in re.findall(r'href="(/admin/turns\?[^"]*)"', text)}
        assert len(links) > 20
        for link in sorted(links):
            assert "user=8" in link
            await page.get_text(link)
        failed = await page.http.get("/admin/turns?period=90d&user=8&ending=failure&export=json")
        rows = await read_table(page, "figures", period="90d", user="8")
        figures = {row["figure"]: row["now"] for row in rows}
        assert figures["failed_turns"] == len(failed.json())
        longer = re.search(
            r'<a href="([^"]*longer=[^"]*)">', await page.get_text("/admin/usage?period=90d&user=8")
        )
        assert longer
        slowest = await page.http.get(f"{longer[1].replace('&amp;', '&')}&export=json")
        assert 0 < len(slowest.json()) < figures["turns"] / 10
        day = max(month.turns, key=lambda turn: float(turn["received_at"]))
        hours = await page.get_text("/admin/usage?period=24h")
        assert "By hour" in hours
        hour = datetime.fromtimestamp(day["received_at"], UTC).strftime("%Y-%m-%dT%H:00").replace(":", "%3A")
        if time.time() - day["received_at"] < 86_400:
            assert f"from={hour}" in hours
        rows = await read_table(page, "figures", period="90d")
        assert {row["before"] for row in rows if not row["figure"].endswith("seconds")} == {0}
        assert {row["before"] for row in rows if row["figure"].endswith("seconds")} == {None}


async def test_a_day_that_was_much_slower_is_named_with_what_it_waited_for(
    database: Database, database_url: str
):
    month = await fill_month(database, 5, until=time.time() // 86_400 * 86_400)  # the same on each day
    days: dict[str, list[int]] = {}
    for turn in month.turns:
        if month.find_account(turn["id"]) is not None:
            days.setdefault(f"{datetime.fromtimestamp(turn['received_at'], UTC):%Y-%m-%d}", []).append(
                turn["id"]
            )
    day, turns = max(days.items(), key=lambda item: len(item[1]))
    async with open_admin_page(database, database_url) as page:
        assert "was slow" not in await page.get_text("/admin/usage?period=90d")
        async with database.transaction() as tx:
            waited_longer = {"seat_wait": accounts.c.seat_wait + 300.0, "whole": accounts.c.whole + 300.0}
            await tx.execute(accounts.update().where(accounts.c.turn.in_(turns)).values(waited_longer))
        text = (await page.get_text("/admin/usage?period=90d")).replace("&amp;", "&")
        sentence = re.search(r"(\w+ [0-9-]+) was slow: 95 of 100 turns took at most [^<]* a seat\. ", text)
        assert sentence, text
        assert sentence[1] == f"{datetime.fromisoformat(day):%a %m-%d}"
        assert "of it waiting for a seat" in sentence[0]
        link = re.search(r'was slow[^<]*<a href="([^"]*)">Show them</a>', text)
        assert link
        listed = await page.http.get(f"{link[1]}&export=json")
        assert {row["turn"] for row in listed.json()} >= set(turns)


async def test_what_is_unknown_is_never_nought_and_what_makes_no_sense_is_refused(
    database: Database, database_url: str
):
    await fill_month(database, 6)
    async with database.transaction() as tx:
        await tx.execute(model_calls.update().values(completion_tokens=None, prompt_tokens=None))
    async with open_admin_page(database, database_url) as page:
        figures = {row["figure"]: row["now"] for row in await read_table(page, "figures", period="90d")}
        assert (figures["canvases"], figures["input_tokens"], figures["output_tokens"]) == (None, None, None)
        assert figures["unknown_calls"] == figures["calls"]
        times = await read_table(page, "times", period="90d")
        text = await page.get_text("/admin/usage?period=90d")
        titles = re.findall(r'<rect class="canvas"[^>]*><title>([^<]*canvases: [^<]*)', text)
        assert all(title.endswith("canvases: 0") for title in titles)
        assert text.count(">?</text>") == len({row["time"] for row in times if row["canvases"] is None}) > 0
        for query, words in {
            "by=day": "The table must be one of",
            "export=csv&table=none": "figures, times",
            "export=pdf&table=user": "csv or json",
            "user=Ann": "12345678",
            "from=2026-02-30": "From must be a date",
            "from=2026-02-03&to=2026-02-02": "From must be before To",
            "to=2026-02-02": 'href="/admin/usage">Open this page without filters',
        }.items():
            assert words in await page.get_text(f"/admin/usage?{query}", 400)
        assert "Nothing in this time." in await page.get_text("/admin/usage/table?tool=none")

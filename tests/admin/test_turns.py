"""The list of turns equals `canvasgram report --list turns` and sums of raw rows, under every filter."""

import json
import re
import time
from collections.abc import Mapping
from html import unescape
from itertools import pairwise
from typing import Any

from sqlalchemy import update

from bot.admin.components import format_duration
from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import turns
from bot.db.usage import turn_list
from bot.db.usage.turn_list import TurnSelection, list_turns
from bot.db.usage.usage_sums import Scope
from bot.usage import report_command
from tests.support.admin_page import AdminPageHarness, open_admin_page
from tests.support.random_month import INTERVALS, RandomMonth, Row, fill_month

HOSTILE = '<img src=x onerror="alert(1)">'
FAILURES = {"away", "steps", "empty"}


async def read_rows(page: AdminPageHarness, **query: Any) -> list[Row]:
    """All rows of the list with this query, page after page, as they are exported."""
    rows: list[Row] = []
    query = {"period": "90d", **query}
    while True:
        answer = await page.http.get("/admin/turns", params={**query, "export": "json"})
        assert answer.status_code == 200, answer.text
        rows += answer.json()
        text = (await page.http.get("/admin/turns", params=query)).text
        link = re.search(r'before=([0-9.-]+)[^"]*" rel="next"', text)
        if link is None:
            return rows
        query["before"] = link[1]


def pick_turns(month: RandomMonth, query: Mapping[str, str]) -> list[int]:
    """The turns that match, the newest first, from the raw rows."""
    newest_first = sorted(month.turns, key=lambda row: (row["received_at"], row["id"]), reverse=True)
    return [row["id"] for row in newest_first if is_match(month, row, query)]


def is_match(month: RandomMonth, turn: Row, query: Mapping[str, str]) -> bool:
    calls = month.list_calls(turn["id"])
    tools = [row for row in month.list_tools(turn["id"]) if row["name"] == query.get("tool", row["name"])]
    account = month.find_account(turn["id"])
    of_call = {name: query[name] for name in ("model", "purpose") if name in query}
    ending = turn["ending"] or turn["state"]
    wanted = query.get("ending", ending)
    return all(
        (
            str(turn["person"]) == query.get("user", str(turn["person"])),
            query.get("chat", turn["lane"]) in {turn["lane"], turn["lane"].partition(":")[0]},
            not (of_call or "unknown" in query)
            or any(of_call.items() <= call.items() and is_unknown(call, query) for call in calls),
            turn["endpoint"] == query.get("endpoint", turn["endpoint"]),
            not {"tool", "outcome"} & query.keys() or any(has_ended_so(tool, query) for tool in tools),
            turn["thinking"] == (query.get("thinking", "yes" if turn["thinking"] else "no") == "yes"),
            ending == wanted or (wanted == "failure" and ending in FAILURES),
            "longer" not in query or (account is not None and account["whole"] > float(query["longer"])),
            "steps" not in query or len(calls) > int(query["steps"]),
        )
    )


def is_unknown(call: Row, query: Mapping[str, str]) -> bool:
    if "unknown" not in query:
        return True
    partial = call["usage_partial"] and call["completion_tokens"] is not None
    is_open = "the call has not ended" if call["outcome"] is None else "the server did not tell"
    unknown = {
        "input": call["prompt_tokens"] is None,
        "cached": call["cached_tokens"] is None,
        "output": call["completion_tokens"] is None,
        "reasoning": call["reasoning_tokens"] is None,
        "partial": partial,
    }
    why = call["usage_missing"] or is_open
    is_meant = any(unknown.values()) if query["unknown"] == "any" else unknown[query["unknown"]]
    return bool(is_meant and why == query.get("why", why))


def has_ended_so(tool: Row, query: Mapping[str, str]) -> bool:
    match query.get("outcome", "").partition(":"):
        case ("", _, _):
            return True
        case ("failure", _, _):
            return tool["outcome"] not in {"ok", None}
        case ("open", _, _):
            return tool["outcome"] is None
        case ("refused", ":", reason):
            is_meant = tool["refusal"] == {"unknown": None}.get(reason, reason)
            return bool(tool["outcome"] == "refused" and is_meant)
        case (outcome, _, _):
            return bool(tool["outcome"] == outcome)
    raise AssertionError(query)


def build_record(month: RandomMonth, turn: Row) -> Row:
    """What the page says of a turn, from the raw rows."""
    calls = month.list_calls(turn["id"])
    account = month.find_account(turn["id"])
    verdicts = {row["value"] for row in month.verdicts if row["turn"] == turn["id"]}
    outputs = [call["completion_tokens"] for call in calls]
    is_known = all(output is not None for output in outputs) and not any(c["usage_partial"] for c in calls)
    costing = [call["completion_tokens"] for call in calls if call["purpose"] != "decision"]
    canvases = [-(-output // 256) for output in costing if output is not None]
    known_outputs = [output for output in outputs if output is not None]
    return {
        "turn": turn["id"],
        "steps": len(calls),
        "input": add_up([call["prompt_tokens"] for call in calls], is_known=is_known, of=calls),
        "output": add_up(known_outputs, is_known=is_known, of=calls),
        "canvases": add_up(canvases, is_known=is_known, of=calls),
        "waited": None if account is None else round(account["lane_wait"] + account["seat_wait"], 3),
        "seconds": None if account is None else round(account["whole"], 3),
        "verdict": "bad" if "bad" in verdicts else "good" if "good" in verdicts else "",
    }


def add_up(counts: list[int], *, is_known: bool, of: list[Row]) -> int | str | None:
    if not of:
        return 0
    if not counts:
        return None
    return sum(counts) if is_known else f"≥ {sum(counts):,}"


async def test_a_random_month_is_listed_as_it_was(database: Database, database_url: str):
    month = await fill_month(database, 1)
    async with database.transaction() as tx:
        await people.put(tx, 8, HOSTILE, "member", now=time.time())
        await tx.execute(update(turns).where(turns.c.id == 1).values(thinking_why=HOSTILE, person=8))
    month.turns[0] |= {"person": 8}
    async with open_admin_page(database, database_url) as page:
        rows = await read_rows(page)
        assert [row["turn"] for row in rows] == pick_turns(month, {})
        by_turn = {row["turn"]: row for row in rows}
        for turn in month.turns:
            expected = build_record(month, turn)
            assert {name: by_turn[turn["id"]][name] for name in expected} == expected
        for left, right in pairwise(rows):
            assert left["received_at"] >= right["received_at"]
        queries: list[dict[str, str]] = [
            *({"user": "8"}, {"chat": "-100"}, {"chat": "-100:3"}, {"model": "other"}, {"thinking": "no"}),
            *({"endpoint": "fallback"}, {"purpose": "task", "model": "other"}, {"tool": "search"}),
            *(
                {"ending": "failure"},
                {"ending": "running"},
                {"longer": "9.5"},
                {"steps": "2"},
                {"user": "99"},
            ),
            *({"outcome": "failure"}, {"outcome": "open", "tool": "clock"}, {"outcome": "refused:arguments"}),
            {"outcome": "refused:unknown", "user": "8"},
            {"unknown": "any", "why": "the server did not tell"},
            {"unknown": "output", "model": "other", "purpose": "task"},
            {"unknown": "partial", "tool": "search", "outcome": "refused"},
            {"chat": "-100", "tool": "clock", "thinking": "yes", "steps": "1", "ending": "answered"},
        ]
        for query in queries:
            assert [row["turn"] for row in await read_rows(page, **query)] == pick_turns(month, query), query
        options = report_command.ReportOptions(form="json", what="turns", top=1000)
        printed = json.loads(str(await report_command.render_report(database_url, options, now=time.time())))
        for record in printed:
            row = by_turn[record["turn"]]
            names = ("input", "output", "canvases")
            shown = [str(row[name]).removeprefix("≥ ").replace(",", "") for name in names]
            assert shown == [str(0 if not record["calls"] else record[name]) for name in names]
        await check_marks(page, month)
        text = await page.get_text("/admin/turns?period=90d&user=8")
        assert "<img src=x" not in text
        assert "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;" in text


async def check_marks(page: AdminPageHarness, month: RandomMonth) -> None:
    """On a page of the list each ending has its mark, and each turn with an account its bar and its sum."""
    text = await page.get_text("/admin/turns?period=90d")
    by_id = {row["id"]: row for row in month.turns}
    shown = [by_id[int(number)] for number in re.findall(r'href="/admin/turn/([0-9]+)"', text)]
    endings = [row["ending"] for row in shown]
    assert text.count(">✓ answered<") == endings.count("answered")
    assert len(re.findall(">✕ (?:endpoint away|no steps left|empty reply)<", text)) == sum(
        ending in FAILURES for ending in endings
    )
    sums = [
        re.split(r" [+=] ", unescape(title)) for title in re.findall(r'class="bar"[^>]*><title>([^<]*)', text)
    ]
    accounts = [account for row in shown if (account := month.find_account(row["id"]))]
    assert len(sums) == len(accounts)
    for parts, account in zip(sums, accounts, strict=True):
        assert parts[-1] == format_duration(account["whole"])
        assert len(parts) == 1 + sum(account[name] > 0 for name in INTERVALS)


async def test_what_makes_no_sense_is_refused_and_what_is_not_there_is_an_empty_page(
    database: Database, database_url: str
):
    async with open_admin_page(database, database_url) as page:
        for query, sentence in {
            "before=1-2-3": "This page begins nowhere",
            "ending=happy": "The ending must be one of",
            "longer=long": "“long” is no number.",
            "outcome=badly": "The outcome must be one of",
            "unknown=all": "What is unknown must be one of",
            "steps=-1": "“-1” is no number.",
            "user=Ann": "A person is named by a number",
            "from=2026-02-30": "2026-02-30",
        }.items():
            assert sentence in await page.get_text(f"/admin/turns?{query}", 400)
        for query, sentence in {
            "before=1.5-1": "No older turn in this time.",
            "from=2024-01-01&to=2024-01-02": "No turn in this time. There will be one",
            "user=99": "No turn in this time fits all filters.",
            "tool=none": "No turn in this time fits all filters.",
            "chat=5:-100": "No turn in this time fits all filters.",
        }.items():
            text = await page.get_text(f"/admin/turns?{query}")
            assert sentence in text
            assert 'rel="next"' not in text


async def test_a_search_that_finds_little_goes_on_on_the_next_page(database: Database):
    month = await fill_month(database, 1, until=1_000_000_000.0)
    wanted = pick_turns(month, {"tool": "search", "steps": "2"})
    selection = TurnSelection(Scope(tool="search"), more_steps_than=2)
    found: list[int] = []
    pages = 0
    before: turn_list.Place | None = None
    async with database.transaction() as tx:
        while True:
            listed = await list_turns(tx, selection, before=before, limit=3, max_examined=20)
            found += [turn.sums.turn for turn in listed.turns]
            pages += 1
            before = listed.next
            if before is None:
                break
    assert found == wanted
    assert pages >= len(month.turns) // 20

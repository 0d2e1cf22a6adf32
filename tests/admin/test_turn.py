"""One turn equals `canvasgram turn` and its raw rows; charts are bounded; who reads texts is recorded."""

import json
import re
import time
from typing import Any

import pytest
from sqlalchemy import insert, select

from bot.admin.components import mark_ending
from bot.db.engine import Database
from bot.db.maintenance import retention
from bot.db.tables import audit, lives, messages, model_calls, share_holds, tool_calls
from bot.db.tools import approvals
from bot.db.tools.approvals import NewApprovalQuestion
from bot.domain import Lane
from bot.usage import report_command
from bot.usage.intervals import INTERVAL_ORDER, column_name
from bot.usage.refusals import describe_tool_outcome
from tests.support.admin_page import ANN, AdminPageHarness, build_running_gateway, open_admin_page
from tests.support.random_month import RandomMonth, Row, fill_month
from tests.support.usage_rows import NOON, UsageRows

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


async def read_table(page: AdminPageHarness, turn: int, table: str) -> list[Row]:
    answer = await page.http.get(f"/admin/turn/{turn}", params={"export": "json", "table": table})
    assert answer.status_code == 200, answer.text
    rows: list[Row] = answer.json()
    return rows


def read_shapes(text: str) -> list[list[str]]:
    """The titles of the shapes of each chart; each shape must have one, and a chart has 200 at most."""
    charts = []
    for chart in re.findall(r'<svg class="chart.*?</svg>', text, re.DOTALL):
        shapes = re.findall(
            r"<(?:rect|path|line|circle|polyline|polygon)\b[^>]*>(<title>([^<]+)</title>)?", chart
        )
        assert all(title for _, title in shapes)
        assert len(shapes) <= 200
        charts.append([title for _, title in shapes])
    return charts


def read_sum(text: str) -> tuple[list[float], float]:
    """The summands of the line below the intervals, and their sum."""
    line = re.search(r'<p class="sum">(.*?)</p>', text, re.DOTALL)
    assert line
    figures = [float(figure.replace(",", "")) for figure in re.findall(r"([0-9.,]+) s\b", line[1])]
    return figures[:-1], figures[-1]


def check_calls(rows: list[Row], month: RandomMonth, turn: int, received_at: float) -> None:
    for row, call in zip(rows, month.list_calls(turn), strict=True):
        assert row["at"] == round(call["created_at"] - received_at, 3)
        assert row["seat_wait"] == round(call["seat_at"] - call["created_at"], 3)
        assert row["first_canvas"] == round(call["first_block_at"] - call["seat_at"], 3)
        assert (row["input"], row["cached"]) == (call["prompt_tokens"], call["cached_tokens"])
        assert row["prompt"] == "instructions 800 + tools 1,200 + history 400 characters"
        assert row["server"] == "queue time 3.0 ms, time to first token 800.5 ms"
        output = call["completion_tokens"]
        shown = f"≥ {output:,}" if call["usage_partial"] and output is not None else output
        assert row["output"] == shown


def check_heading(text: str, account: Row) -> None:
    """The largest share that the heading names is that of the kind that took longest."""
    heading = re.search(r'<p class="longest">([^:]*): ([0-9]+) % ([^,<]*)', text)
    assert heading
    kinds = {"first_canvas": "model", "further_canvases": "model", "lane_wait": "waits", "seat_wait": "waits"}
    kinds |= {"intake": "own work", "own": "own work", "telegram": "delivery", "tools": "tools"}
    sums = {kind: sum(account[name] for name in kinds if kinds[name] == kind) for kind in kinds.values()}
    longest = max(sums, key=sums.__getitem__)
    assert int(heading[2]) == round(100 * sums[longest] / account["whole"])
    assert heading[3].partition(" (")[0] == longest
    waits = {"wait for this chat": account["lane_wait"], "wait for a seat": account["seat_wait"]}
    if longest == "waits":
        assert max(waits, key=waits.__getitem__) in heading[3]


async def test_turns_of_a_random_month_are_shown_as_they_were(database: Database, database_url: str):
    month = await fill_month(database, 1, until=1_790_000_000.0)
    async with open_admin_page(database, database_url) as page:
        for turn in month.turns[:8]:
            number = turn["id"]
            text = await page.get_text(f"/admin/turn/{number}")
            printed = json.loads(
                str(
                    await report_command.render_turn(
                        database_url, str(number), with_texts=False, as_json=True, now=time.time()
                    )
                )
            )
            check_calls(await read_table(page, number, "calls"), month, number, turn["received_at"])
            charts = read_shapes(text)
            drawn = [title for titles in charts for title in titles if ": its blocks, at " in title]
            assert len(drawn) == sum(
                row["block_ms"] is not None and row["last_block_at"] is not None
                for row in month.list_calls(number)
            )
            have_blocks = [row for row in month.list_calls(number) if row["last_block_at"] is not None]
            assert text.count('<path class="moments"') == len(have_blocks)
            tools = await read_table(page, number, "tools")
            assert [tool["outcome"] for tool in tools] == [
                tool["outcome"] and describe_tool_outcome(tool["outcome"], tool["refusal"])
                for tool in month.list_tools(number)
            ]
            assert [tool["refusal"] for tool in printed["tools"]] == [
                tool["refusal"] for tool in month.list_tools(number)
            ]
            account = month.find_account(number)
            intervals = await read_table(page, number, "intervals")
            if account is None:
                assert intervals == []
                assert printed["account"] == {}
                assert "Not known: the turn has no account (yet)." in text
                continue
            kept = {kind: account[column_name(kind)] for kind in INTERVAL_ORDER if account[column_name(kind)]}
            assert {row["interval"]: row["seconds"] for row in intervals} == kept
            assert {column_name(kind): value for kind, value in kept.items()}.items() <= printed[
                "account"
            ].items()
            summands, whole = read_sum(text)
            assert summands == list(kept.values())
            assert whole == pytest.approx(sum(summands), abs=0.001)
            assert len(charts[0]) == len(kept) + 1
            check_heading(text, account)
        assert (await page.http.get("/admin/turn/1?export=csv&table=calls")).text.startswith(
            "call,ending,step,at,"
        )
        assert "This page has the tables" in await page.get_text("/admin/turn/1?export=csv&table=x", 400)
        assert "There is no turn 999." in await page.get_text("/admin/turn/999", 404)
        await page.get_text(f"/admin/turn/{'9' * 18}", 404)
        await page.get_text("/admin/turn/none", 400)


def test_what_somebody_or_a_limit_ended_is_no_fault():
    marks = {ending: mark_ending(ending) for ending in ("answered", "ok", "cut", "cancelled", "failed", None)}
    good, bad, neutral = ("✓", "good"), ("✕", "bad"), ("○", "plain")
    assert [*marks.values()] == [good, good, neutral, neutral, bad, neutral]


async def test_a_turn_that_another_gateway_went_on_with_says_so(database: Database, database_url: str):
    turn = await UsageRows(database).add_turn(ended_at=NOON + 8)
    async with database.transaction() as tx:
        for life in (1, 2):
            await tx.execute(insert(lives).values(id=life, began_at=NOON - 60, seen_at=NOON))
        for hold in ((1, NOON - 60, NOON + 1), (2, NOON + 1.5, None)):
            columns = dict(zip(("life", "began_at", "ended_at"), hold, strict=True))
            await tx.execute(insert(share_holds).values(share=Lane(5).share, epoch=hold[0], **columns))
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text(f"/admin/turn/{turn}")
        assert '<a href="/admin/turns" aria-current="true">Turns</a>' in text
    assert "1.500 s: another gateway took over: 2 from 1, after 0.500 s without one." in text


async def test_odd_turns_have_a_page(database: Database, database_url: str):
    rows = UsageRows(database)
    long = await rows.add_turn(ended_at=NOON + 1_000)
    calls: list[dict[str, Any]] = [
        {
            "step": number,
            "created_at": NOON + 2 * number,
            "seat_at": NOON + 2 * number,
            "ended_at": NOON + 2 * number + 1,
        }
        for number in range(1, 501)
    ]
    columns = {"purpose": "turn", "endpoint": "main", "model": "m", "thinking": False, "tools_offered": 0}
    async with database.transaction() as tx:
        await tx.execute(insert(model_calls), [call | columns | {"turn": long} for call in calls])
    still_open = await rows.add_turn(state="running", ending=None, ended_at=None)
    await rows.add_call(still_open, seat_at=None, ended_at=None, outcome=None, completion_tokens=None)
    lost = await rows.add_turn()
    await rows.add_call(lost, ended_at=None, outcome=None, finish_reason=None, first_block_at=NOON + 3)
    await rows.add_call(
        lost, created_at=NOON + 6, seat_at=NOON + 6, first_block_at=NOON + 7, ended_at=NOON + 8
    )
    await rows.add_tool_call(lost, ended_at=None, outcome=None, state="running", result=None)
    empty = await rows.add_turn()
    async with open_admin_page(database, database_url) as page:
        text = await page.get_text(f"/admin/turn/{long}")
        (timeline,) = read_shapes(text)
        assert "The first 44 of 500 calls." in text
        assert any(title.startswith("call 44:") for title in timeline)
        assert not any(title.startswith("call 45:") for title in timeline)
        assert len(await read_table(page, long, "calls")) == 500
        (timeline,) = read_shapes(await page.get_text(f"/admin/turn/{still_open}"))
        assert "call 1: no seat; has not ended" in timeline
        (timeline,) = read_shapes(await page.get_text(f"/admin/turn/{lost}"))
        assert "call 1: 0 blocks until 3.0 s; its end is unknown" in timeline
        assert "clock: no result, end unknown" in timeline
        assert "call 2: first text, 1.0 s" in timeline
        text = await page.get_text(f"/admin/turn/{empty}")
        assert "No model was called." in text
        assert len(read_shapes(text)) == 1


async def test_a_turn_says_who_allowed_a_call(database: Database, database_url: str):
    rows = UsageRows(database)
    turn = await rows.add_turn()
    await rows.add_tool_call(turn)
    async with database.transaction() as tx:
        (call,) = await tx.execute(select(tool_calls.c.step, tool_calls.c.call_id))
        question = NewApprovalQuestion(
            turn, call.step, call.call_id, "clock", "{}", "", 5, Lane(5), "admins", "", None, NOON + 9
        )
        asked = await approvals.insert_question(tx, question, now=NOON)
        await approvals.store_answer(tx, asked, "once", ANN, now=NOON + 2)
    async with open_admin_page(database, database_url) as page:
        (row,) = await read_table(page, turn, "tools")
        assert "allowed once by Ann, after 2.0 s" in row.values()


async def fill_texts(database: Database) -> int:
    """A turn in which every text is hostile."""
    rows = UsageRows(database)
    turn = await rows.add_turn(thinking_why=HOSTILE, endpoint_why=HOSTILE)
    odd = {
        "purpose": HOSTILE,
        "again": HOSTILE,
        "error": HOSTILE,
        "finish_reason": HOSTILE,
        "outcome": HOSTILE,
    }
    await rows.add_call(turn, **odd, model=HOSTILE, usage_missing=HOSTILE)
    await rows.add_tool_call(
        turn, HOSTILE, arguments=HOSTILE, result=f"{HOSTILE}{'x' * 9_000}", outcome=HOSTILE
    )
    async with database.transaction() as tx:
        message = {"turn": turn, "role": "user", "text": f"my secret {HOSTILE}", "made_at": NOON}
        await tx.execute(insert(messages).values(message))
    return turn


async def list_audit(database: Database) -> list[tuple[Any, ...]]:
    async with database.transaction() as tx:
        query = select(audit.c.who, audit.c.via, audit.c.what, audit.c.subject, audit.c.after)
        return [tuple(row) for row in await tx.execute(query.where(audit.c.what == "texts read"))]


async def test_texts_are_shown_for_a_reason_that_is_recorded_first(database: Database, database_url: str):
    turn = await fill_texts(database)
    async with open_admin_page(database, database_url, gateway=build_running_gateway(database)) as page:
        text = await page.get_text(f"/admin/turn/{turn}")
        assert "my secret" not in text
        assert "<script>" not in text
        assert "<img" not in text
        csrf = re.search(r'name="csrf" value="([^"]+)"', text)
        assert csrf
        form = {"csrf": csrf[1], "reason": "  Bob asked\nwhy it failed "}
        path = f"/admin/turn/{turn}/texts"
        for wrong in ({"csrf": "x"}, {"reason": ""}, {"reason": "x" * 201}):
            assert (await page.http.post(path, data=form | wrong)).status_code in {400, 403}
        assert (await page.http.get(path)).status_code == 405
        assert (await page.http.post("/admin/turn/999/texts", data=form)).status_code == 404
        assert await list_audit(database) == []
        shown = (await page.http.post(path, data=form)).text
        reason = '{"reason": "Bob asked why it failed"}'
        assert await list_audit(database) == [(ANN, "page", "texts read", f"turn {turn}", reason)]
        assert "my secret &lt;script&gt;" in shown
        assert "<script>" not in shown
        assert "<img" not in shown
        assert "characters more" in shown
        await retention.forget(database, retention.build_lane_scope(Lane(5), item=99, asked_at=time.time()))
        text = await page.get_text(f"/admin/turn/{turn}")
        assert "They were deleted" in text
        assert 'name="reason"' not in text
        assert (await read_table(page, turn, "calls"))[0]["input"] == 1000
    other = await UsageRows(database).add_turn(item=99)
    async with open_admin_page(database, database_url) as page:
        assert f"canvasgram turn {other} --texts" in await page.get_text(f"/admin/turn/{other}")

"""Usage is reported while the gateway works: in the chat by /usage, beside it by report and turn."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.db.usage import spending
from bot.db.usage.spending import SpendingOverview
from bot.usage.report import INTERVAL_COLUMNS
from bot.usage.report_command import ReportOptions, render_report, render_turn
from tests.support.gateway import ADMIN, GatewayHarness, name_noon_zone, running_gateway
from tests.support.terminal_text import lay_out


async def load_report(gateway: GatewayHarness, **options: Any) -> Any:
    answer = await render_report(
        gateway.settings.database_url, ReportOptions(form="json", **options), now=0.0
    )
    return json.loads(str(answer))


async def test_a_report_beside_the_gateway_tells_what_the_chat_tells(tmp_path: Path):
    async with running_gateway(tmp_path, time_zone=name_noon_zone()) as gateway:
        gateway.ann.send("@@think:hm@@@@say:one@@")
        await gateway.wait_for_texts()
        gateway.ann.send("/usage")
        usage = (await gateway.wait_for_texts(2))[-1].splitlines()
        report = await load_report(gateway, user=ADMIN)
        assert (report["all"]["turns"], report["all"]["calls"]) == (1, 1)
        assert usage[0].startswith("Answer: ")
        assert usage[0].endswith(f", {report['all']['canvases_estimated']} canvas est.")
        assert [line.partition(":")[0] for line in usage[2:4]] == ["Today", "30 d"]
        assert all(line.endswith(", 1 canvas est.") for line in usage[2:4])
        turn = lay_out(
            await render_turn(gateway.settings.database_url, "1", with_texts=False, as_json=False, now=0.0)
        )
        assert turn.startswith(f"Turn 1 in chat {ADMIN}, of Ann ({ADMIN}): answered")
        assert "call 1: ok, finish reason stop" in turn
        assert "say:one" not in turn


async def test_the_details_and_the_ledger_agree_on_where_the_seconds_went(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("@@say:one@@")
        await gateway.wait_for_texts()
    report = await load_report(gateway)
    assert report["all"]["turns_without_account"] == 0
    *intervals, whole = [report["all"][f"{name}_seconds"] for name in (*INTERVAL_COLUMNS[1:], "whole")]
    assert abs(sum(intervals) - whole) < 0.001


async def test_others_are_served_while_usage_all_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    is_summing = asyncio.Event()
    can_continue = asyncio.Event()
    load_overview = spending.load_overview

    async def load_slowly(*args: Any) -> SpendingOverview:
        is_summing.set()
        await can_continue.wait()
        return await load_overview(*args)

    monkeypatch.setattr(spending, "load_overview", load_slowly)
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("/usage all")
        try:
            await is_summing.wait()
            gateway.api.person(8, "Bob").send("/id")
            assert await gateway.wait_for_texts(chat=8) == ["Your Telegram ID is 8."]
            assert gateway.texts() == []
        finally:
            can_continue.set()
        assert await gateway.wait_for_texts() == ["Nothing yet in the last 30 days."]


async def test_the_chart_arrives_as_a_photo(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("@@say:one@@")
        await gateway.wait_for_texts()
        gateway.ann.send("/usage chart")
        await gateway.api.wait_until(
            lambda: any("photo" in message.raw for message in gateway.api.chat(ADMIN).bot_messages)
        )
        photo = next(message for message in gateway.api.chat(ADMIN).bot_messages if "photo" in message.raw)
        assert photo.raw["caption"] == "You, the last 30 days (UTC)"
        body = gateway.api.find_file(photo.raw["photo"][0]["file_id"])
        assert body is not None
        assert body.startswith(b"\x89PNG")

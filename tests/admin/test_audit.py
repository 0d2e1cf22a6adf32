"""Audit: its figures are those of the report and of the raw rows, and no secret is ever on the page."""

import csv
import io
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bot.admin.keyset_pages import PAGE_ROWS
from bot.admin.record_tables import build_settings_table
from bot.bench.endpoint.output import format_json as format_bench
from bot.bench.endpoint.result import BenchResult, MeasuredCall, MeasuredRow
from bot.db.engine import Database
from bot.settings import build_settings
from bot.usage.local_times import format_utc
from bot.usage.report_command import ReportOptions, render_audit, render_report
from tests.admin.test_now import get_figures
from tests.support.admin_page import AdminPageHarness, open_admin_page
from tests.support.random_month import Row, fill_month
from tests.support.random_record import NAMES, fill_record
from tests.support.usage_rows import UsageRows

SECRETS = {
    "model_api_key": "a-key-of-the-model",
    "secrets_key": "qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4=",
}
COUNTS = {"prompt_tokens": "input", "cached_tokens": "cached", "completion_tokens": "output"}


async def export(page: AdminPageHarness, path: str, form: str = "json") -> Any:
    text = await page.get_text(path + f"&export={form}")
    return json.loads(text) if form == "json" else list(csv.DictReader(io.StringIO(text)))


async def follow_pages(page: AdminPageHarness, path: str) -> list[list[Row]]:
    """The rows of a long list, page by page as its links lead."""
    pages = []
    while True:
        pages.append(await export(page, path))
        text = await page.get_text(path)
        if 'rel="next"' not in text:
            return pages
        link = text.partition('<nav class="pager"')[2].partition(">Older<")[0].rpartition('href="')[2]
        path = link.partition('"')[0].replace("&amp;", "&")


def list_unknown(calls: list[Row]) -> list[Row]:
    return [
        call
        for call in calls
        if call["usage_partial"] or None in [call[name] for name in (*COUNTS, "reasoning_tokens")]
    ]


def name_reason(call: Row) -> str:
    if call["usage_missing"]:
        return str(call["usage_missing"])
    return "the call has not ended" if call["outcome"] is None else "the server did not tell"


async def check_unknown_usage(page: AdminPageHarness, report: Row, calls: list[Row]) -> None:
    rows = await export(page, "/admin/audit?period=90d&table=unknown-usage")
    unknown = list_unknown(calls)
    assert {row["reason"]: row["calls"] for row in rows} == Counter(map(name_reason, unknown))
    for column, name in COUNTS.items():
        missing = sum(call[column] is None for call in calls)
        assert sum(row[name] for row in rows) == missing == report["all"][f"{name}_tokens_unknown_calls"]
    partial = sum(call["usage_partial"] and call["completion_tokens"] is not None for call in calls)
    assert sum(row["partial"] for row in rows) == partial == report["all"]["partly_counted_calls"]
    text = await page.get_text("/admin/audit?period=90d")
    assert f'/admin/turns?period=90d&amp;unknown=any">{len(unknown):,}</a>' in text


async def check_readings(page: AdminPageHarness, database_url: str, report: Row, raw: list[Row]) -> None:
    gap = sum(row["gap"] or 0 for row in raw)
    assert gap == report["server"]["token_gap"]
    text = await page.get_text("/admin/audit?period=90d")
    assert f'only=gaps">{gap:,}</a>' in text
    assert get_figures(text)["Steps a canvas"] == "14.0"
    pages = await follow_pages(page, "/admin/audit/readings?period=90d")
    assert [len(rows) for rows in pages] == [PAGE_ROWS, len(raw) - PAGE_ROWS]
    options = ReportOptions(since="90d", what="readings", top=500, form="json")
    listed = json.loads(str(await render_report(database_url, options, now=time.time())))
    rows = [row for rows in pages for row in rows]
    assert rows == [{name: record[name] for name in rows[0]} for record in listed]
    gaps = await follow_pages(page, "/admin/audit/readings?period=90d&only=gaps")
    assert sum(map(len, gaps)) == sum(bool(row["gap"]) for row in raw)


async def check_changes(page: AdminPageHarness, database_url: str, raw: list[Row]) -> None:
    pages = await follow_pages(page, "/admin/audit/changes?period=90d")
    options = ReportOptions(since="90d", form="json")
    listed = json.loads(str(await render_audit(database_url, options, now=time.time())))
    assert [row | {"id": 0} for rows in pages for row in rows] == [entry | {"id": 0} for entry in listed]
    assert len(listed) == len(raw)
    blocked = await follow_pages(page, "/admin/audit/changes?period=90d&what=blocked&user=12")
    expected = [row["at"] for row in reversed(raw) if (row["what"], row["who"]) == ("blocked", 12)]
    assert [row["at"] for rows in blocked for row in rows] == list(map(format_utc, expected))
    lines = await export(page, "/admin/audit/changes?period=90d&subject=person+13", form="csv")
    assert len(lines) == min(PAGE_ROWS, sum(row["subject"] == "person 13" for row in raw))
    text = await page.get_text("/admin/audit/changes?period=90d")
    assert NAMES[12] not in text
    assert "role: member" in text


async def test_every_figure_is_the_reports_and_that_of_the_raw_rows(database: Database, database_url: str):
    seed = 1
    month = await fill_month(database, seed)
    readings, changes = await fill_record(database, seed, until=time.time())
    await UsageRows(database).add_call(None, purpose="warmup", cached_tokens=None, created_at=time.time())
    calls = [*month.calls, dict.fromkeys(month.calls[0], 0) | {"cached_tokens": None, "outcome": "ok"}]
    async with open_admin_page(database, database_url) as page:
        async with database.transaction() as tx:  # what the test's own login wrote
            await tx.exec_driver_sql("DELETE FROM audit WHERE what = 'logged in'")
        text = await render_report(database_url, ReportOptions(since="90d", form="json"), now=time.time())
        report = json.loads(str(text))
        await check_unknown_usage(page, report, calls)
        await check_readings(page, database_url, report, readings)
        await check_changes(page, database_url, changes)
        for path in (
            "/changes?user=x",
            "/readings?only=x",
            "/readings?before=x",
            "?period=9y",
            "?export=csv&table=x",
        ):
            assert 'role="alert"' in await page.get_text(f"/admin/audit{path}", 400)


@pytest.mark.sqlite
async def test_what_is_stored_is_shown_and_no_secret_is(
    database: Database, database_url: str, tmp_path: Path
):
    backups = tmp_path / "backups"
    backups.mkdir()
    (backups / "canvasgram-20261120T033000Z.db").write_bytes(b"x" * 3_145_728)
    (backups / "canvasgram-20261119T033000Z.db").write_bytes(b"x")
    (backups / "another.txt").write_bytes(b"x")
    settings: dict[str, Any] = SECRETS | {
        "backup_dir": backups,
        "system_prompt": f"Say {SECRETS['model_api_key']}.",
    }
    async with open_admin_page(database, database_url, **settings) as page:
        text = await page.get_text("/admin/audit") + await page.get_text("/admin/audit/settings")
        exported = await page.get_text("/admin/audit/settings?export=json")
        for secret in SECRETS.values():
            assert secret not in text
            assert secret not in exported
        rows = {row["name"]: row for row in json.loads(exported)}
        assert rows["MODEL_API_KEY"] == {"name": "MODEL_API_KEY", "value": "hidden", "from": "set"}
        assert (rows["SYSTEM_PROMPT"]["value"], rows["MODEL_SEATS"]["value"]) == ("Say hidden.", "4")
        assert (rows["MODEL_SEATS"]["from"], rows["SEARCH_KEY"]["value"]) == ("default", "unset")
        assert "These are the settings of this command." in text
        files = await export(page, "/admin/audit?table=backups")
        assert [(row["made_at"], row["bytes"]) for row in files] == [
            ("2026-11-20 03:30:00", 3_145_728),
            ("2026-11-19 03:30:00", 1),
        ]
        assert "Nothing is stored." in text
        bench = tmp_path / "bench" / "canvasgram-bench.json"
        bench.parent.mkdir()
        calls = (MeasuredCall(1.5, 300, 0.5),)
        rows_measured = tuple(
            MeasuredRow("one", "one canvas", way, True, "off", 1, "warm", 1, calls, 1.5)
            for way in ("direct", "gateway")
        )
        bench.write_text(format_bench(BenchResult(rows_measured, (("hardware", "<a GPU>"),))))
        measured = await export(page, "/admin/audit?table=bench")
        assert [(row["way"], row["seconds_an_answer"]) for row in measured] == [
            ("direct, streamed", 1.5),
            ("gateway", 1.5),
        ]
        assert "hardware: &lt;a GPU&gt;" in await page.get_text("/admin/audit")
        bench.write_text('{"rows": [{"label": 3}]}')
        assert "holds no result of this version" in await page.get_text("/admin/audit")


def test_every_setting_that_is_a_secret_is_hidden() -> None:
    keys = ("model_api_key", "transcribe_api_key", "speech_api_key", "fallback_api_key", "search_key")
    secrets = {name: f"the-{name}" for name in keys} | {"telegram_token": "123:a-token"}
    settings = build_settings(**SECRETS | secrets, fallback_url="http://spare:8001/v1")
    table = build_settings_table(settings)
    assert len(settings.list_secrets()) == len(secrets) + 1
    shown = [str(text) for row in table.rows for cell in row for text in (cell.value, cell.text)]
    assert not [text for text in shown for secret in settings.list_secrets() if secret in text]
    hidden = {row[0].value for row in table.rows if row[1].value == "hidden"}
    assert hidden == {name.upper() for name in (*secrets, "secrets_key")}

"""Changes by admins are listed newest first, in every format, and no terminal or spreadsheet obeys their
texts.
"""

import csv
import io
import json
from typing import Any

import pytest

from bot.db.engine import Database
from bot.db.tools import audit
from bot.db.tools.audit import MACHINE, Actor, AuditEntry
from bot.errors import NothingFound, QuestionRefused
from bot.usage import audit_report
from bot.usage.report_command import ReportOptions, render_audit
from tests.support.terminal_text import lay_out

NOW = 1_700_000_000.0
ADA = Actor(1, "telegram")


@pytest.fixture
async def filled(database: Database, database_url: str) -> str:
    """A rule set by Ada a day ago, and a source of a strange name added on the machine now."""
    async with database.transaction() as tx:
        change = ({"ask": "never"}, {"ask": "always", "who": "admins"})
        await audit.record(tx, ADA, "set a rule", "tool clock", change=change, now=NOW - 86_400)
        await audit.record(
            tx, MACHINE, "added", "=cmd()\x1b[31m", change=(None, {"tools": ["a", "b"]}), now=NOW
        )
    return database_url


async def render(url: str, **options: Any) -> str:
    return lay_out(await render_audit(url, ReportOptions(**options), now=NOW + 1))


async def test_the_newest_change_comes_first_with_what_was_before_and_after(filled: str):
    lines = (await render(filled)).splitlines()
    assert lines[0] == "Changes by admins"
    assert "the machine" in lines[2]
    assert lines[3].split("  ")[0] == "2023-11-13 22:13:20"
    assert "ask: never" in lines[3]
    assert "ask: always, who: admins" in lines[3]


async def test_a_change_is_found_by_its_time_and_its_admin(filled: str):
    assert [record["what"] for record in json.loads(await render(filled, since="1h", form="json"))] == [
        "added"
    ]
    assert [record["what"] for record in json.loads(await render(filled, user=1, form="json"))] == [
        "set a rule"
    ]
    assert [record["what"] for record in json.loads(await render(filled, until="2h", form="json"))] == [
        "set a rule"
    ]
    assert [record["id"] for record in json.loads(await render(filled, top=1, form="json"))] == [2]


async def test_nothing_of_a_change_is_obeyed(filled: str):
    assert "\x1b" not in await render(filled)
    rows = list(csv.DictReader(io.StringIO(await render(filled, form="csv"))))
    assert rows[0]["subject"].startswith("'=cmd()\\x1b")


async def test_what_an_audit_cannot_tell_is_said(filled: str, database: Database):
    with pytest.raises(NothingFound):
        await render(filled, user=99)
    for options in ({"by": "day"}, {"chat": "5"}, {"what": "turns"}):
        with pytest.raises(QuestionRefused):
            await render(filled, **options)


def test_a_nested_value_is_shown_as_json_and_a_flat_one_as_text():
    entry = AuditEntry(1, NOW, None, "command", "added", "x", None, {"tools": [{"a": 1}]})
    assert audit_report.build_records([entry])[0]["after"] == '{"tools": [{"a": 1}]}'
    flat = AuditEntry(1, NOW, None, "command", "added", "x", None, {"tools": ["a", "b"], "kind": "openapi"})
    assert audit_report.build_records([flat])[0]["after"] == "tools: a + b, kind: openapi"
    assert audit_report.build_records([entry])[0]["before"] == "–"

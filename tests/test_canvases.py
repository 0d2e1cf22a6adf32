"""What a canvas is, and which calls cost some, is said once in Python and once in SQL, and they agree."""

import re
from pathlib import Path
from typing import get_args

import pytest
from sqlalchemy import select

import bot
from bot.canvases import CANVAS_TOKENS, costs_canvases, count_canvases
from bot.db.engine import Database
from bot.db.tables import model_calls
from bot.db.usage.ledger_columns import CANVAS_COST, IS_TYPED_READ
from bot.domain import CallPurpose
from tests.support.usage_rows import UsageRows

HOMES = {"canvases.py", "db/usage/ledger_columns.py"}
DIVISION = re.compile(r"// *\(?(CANVAS_TOKENS|256\b)|(CANVAS_TOKENS|\b256) *- *1\b")
PURPOSES = get_args(CallPurpose)


@pytest.mark.parametrize(("tokens", "canvases"), [(0, 0), (1, 1), (256, 1), (257, 2), (1000, 4)])
def test_a_reply_takes_whole_canvases(tokens: int, canvases: int):
    assert count_canvases(tokens) == canvases


async def test_sql_and_python_agree_on_every_purpose_and_length(database: Database):
    ledger = UsageRows(database)
    lengths = (None, 0, 1, CANVAS_TOKENS, CANVAS_TOKENS + 1, 3000)
    for purpose in PURPOSES:
        for tokens in lengths:
            await ledger.add_call(None, purpose=purpose, completion_tokens=tokens)
    columns = (model_calls.c.purpose, model_calls.c.completion_tokens, CANVAS_COST, IS_TYPED_READ)
    async with database.read_transaction() as tx:
        rows = (await tx.execute(select(*columns))).all()
    assert len(rows) == len(PURPOSES) * len(lengths)
    for purpose, tokens, cost, is_read in rows:
        assert is_read is not costs_canvases(purpose)
        assert cost == (count_canvases(tokens) if tokens is not None and not is_read else None)


def test_nobody_else_says_what_a_canvas_is():
    folder = Path(bot.__file__).parent
    files = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    own = {name: text for name, text in files.items() if not name.startswith("sim/")}  # knows no gateway
    assert {name for name, text in own.items() if DIVISION.search(text)} <= HOMES
    purpose = re.compile(r"purpose\s*(==|!=|in|not in)\s*[\"'({]+(decision|address)")
    assert {name for name, text in own.items() if purpose.search(text)} == set()

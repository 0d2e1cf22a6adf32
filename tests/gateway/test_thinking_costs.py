"""What thinking has cost decides, in the whole gateway, how sure a turn must be before it thinks."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.turns import preflight
from bot.turns.thought_costs import MIN_THOUGHTS
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import running_gateway

OPEN_TEXT = "ቡችላዎች ስንት ዓመት ይኖራሉ"  # no word of it is known, so the endpoint is asked


def load_decisions(folder: Path) -> list[tuple[bool, str]]:
    with closing(sqlite3.connect(folder / "gateway.db")) as database:
        rows = database.execute("select thinking, thinking_why from turns order by id").fetchall()
    return [(bool(thinking), reason) for thinking, reason in rows]


@pytest.mark.sqlite
async def test_a_turn_thinks_sooner_where_thoughts_have_been_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "QUICK_SECONDS", 60.0)
    endpoint = ScriptedEndpoint(judge=lambda question: (78, 22))
    async with running_gateway(tmp_path, endpoint, thinking_read="auto") as gateway:
        gateway.ann.send(OPEN_TEXT)
        await gateway.wait_for_texts(1)
    async with running_gateway(tmp_path, endpoint, thinking="on") as gateway:
        for number in range(1, MIN_THOUGHTS + 1):
            gateway.ann.send("@@think:hm@@@@say:done@@")
            await gateway.wait_for_texts(number)
    async with running_gateway(tmp_path, endpoint, thinking_read="auto") as gateway:
        gateway.ann.send(OPEN_TEXT)
        await gateway.wait_for_texts(1)
    (before, *_, after) = load_decisions(tmp_path)
    assert (before[0], after[0]) == (False, True)
    assert before[1].startswith("in doubt: heavy by its words ")
    assert before[1].endswith(", by the endpoint 78%")
    assert after[1].startswith(f"{before[1]}; thinking is cheap here: about ")
    assert [request.thinking for request in endpoint.requests[-1:]] == [True]

"""An independent clock for the accounts of turns: read where Telegram's client returns, it knows no spans and
no rows. And what must be true of every account.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from telegram.request import HTTPXRequest, RequestData

KINDS = (
    *(
        "intake",
        "lane_wait",
        "seat_wait",
        "first_canvas",
        "further_canvases",
        "tools",
        "approval_wait",
        "telegram",
    ),
    *("back_off", "down", "own"),
)


@dataclass
class TelegramClock:
    """When getUpdates first returned an update, and when a call about a message last returned; epoch seconds."""

    fetched_at: dict[int, float] = field(default_factory=dict)
    shown_at: dict[int, float] = field(default_factory=dict)
    _anchor: float = field(default_factory=lambda: time.time() - time.monotonic())

    @contextmanager
    def observe(self) -> Iterator["TelegramClock"]:
        """Look at every answer of Telegram while the block runs."""
        original = HTTPXRequest.do_request
        border = self

        async def do_request(
            request: HTTPXRequest, url: str, method: str, request_data: RequestData | None = None, **more: Any
        ) -> tuple[int, bytes]:
            status, body = await original(request, url, method, request_data, **more)
            border._record(url.rpartition("/")[2], request_data.json_parameters if request_data else {}, body)
            return status, body

        HTTPXRequest.do_request = do_request  # type: ignore[assignment]
        try:
            yield self
        finally:
            HTTPXRequest.do_request = original  # type: ignore[method-assign]

    def _record(self, method: str, parameters: dict[str, str], body: bytes) -> None:
        now = self._anchor + time.monotonic()
        if method == "editMessageText" and b"not modified" in body:
            self.shown_at[int(parameters["message_id"])] = now  # it stood there, only the answer was lost
        try:
            result = json.loads(body)["result"]
        except (ValueError, KeyError, TypeError):
            return  # Telegram refused, or a web server's page
        if method == "getUpdates":
            for update in result:
                self.fetched_at.setdefault(update["update_id"], now)
        elif method == "sendMessage":
            self.shown_at[result["message_id"]] = now
        elif method == "editMessageText":
            self.shown_at[int(parameters["message_id"])] = now


@dataclass(frozen=True)
class BreakdownRow:
    """One account beside the rows of its turn."""

    turn: int
    ending: str
    update_id: int | None
    received_at: float
    ended_at: float
    settled_at: float
    whole: float
    seconds: dict[str, float]
    parts: tuple[tuple[str, int | None], ...]  # state and message of each


def load_breakdowns(file: Path) -> list[BreakdownRow]:
    """All accounts of a database."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        query = (
            "select a.*, t.ending, t.item, t.received_at, t.ended_at, i.update_id from accounts a"
            " join turns t on t.id = a.turn join inbox i on i.id = t.item order by a.turn"
        )
        found = []
        for row in connection.execute(query):
            of_turn = "select state, message_id from outbox where item = ? and body is not null order by part"
            parts = tuple((state, message) for state, message in connection.execute(of_turn, (row["item"],)))
            names = ("turn", "ending", "update_id", "received_at", "ended_at", "settled_at", "whole")
            seconds = {kind: row[kind] for kind in KINDS}
            found.append(BreakdownRow(**{name: row[name] for name in names}, seconds=seconds, parts=parts))
        return found


def check_breakdowns(file: Path) -> list[BreakdownRow]:
    """Every turn that ended has its account; none has a gap or a negative interval. Returns the accounts."""
    found = load_breakdowns(file)
    with closing(sqlite3.connect(file)) as connection:
        ended = [
            turn
            for (turn,) in connection.execute("select id from turns where ended_at is not null order by id")
        ]
        left = connection.execute("select id, spans from inbox where spans is not null").fetchall()
        counted = connection.execute("select sum(count) from durations where kind = 'whole'").fetchone()[0]
    assert [book.turn for book in found] == ended
    assert left == []
    assert counted == len(found)
    for book in found:
        assert all(value >= 0 for value in book.seconds.values()), book
        assert abs(sum(book.seconds.values()) - book.whole) < 0.0005, book
        assert book.seconds["own"] + book.seconds["down"] > 0, book
    return found


def compare_with_clock(breakdowns: list[BreakdownRow], clock: TelegramClock) -> int:
    """Hold accounts against the independent clock; returns how many could be.

    The clock is read before the house reads its own, at the beginning and at the end. Either reading may come
    late on a busy machine, so that the bound on each turn is wide, and that of a millisecond is for the
    quickest quarter.
    """
    begins, ends = list[float](), list[float]()
    for book in breakdowns:
        messages = [message for state, message in book.parts if state == "done" and message is not None]
        if book.update_id is None or len(messages) < len(book.parts):
            continue  # begun by the house, or given up
        last = max(clock.shown_at[message] for message in messages)
        if last < book.ended_at:
            continue  # it stood there before the turn ended
        begins.append(book.received_at - clock.fetched_at[book.update_id])
        ends.append(book.received_at + book.whole - last)
    assert all(-0.0005 < late < 2 for late in (*begins, *ends)), (begins, ends)
    assert all(quantiles(late, n=4)[0] < 0.001 for late in (begins, ends)), (begins, ends)
    return len(begins)

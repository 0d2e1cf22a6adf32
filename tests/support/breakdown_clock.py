"""An independent clock for the breakdowns of turns, and what must be true of every breakdown.

The clock is read where Telegram's client returns; it knows no spans and no rows.
"""

import asyncio
import json
import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telegram.request import HTTPXRequest, RequestData

KINDS = (
    *(
        "intake",
        "lane_wait",
        "starting",
        "preflight",
        "seat_wait",
        "server_queue",
        "first_canvas",
        "further_canvases",
        "failed_calls",
        "tools",
        "approval_wait",
        "telegram",
    ),
    *("back_off", "down", "own"),
)


@dataclass
class TelegramClock:
    """When getUpdates first returned an update and was called next, and a call about a message last returned.

    Epoch seconds, by update id and by message id.
    """

    fetched_at: dict[int, float] = field(default_factory=dict)
    polled_again_at: dict[int, float] = field(default_factory=dict)
    shown_at: dict[int, float] = field(default_factory=dict)
    _anchor: float = field(default_factory=lambda: time.time() - time.monotonic())

    @contextmanager
    def observe(self) -> Iterator["TelegramClock"]:
        """Observe every answer of Telegram while the block runs."""
        original = HTTPXRequest.do_request
        clock = self

        async def do_request(
            request: HTTPXRequest,
            url: str,
            method: str,
            request_data: RequestData | None = None,
            *timeouts: Any,
            **options: Any,
        ) -> tuple[int, bytes]:
            if url.endswith("/getUpdates"):
                clock._note_poll()
            status, body = await original(request, url, method, request_data, *timeouts, **options)
            parameters = request_data.json_parameters if request_data else {}
            clock._record(url.rpartition("/")[2], parameters, body)
            return status, body

        HTTPXRequest.do_request = do_request  # type: ignore[assignment]
        try:
            yield self
        finally:
            HTTPXRequest.do_request = original  # type: ignore[method-assign]

    def _note_poll(self) -> None:
        """Note that what was fetched so far is stored: only then more is asked for."""
        now = self._anchor + time.monotonic()
        for update in self.fetched_at.keys() - self.polled_again_at.keys():
            self.polled_again_at[update] = now

    def _record(self, method: str, parameters: dict[str, str], body: bytes) -> None:
        now = self._anchor + time.monotonic()
        if method == "editMessageText" and b"not modified" in body:
            self.shown_at[int(parameters["message_id"])] = now  # it was shown, only the answer was lost
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
    """One breakdown with the rows of its turn; `parts` are the state and message id of each."""

    turn: int
    ending: str
    update_id: int | None
    received_at: float
    ended_at: float
    settled_at: float
    whole: float
    seconds: dict[str, float]
    parts: tuple[tuple[str, int | None], ...]


def load_breakdowns(file: Path) -> list[BreakdownRow]:
    """All breakdowns of a database."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        query = (
            "select a.*, t.ending, t.item, t.received_at, t.ended_at, i.update_id from accounts a"
            " join turns t on t.id = a.turn join inbox i on i.id = t.item order by a.turn"
        )
        breakdowns = []
        for row in connection.execute(query):
            query_parts = (
                "select state, message_id from outbox where item = ? and body is not null order by part"
            )
            parts = tuple(
                (state, message) for state, message in connection.execute(query_parts, (row["item"],))
            )
            names = ("turn", "ending", "update_id", "received_at", "ended_at", "settled_at", "whole")
            seconds = {kind: row[kind] for kind in KINDS}
            columns = {name: row[name] for name in names}
            breakdowns.append(BreakdownRow(**columns, seconds=seconds, parts=parts))
        return breakdowns


async def wait_for_breakdowns(file: Path) -> None:
    """Wait until every ended turn has its breakdown: it comes with what Telegram said of the last message."""
    query = "select count(*) from turns where ended_at is not null and id not in (select turn from accounts)"
    with closing(sqlite3.connect(file)) as connection:
        async with asyncio.timeout(60):
            while connection.execute(query).fetchone()[0]:  # noqa: ASYNC110  # another process or thread writes it
                await asyncio.sleep(0.02)


def check_breakdowns(file: Path) -> list[BreakdownRow]:
    """Assert that every ended turn has its breakdown; none has a gap or a negative interval.

    Returns the breakdowns.
    """
    breakdowns = load_breakdowns(file)
    with closing(sqlite3.connect(file)) as connection:
        ended = [
            turn
            for (turn,) in connection.execute("select id from turns where ended_at is not null order by id")
        ]
        unsettled = connection.execute("select id, spans from inbox where spans is not null").fetchall()
    assert [breakdown.turn for breakdown in breakdowns] == ended
    assert unsettled == []
    for breakdown in breakdowns:
        seconds = breakdown.seconds
        assert all(value >= 0 for value in seconds.values()), breakdown
        assert abs(sum(seconds.values()) - breakdown.whole) < 0.0005, breakdown
        assert seconds["own"] + seconds["down"] > 0, breakdown
    return breakdowns


def compare_with_clock(breakdowns: list[BreakdownRow], clock: TelegramClock) -> int:
    """Compare breakdowns with the independent clock; returns how many could be.

    The clock is read before the gateway reads its own, at the beginning and at the end. The gateway reads its
    own before it asks for more updates; in the end it may do so late on a busy machine, though not each time.
    """
    ends = list[float]()
    for breakdown in breakdowns:
        messages = [message for state, message in breakdown.parts if state == "done" and message is not None]
        if breakdown.update_id is None or len(messages) < len(breakdown.parts):
            continue  # begun by the gateway, or given up
        last_shown = max(clock.shown_at[message] for message in messages)
        if last_shown < breakdown.ended_at:
            continue  # it was shown before the turn ended
        fetched_at = clock.fetched_at[breakdown.update_id]
        polled_again_at = clock.polled_again_at.get(breakdown.update_id, math.inf)
        assert fetched_at - 0.0005 < breakdown.received_at < polled_again_at + 0.0005, breakdown
        ends.append(breakdown.received_at + breakdown.whole - last_shown)
    assert all(late > -0.0005 for late in ends), ends
    assert min(ends) < 0.05, ends
    return len(ends)

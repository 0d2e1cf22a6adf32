"""Judges which waiting rows may be taken now: their order in a lane, what joins, cuts in, or gives way. Pure.

Rows are those inbox.py has read; what is decided is written by it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

MAX_RUNNING_DUE_TASKS = 8  # due tasks at work; most endpoints have fewer seats


def choose_claimable(
    rows: Sequence[Row[Any]],
    busy_lanes: Mapping[str, float | None],
    stopping_senders: set[int | None],
    now: float,
) -> tuple[list[list[Row[Any]]], list[Row[Any]], float | None]:
    """Judge waiting rows (oldest first): groups to take, each /new that cuts its lane, when a held lane is
    ripe.

    `busy` lanes run something since the moment given; a /new cuts what had begun when it came. Whoever is
    `stopping` has a /stop under way: what they wrote waits until it is known what the stop drops.
    """
    by_lane: dict[str, list[Row[Any]]] = {}
    groups = [[row] for row in rows if row.lane is None]
    for row in rows:
        if row.lane is not None:
            by_lane.setdefault(row.lane, []).append(row)
    cutting = []
    ripe_at = None
    for lane, found in by_lane.items():
        waiting_rows = _order_by_priority(found)
        since = busy_lanes.get(lane)
        group = _group_with_oldest(waiting_rows)
        ripe = group[-1].not_before
        if lane in busy_lanes:
            group = []
        elif ripe is not None and ripe > now:
            ripe_at = min(ripe, ripe_at or ripe)
            continue
        elif group[0].sender in stopping_senders:
            continue
        else:
            groups.append(group)
            since = compute_begin_time(group[0])  # before a restart, if at all
        cutting += _find_cut(waiting_rows[len(group) :], since)
    return groups, cutting, ripe_at


def limit_due_tasks(groups: list[list[Row[Any]]], running_rows: Sequence[Row[Any]]) -> list[list[Row[Any]]]:
    """The groups without the due tasks that are too many at once: what people write would wait behind them
    all.
    """
    due = [group for group in groups if _is_due_task(group[0]) and group[0].turn is None]
    room = max(0, MAX_RUNNING_DUE_TASKS - sum(map(_is_due_task, running_rows)))
    too_many = {group[0].id for group in due[room:]}
    if too_many:
        return [group for group in groups if group[0].id not in too_many]
    return groups


def compute_begin_time(row: Row[Any]) -> float | None:
    """When an item was taken; once a person was asked, after the answer. None: it was not, yet."""
    taken: float | None = row.taken_at if row.agreed_at is None else row.retaken_at
    return taken


def find_yielding_tasks(running_rows: Sequence[Row[Any]], waiting_rows: Sequence[Row[Any]]) -> dict[str, int]:
    """The due tasks that run where a message of a person waits, by lane."""
    written = {row.lane for row in waiting_rows if row.kind == "update"}
    return {row.lane: row.id for row in running_rows if row.lane in written and _is_due_task(row)}


def _order_by_priority(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The rows of a lane, due tasks behind what people wrote; not behind the house's own, such as a /forget."""
    held = list[Row[Any]]()
    found = list[Row[Any]]()
    for row in rows:
        if row.kind == "house":
            found += held
            held = []
        (held if _is_due_task(row) else found).append(row)
    return found + held


def _is_due_task(row: Row[Any]) -> bool:
    return bool(row.kind == "task" and row.job is not None)


def _find_cut(rows: Sequence[Row[Any]], begin_time: float | None) -> list[Row[Any]]:
    """The first /new among these rows that came after something had begun."""
    return [
        row for row in rows if row.shape == "new" and begin_time is not None and row.received_at >= begin_time
    ][:1]


def _group_with_oldest(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The oldest row of a lane and those answered with it: the rest of its turn, or the texts that follow it."""
    first = rows[0]
    if first.turn is not None:
        return [row for row in rows if row.turn == first.turn]
    group = [first]
    for row in rows[1:]:
        is_rest = group[-1].not_before is not None  # of a paste that Telegram has cut
        if first.shape != "text" and not (first.shape == "deep" and is_rest):
            break
        alike = (row.shape, row.stale, row.sender, row.stopped) == (
            "text",
            first.stale,
            first.sender,
            first.stopped,
        )
        if not alike or row.turn is not None:
            break
        group.append(row)
    return group

"""Decides which waiting inbox rows may start: their order in a lane, what joins, cuts in or yields. Pure.

`inbox.claim` reads the rows and stores what is decided here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

OVERFLOW_SECONDS = 20.0  # refused messages of one person are collected at most, to be told about together
MAX_OVERFLOWS = 500  # collected at most
MAX_GROUP_BYTES = 24_000  # of the texts that are answered together, where a prompt has its usual size
MARKS_BYTES = 100  # of a prompt, around the text of a message
MAX_RUNNING_DUE_TASKS = 8  # due tasks at a time; most endpoints have fewer seats


def choose_claimable(
    rows: Sequence[Row[Any]],
    busy_lanes: Mapping[str, float | None],
    stopping_senders: set[int | None],
    now: float,
    max_group_bytes: int,
    text_sizes: Mapping[int, int],
) -> tuple[list[list[Row[Any]]], list[Row[Any]], float | None]:
    """Judge waiting rows (oldest first): groups to start, each /new that cuts its lane, when to look again.

    `busy_lanes` maps a lane in which something runs to when that began; a /new cuts what began before the
    /new arrived. Messages of `stopping_senders`, who have a /stop under way, wait until it is known which of
    them the stop drops. `max_group_bytes` bounds the texts that are answered together; `text_sizes` has
    the bytes of those that `find_rows_to_measure` names. The last value is when the first lane that is held
    for the rest of a paste may start; None: no lane is held.
    """
    rows_by_lane: dict[str, list[Row[Any]]] = {}
    groups = [[row] for row in rows if row.lane is None and row.shape != "overflow"]
    overflow_groups, held_until = _group_overflows(rows, now)
    groups += overflow_groups
    for row in rows:
        if row.lane is not None:
            rows_by_lane.setdefault(row.lane, []).append(row)
    cutting_rows = []
    for lane, lane_rows in rows_by_lane.items():
        waiting_rows = _order_by_priority(lane_rows)
        if lane in busy_lanes:
            cutting_rows += _find_cut(waiting_rows, busy_lanes[lane])
            continue
        group = _group_with_oldest(waiting_rows, max_group_bytes, text_sizes)
        not_before = group[-1].not_before
        if not_before is not None and not_before > now:
            held_until = min(not_before, held_until or not_before)
        elif group[0].sender not in stopping_senders:
            groups.append(group)
            began_at = compute_begin_time(group[0])  # before a restart, if at all
            cutting_rows += _find_cut(waiting_rows[len(group) :], began_at)
    return groups, cutting_rows, held_until


def find_rows_to_measure(
    rows: Sequence[Row[Any]], busy_lanes: Mapping[str, float | None], max_group_bytes: int
) -> list[int]:
    """The ids of waiting rows (oldest first) on whose size it depends what is answered together."""
    rows_by_lane: dict[str, list[Row[Any]]] = {}
    for row in rows:
        if row.lane is not None and row.lane not in busy_lanes:
            rows_by_lane.setdefault(row.lane, []).append(row)
    ids = []
    for lane_rows in rows_by_lane.values():
        largest_group = _group_with_oldest(_order_by_priority(lane_rows), max_group_bytes, text_sizes={})
        if len(largest_group) > 1:
            ids += [row.id for row in largest_group]
    return ids


def _group_overflows(rows: Sequence[Row[Any]], now: float) -> tuple[list[list[Row[Any]]], float | None]:
    """The refused messages of each person, once no more of them come; and when to look again."""
    rows_by_sender: dict[int, list[Row[Any]]] = {}
    for row in rows:
        if row.shape == "overflow":
            rows_by_sender.setdefault(row.sender, []).append(row)
    groups = []
    held_until = None
    for sender_rows in rows_by_sender.values():
        due_at = min(sender_rows[-1].not_before or 0.0, sender_rows[0].received_at + OVERFLOW_SECONDS)
        if due_at <= now or len(sender_rows) >= MAX_OVERFLOWS:
            groups.append(sender_rows)
        else:
            held_until = min(due_at, held_until or due_at)
    return groups, held_until


def limit_due_tasks(groups: list[list[Row[Any]]], running_rows: Sequence[Row[Any]]) -> list[list[Row[Any]]]:
    """Leave out due tasks beyond MAX_RUNNING_DUE_TASKS, so that people's messages do not wait behind them."""
    due_groups = [group for group in groups if _is_due_task(group[0]) and group[0].turn is None]
    free_slots = max(0, MAX_RUNNING_DUE_TASKS - sum(map(_is_due_task, running_rows)))
    left_out = {group[0].id for group in due_groups[free_slots:]}
    return [group for group in groups if group[0].id not in left_out]


def compute_begin_time(row: Row[Any]) -> float | None:
    """When an item was claimed; after an approval, when it was claimed again. None: it was not, yet."""
    began_at: float | None = row.taken_at if row.agreed_at is None else row.retaken_at
    return began_at


def find_yielding_tasks(running_rows: Sequence[Row[Any]], waiting_rows: Sequence[Row[Any]]) -> dict[str, int]:
    """The running due tasks in whose lane a person's message waits, by lane."""
    lanes_with_message = {row.lane for row in waiting_rows if row.kind == "update"}
    return {row.lane: row.id for row in running_rows if row.lane in lanes_with_message and _is_due_task(row)}


def find_cutting_edits(running_rows: Sequence[Row[Any]], waiting_rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The edits of messages that are being answered."""
    answered = {(row.lane, row.message_id) for row in running_rows if row.kind == "update"}
    return [row for row in waiting_rows if row.shape == "edit" and (row.lane, row.message_id) in answered]


def _order_by_priority(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Put a lane's edits first, since they are about what is before all that waits.

    Its due tasks come behind people's messages, but not behind a later system job (a /forget).
    """
    held_tasks: list[Row[Any]] = []
    ordered = [row for row in rows if row.shape == "edit"]
    for row in rows:
        if row.shape == "edit":
            continue
        if row.kind == "system":
            ordered += held_tasks
            held_tasks = []
        if _is_due_task(row):
            held_tasks.append(row)
        else:
            ordered.append(row)
    return ordered + held_tasks


def _is_due_task(row: Row[Any]) -> bool:
    return bool(row.kind == "hook" or (row.kind == "task" and row.job is not None))


def _find_cut(rows: Sequence[Row[Any]], began_at: float | None) -> list[Row[Any]]:
    """The first /new among these rows that arrived after the lane's work began; an empty list if none did."""
    if began_at is None:
        return []
    return [row for row in rows if row.shape == "new" and row.received_at >= began_at][:1]


def _group_with_oldest(
    rows: Sequence[Row[Any]], max_bytes: int, text_sizes: Mapping[int, int]
) -> list[Row[Any]]:
    """The oldest row of a lane and those answered with it: the rest of its turn, or the texts that follow."""
    first = rows[0]
    if first.turn is not None:
        return [row for row in rows if row.turn == first.turn]
    group = [first]
    for row in rows[1:]:
        is_rest_of_paste = group[-1].not_before is not None  # Telegram cuts a long paste into messages
        if first.shape != "text" and not (first.shape == "deep" and is_rest_of_paste):
            break
        if row.turn is not None or not _is_text_like(row, first):
            break
        group.append(row)
    return _limit_group(group, max_bytes, text_sizes)


def _limit_group(group: list[Row[Any]], max_bytes: int, text_sizes: Mapping[int, int]) -> list[Row[Any]]:
    """The first rows of a group whose texts fit into one prompt; the rest is the lane's next turn.

    What was sent at once, such as a paste, stays together.
    """
    if len(group) == 1:
        return group
    text_bytes = 0
    fitting_count = 0
    previous = None
    for number, row in enumerate(group):
        if previous is not None and not _was_sent_with(row, previous):
            fitting_count = number
        text_bytes += MARKS_BYTES + text_sizes.get(row.id, 0)
        if text_bytes > max_bytes and fitting_count:
            return group[:fitting_count]
        previous = row
    return group


def _was_sent_with(row: Row[Any], previous: Row[Any]) -> bool:
    """Whether a row is a part of the paste, album or burst of forwards that the previous one belongs to."""
    return previous.not_before is not None and bool(row.received_at <= previous.not_before)


def measure_body(body: str | None) -> int:
    """About how much of a prompt the text of a stored message takes."""
    return count_text_bytes(json.loads(body or "{}").get("message") or {})


def count_text_bytes(raw_message: Mapping[str, Any]) -> int:
    """About how much of a prompt the text of a raw message takes."""
    text = raw_message.get("text", raw_message.get("caption"))
    if not isinstance(text, str):
        return 0
    return len(text.encode("utf-8", "replace"))


def _is_text_like(row: Row[Any], first: Row[Any]) -> bool:
    """Whether a row is a text that can be answered together with the first row of its group."""
    has_same_standing = (row.stale, row.sender, row.stopped) == (first.stale, first.sender, first.stopped)
    return bool(row.shape == "text" and has_same_standing)

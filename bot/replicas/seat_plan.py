"""Decides which calls of all replicas get a seat next, in the order that bot/llm/seats.py describes. Pure.

A replica that frees a seat gives it to the next call, and tells that one's replica, which takes it. A seat
that is not taken goes back: the process may be paused, or dead.
"""

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from bot.db.queues.seat_requests import SeatRequest
from bot.domain import PEOPLE_PRIORITY

TAKE_SECONDS = 2.0  # within which a replica takes a seat that another one gave it


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A call of this replica that goes on; `number` is of the replica. `has_seat`: it was granted one.

    `took_kept_seat`: with the number of a call that had ended, which may still be stored.
    """

    number: int
    lane: str
    priority: int
    since: float
    has_seat: bool
    took_kept_seat: bool = False


@dataclass(frozen=True, slots=True)
class SeatPlan:
    """The calls as they are to be stored. `granted_elsewhere`: those whose replicas are to be told.

    `wants_kept_seats`: the first of them begins to wait, and another replica has a seat that it may keep.
    """

    requests: tuple[SeatRequest, ...]
    granted_elsewhere: tuple[SeatRequest, ...]
    wants_kept_seats: bool


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """Who plans: its own id, its calls, and the ids of those replicas that are gone for good."""

    life: int
    calls: Sequence[OwnCall]
    gone_lives: Collection[int] = ()


def has_waiting(requests: Iterable[SeatRequest]) -> bool:
    """Whether a call waits."""
    return any(request.seat is None for request in requests)


def may_keep_seats(requests: Collection[SeatRequest], life: int, count: int) -> bool:
    """Whether this replica may keep seats of calls that end: nobody waits, nor would another one's call."""
    are_all_own = all(request.life == life for request in requests)
    return not has_waiting(requests) and (are_all_own or len(requests) < count)


def list_waiting(requests: Iterable[SeatRequest]) -> list[SeatRequest]:
    """The calls that wait, in the order in which they get a seat as it stands."""
    lanes: dict[tuple[int, str], list[SeatRequest]] = {}
    for request in sorted(requests, key=lambda request: (request.priority, request.turn, request.number)):
        if request.seat is None:
            lanes.setdefault((request.priority, request.lane), []).append(request)
    waiting: list[SeatRequest] = []
    for _, same_priority in itertools.groupby(lanes.items(), key=lambda item: item[0][0]):
        rounds = itertools.zip_longest(*(queue for _, queue in same_priority))
        waiting += [request for request in itertools.chain.from_iterable(rounds) if request is not None]
    return waiting


def plan_seats(stored: Collection[SeatRequest], view: ReplicaView, count: int, *, now: float) -> SeatPlan:
    """Plan what follows from the stored calls and this replica's own: which end, begin to wait, get a seat.

    A call of its own that has a seat and is not stored, because the server lost it, is stored again.
    """
    planner = _SeatPlanner(stored, view, count, now)
    planner.add_own_calls()
    absent_lives = planner.take_seats_back()
    planner.grant_seats(absent_lives)
    return planner.finish()


class _SeatPlanner:
    def __init__(self, stored: Collection[SeatRequest], view: ReplicaView, count: int, now: float) -> None:
        self._view = view
        self._count = count
        self._now = now
        self._had_waiting = has_waiting(stored)
        self._granted_elsewhere: list[SeatRequest] = []
        own_numbers = {call.number for call in view.calls}
        self._requests = {
            request.key: request
            for request in stored
            if (request.life != view.life or request.number in own_numbers)
            and request.life not in view.gone_lives
        }

    def add_own_calls(self) -> None:
        for call in self._view.calls:
            key = (self._view.life, call.number)
            request = self._requests.get(key)
            if request is None:
                turn = self._find_turn(call.lane, call.priority)
                request = SeatRequest(*key, call.lane, call.priority, turn, call.since)
            if call.has_seat and request.seat is None:
                request = replace(request, seat=self._find_free_seat())
            if call.took_kept_seat:
                request = replace(request, lane=call.lane, since=call.since)
            self._requests[key] = replace(request, given_at=None)

    def take_seats_back(self) -> set[int]:
        """Take back what was given and not taken; returns the replicas that did not, whose calls wait."""
        late_requests = [
            request
            for request in self._requests.values()
            if request.given_at is not None and request.given_at < self._now - TAKE_SECONDS
        ]
        for request in late_requests:
            self._requests[request.key] = replace(request, seat=None)
        return {request.life for request in late_requests}

    def grant_seats(self, absent_lives: Collection[int]) -> None:
        """Give free seats to those first in line."""
        taken = [request.priority for request in self._requests.values() if request.seat is not None]
        while (first := self._find_first(absent_lives)) is not None:
            if not self._can_take(first.priority, taken):
                return
            taken.append(first.priority)
            self._grant(first)

    def finish(self) -> SeatPlan:
        requests = tuple(self._requests.values())
        begins_to_wait = has_waiting(requests) and not self._had_waiting
        has_seats_elsewhere = any(
            request.seat is not None and request.life != self._view.life for request in requests
        )
        wants_kept_seats = begins_to_wait and has_seats_elsewhere
        return SeatPlan(requests, tuple(self._granted_elsewhere), wants_kept_seats)

    def _find_first(self, absent_lives: Collection[int]) -> SeatRequest | None:
        present = [request for request in self._requests.values() if request.life not in absent_lives]
        return next(iter(list_waiting(present)), None)

    def _can_take(self, priority: int, taken: Sequence[int]) -> bool:
        taken_by_others = sum(of_call > PEOPLE_PRIORITY for of_call in taken)
        is_free_for_others = taken_by_others < max(1, self._count - 1)
        return len(taken) < self._count and (priority <= PEOPLE_PRIORITY or is_free_for_others)

    def _grant(self, request: SeatRequest) -> None:
        self._move_lane_back(request)
        granted = replace(request, since=self._now, seat=self._find_free_seat())
        if request.life != self._view.life:
            granted = replace(granted, given_at=self._now)
            self._granted_elsewhere.append(granted)
        self._requests[request.key] = granted

    def _move_lane_back(self, served: SeatRequest) -> None:
        """Let the lane's other calls wait behind all other lanes."""
        last_turn = max(request.turn for request in self._requests.values())
        for request in list(self._requests.values()):
            is_of_lane = (request.lane, request.priority) == (served.lane, served.priority)
            if is_of_lane and request.seat is None and request.key != served.key:
                self._requests[request.key] = replace(request, turn=last_turn + 1)

    def _find_turn(self, lane: str, priority: int) -> int:
        """The turn of a new call: its lane's, or behind all others."""
        waiting = [request for request in self._requests.values() if request.seat is None]
        turns = [request.turn for request in waiting if (request.lane, request.priority) == (lane, priority)]
        return max(turns) if turns else 1 + max((request.turn for request in waiting), default=0)

    def _find_free_seat(self) -> int:
        taken = {request.seat for request in self._requests.values()}
        return next(seat for seat in itertools.count(1) if seat not in taken)

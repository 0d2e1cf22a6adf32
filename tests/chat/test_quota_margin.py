"""Replicas look before some turns only what a person has used, and keep to the quota together."""

import random
from dataclasses import dataclass

import pytest

from bot.chat.access import Access
from bot.chat.quota import QuotaGate, QuotaSettings
from bot.db.engine import Database
from bot.db.people import limits
from bot.db.people.limits import UsedCanvases
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.turns import RequestCompleter, TurnRequest

QUOTA = 100
REQUEST = TurnRequest((), Lane(7), person=7, name="Ann", texts=("Hello.",))


@dataclass
class CountedTurns:
    """Turns of one canvas, of all replicas; `now` is their clock, and `looks` counts who has read `used`."""

    used: int = 0
    looks: int = 0
    now: float = 50_000.0

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        self.used += complete is None  # else it is refused

    async def count_used_canvases(self, tx: Transaction, holder: int, since: float) -> UsedCanvases:
        self.looks += 1
        return UsedCanvases(self.used, 0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> CountedTurns:
    turns = CountedTurns()
    monkeypatch.setattr(limits, "count_used_canvases", turns.count_used_canvases)
    return turns


def build_gate(turns: CountedTurns, database: Database, replicas: int) -> QuotaGate:
    settings = QuotaSettings(QUOTA, max_canvases_per_turn=1, count_replicas=lambda: replicas)
    access = Access("open")
    return QuotaGate(turns, database, access, settings=settings, clock=lambda: turns.now)


async def test_a_replica_looks_again_once_its_part_is_used_or_half_a_minute_has_passed(
    turns: CountedTurns, database: Database
):
    gate = build_gate(turns, database, replicas=3)
    for _ in range(26):  # a third of the 80 that are far from the warning
        await gate.run(REQUEST)
    assert turns.looks == 1
    await gate.run(REQUEST)
    assert turns.looks == 2
    turns.now += 31
    await gate.run(REQUEST)
    assert turns.looks == 3


@pytest.mark.parametrize("seed", range(2))
async def test_a_person_who_writes_to_all_replicas_takes_the_quota(
    turns: CountedTurns, database: Database, seed: int
):
    gates = [build_gate(turns, database, replicas=3) for _ in range(3)]
    rng = random.Random(seed)
    for _ in range(2 * QUOTA):
        turns.now += rng.uniform(0.0, 5.0)
        await rng.choice(gates).run(REQUEST)
    assert turns.used == QUOTA

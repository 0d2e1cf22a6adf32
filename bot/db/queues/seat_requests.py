"""The model calls that hold a seat of an endpoint or wait for one, of all replicas.

Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, delete, select

from bot.db.portable_sql import LockNumber, TransactionLock, upsert
from bot.db.tables import seat_requests
from bot.db.transaction import Transaction

LOCK = select(TransactionLock(LockNumber.SEAT_REQUESTS))
"""Takes the lock of who changes requests: what `load` reads under it stays so until `tx` ends."""


@dataclass(frozen=True, slots=True)
class SeatRequest:
    """A call; `life`: the replica that makes it, `number`: counts its calls, and names the seat it has.

    `turn`: of its lane, among those that wait with this priority. `since`: when it got its seat, or when it
    was made. `seat`: from 1; None: it waits. `given_at`: when another replica gave it the seat, until its own
    has taken it.
    """

    life: int
    number: int
    lane: str
    priority: int
    turn: int
    since: float
    seat: int | None = None
    given_at: float | None = None

    @property
    def key(self) -> tuple[int, int]:
        """What names the call among those of an endpoint."""
        return self.life, self.number


_COLUMNS = [column for column in seat_requests.c if column.name != "endpoint"]
_SELECT = (
    select(*_COLUMNS)
    .where(seat_requests.c.endpoint == bindparam("of_endpoint"))
    .order_by(seat_requests.c.life, seat_requests.c.number)
)
_DELETE = delete(seat_requests).where(
    seat_requests.c.endpoint == bindparam("of_endpoint"),
    seat_requests.c.life == bindparam("of_life"),
    seat_requests.c.number == bindparam("of_number"),
)
_INSERT = upsert(seat_requests)
_STORE = _INSERT.on_conflict_do_update(
    index_elements=["endpoint", "life", "number"],
    set_={name: _INSERT.excluded[name] for name in ("lane", "turn", "since", "seat", "given_at")},
)


async def load(tx: Transaction, endpoint: str) -> list[SeatRequest]:
    """The calls of all replicas."""
    return [SeatRequest(*row) for row in await tx.execute(_SELECT, {"of_endpoint": endpoint})]


async def store(
    tx: Transaction, endpoint: str, stored: Iterable[SeatRequest], requests: Iterable[SeatRequest]
) -> None:
    """Store `requests` in place of those that `load` returned."""
    stored_by_key = {request.key: request for request in stored}
    kept_keys = set()
    changed = []
    for request in requests:
        kept_keys.add(request.key)
        if stored_by_key.get(request.key) != request:
            changed.append({"endpoint": endpoint, **asdict(request)})
    for life, number in stored_by_key.keys() - kept_keys:
        await tx.execute(_DELETE, {"of_endpoint": endpoint, "of_life": life, "of_number": number})
    for values in changed:
        await tx.execute(_STORE, values)

"""The table of the gateways that divide the chats of one database among themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.page_request import RunningGateway
from bot.admin.table_view import build_seconds_cell
from bot.db.queues.current_work import SIGN_OF_LIFE_SECONDS, CurrentWork
from bot.db.shares import LiveReplica


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A gateway that shares the chats with others; `began_at` None: it has no chats yet."""

    life: int
    role: str
    shares: int
    began_at: float | None


def list_replicas(gateway: RunningGateway | None, work: CurrentWork, now: float) -> list[ReplicaState]:
    """Those whose locks stand; beside a gateway those that are stored, of which nobody knows which leads."""
    if gateway is None:
        return [
            ReplicaState(row.life, "", row.shares, row.began_at)
            for row in work.replicas
            if now - row.seen_at <= SIGN_OF_LIFE_SECONDS
        ]
    own_shares = gateway.own_shares
    if own_shares is None or own_shares.holders is None:
        return []
    began_at = {row.life: row.began_at for row in work.replicas}
    return [
        ReplicaState(
            replica.life,
            ", ".join(_list_roles(replica, own_shares.life)),
            len(replica.shares),
            began_at.get(replica.life),
        )
        for replica in own_shares.holders.list_replicas()
    ]


def _list_roles(replica: LiveReplica, own_life: int | None) -> Iterator[str]:
    if replica.is_leader:
        yield "leads"
    if replica.life == own_life:
        yield "shows this page"


def build_replica_table(replicas: Sequence[ReplicaState], now: float) -> DataTable:
    """One row each."""
    columns = (
        TableColumn("life", "Gateway"),
        TableColumn("role", "Role"),
        NumberColumn("shares", "Shares of the chats"),
        NumberColumn("seconds", "Runs for"),
    )
    return DataTable("replicas", "Gateways", columns, tuple(_build_row(replica, now) for replica in replicas))


def _build_row(replica: ReplicaState, now: float) -> tuple[Cell, ...]:
    runs_for = Cell("", "")
    if replica.began_at is not None:
        runs_for = build_seconds_cell(max(0.0, now - replica.began_at))
    return Cell(str(replica.life)), Cell(replica.role), Cell(replica.shares), runs_for

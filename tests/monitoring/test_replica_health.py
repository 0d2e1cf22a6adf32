"""What replicas say of themselves, and that figures of all of them together count nothing twice."""

import time
from collections.abc import Mapping

import httpx

from bot.db.conversations import calls
from bot.db.conversations.calls import CallCompletion
from bot.db.engine import Database
from bot.db.shares import LiveReplica, LockHolders, OwnShares, ShareHold
from bot.db.usage.ended import EndedWatcher
from bot.http_server import serve
from bot.monitoring.health import build_app
from bot.monitoring.metrics import GatewayMetrics, GatewayState
from tests.monitoring.test_health import NoSignIns, parse_series
from tests.support.turn_harness import make_reply
from tests.turns.test_call_ledger import NEW_CALL

LONG = 3600  # seconds that a look stays certain, however slow the machine is
ENDED = 'canvasgram_model_calls_total{model="model",outcome="ok",purpose="warmup"}'


def hold_shares(session: int, leader: int | None) -> OwnShares:
    """The shares of one of two replicas, the sessions 71 (life 1) and 72 (life 2)."""
    own_shares = OwnShares()
    own_shares.life = session - 70
    look_at_locks(own_shares, session, leader)
    assert own_shares.holders is not None
    own_shares.holds.update({share: ShareHold(share, 1) for share in own_shares.holders.own_shares})
    return own_shares


def look_at_locks(own_shares: OwnShares, session: int, leader: int | None) -> None:
    """Let a replica see who leads now."""
    holders = LockHolders(session, replicas={1: 71, 2: 72}, shares={0: 71, 1: 72, 2: 71}, leader=leader)
    own_shares.confirm(holders, time.monotonic() + LONG)


async def build_metrics(database: Database, own_shares: OwnShares) -> GatewayMetrics:
    watcher = EndedWatcher(database)
    await watcher.begin()
    return GatewayMetrics(watcher, {}, lambda name: True, "1", GatewayState(bool, own_shares=own_shares))


async def scrape(metrics: GatewayMetrics) -> Mapping[str, float]:
    page, _ = await metrics.render("")
    return dict(parse_series(page.decode()))


async def end_call(database: Database) -> None:
    async with database.transaction() as tx:
        call = await calls.open_call(tx, NEW_CALL, now=1.0)
        await calls.close_call(tx, CallCompletion(call, make_reply("Yes."), "ok"), now=time.time())


async def test_the_sum_over_replicas_counts_a_call_once_whoever_leads(database: Database):
    first_shares = hold_shares(71, leader=71)
    second_shares = hold_shares(72, leader=71)
    first = await build_metrics(database, first_shares)
    second = await build_metrics(database, second_shares)
    await end_call(database)
    pages = [await scrape(first), await scrape(second)]
    assert [page.get(ENDED) for page in pages] == [1, None]
    assert [page.get("canvasgram_inbox_waiting") for page in pages] == [0, None]
    assert [page["canvasgram_leads"] for page in pages] == [1, 0]
    assert [page["canvasgram_shares_held"] for page in pages] == [2, 1]
    await end_call(database)
    look_at_locks(first_shares, 71, leader=71)
    look_at_locks(first_shares, 71, leader=72)
    look_at_locks(second_shares, 72, leader=72)
    await end_call(database)
    await end_call(database)
    pages = [await scrape(first), await scrape(second)]
    assert [page.get(ENDED) for page in pages] == [2, 2]
    assert [page.get("canvasgram_outbox_waiting") for page in pages] == [None, 0]


async def test_what_ends_while_a_notification_is_unread_is_counted_once_it_was_read(database: Database):
    unread = [True, False]
    own_shares = hold_shares(71, leader=71)
    metrics = await build_metrics(database, own_shares)
    assert own_shares.holders is not None
    own_shares.confirm(
        own_shares.holders, time.monotonic() + LONG, lambda: unread.pop(0) if unread else False
    )
    await end_call(database)
    assert (await scrape(metrics))[ENDED] == 1
    own_shares.confirm(own_shares.holders, time.monotonic() - 60)
    await end_call(database)
    assert (await scrape(metrics))[ENDED] == 1
    look_at_locks(own_shares, 71, leader=71)
    assert (await scrape(metrics))[ENDED] == 2


async def test_health_names_the_shares_and_whether_they_are_certain(database: Database):
    own_shares = hold_shares(72, leader=71)
    metrics = await build_metrics(database, own_shares)
    app = build_app(lambda: True, metrics, NoSignIns(), own_shares=own_shares)
    async with serve(app) as url, httpx.AsyncClient(timeout=None) as http:
        replica = {"id": 2, "leads": False, "shares": [1], "locks_confirmed": True}
        expected = {"live": True, "ready": True, "replica": replica}
        assert (await http.get(f"{url}/healthz")).json() == expected
        assert own_shares.holders is not None
        own_shares.confirm(own_shares.holders, time.monotonic() - 60)
        own_shares.other_schema = "9999"
        answer = (await http.get(f"{url}/healthz")).json()["replica"]
        assert (answer["locks_confirmed"], answer["other_schema"]) == (False, "9999")
    assert (await scrape(metrics))["canvasgram_locks_confirmed"] == 0


def test_a_replica_leads_only_while_its_locks_are_certain():
    own_shares = hold_shares(71, leader=71)
    assert (own_shares.is_leader, own_shares.has_leader) == (True, True)
    assert own_shares.holders is not None
    assert own_shares.holders.list_replicas() == (
        LiveReplica(1, (0, 2), is_leader=True),
        LiveReplica(2, (1,), is_leader=False),
    )
    own_shares.confirm(own_shares.holders, time.monotonic() - 60)
    assert (own_shares.is_leader, own_shares.has_leader) == (False, False)

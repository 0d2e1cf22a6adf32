"""What delivering takes is Telegram's, and only the turns of its own lane are charged for it."""

import time
from collections.abc import AsyncIterator

import pytest

from bot.db.engine import Database
from bot.domain import InboxItem, Lane, Part
from bot.sim.telegram.server import BotApi, Fault, Limits
from bot.telegram.delivery.sender import Sender
from bot.usage.timers import Watch, Watches
from tests.support.delivery_harness import ANN, PostOffice


@pytest.fixture
async def office(database: Database) -> AsyncIterator[PostOffice]:
    api = BotApi(limits=Limits.none())
    api.person(ANN.chat, "Ann")
    async with api.served() as url:
        yield PostOffice(api, url, database)


def watched(sender: Sender, item: int = 1, lane: Lane = ANN) -> Watch:
    """The watch of a turn whose answer is about to be stored."""
    watches: Watches = sender._watches
    taken = InboxItem(item, "update", "text", lane, 7, {}, 1, False, 0.0, watches.began_at)
    return watches.open(taken, lane)


def lasted(watch: Watch, kind: str) -> float:
    return sum(span.end - span.begin for span in watch.spans(0.0) if span.kind == kind)


async def delivered(office: PostOffice, sender: Sender, watch: Watch) -> None:
    await office.store((Part("hello"),))
    watch.over = True
    sender.wake(ANN)
    await sender.rested()


async def test_a_slow_answer_of_telegram_is_telegrams(office: PostOffice):
    office.api.inject(Fault.slow(0.1), "sendMessage")
    async with office.sender() as sender:
        watch = watched(sender)
        await delivered(office, sender, watch)
    assert lasted(watch, "Telegram") >= 0.1
    assert lasted(watch, "back-off") == 0


async def test_a_flood_is_telegrams_wish_and_no_back_off_of_ours(office: PostOffice):
    office.api.inject(Fault.flood(1), "sendMessage")
    async with office.sender() as sender:
        watch = watched(sender)
        await delivered(office, sender, watch)
    assert lasted(watch, "Telegram") >= 1
    assert lasted(watch, "back-off") == 0


async def test_another_lane_is_not_charged(office: PostOffice):
    office.api.inject(Fault.slow(0.05), "sendMessage")
    async with office.sender() as sender:
        watch, other = watched(sender), watched(sender, 2, Lane(8))
        await delivered(office, sender, watch)
    assert [span.kind for span in other.spans(0.0)] == ["own"]


async def test_what_is_left_when_the_sender_stops_is_measured_on(office: PostOffice):
    flood = office.api.inject(Fault.flood(3), "sendMessage")
    async with office.sender() as sender:
        watch = watched(sender)
        await office.store((Part("hello"),))
        watch.over = True
        sender.wake(ANN)
        await office.api.until(lambda: flood.hits)
        sender.stop()
    now = time.time()
    last = sender._watches.spans(watch, now)[-1]
    assert (last.kind, last.end) == ("own", now)

"""Killed or stopped while an answer was made or delivered, or a tool ran: the books of all turns are whole."""

import time
from functools import partial

import pytest

from bot.bench.harness.workload import prose
from bot.sim.telegram.server import Fault
from bot.sim.vllm.server import Endpoint, Timing
from tests.kill import crowd
from tests.kill.conftest import Surround
from tests.kill.crowd import Chatter
from tests.kill.environment import Surroundings
from tests.kill.test_sweep import swept
from tests.support.breakdown_clock import Book, check

BEAT = 1.0  # seconds between two heartbeats
PROSE = prose(150, 1)[1:] + " "

pytestmark = pytest.mark.timeout(180)


async def books(house: Surroundings) -> list[Book]:
    """All accounts, once everything is answered and accounted for; see tests.support.breakdown_clock.check."""
    await house.at_rest()
    await house.stored("select 1 where not exists (select 1 from inbox where spans is not null)")
    house.accounted()
    return check(house.folder / "house.db")


async def outage(house: Surroundings, *, kill: bool = True) -> tuple[float, float]:
    """The gateway is gone for a while; between which times there was certainly no process, by our own clock."""
    if kill:
        await house.gateway.kill()
    else:
        await house.gateway.terminate()
    gone = time.time()
    house.ann.send("/id")  # which waits at Telegram
    back = time.time()
    await house.gateway.start()
    return gone, back


def hold_down(book: Book, gone: float, back: float, alive: float) -> None:
    """It was down for as long as there was no process, and longer only by a heartbeat and by loading the next
    one.
    """
    started = back - gone
    assert book.seconds["down"] >= started
    assert book.seconds["down"] <= started + BEAT + alive


async def test_killed_in_mid_canvas(surround: Surround):
    house = await surround(Endpoint(timing=Timing(canvas_seconds=0.05)))
    house.endpoint.hold()
    house.ann.send("@@say:here I am@@")
    await house.thinking()
    await house.stored("select 1 from inbox where spans like '%first canvas%'")
    gone, back = await outage(house)
    started = time.time()
    house.endpoint.release()
    (book,) = await books(house)
    hold_down(book, gone, back, started - back)
    assert book.seconds["first_canvas"] >= 0.05
    assert book.seconds["own"] > 0


async def test_stopped_in_good_order_while_a_tool_runs(surround: Surround):
    house = await surround()
    house.bells.hold()
    house.ann.send(f"{house.bells.call('look', 'tower')}@@say:it hangs@@")
    await house.bells.until(lambda: house.bells.rung["tower"])
    gone, back = await outage(house, kill=False)
    started = time.time()
    house.bells.release()
    (book,) = await books(house)
    hold_down(book, gone, back, started - back)
    assert book.seconds["tools"] > 0
    [(ended_at,)] = house.rows("select ended_at from lives where id = 1")
    [(began_at,)] = house.rows("select began_at from lives where id = 2")
    assert book.seconds["down"] == pytest.approx(began_at - ended_at, abs=0.0005)


@pytest.mark.parametrize("arrives", [True, False])
async def test_killed_while_the_answer_is_delivered(surround: Surround, arrives: bool):
    house = await surround()
    sending = house.freeze_at("sendMessage", "here I am", arrives=arrives)
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: sending.hits)
    gone, back = await outage(house)
    started = time.time()
    (book,) = await books(house)
    hold_down(book, gone, back, started - back)
    assert book.parts[0][0] == "unknown"
    assert book.seconds["first_canvas"] > 0


async def test_killed_while_a_message_waits_for_its_lane(surround: Surround):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:first@@")
    await house.thinking()
    house.ann.send("@@say:second@@")
    await house.stored("select 1 from inbox where seen_at is not null")
    gone, back = await outage(house)
    started = time.time()
    house.endpoint.release()
    for book in await books(house):
        hold_down(book, gone, back, started - back)
    assert book.seconds["lane_wait"] > 0


async def test_killed_again_and_again_while_telegram_is_away(surround: Surround):
    house = await surround()
    fault = house.api.inject(Fault.drop(), "sendMessage", times=None)
    house.ann.send(f"@@repeat:30 {PROSE}@@")
    await house.stored("select 1 from turns where ended_at is not null")
    for _ in range(3):
        await house.gateway.restart()
    fault.lift()
    (book,) = await books(house)
    assert book.seconds["down"] > 0
    assert len(book.parts) > 1


async def test_stopped_in_good_order_while_telegram_wants_a_chat_left_alone(surround: Surround):
    house = await surround()
    flood = house.api.inject(Fault.flood(1), "sendMessage", times=None)
    house.ann.send("@@say:here I am@@")
    await house.stored("select 1 from turns where ended_at is not null")
    for life in (1, 2, 3):
        await house.until(partial(lambda so_many: flood.hits >= so_many, life))
        await house.gateway.terminate()
        await house.gateway.start()
    flood.lift()
    (book,) = await books(house)
    assert book.seconds["down"] > 0
    assert book.seconds["telegram"] > 0


async def test_a_sweep_of_kills_leaves_whole_books(surround: Surround):
    house = await surround(crowd.endpoint(), model_max_tokens=4096, start=False)
    await swept(house, Chatter, 3, 60, 10)
    found = await books(house)
    assert any(book.seconds["down"] for book in found)
    assert len(found) > 20

"""Killed or stopped while an answer was made or delivered, or a tool ran: the books of all turns are whole."""

import time
from functools import partial

import pytest

from bot.bench.harness.workload import write_prose
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.kill import crowd
from tests.kill.conftest import OpenEnvironment
from tests.kill.crowd import Chatter
from tests.kill.environment import KillEnvironment
from tests.kill.test_sweep import sweep_with_kills
from tests.support.breakdown_clock import BreakdownRow, check_breakdowns

HEARTBEAT_SECONDS = 1.0  # seconds between two heartbeats
PROSE = write_prose(150, 1)[1:] + " "

pytestmark = pytest.mark.timeout(180)


async def load_whole_breakdowns(environment: KillEnvironment) -> list[BreakdownRow]:
    """All accounts, once everything is answered and accounted for; see tests.support.breakdown_clock.check."""
    await environment.wait_until_idle()
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    environment.assert_all_accounted()
    return check_breakdowns(environment.folder / "house.db")


async def take_down(environment: KillEnvironment, *, by_kill: bool = True) -> tuple[float, float]:
    """The gateway is gone for a while; between which times there was certainly no process, by our own clock."""
    if by_kill:
        await environment.gateway.kill()
    else:
        await environment.gateway.terminate()
    gone = time.time()
    environment.ann.send("/id")  # which waits at Telegram
    back = time.time()
    await environment.gateway.start()
    return gone, back


def check_down_time(breakdown: BreakdownRow, gone_at: float, back_at: float, load_seconds: float) -> None:
    """It was down for as long as there was no process, and longer only by a heartbeat and by loading the next
    one.
    """
    started = back_at - gone_at
    assert breakdown.seconds["down"] >= started
    assert breakdown.seconds["down"] <= started + HEARTBEAT_SECONDS + load_seconds


async def test_killed_in_mid_canvas(surround: OpenEnvironment):
    house = await surround(SimulatedEndpoint(timing=Timing(canvas_seconds=0.05)))
    house.endpoint.hold()
    house.ann.send("@@say:here I am@@")
    await house.wait_for_requests()
    await house.wait_for_row("select 1 from inbox where spans like '%first canvas%'")
    gone, back = await take_down(house)
    started = time.time()
    house.endpoint.release()
    (book,) = await load_whole_breakdowns(house)
    check_down_time(book, gone, back, started - back)
    assert book.seconds["first_canvas"] >= 0.05
    assert book.seconds["own"] > 0


async def test_stopped_in_good_order_while_a_tool_runs(surround: OpenEnvironment):
    house = await surround()
    house.bells.hold()
    house.ann.send(f"{house.bells.call('look', 'tower')}@@say:it hangs@@")
    await house.bells.until(lambda: house.bells.rung["tower"])
    gone, back = await take_down(house, by_kill=False)
    started = time.time()
    house.bells.release()
    (book,) = await load_whole_breakdowns(house)
    check_down_time(book, gone, back, started - back)
    assert book.seconds["tools"] > 0
    [(ended_at,)] = house.load_rows("select ended_at from lives where id = 1")
    [(began_at,)] = house.load_rows("select began_at from lives where id = 2")
    assert book.seconds["down"] == pytest.approx(began_at - ended_at, abs=0.0005)


@pytest.mark.parametrize("arrives", [True, False])
async def test_killed_while_the_answer_is_delivered(surround: OpenEnvironment, arrives: bool):
    house = await surround()
    sending = house.freeze_at("sendMessage", "here I am", arrives=arrives)
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: sending.hit_count)
    gone, back = await take_down(house)
    started = time.time()
    (book,) = await load_whole_breakdowns(house)
    check_down_time(book, gone, back, started - back)
    assert book.parts[0][0] == "unknown"
    assert book.seconds["first_canvas"] > 0


async def test_killed_while_a_message_waits_for_its_lane(surround: OpenEnvironment):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:first@@")
    await house.wait_for_requests()
    house.ann.send("@@say:second@@")
    await house.wait_for_row("select 1 from inbox where seen_at is not null")
    gone, back = await take_down(house)
    started = time.time()
    house.endpoint.release()
    for book in await load_whole_breakdowns(house):
        check_down_time(book, gone, back, started - back)
    assert book.seconds["lane_wait"] > 0


async def test_killed_again_and_again_while_telegram_is_away(surround: OpenEnvironment):
    house = await surround()
    fault = house.api.inject_fault(BotApiFault.drop(), "sendMessage", times=None)
    house.ann.send(f"@@repeat:30 {PROSE}@@")
    await house.wait_for_row("select 1 from turns where ended_at is not null")
    for _ in range(3):
        await house.gateway.restart()
    fault.lift()
    (book,) = await load_whole_breakdowns(house)
    assert book.seconds["down"] > 0
    assert len(book.parts) > 1


async def test_stopped_in_good_order_while_telegram_wants_a_chat_left_alone(surround: OpenEnvironment):
    house = await surround()
    flood = house.api.inject_fault(BotApiFault.flood(1), "sendMessage", times=None)
    house.ann.send("@@say:here I am@@")
    await house.wait_for_row("select 1 from turns where ended_at is not null")
    for life in (1, 2, 3):
        await house.until(partial(lambda so_many: flood.hit_count >= so_many, life))
        await house.gateway.terminate()
        await house.gateway.start()
    flood.lift()
    (book,) = await load_whole_breakdowns(house)
    assert book.seconds["down"] > 0
    assert book.seconds["telegram"] > 0


async def test_a_sweep_of_kills_leaves_whole_books(surround: OpenEnvironment):
    house = await surround(crowd.build_endpoint(), model_max_tokens=4096, start=False)
    await sweep_with_kills(house, Chatter, 3, 60, 10)
    found = await load_whole_breakdowns(house)
    assert any(book.seconds["down"] for book in found)
    assert len(found) > 20

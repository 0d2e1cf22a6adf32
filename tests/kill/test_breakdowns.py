"""Killed or stopped while an answer was made or delivered, or a tool ran: all breakdowns are complete."""

import time
from functools import partial

import pytest

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import Timing
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support.breakdown_clock import BreakdownRow, check_breakdowns
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import BotApiFault

PROSE = write_prose(150, 1)[1:] + " "


async def load_whole_breakdowns(environment: KillEnvironment) -> list[BreakdownRow]:
    """All breakdowns, once everything is answered and settled; see breakdown_clock.check_breakdowns."""
    await environment.wait_until_idle()
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    environment.assert_all_accounted()
    return check_breakdowns(environment.folder / "gateway.db")


async def take_down(environment: KillEnvironment, *, by_kill: bool = True) -> tuple[float, float]:
    """End the gateway for a while; returns the times between which there was certainly no process."""
    if by_kill:
        await environment.gateway.kill()
    else:
        await environment.gateway.terminate()
    gone_at = time.time()
    environment.ann.send("/id")  # it waits at Telegram
    back_at = time.time()
    await environment.gateway.start()
    return gone_at, back_at


def check_down_time(
    environment: KillEnvironment, breakdown: BreakdownRow, gone_at: float, back_at: float
) -> None:
    """Assert that it was down while there was no process, and at most from the last heartbeat on."""
    [(seen_at,)] = environment.load_rows("select seen_at from lives where id = 1")
    [(began_at,)] = environment.load_rows("select began_at from lives where id = 2")
    assert breakdown.seconds["down"] >= back_at - gone_at
    assert breakdown.seconds["down"] <= began_at - seen_at + 0.001


async def test_killed_in_mid_canvas(surround: OpenEnvironment):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.05)))
    environment.endpoint.hold()
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_requests()
    await environment.wait_for_row("select 1 from inbox where spans like '%first canvas%'")
    gone_at, back_at = await take_down(environment)
    environment.endpoint.release()
    (breakdown,) = await load_whole_breakdowns(environment)
    check_down_time(environment, breakdown, gone_at, back_at)
    calls = environment.load_rows("select outcome, again from model_calls where purpose = 'turn' order by id")
    assert calls == [("cancelled", None), ("ok", "restart")]
    assert breakdown.seconds["first_canvas"] >= 0.05
    assert breakdown.seconds["own"] > 0


async def test_stopped_in_good_order_while_a_tool_runs(surround: OpenEnvironment):
    environment = await surround()
    environment.bells.hold()
    environment.ann.send(f"{environment.bells.call('look', 'tower')}@@say:it hangs@@")
    await environment.bells.until(lambda: environment.bells.rung["tower"])
    gone_at, back_at = await take_down(environment, by_kill=False)
    environment.bells.release()
    (breakdown,) = await load_whole_breakdowns(environment)
    check_down_time(environment, breakdown, gone_at, back_at)
    assert breakdown.seconds["tools"] > 0
    [(ended_at,)] = environment.load_rows("select ended_at from lives where id = 1")
    [(began_at,)] = environment.load_rows("select began_at from lives where id = 2")
    assert breakdown.seconds["down"] == pytest.approx(began_at - ended_at, abs=0.0005)


@pytest.mark.parametrize("arrives", [True, False])
async def test_killed_while_the_answer_is_delivered(surround: OpenEnvironment, arrives: bool):
    environment = await surround()
    sending = environment.freeze_at("sendMessage", "here I am", arrives=arrives)
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: sending.hit_count)
    gone_at, back_at = await take_down(environment)
    (breakdown,) = await load_whole_breakdowns(environment)
    check_down_time(environment, breakdown, gone_at, back_at)
    assert breakdown.parts[0][0] == "unknown"
    assert breakdown.seconds["first_canvas"] > 0


async def test_killed_while_a_message_waits_for_its_lane(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:first@@")
    await environment.wait_for_requests()
    environment.ann.send("@@say:second@@")
    await environment.wait_for_row("select 1 from inbox where seen_at is not null")
    gone_at, back_at = await take_down(environment)
    environment.endpoint.release()
    for breakdown in await load_whole_breakdowns(environment):
        check_down_time(environment, breakdown, gone_at, back_at)
    assert breakdown.seconds["lane_wait"] > 0


async def test_killed_repeatedly_while_telegram_is_away(surround: OpenEnvironment):
    environment = await surround()
    fault = environment.api.inject_fault(BotApiFault.drop(), "sendMessage", times=None)
    environment.ann.send(f"@@repeat:30 {PROSE}@@")
    await environment.wait_for_row("select 1 from turns where ended_at is not null")
    for _ in range(2):
        await environment.gateway.restart()
    fault.lift()
    (breakdown,) = await load_whole_breakdowns(environment)
    assert breakdown.seconds["down"] > 0
    assert len(breakdown.parts) > 1


async def test_stopped_in_good_order_while_telegram_limits_a_chat(surround: OpenEnvironment):
    environment = await surround()
    flood = environment.api.inject_fault(BotApiFault.flood(1), "sendMessage", times=None)
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_row("select 1 from turns where ended_at is not null")
    for hits in (1, 2):
        await environment.until(partial(lambda count: flood.hit_count >= count, hits))
        await environment.gateway.terminate()
        await environment.gateway.start()
    flood.lift()
    (breakdown,) = await load_whole_breakdowns(environment)
    assert breakdown.seconds["down"] > 0
    assert breakdown.seconds["telegram"] > 0

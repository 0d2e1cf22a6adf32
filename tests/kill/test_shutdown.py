"""SIGTERM ends the gateway in time and loses nothing; there is one gateway a database, whatever happens to
it.
"""

import signal
from pathlib import Path

import pytest

from bot.sim.telegram.server import BotApiFault
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE, GatewayProcess

pytestmark = pytest.mark.timeout(180)  # starting takes long on a busy machine
MAX_STOP_SECONDS = 10.0  # seconds, after which supervisors kill


def build_second_gateway(environment: KillEnvironment, folder: Path) -> GatewayProcess:
    """A second gateway with the same settings, and so on the same database."""
    return GatewayProcess(environment.api, folder, environment.settings, None)


async def test_with_nothing_to_do_it_stops_at_once(surround: OpenEnvironment):
    house = await surround(plain=True)
    house.ann.send("@@say:here I am@@")
    await house.wait_for_answers("here I am")
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS / 2) == (0, True)


async def test_a_turn_that_does_not_end_in_time_goes_on_after_the_next_start(surround: OpenEnvironment):
    house = await surround(plain=True)
    house.endpoint.hold()
    house.ann.send('@@tool:remember {"note": "milk"}@@@@say:noted@@')
    await house.wait_for_requests()
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS) == (0, True)
    waiting = house.ann.send("@@say:you were away@@")
    house.endpoint.release()
    await house.gateway.start()
    await house.wait_for_answers("noted", "you were away")
    assert house.api.fetched_at(waiting.update_id)
    assert house.load_rows("select count(*) from notes") == [(1,)]


async def test_a_turn_that_ends_in_time_is_delivered_before_it_stops(surround: OpenEnvironment):
    house = await surround(plain=True)
    house.endpoint.hold()
    house.ann.send("@@say:just in time@@")
    await house.wait_for_requests()
    house.gateway.signal(signal.SIGTERM)
    await house.api.wait_until(lambda: not house.api.updates.is_polled)
    house.endpoint.release()
    assert await house.gateway.wait_for_exit() == 0
    assert house.texts() == ["just in time"]
    house.assert_all_accounted()


async def test_a_tool_that_does_not_end_in_time_is_interrupted(surround: OpenEnvironment):
    house = await surround()
    house.bells.hold()
    house.ann.send(house.bells.call("ring", "once") + "@@say:done@@")
    await house.bells.until(lambda: house.bells.rung["once"])
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS) == (0, True)
    house.bells.release()
    await house.gateway.start()
    await house.wait_for_answers("done")
    assert house.bells.rung["once"] == 1
    assert house.load_rows("select outcome from tool_calls") == [("unknown",)]


async def test_a_send_that_is_never_answered_does_not_hold_it_up(surround: OpenEnvironment):
    house = await surround(plain=True)
    hanging = house.api.inject_fault(BotApiFault.hang(after_effect=True), "sendMessage")
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: hanging.hit_count and house.texts())
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS) == (0, True)
    await house.gateway.start()
    await house.wait_for_answers("here I am", UNSURE)


async def test_killed_while_it_stops(surround: OpenEnvironment):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:here I am@@")
    await house.wait_for_requests()
    house.gateway.signal(signal.SIGTERM)
    await house.api.wait_until(lambda: not house.api.updates.is_polled)
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await house.wait_for_answers("here I am")


async def test_a_second_gateway_on_one_database_is_turned_away_until_the_first_is_gone(
    surround: OpenEnvironment, tmp_path: Path
):
    house = await surround(plain=True)
    second = build_second_gateway(house, tmp_path / "second")
    await second.spawn()
    assert await second.wait_for_exit() == 1
    assert second.output.strip().splitlines()[-1].startswith("Another gateway already works on")
    assert len(second.output.strip().splitlines()) == 1
    await house.gateway.kill()
    await second.start()
    house.ann.send("@@say:here I am@@")
    await second.while_alive(house.api.wait_until(lambda: house.texts() == ["here I am"]))
    await second.kill()


@pytest.mark.parametrize("fault", [BotApiFault.hang(), BotApiFault.server_error()])
async def test_it_stops_while_telegram_does_not_answer(surround: OpenEnvironment, fault: BotApiFault):
    house = await surround(plain=True, start=False)
    away = house.api.inject_fault(fault, times=None)
    await house.gateway.spawn()
    await house.until(lambda: away.hit_count)
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS) == (0, True)


async def test_it_stops_while_the_endpoint_does_not_answer(surround: OpenEnvironment):
    house = await surround(plain=True)
    house.endpoint.inject_fault("silent")
    house.ann.send("@@say:here I am@@")
    await house.endpoint.wait_until(lambda: bool(house.endpoint.requests), PATIENCE)
    code, seconds = await house.gateway.terminate()
    assert (code, seconds < MAX_STOP_SECONDS) == (0, True)
    house.endpoint.heal()
    await house.gateway.start()
    await house.wait_for_answers("here I am")

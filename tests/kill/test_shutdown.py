"""SIGTERM ends the gateway in time and loses nothing; a database has one gateway, whatever happens to it."""

import contextlib
import signal
from pathlib import Path

import pytest

from bot.app.factory import RunOptions
from bot.queue.worker import GRACE_SECONDS
from bot.telegram.delivery import sender
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE, ForkServer, GatewayProcess
from tests.support.telegram.server import BotApiFault

MAX_STOP_SECONDS = 10.0  # after that supervisors kill


def build_second_gateway(
    environment: KillEnvironment, folder: Path, fork_server: ForkServer
) -> GatewayProcess:
    """A second gateway with the same settings, and so on the same database."""
    return GatewayProcess(environment.api, folder, environment.settings, fork_server)


async def stop(environment: KillEnvironment) -> None:
    """Have it stop in good order; how long that takes depends on the machine as well."""
    code, _ = await environment.gateway.terminate()
    assert code == 0


def test_what_a_stop_waits_for_is_over_before_supervisors_kill():
    waits = GRACE_SECONDS + sender._STOP_GRACE_SECONDS + RunOptions().shutdown_seconds
    assert waits < MAX_STOP_SECONDS


async def test_with_nothing_to_do_it_stops(surround: OpenEnvironment):
    environment = await surround()
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_answers("here I am")
    await stop(environment)


async def test_a_turn_that_does_not_end_in_time_continues_after_the_next_start(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send('@@tool:remember {"note": "milk"}@@@@say:noted@@')
    await environment.wait_for_requests()
    await stop(environment)
    waiting_update = environment.ann.send("@@say:you were away@@")
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("noted", "you were away")
    assert environment.api.fetched_at(waiting_update.update_id)
    assert environment.load_rows("select count(*) from notes") == [(1,)]


async def test_a_turn_that_ends_in_time_is_delivered_before_it_stops(surround: OpenEnvironment):
    environment = await surround(start=False)
    environment.gateway.extend_grace()
    await environment.gateway.start()
    environment.endpoint.hold()
    environment.ann.send("@@say:just in time@@")
    await environment.wait_for_requests()
    environment.gateway.signal(signal.SIGTERM)
    await environment.api.wait_until(lambda: not environment.api.updates.is_polled)
    environment.endpoint.release()
    assert await environment.gateway.wait_for_exit() == 0
    assert environment.texts() == ["just in time"]
    environment.assert_all_accounted()


async def test_a_tool_that_does_not_end_in_time_is_interrupted(surround: OpenEnvironment):
    environment = await surround()
    environment.bells.hold()
    environment.ann.send(environment.bells.call("ring", "once") + "@@say:done@@")
    await environment.bells.until(lambda: environment.bells.rung["once"])
    await stop(environment)
    environment.bells.release()
    await environment.gateway.start()
    await environment.wait_for_answers("done")
    assert environment.bells.rung["once"] == 1
    assert environment.load_rows("select outcome from tool_calls") == [("unknown",)]


async def test_a_send_that_is_never_answered_does_not_delay_it(surround: OpenEnvironment):
    environment = await surround()
    hanging = environment.api.inject_fault(BotApiFault.hang(after_effect=True), "sendMessage")
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: hanging.hit_count and environment.texts())
    await stop(environment)
    await environment.gateway.start()
    await environment.wait_for_answers("here I am", UNSURE)


async def test_killed_while_it_stops(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_requests()
    environment.gateway.signal(signal.SIGTERM)
    await environment.api.wait_until(lambda: not environment.api.updates.is_polled)
    with contextlib.suppress(ProcessLookupError):  # it may have come to its end
        environment.gateway.signal(signal.SIGKILL)
    await environment.gateway.wait_for_exit()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("here I am")


async def test_a_second_gateway_on_one_database_is_refused_until_the_first_is_gone(
    surround: OpenEnvironment, tmp_path: Path, fork_server: ForkServer
):
    environment = await surround()
    second_gateway = build_second_gateway(environment, tmp_path / "second", fork_server)
    await second_gateway.spawn()
    assert await second_gateway.wait_for_exit() == 1
    assert second_gateway.output.strip().splitlines()[-1].startswith("Another gateway already works on")
    assert len(second_gateway.output.strip().splitlines()) == 1
    await environment.gateway.kill()
    await second_gateway.start()
    environment.ann.send("@@say:here I am@@")
    await second_gateway.while_alive(environment.api.wait_until(lambda: environment.texts() == ["here I am"]))
    await second_gateway.kill()


@pytest.mark.parametrize("fault", [BotApiFault.hang(), BotApiFault.server_error()])
async def test_it_stops_while_telegram_does_not_answer(surround: OpenEnvironment, fault: BotApiFault):
    environment = await surround(start=False)
    fault_injection = environment.api.inject_fault(fault, times=None)
    await environment.gateway.spawn()
    await environment.until(lambda: fault_injection.hit_count)
    await stop(environment)


async def test_it_stops_while_the_endpoint_does_not_answer(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.inject_fault("silent")
    environment.ann.send("@@say:here I am@@")
    await environment.endpoint.wait_until(lambda: bool(environment.endpoint.requests), PATIENCE)
    await stop(environment)
    environment.endpoint.heal()
    await environment.gateway.start()
    await environment.wait_for_answers("here I am")

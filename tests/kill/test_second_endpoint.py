"""kill -9 around the second endpoint: the turn goes on where it was, and its answer comes once."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bot.http_server import serve
from bot.sim.vllm.server import Profile, SimulatedEndpoint
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment

pytestmark = pytest.mark.timeout(180)  # starting takes long on a busy machine

BOB = 8  # no admin: the feed of admins is not in his chat
SIGNATURE = "— written by gemma-4-31b-it"


@contextlib.asynccontextmanager
async def open_fallback() -> AsyncIterator[tuple[SimulatedEndpoint, str]]:
    """A second endpoint, and its address."""
    second = SimulatedEndpoint(profile=Profile.hosted_api(), model="gemma-4-31b-it")
    async with serve(second.app) as url:
        yield second, f"{url}/v1"


async def wait_for_fallback(environment: KillEnvironment, fallback: SimulatedEndpoint) -> None:
    """Wait until the second endpoint works on the turn, and the database knows it."""
    await environment.gateway.while_alive(fallback.wait_until(lambda: fallback.running == 1, 30))
    await environment.wait_for_row("select 1 from turns where endpoint = 'fallback'")


async def test_between_the_switch_and_the_answer(surround: OpenEnvironment):
    async with open_fallback() as (second, url):
        house = await surround(fallback_url=url, thinking_read="off", warm_up="off")
        house.endpoint.inject_fault("busy", times=None)
        second.hold()
        house.api.person(BOB, "Bob").send("@@say:here I am@@")
        await wait_for_fallback(house, second)
        tried = len(house.endpoint.requests)
        await house.gateway.kill()
        second.release()
        await house.gateway.start()
        await house.wait_for_answers(f"here I am\n\n{SIGNATURE}", chat=BOB)
        assert len(house.endpoint.requests) == tried
        assert len(second.requests) == 2
    assert house.load_rows("select endpoint, ending from turns") == [("fallback", "answered")]


async def test_between_the_yes_and_the_answer(surround: OpenEnvironment):
    async with open_fallback() as (second, url):
        outside = url.replace("127.0.0.1", "127.1")
        house = await surround(fallback_url=outside, thinking_read="off", warm_up="off")
        bob = house.api.person(BOB, "Bob")
        bob.send("/deep @@say:here I am@@")
        await house.until(lambda: house.messages(BOB))
        second.hold()
        bob.tap(house.messages(BOB)[0], "Yes, text only")
        await wait_for_fallback(house, second)
        await house.gateway.kill()
        second.release()
        await house.gateway.start()
        await house.until(lambda: len(house.texts(BOB)) == 2)
        await house.wait_until_idle()
        assert house.texts(BOB)[1] == f"here I am\n\n{SIGNATURE}"
        house.assert_all_accounted()
    assert house.endpoint.requests == []

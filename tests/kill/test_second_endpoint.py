"""kill -9 around the second endpoint: the turn goes on where it was, and its answer comes once."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bot.http_server import serve
from bot.sim.vllm.server import Endpoint, Profile
from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings

pytestmark = pytest.mark.timeout(180)  # starting takes long on a busy machine

BOB = 8  # no admin: the feed of admins is not in his chat
SIGNED = "— written by gemma-4-31b-it"


@contextlib.asynccontextmanager
async def second_one() -> AsyncIterator[tuple[Endpoint, str]]:
    """A second endpoint, and its address."""
    second = Endpoint(profile=Profile.hosted_api(), model="gemma-4-31b-it")
    async with serve(second.app) as url:
        yield second, f"{url}/v1"


async def at_work(house: Surroundings, second: Endpoint) -> None:
    """Wait until the second endpoint works on the turn, and the database knows it."""
    await house.gateway.while_alive(second.until(lambda: second.running == 1, 30))
    await house.stored("select 1 from turns where endpoint = 'fallback'")


async def test_between_the_switch_and_the_answer(surround: Surround):
    async with second_one() as (second, url):
        house = await surround(fallback_url=url, thinking_read="off", warm_up="off")
        house.endpoint.fault("busy", times=None)
        second.hold()
        house.api.person(BOB, "Bob").send("@@say:here I am@@")
        await at_work(house, second)
        tried = len(house.endpoint.requests)
        await house.gateway.kill()
        second.release()
        await house.gateway.start()
        await house.answered(f"here I am\n\n{SIGNED}", chat=BOB)
        assert len(house.endpoint.requests) == tried
        assert len(second.requests) == 2
    assert house.rows("select endpoint, ending from turns") == [("fallback", "answered")]


async def test_between_the_yes_and_the_answer(surround: Surround):
    async with second_one() as (second, url):
        outside = url.replace("127.0.0.1", "127.1")
        house = await surround(fallback_url=outside, thinking_read="off", warm_up="off")
        bob = house.api.person(BOB, "Bob")
        bob.send("/deep @@say:here I am@@")
        await house.until(lambda: house.messages(BOB))
        second.hold()
        bob.tap(house.messages(BOB)[0], "Yes, text only")
        await at_work(house, second)
        await house.gateway.kill()
        second.release()
        await house.gateway.start()
        await house.until(lambda: len(house.texts(BOB)) == 2)
        await house.at_rest()
        assert house.texts(BOB)[1] == f"here I am\n\n{SIGNED}"
        house.accounted()
    assert house.endpoint.requests == []

"""kill -9 around the second endpoint: the turn continues where it was, and its answer comes once."""

import contextlib
from collections.abc import AsyncIterator

from bot.http_server import serve
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile

BOB = 8  # no admin: his chat gets no notices to admins
SIGNATURE = "— written by gemma-4-31b-it"


@contextlib.asynccontextmanager
async def open_fallback() -> AsyncIterator[tuple[ScriptedEndpoint, str]]:
    """A second endpoint, and its address."""
    fallback = ScriptedEndpoint(profile=ServerProfile.hosted_api(), model="gemma-4-31b-it")
    async with serve(fallback.app) as url:
        yield fallback, f"{url}/v1"


async def wait_for_fallback(environment: KillEnvironment, fallback: ScriptedEndpoint) -> None:
    """Wait until the second endpoint works on the turn, and the database knows it."""
    await environment.gateway.while_alive(fallback.wait_until(lambda: fallback.running == 1, PATIENCE))
    await environment.wait_for_row("select 1 from turns where endpoint = 'fallback'")


async def test_between_the_switch_and_the_answer(surround: OpenEnvironment):
    async with open_fallback() as (fallback, url):
        environment = await surround(fallback_url=url, thinking_read="off", warm_up="off")
        environment.endpoint.inject_fault("busy", times=None)
        fallback.hold()
        environment.api.person(BOB, "Bob").send("@@say:here I am@@")
        await wait_for_fallback(environment, fallback)
        attempt_count = len(environment.endpoint.requests)
        await environment.gateway.kill()
        fallback.release()
        await environment.gateway.start()
        await environment.wait_for_answers(f"here I am\n\n{SIGNATURE}", chat=BOB)
        assert len(environment.endpoint.requests) == attempt_count
        assert len(fallback.requests) == 2
    assert environment.load_rows("select endpoint, ending from turns") == [("fallback", "answered")]


async def test_between_the_yes_and_the_answer(surround: OpenEnvironment):
    async with open_fallback() as (fallback, url):
        external_url = url.replace("127.0.0.1", "127.1")
        environment = await surround(fallback_url=external_url, thinking_read="off", warm_up="off")
        bob = environment.api.person(BOB, "Bob")
        bob.send("/deep @@say:here I am@@")
        await environment.until(lambda: environment.messages(BOB))
        fallback.hold()
        bob.tap(environment.messages(BOB)[0], "Yes, text only")
        await wait_for_fallback(environment, fallback)
        await environment.gateway.kill()
        fallback.release()
        await environment.gateway.start()
        await environment.until(lambda: len(environment.texts(BOB)) == 2)
        await environment.wait_until_idle()
        assert environment.texts(BOB)[1] == f"here I am\n\n{SIGNATURE}"
        environment.assert_all_accounted()
    assert environment.endpoint.requests == []

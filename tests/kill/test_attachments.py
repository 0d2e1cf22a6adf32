"""kill -9 while what came with a message is fetched, and after: fetched again only where it was not kept."""

import pytest

from bot.sim.telegram.server import BotApiFault
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support import attachment_files as made

pytestmark = pytest.mark.timeout(180)


def count_pictures(environment: KillEnvironment) -> list[int]:
    """How many pictures each request to the endpoint held."""
    return [
        str(request.body["messages"]).count("data:image/jpeg;base64,")
        for request in environment.endpoint.requests
    ]


def count_fetches(environment: KillEnvironment) -> int:
    return len(environment.api.calls_of("getFile"))


async def test_in_the_middle_of_a_download(surround: OpenEnvironment):
    house = await surround()
    held = house.api.inject_fault(BotApiFault.hang(), "getFile")
    house.ann.send_photo("@@say:a cat@@", content=made.make_image())
    await house.until(lambda: held.hit_count)
    await house.gateway.restart()
    await house.wait_for_answers("a cat")
    assert (count_pictures(house), count_fetches(house)) == ([1], 2)
    assert house.load_rows("select kind from attachments") == [("image",)]


async def test_in_the_middle_of_an_album(surround: OpenEnvironment):
    house = await surround()
    held = house.api.inject_fault(BotApiFault.hang(), "getFile", skip=2)
    for number in range(3):
        house.ann.send_photo(
            "@@say:three@@" if number == 0 else "", content=made.make_image(10 + number), album="a"
        )
    await house.until(lambda: held.hit_count and count_fetches(house) == 3)
    await house.gateway.restart()
    await house.wait_for_answers("three")
    assert count_pictures(house) == [3]
    assert house.load_rows("select count(*) from messages where role = 'user'") == [(1,)]


async def test_while_the_model_looks_at_it(surround: OpenEnvironment):
    """What was fetched is kept with the message: it is not fetched again, and the prompt is the same."""
    house = await surround()
    house.endpoint.hold()
    house.ann.send_photo("@@say:a cat@@", content=made.make_image())
    await house.wait_for_requests()
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await house.wait_for_answers("a cat")
    assert (count_pictures(house), count_fetches(house)) == ([1, 1], 1)
    first, second = house.endpoint.requests
    assert first.body["messages"] == second.body["messages"]


@pytest.mark.parametrize("when", ["before 2", "after 2", "before 3", "after 3"])
async def test_around_the_commits_of_its_way(surround: OpenEnvironment, when: str):
    house = await surround()
    await house.gateway.arm(when)
    house.ann.send_photo("@@say:a cat@@", content=made.make_image())
    await house.gateway.wait_for_exit()
    await house.gateway.start()
    await house.wait_for_answers("a cat")
    assert count_pictures(house)[-1] == 1
    assert house.load_rows("select kind from attachments") == [("image",)]


async def test_while_it_is_said_that_nothing_can_be_used(surround: OpenEnvironment):
    house = await surround()
    await house.gateway.arm("before 3")
    house.ann.send_document("a.zip", content=b"PK\x03\x04\0\0")
    await house.gateway.wait_for_exit()
    await house.gateway.start()
    await house.until(house.texts)
    await house.wait_until_idle()
    house.assert_all_accounted()
    [line] = house.texts()
    assert line.startswith("I could not use your file a.zip: files of this kind")
    assert house.endpoint.requests == []

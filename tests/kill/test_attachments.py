"""kill -9 while what came with a message is fetched, and after: fetched again only where it was not kept."""

import pytest

from bot.sim.telegram.server import Fault
from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings
from tests.support import attachment_files as made

pytestmark = pytest.mark.timeout(180)


def pictures(house: Surroundings) -> list[int]:
    """How many pictures each request to the endpoint held."""
    return [
        str(request.body["messages"]).count("data:image/jpeg;base64,") for request in house.endpoint.requests
    ]


def fetches(house: Surroundings) -> int:
    return len(house.api.calls_of("getFile"))


async def test_in_the_middle_of_a_download(surround: Surround):
    house = await surround()
    held = house.api.inject(Fault.hang(), "getFile")
    house.ann.send_photo("@@say:a cat@@", content=made.image())
    await house.until(lambda: held.hits)
    await house.gateway.restart()
    await house.answered("a cat")
    assert (pictures(house), fetches(house)) == ([1], 2)
    assert house.rows("select kind from attachments") == [("image",)]


async def test_in_the_middle_of_an_album(surround: Surround):
    house = await surround()
    held = house.api.inject(Fault.hang(), "getFile", skip=2)
    for number in range(3):
        house.ann.send_photo(
            "@@say:three@@" if number == 0 else "", content=made.image(10 + number), album="a"
        )
    await house.until(lambda: held.hits and fetches(house) == 3)
    await house.gateway.restart()
    await house.answered("three")
    assert pictures(house) == [3]
    assert house.rows("select count(*) from messages where role = 'user'") == [(1,)]


async def test_while_the_model_looks_at_it(surround: Surround):
    """What was fetched is kept with the message: it is not fetched again, and the prompt is the same."""
    house = await surround()
    house.endpoint.hold()
    house.ann.send_photo("@@say:a cat@@", content=made.image())
    await house.thinking()
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await house.answered("a cat")
    assert (pictures(house), fetches(house)) == ([1, 1], 1)
    first, second = house.endpoint.requests
    assert first.body["messages"] == second.body["messages"]


@pytest.mark.parametrize("when", ["before 2", "after 2", "before 3", "after 3"])
async def test_around_the_commits_of_its_way(surround: Surround, when: str):
    house = await surround()
    await house.gateway.arm(when)
    house.ann.send_photo("@@say:a cat@@", content=made.image())
    await house.gateway.ended()
    await house.gateway.start()
    await house.answered("a cat")
    assert pictures(house)[-1] == 1
    assert house.rows("select kind from attachments") == [("image",)]


async def test_while_it_is_said_that_nothing_can_be_used(surround: Surround):
    house = await surround()
    await house.gateway.arm("before 3")
    house.ann.send_document("a.zip", content=b"PK\x03\x04\0\0")
    await house.gateway.ended()
    await house.gateway.start()
    await house.until(house.texts)
    await house.at_rest()
    house.accounted()
    [line] = house.texts()
    assert line.startswith("I could not use your file a.zip: files of this kind")
    assert house.endpoint.requests == []

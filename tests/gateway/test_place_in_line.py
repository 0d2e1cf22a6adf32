"""With the whole house: who waits for a seat sees the place in line, and nothing of it stays behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.sim.telegram.server import Fault, Person
from bot.telegram.delivery.progress import SERVED
from bot.turns import model_caller as asking
from tests.support.gateway import ADMIN, World, open_house

SECOND, NEXT = "Waiting for a free seat; 1 before you.", "Waiting for a free seat; you are next."


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """One seat, and a canvas that is never finished until it is released."""
    monkeypatch.setattr(asking, "SEAT_SIGN", 0.05)
    async with open_house(tmp_path, access="open", model_seats=1) as house:
        house.endpoint.hold()
        yield house
        house.endpoint.release()


async def wait_behind_two(house: World) -> tuple[Person, Person]:
    """Bob has the seat, Carl is next, and Ann has asked after both."""
    bob, carl = house.api.person(8, "Bob"), house.api.person(9, "Carl")
    bob.send("@@say:one@@")
    await house.endpoint.until(lambda: house.endpoint.running == 1)
    carl.send("@@say:two@@")
    await house.api.until(lambda: says(house, NEXT, 9) or house.texts(9) == [NEXT])
    house.ann.send("@@say:three@@")
    return bob, carl


def says(house: World, line: str, chat: int = ADMIN) -> bool:
    """Whether the draft of this chat says so."""
    draft = house.api.chat(chat).draft
    return draft is not None and draft.text == line


async def test_the_draft_tells_the_place_until_one_is_served(house: World):
    bob, carl = await wait_behind_two(house)
    await house.api.until(lambda: says(house, SECOND))
    bob.send("/stop")
    await house.api.until(lambda: says(house, NEXT))
    carl.send("/stop")
    await house.api.until(lambda: says(house, ""))
    assert house.texts() == []
    house.endpoint.release()
    assert await house.answered() == ["three"]
    assert house.api.chat(ADMIN).draft is None
    assert house.api.chat(ADMIN).deleted == []


async def test_without_drafts_a_message_tells_it_and_becomes_the_answer(house: World):
    house.api.inject(Fault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None)
    bob, carl = await wait_behind_two(house)
    await house.api.until(lambda: house.texts() == [SECOND])
    bob.send("/stop")
    await house.api.until(lambda: house.texts() == [NEXT])
    carl.send("/stop")
    await house.api.until(lambda: house.texts() == [SERVED])
    house.endpoint.release()
    await house.api.until(lambda: house.texts() == ["three"])
    assert house.api.calls_of("deleteMessage") == []


@pytest.mark.parametrize("has_drafts", [True, False])
async def test_a_stop_in_line_leaves_nothing_behind(house: World, has_drafts: bool):
    if not has_drafts:
        house.api.inject(Fault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None)
    _, carl = await wait_behind_two(house)
    carl.send("/stop")
    await house.api.until(lambda: house.texts(9) == ["Stopped."])
    assert house.api.chat(9).draft is None
    house.ann.send("/stop")
    await house.api.until(lambda: house.texts() == ["Stopped."])
    assert house.api.chat(ADMIN).draft is None

"""With the whole house: who waits for a seat sees the place in line, and nothing of it stays behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.sim.telegram.server import BotApiFault, SimulatedPerson
from bot.telegram.delivery.progress import YOUR_TURN
from bot.turns import model_caller as asking
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway

SECOND_IN_LINE, NEXT_IN_LINE = (
    "Waiting for a free seat; 1 before you.",
    "Waiting for a free seat; you are next.",
)


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayHarness]:
    """One seat, and a canvas that is never finished until it is released."""
    monkeypatch.setattr(asking, "SEAT_NOTICE_SECONDS", 0.05)
    async with running_gateway(tmp_path, access="open", model_seats=1) as house:
        house.endpoint.hold()
        yield house
        house.endpoint.release()


async def wait_behind_two(gateway: GatewayHarness) -> tuple[SimulatedPerson, SimulatedPerson]:
    """Bob has the seat, Carl is next, and Ann has asked after both."""
    bob, carl = gateway.api.person(8, "Bob"), gateway.api.person(9, "Carl")
    bob.send("@@say:one@@")
    await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
    carl.send("@@say:two@@")
    await gateway.api.wait_until(
        lambda: shows_draft(gateway, NEXT_IN_LINE, 9) or gateway.texts(9) == [NEXT_IN_LINE]
    )
    gateway.ann.send("@@say:three@@")
    return bob, carl


def shows_draft(gateway: GatewayHarness, text: str, chat: int = ADMIN) -> bool:
    """Whether the draft of this chat says so."""
    draft = gateway.api.chat(chat).draft
    return draft is not None and draft.text == text


async def test_the_draft_tells_the_place_until_one_is_served(house: GatewayHarness):
    bob, carl = await wait_behind_two(house)
    await house.api.wait_until(lambda: shows_draft(house, SECOND_IN_LINE))
    bob.send("/stop")
    await house.api.wait_until(lambda: shows_draft(house, NEXT_IN_LINE))
    carl.send("/stop")
    await house.api.wait_until(lambda: shows_draft(house, ""))
    assert house.texts() == []
    house.endpoint.release()
    assert await house.wait_for_texts() == ["three"]
    assert house.api.chat(ADMIN).draft is None
    assert house.api.chat(ADMIN).deleted_messages == []


async def test_without_drafts_a_message_tells_it_and_becomes_the_answer(house: GatewayHarness):
    house.api.inject_fault(
        BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
    )
    bob, carl = await wait_behind_two(house)
    await house.api.wait_until(lambda: house.texts() == [SECOND_IN_LINE])
    bob.send("/stop")
    await house.api.wait_until(lambda: house.texts() == [NEXT_IN_LINE])
    carl.send("/stop")
    await house.api.wait_until(lambda: house.texts() == [YOUR_TURN])
    house.endpoint.release()
    await house.api.wait_until(lambda: house.texts() == ["three"])
    assert house.api.calls_of("deleteMessage") == []


@pytest.mark.parametrize("has_drafts", [True, False])
async def test_a_stop_in_line_leaves_nothing_behind(house: GatewayHarness, has_drafts: bool):
    if not has_drafts:
        house.api.inject_fault(
            BotApiFault.refuse("Not Found: method not found", 404), "sendMessageDraft", times=None
        )
    _, carl = await wait_behind_two(house)
    carl.send("/stop")
    await house.api.wait_until(lambda: house.texts(9) == ["Stopped."])
    assert house.api.chat(9).draft is None
    house.ann.send("/stop")
    await house.api.wait_until(lambda: house.texts() == ["Stopped."])
    assert house.api.chat(ADMIN).draft is None

"""Killed around every commit of a /forget: it is finished after the restart, and no byte of a text is left."""

import signal
from pathlib import Path

import pytest

from tests.kill.conftest import Surround
from tests.kill.environment import ANN, Surroundings
from tests.kill.gateway import Died

FORGOTTEN = "Forgotten: of this chat I keep figures only, and what I named before."


@pytest.mark.timeout(240)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_around_every_commit(surround: Surround, when: str):
    house = await surround()
    commit = 1
    while await dies(house, f"{when} {commit}", commit):
        await house.gateway.start()
        await forgotten(house, commit)
        commit += 1
    try:
        await forgotten(house, commit)
    except Died:  # a commit of the house's own came late, and it was armed for so many
        await house.gateway.start()
        await forgotten(house, commit)
    assert commit > 6


@pytest.mark.timeout(180)
async def test_while_what_runs_is_being_stopped(surround: Surround):
    house = await surround()
    house.endpoint.hold()
    house.ann.send(f"Is {canary(ANN)} there?")
    await house.thinking()
    house.ann.send("/forget")
    await house.until(lambda: any("Keep it" in str(one.buttons) for one in house.messages()))
    question = next(one for one in house.messages() if "Keep it" in str(one.buttons))
    house.gateway.freeze()
    house.ann.tap(question, "Forget it all")
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await forgotten(house, ANN)
    assert house.rows("select 1 from messages") == []


def canary(chat: int) -> str:
    return f"canary-of-{chat}-"


async def dies(house: Surroundings, when: str, chat: int) -> bool:
    """Whether the gateway killed itself between the tap on the button and the end of it."""
    person = house.api.person(chat)
    note = f'@@tool:remember {{"note": "{canary(chat)} likes tea"}}@@'
    person.send(f"Is {canary(chat)} there? {note}@@say:Yes, {canary(chat)}.@@")
    await house.until(lambda: any(canary(chat) in text for text in house.texts(chat)))
    person.send("/forget")
    await house.until(lambda: house.messages(chat)[-1].buttons)
    await house.gateway.while_alive(house.at_rest())
    assert traces(house, chat)
    await house.gateway.arm(when)
    person.tap(house.messages(chat)[-1], "Forget it all")
    try:
        await house.until(lambda: FORGOTTEN in house.texts(chat))
        await house.gateway.while_alive(house.at_rest())
    except Died:
        assert await house.gateway.ended() == -signal.SIGKILL
        return True
    return False


async def forgotten(house: Surroundings, chat: int) -> None:
    """It is told once, or that nobody knows whether it was; and it is true."""
    await house.until(lambda: FORGOTTEN in house.texts(chat) or house.unsure(chat))
    await house.at_rest()
    assert house.texts(chat).count(FORGOTTEN) <= 1
    assert traces(house, chat) == []


def traces(house: Surroundings, chat: int) -> list[Path]:
    """The gateway's files, its log included, that hold the text."""
    files = [file for file in house.folder.rglob("*") if file.is_file()]
    return [file for file in files if canary(chat).encode() in file.read_bytes()]

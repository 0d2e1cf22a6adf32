"""Killed around every commit of a /forget: it is finished after the restart, and no byte of text is left."""

import signal
from pathlib import Path

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, KillEnvironment
from tests.kill.gateway import GatewayDied

FORGOTTEN = "Done. I kept only the statistics and settings listed above."


async def test_around_every_commit(surround: OpenEnvironment):
    """Before each odd commit and after each even one."""
    environment = await surround()
    commit = 1
    while await is_killed_on_the_way(environment, f"{('after', 'before')[commit % 2]} {commit}", commit):
        await environment.gateway.start()
        await assert_forgotten(environment, commit)
        commit += 1
    try:
        await assert_forgotten(environment, commit)
    except GatewayDied:  # a commit of the gateway itself came late, and was the one it was armed for
        await environment.gateway.start()
        await assert_forgotten(environment, commit)
    assert commit > 6


async def test_while_the_running_turn_is_being_stopped(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send(f"Is {canary(ANN)} there?")
    await environment.wait_for_requests()
    environment.ann.send("/forget")
    await environment.until(
        lambda: any("Keep it" in str(message.buttons) for message in environment.messages())
    )
    question = next(message for message in environment.messages() if "Keep it" in str(message.buttons))
    environment.gateway.freeze()
    environment.ann.tap(question, "Forget it all")
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await assert_forgotten(environment, ANN)
    assert environment.load_rows("select 1 from messages") == []


def canary(chat: int) -> str:
    return f"canary-of-{chat}-"


async def is_killed_on_the_way(environment: KillEnvironment, when: str, chat: int) -> bool:
    """Whether the gateway killed itself between the tap on the button and the end of the deletion."""
    person = environment.api.person(chat)
    note = f'@@tool:remember {{"note": "{canary(chat)} likes tea"}}@@'
    file = environment.bells.call("draw", canary(chat))
    person.send(f"Is {canary(chat)} there? {note}{file}@@say:Yes, {canary(chat)}.@@")
    await environment.until(lambda: any(canary(chat) in text for text in environment.texts(chat)))
    person.send("/forget")
    await environment.until(lambda: environment.messages(chat)[-1].buttons)
    await environment.gateway.while_alive(environment.wait_until_idle())
    assert find_traces(environment, chat)
    await environment.gateway.arm(when)
    person.tap(environment.messages(chat)[-1], "Forget it all")
    try:
        await environment.until(lambda: FORGOTTEN in environment.texts(chat))
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    return False


async def assert_forgotten(environment: KillEnvironment, chat: int) -> None:
    """Assert that the chat was notified at most once, or its doubt is said; and that nothing is left."""
    await environment.until(
        lambda: FORGOTTEN in environment.texts(chat) or environment.doubtful_messages(chat)
    )
    await environment.wait_until_idle()
    assert environment.texts(chat).count(FORGOTTEN) <= 1
    assert find_traces(environment, chat) == []


def find_traces(environment: KillEnvironment, chat: int) -> list[Path]:
    """The gateway's files, its log included, that hold the text."""
    files = [file for file in environment.folder.rglob("*") if file.is_file()]
    return [file for file in files if canary(chat).encode() in file.read_bytes()]

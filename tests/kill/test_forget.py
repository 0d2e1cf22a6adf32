"""Killed around the commits of a /forget: it is finished after the restart, and no byte of text is left."""

from functools import partial
from pathlib import Path

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, KillEnvironment

FORGOTTEN = "Done. I kept only the statistics and settings listed above."
MOMENTS = ("after 1", "before 3", "after 3", "before 5", "after 6")


async def test_around_the_commits_of_a_forget(surround: OpenEnvironment):
    environment = await surround()
    kills = 0
    for chat, moment in enumerate(MOMENTS, start=1):
        await ask_to_forget(environment, chat)
        await environment.gateway.arm(moment)
        environment.api.person(chat).tap(environment.messages(chat)[-1], "Forget it all")
        kills += await environment.revive(partial(wait_until_forgotten, environment, chat))
        assert_forgotten(environment, chat)
    assert kills >= 2


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
    await wait_until_forgotten(environment, ANN)
    assert_forgotten(environment, ANN)
    assert environment.load_rows("select 1 from messages") == []


def canary(chat: int) -> str:
    return f"canary-of-{chat}-"


async def ask_to_forget(environment: KillEnvironment, chat: int) -> None:
    """Have somebody tell the bot something, get a file of it, and be asked whether it forgets all that."""
    person = environment.api.person(chat)
    note = f'@@tool:remember {{"note": "{canary(chat)} likes tea"}}@@'
    file = environment.bells.call("draw", canary(chat))
    person.send(f"Is {canary(chat)} there? {note}{file}@@say:Yes, {canary(chat)}.@@")
    await environment.until(lambda: any(canary(chat) in text for text in environment.texts(chat)))
    person.send("/forget")
    await environment.until(lambda: "Keep it" in str(environment.messages(chat)[-1].buttons))
    await environment.wait_until_idle()
    assert find_traces(environment, chat)


async def wait_until_forgotten(environment: KillEnvironment, chat: int) -> None:
    await environment.until(
        lambda: FORGOTTEN in environment.texts(chat) or environment.doubtful_messages(chat)
    )
    await environment.wait_until_idle()


def assert_forgotten(environment: KillEnvironment, chat: int) -> None:
    """Assert that the chat was notified at most once, or its doubt is said; and that nothing is left."""
    assert environment.texts(chat).count(FORGOTTEN) <= 1
    assert find_traces(environment, chat) == []


def find_traces(environment: KillEnvironment, chat: int) -> list[Path]:
    """The gateway's files, its log included, that hold the text."""
    files = [file for file in environment.folder.rglob("*") if file.is_file()]
    return [file for file in files if canary(chat).encode() in file.read_bytes()]

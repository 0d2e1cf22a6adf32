"""Killed around the commits of a tap on Keep, a search and a tap on Delete: each is done once, and said."""

from collections.abc import Callable, Mapping
from functools import partial

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment

ALL_GONE = "select 1 where not exists (select 1 from kept_files) and not exists (select 1 from kept_words)"


async def test_around_the_commits_of_keep_find_and_delete(
    either_database: Mapping[str, str], surround: OpenEnvironment
):
    environment = await surround(**either_database)
    ann = environment.ann
    moments = ("before 2",) if either_database else ("before 1", "after 1", "after 2")
    for number, when in enumerate(moments, start=1):
        answer = await send_document(environment, number)
        doubts = len(environment.doubtful_messages())
        await die(environment, when, partial(ann.tap, answer, "Keep"))
        await environment.wait_for_row("select 1 from kept_words")
        await wait_until_said(environment, doubts, f"Kept without a time limit: “plan{number}.txt”.")
        assert environment.load_rows("select name from kept_files") == [(f"plan{number}.txt",)]
        assert environment.load_rows("select 1 from attachments where text is not null") == []
        await environment.wait_until_idle()
        doubts = len(environment.doubtful_messages())
        await die(environment, when, partial(ann.send, f"/find launch{number}"))
        await wait_until_said(environment, doubts, f", plan{number}.txt\nlaunch{number} in May.")
        await environment.gateway.while_alive(environment.wait_until_idle())
        ann.send("/files")
        listed = await environment.until(partial(find, environment, "Files in this chat"))
        assert listed is not None
        await die(environment, when, partial(ann.tap, listed, "Delete 1"))
        await environment.wait_for_row(ALL_GONE)
        await environment.until(lambda: find(environment, "Files in this chat") is None)


async def send_document(environment: KillEnvironment, number: int) -> ChatMessage:
    """Have Ann send a document; the answer to it."""
    content = f"launch{number} in May.".encode()
    environment.ann.send_document(f"plan{number}.txt", content=content, caption=f"@@say:Read {number}.@@")
    answer = await environment.until(partial(find, environment, f"Read {number}."))
    await environment.gateway.while_alive(environment.wait_until_idle())
    assert answer is not None
    return answer


async def die(environment: KillEnvironment, when: str, act: Callable[[], object]) -> None:
    """Have the gateway kill itself when this is done, and start it again."""
    await environment.gateway.arm(when)
    act()
    await environment.gateway.wait_for_exit()
    await environment.gateway.start()


def find(environment: KillEnvironment, text: str) -> ChatMessage | None:
    """The newest message of the bot that says this."""
    return next((message for message in reversed(environment.messages()) if text in message.text), None)


async def wait_until_said(environment: KillEnvironment, doubts: int, text: str) -> None:
    """Wait until this is said, or may have been: then there are more doubts than so many."""
    await environment.until(lambda: find(environment, text) or len(environment.doubtful_messages()) > doubts)

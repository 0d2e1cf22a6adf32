"""Killed around every commit between a question of the model's own and its answer: it is answered once."""

import itertools
import json
import signal
from functools import partial

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied
from tests.support.breakdown_clock import check_breakdowns


async def test_around_every_commit_of_a_question_answered_by_a_tap_or_in_words(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    environment = await surround(**either_database)
    # On a server each replica commits that it is alive, so there is no last commit; every third one will do.
    for chat in range(1, 15, 3) if either_database else itertools.count(1):
        if not await is_killed_on_the_way(environment, chat):
            break
        await environment.gateway.start()
        await answer(environment, chat)
        await environment.wait_until_idle()
        assert_answered_once(environment, chat)
    assert chat > 12
    await environment.gateway.restart()  # it is still armed
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    environment.assert_all_accounted()
    assert environment.load_rows("select count(*) from accounts where approval_wait <= 0") == [(0,)]
    if not either_database:
        check_breakdowns(environment.folder / "gateway.db")


async def is_killed_on_the_way(environment: KillEnvironment, chat: int) -> bool:
    """Whether the gateway killed itself around the commit with the number of the chat."""
    await environment.gateway.arm(f"{('after', 'before')[chat % 2]} {chat}")
    question = json.dumps({"question": f"Which, {chat}?\nleft\nright"})
    environment.api.person(chat).send(f"@@tool:ask {question}@@@@say:told {chat}@@")
    try:
        await answer(environment, chat)
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    assert_answered_once(environment, chat)
    return False


async def answer(environment: KillEnvironment, chat: int) -> None:
    """Answer the question, by taps until it is closed, or once in words."""
    person = environment.api.person(chat)
    while not is_told(environment, chat):
        await environment.until(lambda: is_told(environment, chat) or find_question(environment, chat))
        question = find_question(environment, chat)
        if question is None:
            continue
        if chat % 4 < 2:
            person.tap(question, "left")
        elif not any(message.text == "left" for message in person.chat.messages):
            person.send("left")
        await environment.until(partial(is_closed, environment, question, chat))


def is_closed(environment: KillEnvironment, question: ChatMessage, chat: int) -> bool:
    return is_told(environment, chat) or not question.buttons


def find_question(environment: KillEnvironment, chat: int) -> ChatMessage | None:
    questions = (message for message in environment.messages(chat) if message.buttons)
    return next((message for message in questions if f"Which, {chat}?" in message.text), None)


def is_told(environment: KillEnvironment, chat: int) -> bool:
    """Whether the turn's answer is there, or its delivery is in doubt."""
    return f"told {chat}" in environment.texts(chat) or bool(environment.doubtful_messages(chat))


def assert_answered_once(environment: KillEnvironment, chat: int) -> None:
    """Assert that the turn read the answer, and that nothing else was made of it."""
    rows = environment.load_rows(
        "select c.result, c.outcome, a.answer, a.reply from turns t join tool_calls c on c.turn = t.id"
        f" join approvals a on a.id = c.approval where t.lane = '{chat}'"
    )
    assert rows == [("left", "ok", "given", "left")]
    assert environment.load_rows(f"select count(*) from turns where lane = '{chat}'") == [(1,)]

"""Killed around the commits between a question of the model's own and its answer: it is answered once."""

import json
from functools import partial

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support.breakdown_clock import check_breakdowns

MOMENTS = ("after 2", "before 4", "after 5", "before 7", "after 8", "before 10", "after 11", "before 13")
FEW_MOMENTS = ("after 4", "before 7", "after 9")  # on a server heartbeats of the replica count, too


async def test_around_the_commits_of_a_question_answered_by_a_tap_or_in_words(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    environment = await surround(**either_database)
    kills = 0
    for chat, moment in enumerate(FEW_MOMENTS if either_database else MOMENTS, start=1):
        await environment.gateway.arm(moment)
        question = json.dumps({"question": f"Which, {chat}?\nleft\nright"})
        environment.api.person(chat).send(f"@@tool:ask {question}@@@@say:told {chat}@@")
        kills += await environment.revive(partial(answer, environment, chat))
        assert_answered_once(environment, chat)
    assert kills >= 2
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    environment.assert_all_accounted()
    assert environment.load_rows("select count(*) from accounts where approval_wait <= 0") == [(0,)]
    if not either_database:
        check_breakdowns(environment.folder / "gateway.db")


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
    await environment.wait_until_idle()


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

"""Killed around the commits between a question, its answer and the call: it runs at most once, as shown.

The breakdown of the turn is complete.
"""

from functools import partial

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support.breakdown_clock import check_breakdowns

MOMENTS = ("after 2", "before 4", "after 5", "before 7", "after 8", "before 10", "after 11", "before 13")


async def test_around_the_commits_of_a_call_that_asks(surround: OpenEnvironment):
    environment = await surround()
    kills = 0
    for chat, moment in enumerate(MOMENTS, start=1):
        await environment.gateway.arm(moment)
        environment.api.person(chat).send(
            f"{environment.bells.call('toll', f'bell-{chat}')}@@say:tolled {chat}@@"
        )
        kills += await environment.revive(partial(answer_until_done, environment, chat))
        assert_ran_once(environment, chat)
    assert kills >= 3
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    environment.assert_all_accounted()
    breakdowns = check_breakdowns(environment.folder / "gateway.db")
    assert len(breakdowns) == len(MOMENTS)
    assert all(breakdown.seconds["approval_wait"] > 0 for breakdown in breakdowns)


async def answer_until_done(environment: KillEnvironment, chat: int) -> None:
    """Answer the question as often as it is open, until the turn has ended."""
    while not is_answered(environment, chat):
        await environment.until(lambda: is_answered(environment, chat) or find_question(environment, chat))
        question = find_question(environment, chat)
        if question is not None:
            environment.api.person(chat).tap(question, "Allow once")
            await environment.until(partial(is_answer_taken, environment, question, chat))
    await environment.wait_until_idle()


def find_question(environment: KillEnvironment, chat: int) -> ChatMessage | None:
    questions = (
        message
        for message in environment.messages(chat)
        if f"bell-{chat}" in message.text and message.buttons
    )
    return next(questions, None)


def is_answer_taken(environment: KillEnvironment, question: ChatMessage, chat: int) -> bool:
    return is_answered(environment, chat) or not question.buttons


def is_answered(environment: KillEnvironment, chat: int) -> bool:
    """Whether the turn's answer is there, or its delivery is in doubt."""
    return f"tolled {chat}" in environment.texts(chat) or bool(environment.doubtful_messages(chat))


def assert_ran_once(environment: KillEnvironment, chat: int) -> None:
    """Assert that the bell was tolled, or the outcome is unknown; and that it is the bell of the question."""
    query = (
        "select c.outcome, a.answer, a.arguments = '{\"address\": \"' || '%s' || '\"}' from tool_calls c"
        " join turns t on t.id = c.turn join approvals a on a.id = c.approval where t.lane = '%s'"
    )
    [(outcome, answer, is_same)] = environment.load_rows(
        query % (f"{environment.bells.url}/bell-{chat}", chat)
    )
    rung = environment.bells.rung[f"bell-{chat}"]
    assert answer == "once"
    assert is_same == 1
    assert rung <= 1
    assert (rung, outcome) == (1, "ok") or outcome == "unknown"


async def test_an_answer_hours_later_after_a_restart_runs_what_was_shown(surround: OpenEnvironment):
    environment = await surround()
    environment.ann.send(f"{environment.bells.call('toll', 'late')}@@say:at last@@")
    question = await environment.until(
        lambda: next((message for message in environment.messages() if message.buttons), None)
    )
    assert question is not None
    await environment.wait_until_idle()  # else the question may come again
    await environment.gateway.kill()
    environment.ann.send("@@say:meanwhile@@")
    await environment.gateway.start()
    await environment.until(lambda: "meanwhile" in environment.texts())
    environment.ann.tap(question, "Allow once")
    await environment.until(lambda: "at last" in environment.texts())
    assert environment.bells.rung["late"] == 1
    await environment.wait_until_idle()
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    waited_turn, other_turn = check_breakdowns(environment.folder / "gateway.db")
    assert waited_turn.seconds["down"] > 0
    assert waited_turn.seconds["approval_wait"] > 0
    assert other_turn.seconds["approval_wait"] == 0

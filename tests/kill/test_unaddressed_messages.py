"""kill -9 while it is judged whether a message of a group is for the assistant: it is answered once."""

from bot.sim.vllm.typed_reads import TypedQuestion
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.support.group_chat import GROUP, open_group


def judge_question_marks(question: TypedQuestion) -> tuple[float, float]:
    newest = question.state.rpartition("[data: the newest message]")[2]
    return (1, 0) if "?" in newest else (0, 1)


async def wait_until_answered(environment: KillEnvironment) -> None:
    """Wait until the newest tap is answered and all is done."""
    answer_count = len(environment.api.calls_of("answerCallbackQuery"))
    await environment.until(lambda: len(environment.api.calls_of("answerCallbackQuery")) > answer_count)
    await environment.wait_until_idle()


async def test_while_it_is_judged(surround: OpenEnvironment):
    environment = await surround(thinking_read="off")
    environment.endpoint.judge = judge_question_marks
    team = open_group(environment.api, environment.ann, hears_everything=True)
    await environment.until(lambda: environment.texts(GROUP))
    environment.ann.send("/groups")
    await environment.until(lambda: environment.texts())
    card = environment.messages()[-1]
    environment.ann.tap(card, "Team")
    await environment.until(lambda: "No limit for the group" in card.text)
    while "I also answer" not in card.text:  # the first tap may come before the endpoint was tried
        environment.ann.tap(card, "Even when not named")
        await wait_until_answered(environment)

    environment.endpoint.hold()
    team.ben.send("is it open? @@say:Yes.@@", thread=team.group)
    team.cleo.send("a secret, Ben", thread=team.group)
    await environment.wait_for_row("select 1 from model_calls where purpose = 'address' and outcome is null")
    await environment.gateway.restart()
    environment.endpoint.release()
    await environment.until(lambda: "Yes." in environment.texts(GROUP))
    await environment.wait_until_idle()
    assert environment.texts(GROUP).count("Yes.") == 1
    assert environment.load_rows("select count(*) from inbox where body like '%a secret%'") == [(0,)]
    environment.assert_all_accounted()

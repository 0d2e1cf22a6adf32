"""Killed around commits of how a topic begins: its persona is saved and used once, and it is named once."""

from bot.sim.telegram.server import ChatThread
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, NEVER, KillEnvironment
from tests.kill.gateway import GatewayDied


async def test_around_commits_of_what_begins_a_topic(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    environment = await surround(thinking="off", **either_database)
    for number, commit in enumerate((4, 9) if either_database else (2, 6, 10, 14)):
        topic = environment.ann.create_topic("New chat", has_implicit_name=True)
        await environment.gateway.arm(NEVER)  # it may have come through the last round
        await environment.wait_until_idle()
        await environment.gateway.arm(f"{('after', 'before')[number % 2]} {commit}")
        name = f"Tutor{commit}"
        await say(environment, topic, f"/instructions save {name} Ask.", f"offers {name} to")
        await say(environment, topic, f"/instructions use {name}", f"as {name} from")
        await say(environment, topic, f"Plan a trip @@say:one {commit}.@@", f"one {commit}.")
        await say(environment, topic, f"And then? @@say:two {commit}.@@", f"two {commit}.")
        assert count_titles(environment, topic) <= 1
        used = "select p.name from instructions i join personas p on p.id = i.persona"
        lane = f"{ANN}:{topic.thread_id}"
        assert environment.load_rows(f"{used} where i.lane = '{lane}'") == [(name,)]
    await environment.gateway.arm(NEVER)
    for arrives in () if either_database else (True, False):
        topic = environment.ann.create_topic("New chat", has_implicit_name=True)
        call = environment.freeze_at("editForumTopic", arrives=arrives)
        environment.ann.send("Plan a trip @@say:Yes.@@", thread=topic)
        await environment.until(lambda: call.hit_count)  # noqa: B023
        await environment.gateway.restart()
        await say(environment, topic, f"And then? @@say:named {arrives}.@@", f"named {arrives}.")
        assert topic.chat.topics[topic.thread_id].name.startswith("Plan a trip") is arrives
        assert count_titles(environment, topic) <= 1
    assert environment.load_rows("select count(*) from personas group by name having count(*) > 1") == []
    environment.assert_all_accounted()


async def say(environment: KillEnvironment, topic: ChatThread, text: str, reply: str) -> None:
    """Write in a topic; what answers that comes once, or the chat is asked about it."""
    doubts = len(environment.doubtful_messages())

    def count_replies() -> int:
        return sum(reply in text for text in environment.texts())

    def is_answered() -> bool:
        return count_replies() + len(environment.doubtful_messages()) > doubts

    environment.ann.send(text, thread=topic)
    try:
        await environment.until(is_answered)
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        await environment.gateway.wait_for_exit()
        await environment.gateway.start()
        await environment.until(is_answered)
        await environment.wait_until_idle()
    assert count_replies() == 1 or (not count_replies() and len(environment.doubtful_messages()) > doubts)


def count_titles(environment: KillEnvironment, topic: ChatThread) -> int:
    calls = environment.api.calls_of("editForumTopic", ANN)
    return sum(str(call.params["message_thread_id"]) == str(topic.thread_id) for call in calls)

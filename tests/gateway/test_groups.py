"""A group in the whole gateway over loopback: whom it answers, with what prompt, and where."""

from pathlib import Path

from sqlalchemy import delete

from bot.agent.prompt import GATEWAY_INSTRUCTION, GROUP_LINE
from bot.db.engine import open_database
from bot.db.tables import groups
from bot.telegram.delivery.lane_worker import TOPIC_CLOSED
from tests.support.gateway import GatewayHarness, open_harness, running_gateway
from tests.support.group_chat import BEN, GROUP, open_group


def read_contents(body: dict[str, list[dict[str, str]]]) -> list[str]:
    """The messages of a request, without the moment at which the first one was sent."""
    contents = [message["content"] for message in body["messages"]]
    return [content.partition(" UTC] ")[2] or content for content in contents]


def count_typing_in_general(gateway: GatewayHarness) -> int:
    calls = gateway.api.calls_of("sendChatAction", GROUP)
    return sum(call.params.get("message_thread_id") == "1" for call in calls)


async def test_people_of_a_group_are_told_apart_and_private_chats_stay_as_they_were(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off", system_prompt="Be kind.") as gateway:
        team = open_group(gateway.api, gateway.ann, hears_everything=True)
        await team.wait_for_texts(1)
        team.ann.send("@canvasgram_sim_bot when do we meet? @@say:At nine.@@", thread=team.group)
        answer = (await team.wait_for_texts(2))[-1]
        team.ben.send("so late?", thread=team.group, reply_to=team.group.chat.bot_messages[-1])
        await team.wait_for_texts(3)
        team.cleo.send("I come later", thread=team.group)
        gateway.api.person(BEN, "Ben").send("hi")
        await gateway.wait_for_texts(1, BEN)
        in_group, private = gateway.endpoint.requests[-2:]
    assert answer == "At nine."
    assert read_contents(in_group.body) == [
        f"Be kind.\n{GROUP_LINE}\n{GATEWAY_INSTRUCTION}",
        "Ann: when do we meet? @@say:At nine.@@",
        "At nine.",
        "Ben:\n[data: the message this replies to, written by you]\nAt nine.\n[end of data]\nso late?",
    ]
    assert read_contents(private.body) == [f"Be kind.\n{GATEWAY_INSTRUCTION}", "hi"]


async def test_an_answer_goes_to_its_topic_and_to_the_message_that_asked(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off") as gateway:
        await converse_in_topics(gateway)


async def converse_in_topics(gateway: GatewayHarness) -> None:
    api = gateway.api
    team = open_group(api, gateway.ann, is_forum=True, hears_everything=True)
    await team.wait_for_texts(1)
    gateway.ann.send("/id")  # or the bot might not write to her
    await gateway.wait_for_texts(1)
    plans = team.ann.create_topic("Plans", thread=team.group)
    gateway.endpoint.hold()
    asked = team.ben.send("/ask @@say:No.@@", thread=plans)
    await gateway.endpoint.wait_until(lambda: bool(gateway.endpoint.requests))
    waiting = team.cleo.send("/ask @@say:Yes.@@", thread=plans)
    await api.wait_until(lambda: api.calls_of("setMessageReaction", GROUP))
    gateway.endpoint.release()
    assert await team.wait_for_texts(2, plans) == ["No.", "Yes."]
    answers = [message.raw for message in team.group.chat.bot_messages[1:]]
    replied = [answer["reply_to_message"]["message_id"] for answer in answers]
    assert replied == [asked.message_id, waiting.message_id]
    assert api.calls_of("sendMessageDraft") == []

    gateway.endpoint.hold()
    team.cleo.send("/ask @@say:In General.@@", thread=team.group)
    await api.wait_until(lambda: count_typing_in_general(gateway))
    gateway.endpoint.release()
    assert (await team.wait_for_texts(2))[-1] == "In General."

    gateway.endpoint.hold()
    answered = len(gateway.endpoint.requests)
    team.ben.send("/ask @@say:Too late.@@", thread=plans)
    await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) > answered)
    team.group.close_topic(plans)
    gateway.endpoint.release()
    assert (await gateway.wait_for_texts(2))[-1] == TOPIC_CLOSED

    trips = team.ann.create_topic("Trips", thread=team.group)
    gateway.endpoint.hold()
    team.ben.send("/ask @@say:To Rome.@@", thread=trips)
    await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) > answered + 1)
    team.group.delete_topic(trips)
    gateway.endpoint.release()
    assert (await team.wait_for_texts(3))[-1] == "To Rome."


async def test_the_mention_that_makes_a_group_known_is_answered_too(tmp_path: Path):
    """A new database, or a group joined before: nothing told that the bot was added."""
    async with open_harness(tmp_path, access="open", thinking="off") as gateway:
        async with gateway.run():
            team = open_group(gateway.api, gateway.ann, hears_everything=True)
            await team.wait_for_texts(1)
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await tx.execute(delete(groups))
        async with gateway.run():
            team.ben.send("@canvasgram_sim_bot @@say:Here I am.@@", thread=team.group)
            texts = await team.wait_for_texts(3)
    assert texts[-1] == "Here I am."
    assert "I answer people with access" not in " ".join(texts)

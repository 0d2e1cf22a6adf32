"""Topics of a private chat: each is a conversation, and a new one is named after its first answer."""

from pathlib import Path

from bot.sim.telegram.server import ChatThread
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway


def list_titles(gateway: GatewayHarness) -> list[str]:
    return [call.params["name"] for call in gateway.api.calls_of("editForumTopic", ADMIN)]


async def say(gateway: GatewayHarness, text: str, topic: ChatThread) -> str:
    """Write in a topic; return the reply, which stands in the same one."""
    count = len(gateway.texts())
    gateway.ann.send(text, thread=topic)
    await gateway.wait_for_texts(count + 1)
    await gateway.api.wait_until(gateway.is_finished)
    reply = gateway.api.chat(ADMIN).bot_messages[-1]
    assert reply.raw["message_thread_id"] == topic.thread_id
    return reply.text


async def test_a_topic_is_a_conversation_and_is_named_once_unless_its_person_has(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        titles = ["Plan a trip to the Alps with two…"]
        trip = gateway.ann.create_topic("New chat", has_implicit_name=True)
        await say(gateway, "/id", trip)  # which is no question
        await say(gateway, "Plan a trip to the Alps with two children and a dog @@say:Yes.@@", trip)
        await gateway.api.wait_until(lambda: trip.chat.topics[trip.thread_id].name in list_titles(gateway))
        assert len(list_titles(gateway)) == 1
        assert list_titles(gateway)[0].startswith(titles[0][:30])
        await say(gateway, "And in winter? @@say:No.@@", trip)

        own = gateway.ann.create_topic("Taxes")
        await say(gateway, "What is a tax? @@say:This.@@", own)
        prompt = str(gateway.endpoint.requests[-1].body["messages"])
        assert "a tax" in prompt
        assert "Alps" not in prompt

        renamed = gateway.ann.create_topic("New chat", has_implicit_name=True)
        gateway.ann.rename_topic(renamed, "Garden")
        await say(gateway, "When to sow? @@say:Soon.@@", renamed)
        assert (await say(gateway, "/new", renamed)).endswith("Other topics keep their own conversations.")
        assert len(list_titles(gateway)) == 1
        assert "each is a conversation of its own" in await say(gateway, "/help", own)

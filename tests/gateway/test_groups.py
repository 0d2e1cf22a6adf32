"""A group in the whole gateway over loopback: whom it answers, with what prompt, and where."""

from pathlib import Path

from bot.agent.prompt import GATEWAY_INSTRUCTION, GROUP_LINE
from tests.support.gateway import running_gateway
from tests.support.group_chat import BEN, open_group


def read_contents(body: dict[str, list[dict[str, str]]]) -> list[str]:
    """The messages of a request, without the moment at which the first one was sent."""
    contents = [message["content"] for message in body["messages"]]
    return [content.partition(" UTC] ")[2] or content for content in contents]


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

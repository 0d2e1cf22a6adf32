"""Reading along in a group, in the whole gateway over loopback: no call of its own, and a bounded prompt."""

from pathlib import Path

from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.group_chat import GroupHarness, open_group, press, turn_on_reading

MAX_ADDED_TOKENS = 1500
BLOCK_TOKENS = 32  # tokens that the endpoint's cache keeps together


async def ask(gateway: GatewayHarness, team: GroupHarness, text: str) -> str:
    """Ask as Ann in the group; return the newest message of the prompt."""
    answers = len(team.texts())
    team.ann.send(f"/ask {text}", thread=team.group)
    await team.wait_for_texts(answers + 1)
    content: str = gateway.endpoint.requests[-1].body["messages"][-1]["content"]
    return content


async def test_200_messages_to_others_cost_no_call_and_a_bounded_prompt(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off") as gateway:
        team = open_group(gateway.api, gateway.ann, hears_everything=True)
        await team.wait_for_texts(1)
        team.ben.send("before it was turned on", thread=team.group)
        await turn_on_reading(gateway, "Team")
        assert (await team.wait_for_texts(2))[-1].startswith("From now on I also read what you write")
        await ask(gateway, team, "hello? @@say:Yes?@@")
        before = gateway.endpoint.requests[-1]
        speakers = (team.ben, team.cleo)
        for number in range(200):
            text = f"we could meet at the old mill on day {number} and walk from there"
            last = speakers[number % 2].send(text, thread=team.group)
        team.cleo.edit(last, "no, let us stay at home", thread=team.group)
        photo = team.ben.send_photo("the mill, in spring", thread=team.group)
        team.group.pin(photo)
        team.ben.send("/stop@other_bot", thread=team.group)
        other_bot = gateway.api.add_other_bot(99, "Weather", "weather_bot")
        team.group.change_member(other_bot.user, "member")
        other_bot.send("rain all day", thread=team.group)
        prompt = await ask(gateway, team, "so when? @@say:Never.@@")
        after = gateway.endpoint.requests[-1]
        assert len(gateway.endpoint.requests) == 2
        assert after.prompt_tokens - before.prompt_tokens <= MAX_ADDED_TOKENS
        assert after.cached_tokens >= before.prompt_tokens - 2 * BLOCK_TOKENS
        block, _, question = prompt.partition("\n[end of data]\n")
        lines = block.splitlines()
        assert lines[0] == "[data: said before, not to you]"
        assert 30 <= len(lines) <= 51
        assert lines[-2].startswith("Cleo (")
        assert lines[-2].endswith("): no, let us stay at home")
        assert lines[-1].endswith("): the mill, in spring")
        assert "day 199" not in prompt
        assert question.endswith("Ann: so when? @@say:Never.@@")
        assert "said before" not in await ask(gateway, team, "really? @@say:Really.@@")

        team.ben.send("a secret", thread=team.group)
        await press(gateway, "Don't read along")
        team.ben.send("another secret", thread=team.group)
        assert "secret" not in await ask(gateway, team, "and now? @@say:No.@@")

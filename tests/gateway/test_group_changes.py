"""What happens to a group while the bot answers there: it becomes a supergroup, mutes the bot, removes it."""

from pathlib import Path

import pytest

from bot.sim.telegram.members import MemberStatus
from tests.support.gateway import GatewayHarness, long_story, running_gateway
from tests.support.group_chat import GroupHarness, open_group

SUPERGROUP = -1001000000777


async def begin_answer(gateway: GatewayHarness, team: GroupHarness) -> None:
    """Have the bot in the middle of an answer in the group, of which a first block is shown."""
    await team.wait_for_texts(1)
    team.ann.send(f"/ask@canvasgram_sim_bot {long_story()}", thread=team.group)
    await gateway.endpoint.wait_until(lambda: any(request.canvases for request in gateway.endpoint.requests))
    gateway.endpoint.hold()
    await team.wait_for_texts(2)


async def test_an_answer_goes_on_in_the_supergroup_that_a_group_becomes(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        team = open_group(gateway.api, gateway.ann, is_basic=True)
        await begin_answer(gateway, team)
        supergroup = team.group.migrate(SUPERGROUP)
        gateway.endpoint.release()
        await gateway.api.wait_until(
            lambda: any("That was as long" in text for text in gateway.texts(SUPERGROUP))
        )
        before = len(gateway.texts(SUPERGROUP))
        team.ann.send("/ask@canvasgram_sim_bot hi", thread=supergroup)
        await gateway.wait_for_texts(before + 1, SUPERGROUP)


@pytest.mark.parametrize("status", ["kicked", "restricted"])
async def test_a_bot_that_may_not_write_any_more_ends_there_and_serves_others(
    tmp_path: Path, status: MemberStatus
):
    async with running_gateway(tmp_path) as gateway:
        team = open_group(gateway.api, gateway.ann)
        await begin_answer(gateway, team)
        shown = len(team.texts())
        team.group.change_member(gateway.api.bot, status, can_send=False, by=team.ann)
        gateway.endpoint.release()
        count = len(gateway.texts())
        gateway.ann.send("are you there?")
        await gateway.api.wait_until(lambda: len(gateway.texts()) > count and gateway.is_finished())
        requests = len(gateway.endpoint.requests)
        update = team.ann.send("/ask@canvasgram_sim_bot hi", thread=team.group)
        assert (update.update_id == 0) == (status == "kicked")
        gateway.ann.send("and now?")
        await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) > requests)
        await gateway.api.wait_until(gateway.is_finished)
        assert len(team.texts()) <= shown + 1
        assert len(gateway.endpoint.requests) == requests + 1

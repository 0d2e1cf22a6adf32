"""What happens to a group while the bot answers there: it becomes a supergroup, mutes the bot, removes it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.sim.telegram.members import MemberStatus
from bot.sim.telegram.server import MAX_WAIT_SECONDS
from bot.sim.vllm.server import Timing
from bot.telegram.client import create_bot
from tests.support.cache_warmup import wait_until
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, long_story, open_harness, running_gateway
from tests.support.group_chat import GroupHarness, open_group

SUPERGROUP = -1001000000777


async def begin_answer(gateway: GatewayHarness, team: GroupHarness) -> None:
    """Have the bot in the middle of an answer in the group, of which a first block is shown."""
    await team.wait_for_texts(1)
    team.ann.send(f"/ask@canvasgram_sim_bot {long_story()}", thread=team.group)
    await gateway.endpoint.wait_until(lambda: any(request.canvases for request in gateway.endpoint.requests))
    gateway.endpoint.hold()
    await gateway.api.wait_until(lambda: len(team.texts()) == 2)


async def test_an_answer_goes_on_in_the_supergroup_that_a_group_becomes(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        team = open_group(gateway.api, gateway.ann, is_basic=True)
        await begin_answer(gateway, team)
        supergroup = team.group.migrate(SUPERGROUP)
        gateway.endpoint.release()
        await gateway.api.wait_until(
            lambda: any("I've reached the limit" in text for text in gateway.texts(SUPERGROUP))
        )
        before = len(gateway.texts(SUPERGROUP))
        team.ann.send("/ask@canvasgram_sim_bot hi", thread=supergroup)
        await gateway.wait_for_texts(before + 1, SUPERGROUP)


async def test_a_stop_in_the_supergroup_ends_the_turn_that_began_in_the_group(tmp_path: Path):
    slow = ScriptedEndpoint(timing=Timing(canvas_seconds=0.05))  # else nothing would be left to hold
    async with running_gateway(tmp_path, slow) as gateway:
        team = open_group(gateway.api, gateway.ann, is_basic=True)
        await begin_answer(gateway, team)
        supergroup = team.group.migrate(SUPERGROUP)
        team.ann.send("/stop@canvasgram_sim_bot", thread=supergroup)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
        gateway.endpoint.release()
        team.ann.send("/ask@canvasgram_sim_bot @@say:and now@@", thread=supergroup)
        await gateway.api.wait_until(lambda: gateway.texts(SUPERGROUP)[-1:] == ["and now"])


async def test_what_is_asked_at_once_where_the_bot_is_added_is_answered_in_order(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        team = open_group(gateway.api, gateway.ann)
        gateway.endpoint.hold()
        for answer in ("first", "never", "last"):
            if answer == "last":
                team.ann.send("/stop@canvasgram_sim_bot", thread=team.group)
            team.ann.send(f"/ask@canvasgram_sim_bot @@say:{answer}@@", thread=team.group)
        async with gateway.run():
            greeting, *_ = await team.wait_for_texts(1)
            assert "Hello!" in greeting
            gateway.endpoint.release()
            await gateway.api.wait_until(lambda: team.texts()[-1] == "last")
            assert "never" not in team.texts()
            team.group.change_member(gateway.api.bot, "kicked", by=team.ann)
            gateway.ann.send("@@say:removed@@")
            await gateway.api.wait_until(lambda: gateway.texts() == ["removed"])
        # Added once more while the gateway is away.
        team.group.change_member(gateway.api.bot, "member", by=team.ann)
        team.ann.send("/ask@canvasgram_sim_bot @@say:back again@@", thread=team.group)
        async with gateway.run():
            await gateway.api.wait_until(lambda: team.texts()[-1] == "back again")


KEPT = [
    {"name": "remember", "arguments": {"note": "pizza on Friday"}},
    {"name": "schedule", "arguments": {"when": "tomorrow 9:00 in Berlin", "text": "order pizza"}},
]


def load_rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "gateway.db")) as database:
        return database.execute(query).fetchall()


@pytest.mark.sqlite
async def test_what_turns_keep_after_two_groups_became_supergroups_is_kept_there(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        teams = [open_group(gateway.api, gateway.ann, is_basic=True, chat=chat) for chat in (-501, -502)]
        for team in teams:
            await team.wait_for_texts(1)
        gateway.endpoint.hold()
        for team in teams:
            team.ann.send(f"/ask@canvasgram_sim_bot @@tools:{json.dumps(KEPT)}@@ done", thread=team.group)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 2)
        supergroups = [team.group.migrate(SUPERGROUP - number) for number, team in enumerate(teams)]
        moved = [(-502, SUPERGROUP - 1), (-501, SUPERGROUP)]
        query = "select chat, other_chat from groups order by chat"
        await wait_until(lambda: load_rows(tmp_path, query) == moved)
        gateway.endpoint.release()
        for group in supergroups:
            await gateway.wait_for_texts(2, group.chat.id)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
        team.ann.send("/notes@canvasgram_sim_bot", thread=supergroups[1])
        await gateway.api.wait_until(
            lambda: any("pizza on Friday" in text for text in gateway.texts(supergroups[1].chat.id))
        )
    for table in ("notes", "jobs", "lanes", "turns", "outbox"):
        rows = load_rows(tmp_path, f"select distinct lane from {table} where lane is not null order by 1")
        assert rows == [("-501",), ("-502",)], table


@pytest.mark.sqlite
async def test_a_supergroup_of_which_nothing_was_known_is_answered_and_joins_its_group(tmp_path: Path):
    async with open_harness(tmp_path, access="open") as gateway:
        team = open_group(gateway.api, gateway.ann, is_basic=True, chat=-501)
        async with gateway.run():
            await team.wait_for_texts(1)
            gateway.endpoint.hold()
            team.ann.send("/ask@canvasgram_sim_bot @@say:done@@", thread=team.group)
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        supergroup = team.group.migrate(SUPERGROUP)
        settings = gateway.settings
        async with create_bot(gateway.api.token, settings.telegram_api_url) as bot:
            await bot.delete_webhook(drop_pending_updates=True)  # as after a day
        async with gateway.run():
            team.ann.send("/ask@canvasgram_sim_bot @@say:first there@@", thread=supergroup)
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 2)
            gateway.endpoint.release()
            await gateway.api.wait_until(
                lambda: {"first there", "done"} <= set(gateway.texts(SUPERGROUP)), 2 * MAX_WAIT_SECONDS
            )
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
            team.ann.send("/ask@canvasgram_sim_bot @@say:and now@@", thread=supergroup)
            await gateway.api.wait_until(lambda: gateway.texts(SUPERGROUP)[-1] == "and now")
        assert len(gateway.texts(SUPERGROUP)) == len({"introduction", "first there", "done", "and now"})
    assert load_rows(tmp_path, "select chat, other_chat from groups") == [(-501, SUPERGROUP)]
    for table in ("inbox", "lanes", "turns", "outbox"):
        rows = load_rows(tmp_path, f"select distinct lane from {table} where lane is not null")
        assert rows == [("-501",)], table


@pytest.mark.sqlite
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
        await gateway.wait_for_texts(count + 1)
        await wait_until(lambda: load_rows(tmp_path, "select id from turns where ended_at is null") == [])
        requests = len(gateway.endpoint.requests)
        update = team.ann.send("/ask@canvasgram_sim_bot hi", thread=team.group)
        assert (update.update_id == 0) == (status == "kicked")
        gateway.ann.send("and now?")
        await gateway.wait_for_texts(count + 2)
        assert len(team.texts()) <= shown + 1
        assert len(gateway.endpoint.requests) == requests + 1

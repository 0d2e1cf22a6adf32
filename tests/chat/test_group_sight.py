"""What the bot sees in a group is found out, and people are told what is true of theirs."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.chat.group_directory import GroupDirectory
from bot.chat.group_sight import GroupSight, judge_sight
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.sim.telegram.members import MemberStatus
from bot.telegram.bot_rights import BotRights, BotRightsReader
from bot.telegram.client import create_bot
from tests.support.gateway import running_gateway
from tests.support.group_chat import GROUP, GroupHarness, open_group, press
from tests.support.groups import build_directory
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

ANN = 7


@pytest.mark.parametrize(
    ("is_administrator", "has_privacy_off", "known", "expected"),
    [
        (True, False, False, True),
        (False, False, True, False),
        (False, True, None, True),
        (False, True, True, True),
        (False, True, False, False),  # it has to be added again first
    ],
)
def test_an_administrator_sees_all_and_others_what_privacy_mode_lets_through(
    is_administrator: bool, has_privacy_off: bool, known: bool | None, expected: bool
):
    sight = judge_sight(BotRights(is_administrator, has_privacy_off), known=known)
    assert sight == expected


@contextlib.asynccontextmanager
async def open_sight(
    database: Database, known: bool | None
) -> AsyncIterator[tuple[ScriptedBotApi, GroupHarness, GroupDirectory, GroupSight]]:
    """A group in Telegram, of which this is known."""
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url, create_bot(api.token, url) as bot:
        team = open_group(api, api.person(ANN, "Ann"))
        directory = build_directory()
        async with database.transaction() as tx:
            await groups.put(tx, Group(GROUP, "Team", "in", 1.0, hears_all=known))
        await directory.load(database)
        yield api, team, directory, GroupSight(BotRightsReader(bot), database, directory)


async def test_at_start_telegram_is_asked_about_every_group(database: Database):
    async with open_sight(database, None) as (api, team, directory, sight):
        group = directory.find(GROUP)
        assert group is not None
        cases: list[tuple[MemberStatus, bool]] = [("member", False), ("administrator", True)]
        for status, expected in cases:
            team.group.change_member(api.bot, status)
            await sight.update_all()
            assert directory.find(GROUP) == Group(GROUP, "Team", "in", 1.0, hears_all=expected)
            async with database.read_transaction() as tx:
                assert await groups.list_groups(tx) == [directory.find(GROUP)]


@pytest.mark.parametrize("method", ["getMe", "getChatMember"])
async def test_what_is_known_stays_while_telegram_does_not_answer(database: Database, method: str):
    async with open_sight(database, True) as (api, _, _, sight):
        api.inject_fault(BotApiFault.server_error(), method)
        assert await sight.find(GROUP) is True
        assert await sight.find(GROUP) is False
        assert await sight.find(-5) is None  # no group of ours


@pytest.mark.slow
async def test_people_read_what_is_true_of_their_group_and_what_changes_it(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        team = open_group(gateway.api, gateway.ann)
        [introduction] = await team.wait_for_texts(1)
        assert "write /ask@canvasgram_sim_bot and your question" in introduction
        assert "Here I see only commands and replies to me." in introduction
        gateway.ann.send("/groups")
        await gateway.wait_for_texts(1)
        await press(gateway, "Team")
        assert "turn privacy mode off with /setprivacy at @BotFather" in gateway.texts()[-1]
        await press(gateway, "Read along")
        assert (await team.wait_for_texts(2))[-1].startswith("From now on I also read along here")
        toast = "But I can't see what people write to each other there."
        await gateway.api.wait_until(
            lambda: any(
                call.params.get("text") == toast for call in gateway.api.calls_of("answerCallbackQuery")
            )
        )

        # BotFather's switch changes nothing until the bot is added again.
        gateway.api.change_bot(can_read_all_group_messages=True)
        team.group.change_member(gateway.api.bot, "restricted")
        await gateway.api.wait_until(lambda: not gateway.api.updates.pending_ids)
        team.group.change_member(gateway.api.bot, "member")
        await gateway.api.wait_until(lambda: not gateway.api.updates.pending_ids)
        await press(gateway, "Back")
        await press(gateway, "Team")
        assert "/setprivacy" in gateway.texts()[-1]
        team.group.change_member(gateway.api.bot, "left")
        team.group.change_member(gateway.api.bot, "member")
        introduction = (await team.wait_for_texts(3))[-1]
        assert "write @canvasgram_sim_bot, or use /ask" in introduction
        assert "only commands" not in introduction
        await press(gateway, "Back")
        await press(gateway, "Team")
        assert "I see every message there" in gateway.texts()[-1]

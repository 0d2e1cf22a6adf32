"""Who administers a group is asked of Telegram, and remembered for a while."""

import asyncio

from bot.telegram.chat_administrators import FAILURE_SECONDS, REMEMBERED_SECONDS, ChatAdministrators
from bot.telegram.client import create_bot
from tests.support.group_chat import BEN, open_group
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

ANN = 7


async def test_administrators_are_asked_for_once_in_five_minutes():
    now = 0.0
    api = ScriptedBotApi()
    async with api.serve_on_loopback() as url, create_bot(api.token, url) as bot:
        team = open_group(api, api.person(ANN, "Ann"))
        administrators = ChatAdministrators(bot, clock=lambda: now)
        asked = [administrators.is_administrator(team.group.id, ANN) for _ in range(3)]
        assert await asyncio.gather(*asked) == [True] * 3
        assert not await administrators.is_administrator(team.group.id, BEN)
        assert await administrators.is_administrator(team.group.id, team.group.id)
        team.group.change_member(team.ben.user, "administrator")
        assert not await administrators.is_administrator(team.group.id, BEN)
        assert len(api.calls_of("getChatAdministrators")) == 1
        now = REMEMBERED_SECONDS + 1
        api.inject_fault(BotApiFault.server_error(), "getChatAdministrators")
        assert not await administrators.is_administrator(team.group.id, ANN)  # nobody can be asked
        assert not await administrators.is_administrator(team.group.id, BEN)
        assert len(api.calls_of("getChatAdministrators")) == 2  # and it is not tried again at once
        now += FAILURE_SECONDS + 1
        assert await administrators.is_administrator(team.group.id, BEN)

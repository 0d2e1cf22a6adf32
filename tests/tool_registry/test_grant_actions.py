"""Granting widens and revoking narrows, never the other way round; a grant of another definition counts for
nothing.
"""

import pytest

from bot.db.engine import Database
from bot.db.tools import grants
from bot.db.tools.grants import Grant
from bot.errors import ChangeRefused
from bot.tool_registry.grant_actions import ADMINS, EVERYONE, Grantee, grant_tool, list_grantees, revoke_grant
from bot.tool_registry.tool_info import load_tool_info
from tests.support.registered_tools import BUILTIN_TOOLS, RegisteredToolsHarness

ANNA = Grantee("person", 5)
CHAT = Grantee("chat", -100)


@pytest.fixture
async def house(database: Database) -> RegisteredToolsHarness:
    house = RegisteredToolsHarness(database)
    await house.add_source()
    await house.add_tool("shop_list")
    return house


async def load_grantees(harness: RegisteredToolsHarness, name: str) -> set[str]:
    async with harness.database.read_transaction() as tx:
        return {str(one) for one in list_grantees(await load_tool_info(tx, BUILTIN_TOOLS, name))}


async def test_a_registered_tool_is_the_admins_until_it_is_granted(house: RegisteredToolsHarness):
    assert await load_grantees(house, "shop_list") == {"admins"}
    async with house.open_action() as act:
        await grant_tool(act, "shop_list", ANNA)
        await grant_tool(act, "shop_list", ANNA)
        await grant_tool(act, "shop_list", CHAT)
    assert await load_grantees(house, "shop_list") == {"admins", "person 5", "chat -100"}
    async with house.open_action() as act:
        await revoke_grant(act, "shop_list", ANNA)
        await revoke_grant(act, "shop_list", CHAT)
    assert await load_grantees(house, "shop_list") == {"admins"}
    first = (await house.list_changes())[0]
    assert (first.what, first.before) == ("granted", {"may use": ["admins"]})
    assert first.after == {"may use": ["admins", "person 5"]}
    assert (len(await house.list_changes()), await house.load_revision()) == (4, 4)


async def test_a_tool_of_the_house_is_everyones_until_that_is_revoked(house: RegisteredToolsHarness):
    assert await load_grantees(house, "clock") == {"everyone"}
    async with house.open_action() as act:
        await grant_tool(act, "clock", ANNA)
        with pytest.raises(ChangeRefused, match="Everyone may use it"):
            await revoke_grant(act, "clock", ANNA)
        await revoke_grant(act, "clock", EVERYONE)
    assert await load_grantees(house, "clock") == {"admins"}
    async with house.open_action() as act:
        await grant_tool(act, "clock", ANNA)
    assert await load_grantees(house, "clock") == {"admins", "person 5"}
    async with house.open_action() as act:
        await revoke_grant(act, "clock", ANNA)
    assert await load_grantees(house, "clock") == {"admins"}
    async with house.open_action() as act:
        await grant_tool(act, "clock", EVERYONE)
    assert await load_grantees(house, "clock") == {"everyone"}


async def test_admins_may_always(house: RegisteredToolsHarness):
    async with house.open_action() as act:
        for name in ("clock", "shop_list"):
            await grant_tool(act, name, ADMINS)
            with pytest.raises(ChangeRefused, match="disable it"):
                await revoke_grant(act, name, ADMINS)
    assert await house.list_changes() == []


async def test_what_was_granted_of_another_definition_counts_for_registered_tools_no_more(
    house: RegisteredToolsHarness,
):
    async with house.open_action() as act:
        await grants.give(act.tx, Grant("shop_list", "everyone", 0, "older"))
        await grants.give(act.tx, Grant("clock", "person", 5, "older"))
    assert await load_grantees(house, "shop_list") == {"admins"}
    assert await load_grantees(house, "clock") == {"admins", "person 5"}


async def test_what_nobody_accepted_is_granted_to_nobody(house: RegisteredToolsHarness):
    await house.add_tool("shop_new", accepted_definition={}, pending={"name": "shop_new"})
    async with house.open_action() as act:
        with pytest.raises(ChangeRefused, match="waits to be accepted"):
            await grant_tool(act, "shop_new", EVERYONE)

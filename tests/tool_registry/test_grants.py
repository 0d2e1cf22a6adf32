"""Granting widens and revoking narrows, never the other way round.

A grant of another definition counts for nothing.
"""

import pytest

from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.db.tools import grants
from bot.db.tools.grants import Grant
from bot.errors import ChangeRefused
from bot.tool_registry.grants import (
    ADMINS,
    EVERYONE,
    Grantee,
    grant_tool,
    list_grantees,
    resolve_grantee,
    revoke_grant,
)
from bot.tool_registry.tool_info import load_tool_info
from tests.support.registered_tools import BUILTIN_TOOLS, RegisteredToolsHarness

ANNA = Grantee("person", 5)
CHAT = Grantee("chat", -100)


@pytest.fixture
async def harness(database: Database) -> RegisteredToolsHarness:
    harness = RegisteredToolsHarness(database)
    await harness.add_source()
    await harness.add_tool("shop_list")
    return harness


async def load_grantees(harness: RegisteredToolsHarness, name: str) -> set[str]:
    async with harness.database.read_transaction() as tx:
        info = await load_tool_info(tx, BUILTIN_TOOLS, name)
        return {str(grantee) for grantee in list_grantees(info)}


async def test_a_registered_tool_is_the_admins_until_it_is_granted(harness: RegisteredToolsHarness):
    assert await load_grantees(harness, "shop_list") == {"admins"}
    async with harness.open_action() as action:
        await grant_tool(action, "shop_list", ANNA)
        await grant_tool(action, "shop_list", ANNA)
        await grant_tool(action, "shop_list", CHAT)
    assert await load_grantees(harness, "shop_list") == {"admins", "person 5", "chat -100"}
    async with harness.open_action() as action:
        await revoke_grant(action, "shop_list", ANNA)
        await revoke_grant(action, "shop_list", CHAT)
    assert await load_grantees(harness, "shop_list") == {"admins"}
    first = (await harness.list_changes())[0]
    assert (first.what, first.before) == ("granted", {"may use": ["admins"]})
    assert first.after == {"may use": ["admins", "person 5"]}
    assert (len(await harness.list_changes()), await harness.load_revision()) == (4, 4)


async def test_a_builtin_tool_is_everyones_until_that_is_revoked(harness: RegisteredToolsHarness):
    assert await load_grantees(harness, "clock") == {"everyone"}
    async with harness.open_action() as action:
        await grant_tool(action, "clock", ANNA)
        with pytest.raises(ChangeRefused, match="Everyone may use clock"):
            await revoke_grant(action, "clock", ANNA)
        await revoke_grant(action, "clock", EVERYONE)
    assert await load_grantees(harness, "clock") == {"admins"}
    async with harness.open_action() as action:
        await grant_tool(action, "clock", ANNA)
    assert await load_grantees(harness, "clock") == {"admins", "person 5"}
    async with harness.open_action() as action:
        await revoke_grant(action, "clock", ANNA)
    assert await load_grantees(harness, "clock") == {"admins"}
    async with harness.open_action() as action:
        await grant_tool(action, "clock", EVERYONE)
    assert await load_grantees(harness, "clock") == {"everyone"}


async def test_a_supergroup_is_named_by_its_number_and_keeps_the_grants_of_its_group(
    harness: RegisteredToolsHarness,
):
    async with harness.open_action() as action:
        await groups.put(action.tx, Group(CHAT.number, "Family", "in", 1.0))
        await grant_tool(action, "shop_list", CHAT)
        await groups.move(action.tx, CHAT.number, -1000000000100)
        assert await resolve_grantee(action.tx, "chat -1000000000100") == CHAT
        assert await resolve_grantee(action.tx, "-1000000000100") == CHAT
    assert await load_grantees(harness, "shop_list") == {"admins", "chat -1000000000100"}
    async with harness.open_action() as action:
        await revoke_grant(action, "shop_list", CHAT)
    assert await load_grantees(harness, "shop_list") == {"admins"}


async def test_admins_may_always(harness: RegisteredToolsHarness):
    async with harness.open_action() as action:
        for name in ("clock", "shop_list"):
            await grant_tool(action, name, ADMINS)
            with pytest.raises(ChangeRefused, match="disable it"):
                await revoke_grant(action, name, ADMINS)
    assert await harness.list_changes() == []


async def test_a_grant_of_another_definition_does_not_count_for_registered_tools(
    harness: RegisteredToolsHarness,
):
    async with harness.open_action() as action:
        await grants.give(action.tx, Grant("shop_list", "everyone", 0, "older"))
        await grants.give(action.tx, Grant("clock", "person", 5, "older"))
    assert await load_grantees(harness, "shop_list") == {"admins"}
    assert await load_grantees(harness, "clock") == {"admins", "person 5"}


async def test_a_tool_that_nobody_accepted_cannot_be_granted(harness: RegisteredToolsHarness):
    await harness.add_tool("shop_new", accepted_definition={}, pending={"name": "shop_new"})
    async with harness.open_action() as action:
        with pytest.raises(ChangeRefused, match="waiting for approval"):
            await grant_tool(action, "shop_new", EVERYONE)

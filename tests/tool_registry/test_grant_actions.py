"""Granting widens and revoking narrows, never the other way round; a grant of another definition counts for
nothing.
"""

import pytest

from bot.db.engine import Database
from bot.db.tools import grants
from bot.db.tools.grants import Grant
from bot.errors import ChangeRefused
from bot.tool_registry.grant_actions import ADMINS, EVERYONE, Holder, grant, holders, revoke
from bot.tool_registry.tool_info import card
from tests.support.registered_tools import OWN, Registered

ANNA = Holder("person", 5)
HERE = Holder("chat", -100)


@pytest.fixture
async def house(database: Database) -> Registered:
    house = Registered(database)
    await house.source()
    await house.tool("shop_list")
    return house


async def may_use(house: Registered, name: str) -> set[str]:
    async with house.database.reading() as tx:
        return {str(one) for one in holders(await card(tx, OWN, name))}


async def test_a_registered_tool_is_the_admins_until_it_is_granted(house: Registered):
    assert await may_use(house, "shop_list") == {"admins"}
    async with house.act() as act:
        await grant(act, "shop_list", ANNA)
        await grant(act, "shop_list", ANNA)
        await grant(act, "shop_list", HERE)
    assert await may_use(house, "shop_list") == {"admins", "person 5", "chat -100"}
    async with house.act() as act:
        await revoke(act, "shop_list", ANNA)
        await revoke(act, "shop_list", HERE)
    assert await may_use(house, "shop_list") == {"admins"}
    first = (await house.changes())[0]
    assert (first.what, first.before) == ("granted", {"may use": ["admins"]})
    assert first.after == {"may use": ["admins", "person 5"]}
    assert (len(await house.changes()), await house.revision()) == (4, 4)


async def test_a_tool_of_the_house_is_everyones_until_that_is_revoked(house: Registered):
    assert await may_use(house, "clock") == {"everyone"}
    async with house.act() as act:
        await grant(act, "clock", ANNA)
        with pytest.raises(ChangeRefused, match="Everyone may use it"):
            await revoke(act, "clock", ANNA)
        await revoke(act, "clock", EVERYONE)
    assert await may_use(house, "clock") == {"admins"}
    async with house.act() as act:
        await grant(act, "clock", ANNA)
    assert await may_use(house, "clock") == {"admins", "person 5"}
    async with house.act() as act:
        await revoke(act, "clock", ANNA)
    assert await may_use(house, "clock") == {"admins"}
    async with house.act() as act:
        await grant(act, "clock", EVERYONE)
    assert await may_use(house, "clock") == {"everyone"}


async def test_admins_may_always(house: Registered):
    async with house.act() as act:
        for name in ("clock", "shop_list"):
            await grant(act, name, ADMINS)
            with pytest.raises(ChangeRefused, match="disable it"):
                await revoke(act, name, ADMINS)
    assert await house.changes() == []


async def test_what_was_granted_of_another_definition_counts_for_registered_tools_no_more(house: Registered):
    async with house.act() as act:
        await grants.give(act.tx, Grant("shop_list", "everyone", 0, "older"))
        await grants.give(act.tx, Grant("clock", "person", 5, "older"))
    assert await may_use(house, "shop_list") == {"admins"}
    assert await may_use(house, "clock") == {"admins", "person 5"}


async def test_what_nobody_accepted_is_granted_to_nobody(house: Registered):
    await house.tool("shop_new", known={}, pending={"name": "shop_new"})
    async with house.act() as act:
        with pytest.raises(ChangeRefused, match="waits to be accepted"):
            await grant(act, "shop_new", EVERYONE)

"""Invites work once and only raise a role; codes of strangers expire, and their number is bounded."""

import asyncio

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.people import people
from bot.db.tables import inbox as inbox_table
from bot.db.tables import invites, turns
from bot.domain import Lane
from tests.support.usage_rows import UsageRows

NOW = 1_000_000.0
HOUR = 3600.0


async def redeem_invite(database: Database, code: str, person: int, now: float = NOW) -> str | None:
    async with database.transaction() as tx:
        return await people.redeem_invite(tx, code, person, f"P{person}", configured_admins={1}, now=now)


async def insert_invite(
    database: Database, role: people.Role = "member", minutes: float = 60, now: float = NOW
) -> str:
    async with database.transaction() as tx:
        return await people.insert_invite(tx, role, minutes, made_by=1, now=now)


async def put_person(database: Database, person: int, role: people.RoleOrBlocked, by: int | None = 1) -> None:
    async with database.transaction() as tx:
        await people.put(tx, person, f"P{person}", role, let_in_by=by, now=NOW)


async def find_role(database: Database, person: int) -> str | None:
    async with database.read_transaction() as tx:
        known_person = await people.find(tx, person)
    if known_person is None:
        return None
    return known_person.role


async def test_a_link_lets_one_person_in_even_when_many_open_it_at_once(database: Database):
    code = await insert_invite(database)
    roles = await asyncio.gather(*(redeem_invite(database, code, person) for person in range(1, 9)))
    assert sorted(roles, key=str) == [None] * 7 + ["member"]
    async with database.read_transaction() as tx:
        assert [person.name for person in await people.list_people(tx)] == [f"P{roles.index('member') + 1}"]


@pytest.mark.parametrize("loss", ["removed", "blocked", "member"])
async def test_an_unused_link_ends_with_the_role_of_who_made_it(database: Database, loss: str):
    async with database.transaction() as tx:
        await people.put(tx, 2, "Eve", "admin", now=NOW)
        codes = [await people.insert_invite(tx, role, 60, made_by=2, now=NOW) for role in ("admin", "member")]
        used = await people.insert_invite(tx, "member", 60, made_by=2, now=NOW)
    assert await redeem_invite(database, used, 3) == "member"
    assert await redeem_invite(database, codes[0], 4) == "admin"
    async with database.transaction() as tx:
        assert [invite.made_by for invite in await people.list_open_invites(tx, now=NOW)] == [2]
        if loss == "removed":
            await people.remove(tx, 2, now=NOW)
        else:
            await people.put(tx, 2, "Eve", "blocked" if loss == "blocked" else "member", now=NOW)
        assert await people.list_open_invites(tx, now=NOW) == []
    assert await redeem_invite(database, codes[1], 5) is None
    assert await find_role(database, 3) == "member"
    assert await find_role(database, 4) == "admin"


async def test_a_link_of_an_admin_of_the_settings_ends_when_they_are_none_any_more(database: Database):
    async with database.transaction() as tx:
        code = await people.insert_invite(tx, "admin", 60, made_by=2, now=NOW)
        assert await people.redeem_invite(tx, code, 5, "Di", configured_admins={7}, now=NOW) is None
        assert await people.redeem_invite(tx, code, 5, "Di", configured_admins={2}, now=NOW) == "admin"


async def test_a_code_is_stored_as_a_hash_only(database: Database):
    code = await insert_invite(database)
    async with database.read_transaction() as tx:
        stored = (await tx.execute(select(invites))).one()
    assert code not in map(str, stored)
    assert stored.role == "member"


async def test_an_old_or_unknown_link_lets_nobody_in(database: Database):
    code = await insert_invite(database, minutes=60)
    assert await redeem_invite(database, code, 5, now=NOW + HOUR) is None
    assert await redeem_invite(database, code + "x", 5) is None
    assert await redeem_invite(database, "\ud800", 5) is None
    assert await find_role(database, 5) is None


async def test_used_and_expired_codes_are_deleted_when_the_next_is_made(database: Database):
    await redeem_invite(database, await insert_invite(database), 5)
    await insert_invite(database, minutes=1)
    await insert_invite(database, now=NOW + HOUR)
    async with database.read_transaction() as tx:
        assert len((await tx.execute(select(invites))).all()) == 1


async def test_a_link_raises_a_member_to_admin(database: Database):
    await put_person(database, 5, "member")
    assert await redeem_invite(database, await insert_invite(database, "admin"), 5) == "admin"
    assert await find_role(database, 5) == "admin"


@pytest.mark.parametrize("role", ["admin", "member"])
async def test_a_person_who_has_the_rights_already_does_not_use_a_link_up(
    database: Database, role: people.Role
):
    await put_person(database, 5, role)
    code = await insert_invite(database)
    assert await redeem_invite(database, code, 5) == role
    assert await redeem_invite(database, code, 6) == "member"
    assert await find_role(database, 5) == role


async def test_a_blocked_person_stays_blocked_and_does_not_use_a_link_up(database: Database):
    await put_person(database, 5, "blocked")
    code = await insert_invite(database)
    assert await redeem_invite(database, code, 5) is None
    assert await find_role(database, 5) == "blocked"
    assert await redeem_invite(database, code, 6) == "member"


@pytest.mark.parametrize("role", ["admin", "member"])
async def test_the_owners_link_is_void_once_somebody_is_admin(database: Database, role: people.Role):
    async with database.transaction() as tx:
        code = await people.insert_first_admin_invite(tx, now=NOW)
    await put_person(database, 5, role)
    assert await redeem_invite(database, code, 6) == {"admin": None, "member": "admin"}[role]


async def test_a_guest_becomes_a_member_by_a_link(database: Database):
    await put_person(database, 5, "member", by=None)
    assert await redeem_invite(database, await insert_invite(database), 5) == "member"
    async with database.read_transaction() as tx:
        assert await people.find(tx, 5) == people.Person(5, "P5", "member", guest=False)


async def register_stranger(database: Database, person: int, now: float) -> tuple[str | None, float] | None:
    async with database.transaction() as tx:
        return await people.register_stranger(tx, person, f"P{person}", now=now)


async def test_a_stranger_gets_a_code_once_and_a_reply_about_it_again_after_ten_minutes(database: Database):
    reply = await register_stranger(database, 5, NOW)
    assert reply is not None
    code, expires_at = reply
    assert code is not None
    assert len(code) == 8
    assert code.isalpha()
    assert expires_at == NOW + HOUR
    assert await register_stranger(database, 5, NOW + 599) is None
    assert await register_stranger(database, 5, NOW + 601) == (None, NOW + HOUR)
    assert await register_stranger(database, 5, NOW + 700) is None
    assert await register_stranger(database, 5, NOW + HOUR + 1) == (code, NOW + 2 * HOUR + 1)


async def test_a_code_finds_its_stranger_for_an_hour_however_it_is_typed(database: Database):
    reply = await register_stranger(database, 5, NOW)
    assert reply is not None
    code = reply[0]
    assert code is not None
    typed = f" {code[:4].lower()}-{code[4:]} "
    async with database.read_transaction() as tx:
        assert await people.find_stranger_by_code(tx, typed, now=NOW + HOUR - 1) == people.Stranger(
            5, "P5", code, NOW, NOW + HOUR, None
        )
        assert await people.find_stranger_by_code(tx, typed, now=NOW + HOUR) is None
        assert await people.find_stranger_by_code(tx, "", now=NOW) is None


async def test_fifty_strangers_are_stored_and_the_oldest_are_deleted(database: Database):
    for person in range(1, 53):
        await register_stranger(database, person, NOW + person)
    async with database.read_transaction() as tx:
        assert [stranger.id for stranger in await people.list_strangers(tx)] == list(range(52, 2, -1))


async def test_a_person_who_gets_a_role_is_no_stranger_any_more(database: Database):
    await register_stranger(database, 5, NOW)
    await put_person(database, 5, "member")
    async with database.read_transaction() as tx:
        assert await people.list_strangers(tx) == []
        assert await people.find_stranger(tx, 5) is None


async def test_people_are_listed_admins_first_and_the_blocked_last(database: Database):
    await put_person(database, 1, "blocked")
    await put_person(database, 2, "member", by=None)
    await put_person(database, 3, "admin")
    async with database.read_transaction() as tx:
        listed = [(person.id, person.guest) for person in await people.list_people(tx)]
        assert listed == [(3, False), (2, True), (1, False)]


async def test_reachable_admins_can_be_listed_alone(database: Database):
    await put_person(database, 1, "admin")
    await put_person(database, 2, "admin")
    async with database.transaction() as tx:
        await people.set_reachable(tx, 1, reachable=False)
    async with database.read_transaction() as tx:
        assert await people.list_admins(tx) == [1, 2]
        assert await people.list_admins(tx, reachable_only=True) == [2]
        assert await people.list_unreachable(tx) == {1}


async def test_a_removed_person_has_no_role(database: Database):
    await put_person(database, 1, "member")
    async with database.transaction() as tx:
        await people.remove(tx, 1, now=NOW)
    assert await find_role(database, 1) is None
    async with database.transaction() as tx:
        assert await people.list_names(tx) == {}  # nothing of theirs is kept


async def test_the_name_of_a_removed_person_stays_as_long_as_a_text_of_theirs(database: Database):
    await put_person(database, 1, "admin")
    await put_person(database, 2, "member")
    turn = await UsageRows(database).add_turn(person=1, lane="1")
    async with database.transaction() as tx:
        await people.remove(tx, 1, now=NOW)
        assert await people.list_names(tx) == {1: "P1", 2: "P2"}
        assert [person.id for person in await people.list_people(tx)] == [2]
        assert await people.list_admins(tx) == []
        await people.put(tx, 1, "Ann", "member", let_in_by=2, now=NOW)  # let in again
        assert [person.id for person in await people.list_people(tx)] == [1, 2]
        await people.remove(tx, 1, now=NOW)
        await tx.execute(turns.update().where(turns.c.id == turn).values(state="forgotten"))
        await people.forget_removed(tx)
        assert await people.list_names(tx) == {2: "P2"}


async def test_an_admin_of_the_settings_who_was_removed_has_a_row_again(database: Database):
    await put_person(database, 1, "blocked")
    await UsageRows(database).add_turn(person=1, lane="1")
    async with database.transaction() as tx:
        await people.remove(tx, 1, now=NOW)
        await people.ensure_person(tx, 1, "Ann", now=NOW)
        assert await people.find(tx, 1) is not None


async def test_busy_lanes_are_those_in_which_something_runs_for_a_person(database: Database):
    rows = [
        (5, "5", "running"),
        (5, "5:7", "running"),
        (5, "5:8", "new"),
        (6, "6", "running"),
        (5, None, "running"),
    ]
    async with database.transaction() as tx:
        for sender, lane, state in rows:
            row = {"kind": "update", "shape": "text", "sender": sender, "lane": lane, "state": state}
            await tx.execute(inbox_table.insert().values(row | {"received_at": NOW}))
        assert set(await people.list_busy_lanes(tx, 5)) == {Lane(5), Lane(5, 7)}

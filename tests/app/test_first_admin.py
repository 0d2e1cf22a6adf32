"""The link of the first admin: one at a time, a new one every hour, none once there is an admin."""

import re

from bot.app.first_admin import FirstAdminLink
from bot.chat.access import Access
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person

HOUR = 3600.0


class Owner:
    """What the owner of a machine sees, and the clock on the wall."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.access = Access("pairing")
        self.now = 1_000_000.0
        self.lines: list[str] = []
        self.link = self.build_link()

    def build_link(self) -> FirstAdminLink:
        """The link as after a start of the gateway."""
        return FirstAdminLink(
            self.database, self.access, "my_bot", self.lines.append, clock=lambda: self.now, look_seconds=0.0
        )

    @property
    def codes(self) -> list[str]:
        return re.findall(r"https://t\.me/my_bot\?start=(\S+)", "\n".join(self.lines))

    async def open_link(self, code: str) -> str | None:
        async with self.database.transaction() as tx:
            return await people.redeem_invite(tx, code, 7, "Ann", now=self.now)


async def test_a_new_link_replaces_the_old_one_every_hour(database: Database):
    owner = Owner(database)
    for minutes in (0, 30, 59):
        owner.now = 1_000_000.0 + 60 * minutes
        await owner.link.show_if_due()
    assert len(owner.lines) == 1
    owner.now = 1_000_000.0 + HOUR
    await owner.link.show_if_due()
    first, second = owner.codes
    assert await owner.open_link(first) is None
    assert await owner.open_link(second) == "admin"


async def test_a_link_that_works_is_not_competed_with_and_setup_voids_it(database: Database):
    owner = Owner(database)
    async with database.transaction() as tx:
        forgotten = await people.insert_first_admin_invite(tx, now=owner.now - 600)
        code = await people.insert_first_admin_invite(tx, now=owner.now - 600)
    await owner.link.show_if_due()
    await owner.build_link().show_if_due()
    assert owner.codes == []
    assert all("The link shown earlier works for 50 more minutes" in line for line in owner.lines)
    assert await owner.open_link(forgotten) is None
    assert await owner.open_link(code) == "admin"


async def test_once_somebody_is_admin_it_ends(database: Database):
    owner = Owner(database)
    owner.access.remember(Person(7, "Ann", "admin"))
    owner.now += 10 * HOUR
    await owner.link.run()
    assert owner.lines == []

"""What only admins may do in the chat is not done for who was one when their message was taken up."""

import pytest
from sqlalchemy import func, select

from bot.chat.commands import callbacks
from bot.chat.commands.registry import COMMANDS
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import Person
from bot.db.tables import audit, hooks, inbox, invites, page_tokens
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

WORDS = {
    "invite": ["admin"],
    "admin": ["", "off"],
    "people": ["", f"block {ADMIN}", "remove 6", "add 77"],
    "groups": ["", "Family"],
    "hooks": ["", "add bell", "limit bell 5", "remove bell"],
    "tools": ["", "remove notes", "off clock", "signin notes", "reload", "rule clock asks"],
    "grant": ["clock everyone"],
    "revoke": ["clock everyone"],
}
BUTTONS = (
    "group:in:-1001",
    f"people:block:{BOB}",
    "stranger:add:77",
    "tools:off:clock",
    "documents:open",
)


async def count_effects(database: Database) -> list[int]:
    """How many rows there are of what admins change, begin and hand out."""
    async with database.read_transaction() as tx:
        tasks = select(func.count()).select_from(inbox).where(inbox.c.kind == "system")
        handed_out = [
            select(func.count()).select_from(table) for table in (audit, hooks, invites, page_tokens)
        ]
        return [int((await tx.execute(query)).scalar_one()) for query in (tasks, *handed_out)]


@pytest.mark.parametrize("role", ["member", "blocked"])
async def test_no_command_or_button_acts_for_an_admin_of_old(database: Database, role: people.RoleOrBlocked):
    commands = {command.name for command in COMMANDS if command.min_role == "admin"}
    assert commands == WORDS.keys()
    assert {data.partition(":")[0] for data in BUTTONS} == {
        button.name for button in callbacks.BUTTONS if button.min_role == "admin"
    }
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(BOB)
    await harness.let_in(ANNA, role)
    before = await count_effects(database)
    for text in [f"/{name} {words}" for name in sorted(commands) for words in WORDS[name]]:
        harness.access.remember(Person(ANNA, "Anna", "admin"))  # a replica has not heard of it yet
        sent = await harness.send_text(text.strip())
        assert len(sent) == (role == "member"), text
        assert all("is for admins" in message.text for message in sent), text
        assert harness.access.get_role(ANNA) == role
    for data in BUTTONS:
        harness.access.remember(Person(ANNA, "Anna", "admin"))
        _, sent = await harness.tap(data)
        assert sent == [], data
    assert await count_effects(database) == before

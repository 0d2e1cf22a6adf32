"""`canvasgram send`: a message of a script is stored at once, and sent by the gateway that runs beside it."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from bot.cli.send import MAX_CHARS, store_message
from bot.db.engine import open_database
from bot.db.people import groups, people
from bot.db.people.groups import Group
from bot.errors import QuestionRefused, StoreUnavailable
from bot.telegram.delivery import sender
from tests.support.gateway import ADMIN, GatewayHarness, open_harness
from tests.support.group_chat import GROUP, open_group
from tests.support.postgresql import PostgresServer


async def add_chats(url: str) -> None:
    """Have a group that the bot is in, one that waits to be let in, and people of all roles."""
    async with open_database(url) as database, database.transaction() as tx:
        await groups.put(tx, Group(GROUP, "Family  Smith", "in", 1.0, let_in_by=ADMIN))
        await groups.put(tx, Group(-300, "Strangers", "asked", 1.0))
        for number in (8, 9):
            await people.put(tx, number, "Bob", "member", let_in_by=ADMIN, now=1.0)
        await people.put(tx, 10, "Eve", "blocked", let_in_by=ADMIN, now=1.0)


async def store(gateway: GatewayHarness, chat: str, text: str) -> None:
    """Do what `canvasgram send` does, without the seconds that its process takes to start."""
    await store_message(gateway.settings.database_url, chat, text, [ADMIN], now=time.time())


async def run_command(gateway: GatewayHarness, chat: str, stdin: bytes) -> tuple[int, str]:
    """Run `canvasgram send` in a process of its own; its exit code and what it says."""
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "send", chat),
        env={"DATABASE_URL": gateway.settings.database_url, "ADMIN_IDS": str(ADMIN)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await command.communicate(stdin)
    assert command.returncode is not None
    return command.returncode, out.decode()


@pytest.mark.sqlite
async def test_scripts_send_to_people_and_groups_beside_a_running_gateway_and_without_one(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        async with gateway.run():
            team = open_group(gateway.api, gateway.ann)
            await team.wait_for_texts()
            await store(gateway, " team", "The *backup* is done.")
            assert (await team.wait_for_texts(2))[1] == "The *backup* is done."
            gateway.ann.send("@@say:Hello@@")
            await gateway.wait_for_texts()
            code, said = await run_command(gateway, str(ADMIN), "Größe \0".encode() + b"\xff" * 4000)
            assert (code, said.startswith("Stored for ")) == (0, True)
            [_, first, *_, last] = await gateway.wait_for_texts(4)
            assert (first, set(last)) == ("Größe", {"\ufffd"})
        await store(gateway, str(ADMIN), "Later")
        async with gateway.run():
            assert (await gateway.wait_for_texts(5))[4] == "Later"
            gateway.ann.send("@@say:Bye@@")  # a script's words are in no conversation
            await gateway.wait_for_texts(6)
        assert "Later" not in str(gateway.endpoint.requests[-1])


@pytest.mark.parametrize(
    ("chat", "text", "error"),
    [
        ("Bob", "Hello", r"Several chats are called Bob\. Say which one by its number: 8, 9\."),
        ("Eve", "Hello", "There is no chat 'Eve' to send to. There are: Bob, Bob, Family"),
        ("Strangers", "Hello", "There is no chat 'Strangers'"),
        ("-300", "Hello", "There is no chat '-300'"),
        ("8", " \n\u2800", "The text is empty"),
        ("8", "x" * (MAX_CHARS + 1), "The text is too long: 65,536 characters"),
    ],
)
async def test_what_cannot_be_sent_is_refused_with_what_can(tmp_path: Path, chat: str, text: str, error: str):
    async with open_harness(tmp_path) as gateway:
        await add_chats(gateway.settings.database_url)
        with pytest.raises(QuestionRefused, match=error):
            await store_message(gateway.settings.database_url, chat, text, (), now=time.time())


async def test_a_database_that_is_not_there_is_not_made(tmp_path: Path):
    with pytest.raises(StoreUnavailable):
        await store_message(f"sqlite+aiosqlite:///{tmp_path / 'no.db'}", "8", "Hello", (), now=time.time())
    assert list(tmp_path.iterdir()) == []


async def test_on_a_server_the_gateway_is_told(
    tmp_path: Path, postgresql_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender, "_LOOK_SECONDS", 600.0)
    with postgresql_server.open_database() as url:
        async with open_harness(tmp_path, database_url=url) as gateway, gateway.run():
            team = open_group(gateway.api, gateway.ann)
            await team.wait_for_texts()
            await store_message(url, "Team", "Dinner", (), now=time.time())
            await team.wait_for_texts(2)

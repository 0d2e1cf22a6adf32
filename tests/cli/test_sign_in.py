"""`canvasgram tools add --mcp` and `signin` at a server that wants a sign-in, in a process of their own."""

import asyncio
import re
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import bot.cli.main as command_line
from tests.support.empty_database import place_empty_database
from tests.support.oauth_server import OAuthMcpServer, running_oauth_server

KEY = "qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4="


async def start(folder: Path, *args: str) -> Process:
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(Path(command_line.__file__).parents[2]),
        "PYTHONUNBUFFERED": "1",
        "SECRETS_KEY": KEY,
        "TOOLS_PRIVATE_HOSTS": "127.0.0.1",
        "DATABASE_URL": f"sqlite+aiosqlite:///{folder}/here.db",
    }
    command = (sys.executable, "-m", "bot", "tools", *args)
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, cwd=folder
    )


async def paste_address(process: Process, servers: OAuthMcpServer, code: str = "code=") -> tuple[str, str]:
    """Follow the link that is printed, paste where it leads, and return what is printed then."""
    assert process.stdout is not None
    assert process.stdin is not None
    link = ""
    while not link.startswith("http"):
        line = await process.stdout.readline()
        assert line, (await process.communicate())[1]
        link = line.decode().strip()
    address = (await servers.agree(link)).replace("code=", code)
    output, errors = await process.communicate(f"what?\n{address}\n".encode())
    return output.decode(), errors.decode()


async def test_a_server_is_signed_in_to_on_the_machine_and_again(tmp_path: Path) -> None:
    place_empty_database(tmp_path / "here.db")
    async with running_oauth_server() as servers:
        add = ("add", servers.url, "--mcp", "--name", "notes")
        output, errors = await paste_address(await start(tmp_path, *add), servers, "code=x")
        assert "This is not the address that this sign-in leads to." in output
        assert errors == (
            "Not signed in to notes. Its sign-in refused the code: it may be too old, or used already.\n"
        )

        output, errors = await paste_address(await start(tmp_path, *add), servers)
        assert errors == ""
        assert "You're signed in to notes." in output
        assert "notes_echo" in output

        attempt = await start(tmp_path, "try", "notes_echo", '{"text": "hello"}')
        output, errors = (stream.decode() for stream in await attempt.communicate())
        assert (errors, re.search("^hello$", output, re.MULTILINE) is not None) == ("", True)

        servers.authorization.revoke_all()
        output, _ = await paste_address(await start(tmp_path, "signin", "notes"), servers)
        assert output.endswith("You're signed in to notes.\n")
        with sqlite3.connect(tmp_path / "here.db") as database:
            events = [row[0] for row in database.execute("SELECT what FROM audit")]
        database.close()
    assert events == ["added", "signed in", "tried", "signed in"]

"""A real pooler in front of the server, where it is installed; elsewhere test_outages.py simulates one."""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.db.engine import open_database
from bot.domain import SHARE_COUNT
from bot.errors import SettingsRefused
from tests.replicas.test_share_keeper import run_replica
from tests.support.cache_warmup import wait_until
from tests.support.missing_programs import skip_for_missing
from tests.support.postgresql import PostgresServer

PORT = 6432
UNPRIVILEGED_USER = "nobody"  # it refuses to run as root
CONFIG = """
[databases]
* = host={folder} user=postgres
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
{options}
"""


@contextlib.asynccontextmanager
async def run_pooler(server: PostgresServer, url: str, *options: str) -> AsyncIterator[str]:
    """Run it between the server and the URL that this gives."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        skip_for_missing("PgBouncer is not installed here")
    config = server.folder / "pgbouncer.ini"
    config.write_text(CONFIG.format(folder=server.folder, port=PORT, options="\n".join(options)))
    path = server.folder / f".s.PGSQL.{PORT}"
    user = UNPRIVILEGED_USER if server.folder.owner() == UNPRIVILEGED_USER else None
    with subprocess.Popen([program, "--quiet", str(config)], user=user) as process:  # noqa: ASYNC220  # starts at once
        try:
            await wait_until(lambda: is_listening(path))
            yield f"{url}&port={PORT}"
        finally:
            process.terminate()


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


@pytest.mark.parametrize(
    ("option", "session_count"),
    [
        ("default_pool_size = 1", 1),
        ("server_round_robin = 0", 3),
        ("server_round_robin = 1", 2),
        ("server_round_robin = 1", 4),
    ],
)
async def test_sessions_that_it_shares_are_refused(
    server_url: str, postgresql_server: PostgresServer, option: str, session_count: int
):
    async with (
        run_pooler(postgresql_server, server_url, "pool_mode = transaction", option) as url,
        open_database(url) as other,
    ):
        async with contextlib.AsyncExitStack() as reads:  # each needs a session meanwhile
            for _ in range(session_count):
                tx = await reads.enter_async_context(other.read_transaction())
                await tx.exec_driver_sql("SELECT 1")
        with pytest.raises(SettingsRefused, match="PgBouncer does in transaction mode"):
            async with open_database(url, for_gateway=True):
                pass


async def test_sessions_of_one_s_own_are_accepted(server_url: str, postgresql_server: PostgresServer):
    async with (
        run_pooler(postgresql_server, server_url, "pool_mode = session") as url,
        open_database(url, for_gateway=True) as database,
        database.transaction() as tx,
    ):
        assert (await tx.exec_driver_sql("SELECT 1")).scalar_one() == 1


async def test_replicas_divide_the_shares_through_it(postgresql_server: PostgresServer):
    with postgresql_server.open_database() as url:
        async with (
            run_pooler(postgresql_server, url, "pool_mode = session") as pooled_url,
            open_database(pooled_url, for_gateway=True) as database,
            run_replica(database, pooled_url) as first,
        ):
            await wait_until(lambda: len(first.shares) == SHARE_COUNT)
            await wait_until(lambda: first.keeper.leadership.is_granted)
            async with run_replica(database, pooled_url) as second:
                await wait_until(lambda: len(first.shares) == len(second.shares) == SHARE_COUNT // 2)
                await first.end()
                await wait_until(lambda: len(second.shares) == SHARE_COUNT)
                await wait_until(lambda: second.keeper.leadership.is_granted)

"""A replica that is killed while it takes chats over leaves nothing of them behind."""

from pathlib import Path

from tests.kill.gateway import PATIENCE, ForkServer
from tests.replicas.test_two_gateways import load_exact_accounts
from tests.support.postgresql import PostgresServer
from tests.support.replicas import CHATS, run_replicas

COMMITS = ("before 1", "after 1", "after 2")
"""At which of its next commits a replica is killed, from the moment on in which the other one is."""
START_SECONDS = 3 * PATIENCE  # both start, one after the other where the processor is busy


async def test_a_takeover_may_be_killed_at_each_of_its_steps(
    tmp_path: Path, postgresql_server: PostgresServer, fork_server: ForkServer
):
    async with run_replicas(tmp_path, postgresql_server, fork_server, 2) as replicas:
        first, second = replicas.processes
        for number, commit in enumerate(COMMITS, 1):
            replicas.endpoint.hold()
            replicas.send_to_all(f"@@say:{commit}@@")
            await replicas.endpoint.wait_until(lambda: replicas.endpoint.running == len(CHATS))
            await second.arm(commit)
            await first.kill()
            await second.wait_for_exit()
            await first.spawn()
            await second.spawn()
            replicas.endpoint.release()
            await replicas.wait_for_answers(number, START_SECONDS)
        accounts = await load_exact_accounts(postgresql_server.build_url(replicas.database))
    assert len(accounts) == len(COMMITS) * len(CHATS)
    assert all(account.down for account in accounts)

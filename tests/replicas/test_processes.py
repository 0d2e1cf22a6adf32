"""Several gateway processes on one PostgreSQL server, some of which are killed."""

from pathlib import Path

from tests.kill.gateway import ForkServer
from tests.replicas.test_two_gateways import load_exact_accounts
from tests.support.postgresql import PostgresServer
from tests.support.replicas import CHATS, run_replicas

SEATS = 4


async def test_a_killed_replica_s_chats_are_answered_by_the_other(
    tmp_path: Path, postgresql_server: PostgresServer, fork_server: ForkServer
):
    async with run_replicas(tmp_path, postgresql_server, fork_server, 2, model_seats=SEATS) as replicas:
        replicas.send_to_all("one")
        await replicas.wait_for_answers(1)
        replicas.endpoint.hold()
        replicas.send_to_all("two")
        await replicas.wait_for_row(
            f"select 1 from turns where state = 'running' having count(*) = {len(CHATS)}"
        )
        lost_chats = [chat for chat in CHATS if replicas.find_holder(chat) == replicas.leader]
        await replicas.processes[replicas.leader].kill()
        replicas.endpoint.release()
        await replicas.wait_for_answers(2)
        replicas.send_to_all("three")
        await replicas.wait_for_answers(3)
        for chat in CHATS:
            assert len(replicas.texts(chat)) == 3
        accounts = await load_exact_accounts(postgresql_server.build_url(replicas.database))
        assert len(accounts) == 3 * len(CHATS)
        assert sum(account.down > 0 for account in accounts) >= len(lost_chats)
        [survivor] = [process for process in replicas.processes if process.is_running]
        assert (await survivor.terminate())[0] == 0
        assert replicas.endpoint.peak_running <= SEATS  # whichever replica calls

"""A replica that was paused until another one has its chats sends and stores nothing for them."""

import signal
from collections.abc import Sequence
from pathlib import Path

from bot.domain import SHARE_COUNT
from bot.sim.telegram.server import BotApiCall
from tests.kill.gateway import PATIENCE, ForkServer
from tests.support.postgresql import PostgresServer
from tests.support.replicas import CHATS, run_replicas

VISIBLE = {"sendMessage", "editMessageText", "deleteMessage", "sendMessageDraft", "sendChatAction"}


def has_signs(calls: Sequence[tuple[int, BotApiCall]]) -> bool:
    """Whether each chat was shown that the bot is at work."""
    return {call.chat_id for _, call in calls if call.method == "sendMessageDraft"} >= set(CHATS)


async def test_a_paused_replica_does_nothing_for_the_chats_it_lost(
    tmp_path: Path, postgresql_server: PostgresServer, fork_server: ForkServer
):
    async with run_replicas(tmp_path, postgresql_server, fork_server, 2) as replicas:
        replicas.send_to_all("one")
        await replicas.wait_for_answers(1)
        replicas.endpoint.hold()
        calls_before = len(replicas.calls)
        replicas.send_to_all("two")
        await replicas.endpoint.wait_until(lambda: replicas.endpoint.running >= len(CHATS))
        # Else the first sign of a chat may be under way when its process is frozen, and arrive afterwards.
        await replicas.api.wait_until(lambda: has_signs(replicas.calls[calls_before:]), PATIENCE)
        paused = replicas.leader
        other = 1 - paused
        replicas.processes[paused].freeze()
        await replicas.wait_for_shares(other, SHARE_COUNT)
        replicas.endpoint.release()
        await replicas.wait_for_answers(2)
        replicas.calls.clear()
        replicas.processes[paused].signal(signal.SIGCONT)
        await replicas.wait_for_shares(paused, SHARE_COUNT // 2)
        late_calls = [call for caller, call in replicas.calls if caller == paused and call.method in VISIBLE]
        assert late_calls == []
        assert replicas.load_rows("select state, ending, count(*) from turns group by 1, 2") == [
            ("ended", "answered", 2 * len(CHATS))
        ]
        replicas.send_to_all("three")
        await replicas.wait_for_answers(3)
        assert {chat: len(replicas.texts(chat)) for chat in CHATS} == dict.fromkeys(CHATS, 3)
        assert replicas.leader == other
        for process in replicas.processes:
            assert process.is_running
            assert " ERROR " not in process.output

"""A replica whose packets to the server are lost without a word does nothing more for its chats."""

from pathlib import Path

from tests.replicas.silence import LOCAL, open_silent_replica
from tests.support.missing_programs import skip_for_missing
from tests.support.network_links import explain_missing
from tests.support.replicas import CHATS


async def test_a_replica_that_falls_silent_is_replaced_and_comes_back(tmp_path: Path):
    reason = explain_missing()
    if reason:
        skip_for_missing(reason)
    async with open_silent_replica(tmp_path) as silent_replica:
        replicas = silent_replica.replicas
        chat = silent_replica.find_chat()
        takeover = await silent_replica.measure_silence(chat, [silent_replica.server_link])
        assert takeover.model_call < 45  # the command measures it; before tcp_user_timeout it was longer
        assert takeover.late_calls == []
        assert replicas.leader == LOCAL
        replicas.send_to_all("again")
        await replicas.wait_for_answers(2)
        await replicas.api.wait_until(lambda: len(replicas.texts(chat)) == 3)
        assert {other: len(replicas.texts(other)) for other in CHATS} == {**dict.fromkeys(CHATS, 2), chat: 3}
        assert replicas.load_rows("select state, ending, count(*) from turns group by 1, 2") == [
            ("ended", "answered", 2 * len(CHATS) + 1)
        ]
        assert all(process.is_running for process in replicas.processes)

"""Times how fast another replica takes over from one that falls silent: `python -m tests.replicas.silence`.

One replica runs in a network namespace, which has a link to the server and another one to Telegram and the
endpoint. In each round it leads and answers a chat, and packets are lost without a word: on both links, as
those of a machine without power, or on the one to the server only. Then it has the model's answer at once,
and may do nothing with it. Measured is the time to the other one's next model call for this chat and to its
next poll; once it is over, the links are restored, and the replica has its part again.

Needs Linux, iproute2 and root.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness import machine
from bot.domain import SHARE_COUNT
from bot.tables import Line, TextTable
from bot.terminal import write_output
from tests.kill.gateway import PATIENCE
from tests.support.machine import describe_machine
from tests.support.network_links import NetworkLink, enter_namespace, explain_missing, open_links
from tests.support.postgresql import run_server
from tests.support.replicas import CHATS, ReplicaPlace, Replicas, run_replicas

MAX_SECONDS = 15.0
REMOTE, LOCAL = range(2)  # the numbers of the replicas
VISIBLE = {"sendMessage", "editMessageText", "deleteMessage", "sendMessageDraft", "sendChatAction"}


@dataclass(frozen=True, slots=True)
class Takeover:
    """What was measured after a silence: seconds, and what the silent replica sent after it was replaced."""

    model_call: float
    poll: float
    late_calls: Sequence[str]


@dataclass(frozen=True, slots=True)
class SilentReplica:
    """Two replicas, and the links of the one that can be cut off."""

    replicas: Replicas
    server_link: NetworkLink
    simulator_link: NetworkLink

    async def measure_silence(self, chat: int, links: Sequence[NetworkLink]) -> Takeover:
        """Cut the leader off while it answers this chat, and let everything be as before."""
        replicas = self.replicas
        assert replicas.leader == replicas.find_holder(chat) == REMOTE
        answer_count = len(replicas.texts(chat))
        await replicas.hold_answer(chat)
        request_count = len(replicas.endpoint.requests)
        call_count = len(replicas.calls)
        for link in links:
            link.silence()
        began_at = time.monotonic()
        replicas.endpoint.release()
        await replicas.endpoint.wait_until(lambda: len(replicas.endpoint.requests) > request_count)
        model_call_at = replicas.endpoint.requests[request_count].received_at
        await replicas.api.wait_until(lambda: replicas.list_polls(LOCAL, call_count), PATIENCE)
        await replicas.api.wait_until(lambda: len(replicas.texts(chat)) > answer_count, PATIENCE)
        await replicas.wait_for_shares(LOCAL, SHARE_COUNT)
        for link in links:
            link.restore()
        await replicas.wait_for_parts()
        late_calls = [
            call.method
            for caller, call in replicas.calls[call_count:]
            if caller == REMOTE and call.method in VISIBLE and call.arrived_at > model_call_at
        ]
        return Takeover(
            model_call_at - began_at, replicas.list_polls(LOCAL, call_count)[0] - began_at, late_calls
        )

    async def make_leader(self) -> None:
        """Let the replica that can be cut off lead."""
        if self.replicas.leader == REMOTE:
            return
        await self.replicas.processes[LOCAL].kill()
        await self.replicas.wait_for_shares(REMOTE, SHARE_COUNT)
        await self.replicas.api.wait_until(lambda: self.replicas.leader == REMOTE, PATIENCE)
        await self.replicas.processes[LOCAL].spawn()
        await self.replicas.wait_for_parts()

    def find_chat(self) -> int:
        """A chat of the replica that can be cut off."""
        return next(chat for chat in CHATS if self.replicas.find_holder(chat) == REMOTE)


@contextlib.asynccontextmanager
async def open_silent_replica(folder: Path) -> AsyncIterator[SilentReplica]:
    """Run two replicas; one leads, and can be cut off."""
    with open_links(2) as [server_link, simulator_link], run_server(server_link.host) as server:
        place = ReplicaPlace(enter_namespace(server_link.pid), simulator_link.host, server_link.host)
        async with run_replicas(folder, server, None, 2, {REMOTE: place}) as replicas:
            replicas.send_to_all("hello")
            await replicas.wait_for_answers(1)
            silent_replica = SilentReplica(replicas, server_link, simulator_link)
            await silent_replica.make_leader()
            yield silent_replica


async def measure_rounds(folder: Path, rounds: int) -> dict[str, list[Takeover]]:
    """Measure each kind of silence so many times."""
    async with open_silent_replica(folder) as silent_replica:
        links = {
            "the whole machine": (silent_replica.server_link, silent_replica.simulator_link),
            "its link to the server": (silent_replica.server_link,),
        }
        takeovers: dict[str, list[Takeover]] = {name: [] for name in links}
        for name in [*links] * rounds:
            await silent_replica.make_leader()
            chat = silent_replica.find_chat()
            takeovers[name].append(await silent_replica.measure_silence(chat, links[name]))
    return takeovers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.replicas.silence", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each kind, half a minute each")
    rounds = parser.parse_args().rounds
    reason = explain_missing()
    if reason:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        takeovers = asyncio.run(measure_rounds(Path(folder), rounds))
        conditions = [
            ("replicas", "2 on one PostgreSQL server, which syncs nothing"),
            ("load", machine.describe_load()),
            *describe_machine(),
        ]
    write_output(_format_takeovers(takeovers))
    write_output([TextTable("", (), conditions, text_columns=2)])
    all_takeovers = [takeover for group in takeovers.values() for takeover in group]
    if any(takeover.model_call > MAX_SECONDS or takeover.late_calls for takeover in all_takeovers):
        sys.exit(f"not within {MAX_SECONDS:.0f} s, or the silent one sent something afterwards")


def _format_takeovers(takeovers: dict[str, list[Takeover]]) -> Iterator[Line]:
    rows = [
        (
            name,
            str(len(group)),
            _format_range([takeover.model_call for takeover in group]),
            _format_range([takeover.poll for takeover in group]),
            str(sum(len(takeover.late_calls) for takeover in group)),
        )
        for name, group in takeovers.items()
    ]
    headers = ("silent is", "rounds", "next model call", "next poll", "sent afterwards")
    yield TextTable("", headers, rows)
    yield ""


def _format_range(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.1f} to {max(seconds):.1f} s"


if __name__ == "__main__":
    main()

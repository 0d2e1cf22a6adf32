"""What replicas tell each other: where to look. A message that is lost costs seconds, and nothing else.

Each replica looks by itself as well, every few seconds.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from bot.db.engine import Database
from bot.db.postgresql.notifications import MAX_PAYLOAD_BYTES, NO_LIFE, build_payload, notify
from bot.db.transaction import Transaction
from bot.errors import StoreUnavailable

Topic = Literal["inbox", "outbox", "stop", "wake", "changed", "waits", "asked", "seats", "seat_wanted"]
"""inbox: there are items in a share. outbox: something is to be sent in a lane. stop: end what runs in a lane
before an item. wake: end the pause of a lane's turn. changed: what counts its changes by a revision has.
waits: a message has come in a lane that may be busy. asked: a turn waits for a person, at most for some
time. seats: a seat of an endpoint was given to a call of a replica. seat_wanted: calls begin to wait for a
seat of an endpoint, so nobody keeps one."""

_RETRY_SECONDS = 1.0
_MAX_KEYS = 100  # in one notification, each some 40 bytes

log = logging.getLogger(__name__)


class ReplicaMessenger:
    """Sends while `run` runs; `life` is the id of this process's life, by which it knows its own messages."""

    def __init__(self, database: Database) -> None:
        self.life = NO_LIFE
        self.handlers: Mapping[Topic, Callable[[str], object]] = {}
        self._database = database
        self._pending: dict[tuple[Topic, str], None] = {}
        self._has_pending = asyncio.Event()

    def send(self, topic: Topic, key: str) -> None:
        """Tell all other replicas; what was sent and is still on its way is not sent twice."""
        self._pending[topic, key] = None
        self._has_pending.set()

    async def send_with(self, tx: Transaction, messages: Sequence[tuple[Topic, str]]) -> None:
        """Tell all other replicas once `tx` is committed, and not before."""
        for payload in self.build_payloads(messages):
            await notify(tx, payload)

    def build_payloads(self, messages: Sequence[tuple[Topic, str]]) -> list[str]:
        """What is notified to tell all other replicas."""
        payloads = [
            build_payload(self.life, messages[start : start + _MAX_KEYS])
            for start in range(0, len(messages), _MAX_KEYS)
        ]
        assert all(len(payload) <= MAX_PAYLOAD_BYTES for payload in payloads)
        return payloads

    def receive(self, payload: str) -> None:
        """Do what another replica asks for."""
        try:
            life, messages = json.loads(payload)
            if life != self.life:
                for topic, key in messages:
                    self._handle(topic, key)
        except (ValueError, TypeError):  # any user of the database may notify
            log.warning("a notification cannot be read", extra={"action": "replica.unreadable"})

    def _handle(self, topic: Topic, key: str) -> None:
        handler = self.handlers.get(topic)
        if handler is not None:  # a newer version may tell more
            handler(key)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._has_pending.wait()
            self._has_pending.clear()
            batch = list(self._pending)[:_MAX_KEYS]
            try:
                async with self._database.transaction(durable=False) as tx:
                    await self.send_with(tx, batch)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)
                self._has_pending.set()
                continue
            for message in batch:
                self._pending.pop(message, None)
            if self._pending:
                self._has_pending.set()

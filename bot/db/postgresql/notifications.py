"""Tells the other replicas something, when a transaction is committed. PostgreSQL keeps none of it."""

import json
from collections.abc import Iterable

from sqlalchemy import bindparam, func, select

from bot.db.transaction import Transaction

CHANNEL = "canvasgram"
MAX_PAYLOAD_BYTES = 7_999  # PostgreSQL refuses longer ones
NO_LIFE = 0  # of a sender that is no replica, or does not know its number

_NOTIFY = select(func.pg_notify(CHANNEL, bindparam("payload")))


def build_payload(life: int, messages: Iterable[tuple[str, str]]) -> str:
    """Messages of the process of this life, each a topic and a key."""
    return json.dumps([life, list(messages)])


async def notify(tx: Transaction, payload: str) -> None:
    """Send `payload`, of MAX_PAYLOAD_BYTES at most, to all that listen once `tx` is committed."""
    await tx.execute(_NOTIFY, {"payload": payload})

"""Tells the other replicas something, when a transaction is committed. PostgreSQL keeps none of it."""

from sqlalchemy import bindparam, func, select

from bot.db.transaction import Transaction

CHANNEL = "canvasgram"
MAX_PAYLOAD_BYTES = 7_999  # PostgreSQL refuses longer ones

_NOTIFY = select(func.pg_notify(CHANNEL, bindparam("payload")))


async def notify(tx: Transaction, payload: str) -> None:
    """Send `payload`, of MAX_PAYLOAD_BYTES at most, to all that listen once `tx` is committed."""
    await tx.execute(_NOTIFY, {"payload": payload})

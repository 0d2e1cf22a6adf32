"""What a chat has settled for itself and keeps across conversations. Functions work inside the caller's `tx`.

Consent belongs to a chat, whatever topic it was given in, and to the host it was given for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.db.tables import lanes
from bot.domain import Lane

Kind = Literal["text", "notes", "files", "images"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Think = Literal["auto", "on", "off"]
THINK: Final[tuple[Think, ...]] = get_args(Think)

_ASKED = "asked"
_NO = "no"

# Built once: building a statement costs more than running it.
_CONSENT = select(lanes.c.consent).where(lanes.c.lane == bindparam("key"))
_THINK = select(lanes.c.think).where(lanes.c.lane == bindparam("key"))


@dataclass(frozen=True, slots=True)
class Consent:
    """What of a chat may go to an endpoint outside. `kinds` None: no answer yet; empty: no. `asked`: it was
    asked.
    """

    asked: bool = False
    kinds: frozenset[Kind] | None = None

    @property
    def given(self) -> bool:
        """Whether anything may go there at all."""
        return bool(self.kinds)


async def consent(tx: AsyncConnection, chat: int, host: str) -> Consent:
    """What a chat said about this host; what it said about another one does not count."""
    stored = (await tx.execute(_CONSENT, {"key": Lane(chat).key})).scalar_one_or_none() or ""
    named, _, answer = stored.partition(" ")
    if named != host:
        return Consent()
    words = answer.split()
    return Consent(True, None if answer == _ASKED else frozenset(kind for kind in KINDS if kind in words))


async def ask_consent(tx: AsyncConnection, chat: int, host: str) -> bool:
    """The question about this host is put to the chat: True if it was not put before."""
    if (await consent(tx, chat, host)).asked:
        return False
    await _put(tx, chat, f"{host} {_ASKED}")
    return True


async def give_consent(tx: AsyncConnection, chat: int, host: str, kinds: Iterable[Kind]) -> None:
    """The chat's answer: what may go to this host. Nothing is a no, and nothing goes without the text."""
    wanted = {*kinds}
    words = " ".join(kind for kind in KINDS if wanted and (kind in wanted or kind == "text"))
    await _put(tx, chat, f"{host} {words or _NO}")


async def think(tx: AsyncConnection, lane: Lane) -> Think | None:
    """Whether the lane's turns shall think; None: as the house does."""
    wanted: Think | None = (await tx.execute(_THINK, {"key": lane.key})).scalar_one_or_none()
    return wanted


async def set_think(tx: AsyncConnection, lane: Lane, wanted: Think) -> None:
    """From its next turn on the lane thinks so; a conversation that has not begun is still not begun."""
    row = {"lane": lane.key, "think": wanted}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))


async def _put(tx: AsyncConnection, chat: int, stored: str) -> None:
    row = {"lane": Lane(chat).key, "consent": stored}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))

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

ContentKind = Literal["text", "notes", "files", "images"]
CONTENT_KINDS: Final[tuple[ContentKind, ...]] = get_args(ContentKind)
ThinkMode = Literal["auto", "on", "off"]
THINK_MODES: Final[tuple[ThinkMode, ...]] = get_args(ThinkMode)

_ASKED = "asked"
_NO = "no"

# Built once: building a statement costs more than running it.
_SELECT_CONSENT = select(lanes.c.consent).where(lanes.c.lane == bindparam("key"))
_SELECT_THINK = select(lanes.c.think).where(lanes.c.lane == bindparam("key"))


@dataclass(frozen=True, slots=True)
class Consent:
    """What of a chat may go to an endpoint outside. `kinds` None: no answer yet; empty: no. `asked`: it was
    asked.
    """

    was_asked: bool = False
    kinds: frozenset[ContentKind] | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything may go there at all."""
        return bool(self.kinds)


async def load_consent(tx: AsyncConnection, chat: int, host: str) -> Consent:
    """What a chat said about this host; what it said about another one does not count."""
    stored = (await tx.execute(_SELECT_CONSENT, {"key": Lane(chat).key})).scalar_one_or_none() or ""
    named, _, answer = stored.partition(" ")
    if named != host:
        return Consent()
    words = answer.split()
    return Consent(
        True, None if answer == _ASKED else frozenset(kind for kind in CONTENT_KINDS if kind in words)
    )


async def mark_consent_asked(tx: AsyncConnection, chat: int, host: str) -> bool:
    """The question about this host is put to the chat: True if it was not put before."""
    if (await load_consent(tx, chat, host)).was_asked:
        return False
    await _upsert_consent(tx, chat, f"{host} {_ASKED}")
    return True


async def store_consent(tx: AsyncConnection, chat: int, host: str, kinds: Iterable[ContentKind]) -> None:
    """The chat's answer: what may go to this host. Nothing is a no, and nothing goes without the text."""
    wanted = {*kinds}
    words = " ".join(kind for kind in CONTENT_KINDS if wanted and (kind in wanted or kind == "text"))
    await _upsert_consent(tx, chat, f"{host} {words or _NO}")


async def load_think_mode(tx: AsyncConnection, lane: Lane) -> ThinkMode | None:
    """Whether the lane's turns shall think; None: as the house does."""
    wanted: ThinkMode | None = (await tx.execute(_SELECT_THINK, {"key": lane.key})).scalar_one_or_none()
    return wanted


async def set_think_mode(tx: AsyncConnection, lane: Lane, mode: ThinkMode) -> None:
    """From its next turn on the lane thinks so; a conversation that has not begun is still not begun."""
    row = {"lane": lane.key, "think": mode}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))


async def _upsert_consent(tx: AsyncConnection, chat: int, value: str) -> None:
    row = {"lane": Lane(chat).key, "consent": value}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))

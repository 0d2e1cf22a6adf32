"""Settings of a chat that outlast its conversations: consent to outside services, thinking, voice.

Consent belongs to a chat, whatever topic it was given in, and to the host it was given for. It is stored as
the host and a list of content kinds, "no", or "asked". Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sqlalchemy import bindparam, select

from bot.db.portable_sql import upsert
from bot.db.tables import lanes
from bot.db.transaction import Transaction
from bot.domain import Lane

ContentKind = Literal["text", "notes", "files", "images"]
CONTENT_KINDS: Final[tuple[ContentKind, ...]] = get_args(ContentKind)
ThinkMode = Literal["auto", "on", "off"]
VoiceMode = Literal["auto", "on", "off", "refused"]
"""Which answers are spoken; refused: Telegram takes no voice message there."""

THINK_MODES: Final[tuple[ThinkMode, ...]] = get_args(ThinkMode)

_ASKED = "asked"
_NO = "no"

# Built once: building a statement costs more than running it.
_SELECT_CONSENT = select(lanes.c.consent).where(lanes.c.lane == bindparam("key"))
_SELECT_THINK = select(lanes.c.think).where(lanes.c.lane == bindparam("key"))


@dataclass(frozen=True, slots=True)
class Consent:
    """What of a chat's content may go to an outside endpoint. `kinds` None: no answer yet; empty: no."""

    was_asked: bool = False
    kinds: frozenset[ContentKind] | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything may be sent there at all."""
        return bool(self.kinds)


async def load_consent(tx: Transaction, chat: int, host: str) -> Consent:
    """A chat's answer about this host; an answer about another host does not count."""
    stored = (await tx.execute(_SELECT_CONSENT, {"key": Lane(chat).key})).scalar_one_or_none() or ""
    stored_host, _, answer = stored.partition(" ")
    if stored_host != host:
        return Consent()
    if answer == _ASKED:
        return Consent(was_asked=True)
    allowed = answer.split()
    return Consent(was_asked=True, kinds=frozenset(kind for kind in CONTENT_KINDS if kind in allowed))


async def mark_consent_asked(tx: Transaction, chat: int, host: str) -> bool:
    """Store that the chat is asked about this host; False if it was asked before."""
    if (await load_consent(tx, chat, host)).was_asked:
        return False
    await _upsert_consent(tx, chat, f"{host} {_ASKED}")
    return True


async def store_consent(tx: Transaction, chat: int, host: str, kinds: Iterable[ContentKind]) -> None:
    """Store the chat's answer about this host. No kinds is a no; any other kind includes text."""
    allowed = {*kinds}
    if allowed:
        allowed.add("text")
    answer = " ".join(kind for kind in CONTENT_KINDS if kind in allowed)
    await _upsert_consent(tx, chat, f"{host} {answer or _NO}")


async def load_consents(tx: Transaction) -> dict[str, str]:
    """The answers of all chats as they are stored, by lane."""
    query = select(lanes.c.lane, lanes.c.consent).where(lanes.c.consent.is_not(None))
    return {row.lane: row.consent for row in await tx.execute(query)}


async def put_stricter_consents(tx: Transaction, others: Mapping[str, str]) -> None:
    """Let of the stored answer of each chat and the one in `others` the stricter one hold."""
    stored = await load_consents(tx)
    rows = [
        {"lane": lane, "consent": _find_stricter(stored.get(lane, ""), others.get(lane, ""))}
        for lane in stored.keys() | others.keys()
    ]
    insertion = upsert(lanes)
    update = insertion.on_conflict_do_update(
        index_elements=["lane"], set_={"consent": insertion.excluded.consent}
    )
    if rows:
        await tx.execute(update, rows)


def _find_stricter(answer: str, newer: str) -> str | None:
    """Of two stored answers what both allow; None: the chat is asked again."""
    host, _, allowed = newer.partition(" ")
    kinds = [kind for kind in CONTENT_KINDS if kind in allowed.split()]
    if not kinds:
        return newer or None
    other_host, _, other_allowed = answer.partition(" ")
    if other_host != host:
        return None
    shared = [kind for kind in kinds if kind in other_allowed.split()]
    return f"{host} {' '.join(shared)}" if shared else answer


async def load_think_mode(tx: Transaction, lane: Lane) -> ThinkMode | None:
    """Whether the lane's turns think; None: as the gateway's settings say."""
    mode: ThinkMode | None = (await tx.execute(_SELECT_THINK, {"key": lane.key})).scalar_one_or_none()
    return mode


async def set_think_mode(tx: Transaction, lane: Lane, mode: ThinkMode) -> None:
    """Set how the lane's turns think from the next one on; does not begin a conversation."""
    row = {"lane": lane.key, "think": mode}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))


async def load_voice_mode(tx: Transaction, chat: int) -> VoiceMode:
    """Which answers are spoken in a chat, whatever the topic."""
    query = select(lanes.c.voice).where(lanes.c.lane == Lane(chat).key)
    return (await tx.execute(query)).scalar_one_or_none() or "auto"


async def set_voice_mode(tx: Transaction, chat: int, mode: VoiceMode) -> None:
    """Set which answers of a chat are spoken from now on."""
    row = {"lane": Lane(chat).key, "voice": None if mode == "auto" else mode}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))


async def _upsert_consent(tx: Transaction, chat: int, value: str) -> None:
    row = {"lane": Lane(chat).key, "consent": value}
    await tx.execute(upsert(lanes).values(row).on_conflict_do_update(index_elements=["lane"], set_=row))

"""Settings of a chat that outlast its conversations: consent to outside services, thinking, voice.

Consent belongs to a chat, whatever topic it was given in, and to the host it was given for. It is stored as
the host and a list of content kinds, "no", or "asked". For sound there is one of its own: of the kind
"speech", for all services outside together. Functions work inside the caller's transaction `tx`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from sqlalchemy import Select, bindparam, func, select

from bot.db.conversations.conversations import upsert_lane
from bot.db.portable_sql import upsert
from bot.db.tables import lanes
from bot.db.transaction import Transaction
from bot.domain import Lane

ContentKind = Literal["text", "notes", "files", "images"]
CONTENT_KINDS: Final[tuple[ContentKind, ...]] = get_args(ContentKind)
ThinkMode = Literal["auto", "on", "off"]
ConsentColumn = Literal["consent", "speech_consent"]
VoiceMode = Literal["auto", "on", "off", "refused"]
"""Which answers are spoken; refused: Telegram takes no voice message there."""

THINK_MODES: Final[tuple[ThinkMode, ...]] = get_args(ThinkMode)

_ASKED = "asked"
_NO = "no"
_SPEECH = "speech"

# Built once: building a statement costs more than running it.
_SELECT_CONSENT, _SELECT_SPEECH_CONSENT, _SELECT_THINK, _SELECT_VOICE = (
    select(column).where(lanes.c.lane == bindparam("key"))
    for column in (lanes.c.consent, lanes.c.speech_consent, lanes.c.think, lanes.c.voice)
)


@dataclass(frozen=True, slots=True)
class Consent:
    """What of a chat's content may go to an outside endpoint. `kinds` None: no answer yet; empty: no."""

    kinds: frozenset[ContentKind] | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything may be sent there at all."""
        return bool(self.kinds)


async def load_consent(tx: Transaction, chat: int, host: str) -> Consent:
    """A chat's answer about this host; an answer about another host does not count."""
    answer = await _load_answer(tx, _SELECT_CONSENT, chat, host)
    if answer in {None, _ASKED}:
        return Consent()
    allowed = (answer or "").split()
    return Consent(frozenset(kind for kind in CONTENT_KINDS if kind in allowed))


async def load_speech_consent(tx: Transaction, chat: int, hosts: str) -> bool | None:
    """Whether a chat's sound, and answers to speak, may go to these hosts; None: it has not said."""
    answer = await _load_answer(tx, _SELECT_SPEECH_CONSENT, chat, hosts)
    return None if answer in {None, _ASKED} else answer == _SPEECH


async def _load_answer(tx: Transaction, query: Select[Any], chat: int, host: str) -> str | None:
    stored_host, _, answer = ((await _find_value(tx, query, Lane(chat))) or "").partition(" ")
    return answer if stored_host == host else None


async def mark_consent_asked(
    tx: Transaction, chat: int, host: str, column: ConsentColumn = "consent"
) -> bool:
    """Store that the chat is asked about this host; False if it was asked before."""
    row = {"lane": Lane(chat).key, column: f"{host} {_ASKED}"}
    has_other = ~func.coalesce(lanes.c[column], "").startswith(f"{host} ", autoescape=True)
    insertion = upsert(lanes).values(row)
    asked = insertion.on_conflict_do_update(index_elements=["lane"], set_=row, where=has_other)
    return (await tx.execute(asked.returning(lanes.c.lane))).one_or_none() is not None


async def store_consent(tx: Transaction, chat: int, host: str, kinds: Iterable[ContentKind]) -> None:
    """Store the chat's answer about this host. No kinds is a no; any other kind includes text."""
    allowed = {*kinds}
    if allowed:
        allowed.add("text")
    answer = " ".join(kind for kind in CONTENT_KINDS if kind in allowed)
    await upsert_lane(tx, Lane(chat), {"consent": f"{host} {answer or _NO}"})


async def store_speech_consent(tx: Transaction, chat: int, hosts: str, *, allowed: bool) -> None:
    """Store the chat's answer about these hosts."""
    await upsert_lane(tx, Lane(chat), {"speech_consent": f"{hosts} {_SPEECH if allowed else _NO}"})


Consents = Mapping[str, Mapping[str, str]]
"""Answers as they are stored: by column and lane."""


async def load_consents(tx: Transaction) -> Consents:
    """The answers of all chats."""
    query = select(lanes.c.lane, lanes.c.consent, lanes.c.speech_consent)
    rows = (await tx.execute(query)).mappings().all()
    return {
        column: {row["lane"]: row[column] for row in rows if row[column]}
        for column in get_args(ConsentColumn)
    }


async def put_stricter_consents(tx: Transaction, others: Consents) -> None:
    """Let of the stored answer of each chat and the one in `others` the stricter one hold."""
    for name, stored in (await load_consents(tx)).items():
        newer = others.get(name, {})
        rows = [
            {"lane": lane, name: _find_stricter(stored.get(lane, ""), newer.get(lane, ""))}
            for lane in stored.keys() | newer.keys()
        ]
        insertion = upsert(lanes)
        update = insertion.on_conflict_do_update(
            index_elements=["lane"], set_={name: insertion.excluded[name]}
        )
        if rows:
            await tx.execute(update, rows)


def _find_stricter(answer: str, newer: str) -> str | None:
    """Of two stored answers what both allow; None: the chat is asked again."""
    host, _, allowed = newer.partition(" ")
    kinds = [kind for kind in (*CONTENT_KINDS, _SPEECH) if kind in allowed.split()]
    if not kinds:
        return newer or None
    other_host, _, other_allowed = answer.partition(" ")
    if other_host != host:
        return None
    shared = [kind for kind in kinds if kind in other_allowed.split()]
    return f"{host} {' '.join(shared)}" if shared else answer


async def load_think_mode(tx: Transaction, lane: Lane) -> ThinkMode | None:
    """Whether the lane's turns think; None: as the gateway's settings say."""
    mode: ThinkMode | None = await _find_value(tx, _SELECT_THINK, lane)
    return mode


async def set_think_mode(tx: Transaction, lane: Lane, mode: ThinkMode) -> None:
    """Set how the lane's turns think from the next one on; does not begin a conversation."""
    await upsert_lane(tx, lane, {"think": mode})


async def load_voice_mode(tx: Transaction, chat: int) -> VoiceMode:
    """Which answers are spoken in a chat, whatever the topic."""
    return await _find_value(tx, _SELECT_VOICE, Lane(chat)) or "auto"


async def set_voice_mode(tx: Transaction, chat: int, mode: VoiceMode) -> None:
    """Set which answers of a chat are spoken from now on."""
    await upsert_lane(tx, Lane(chat), {"voice": None if mode == "auto" else mode})


async def _find_value(tx: Transaction, query: Select[Any], lane: Lane) -> Any:
    return (await tx.execute(query, {"key": lane.key})).scalar_one_or_none()

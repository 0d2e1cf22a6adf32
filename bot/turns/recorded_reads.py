"""Typed reads, each a row of the ledger; by the main endpoint, or by the second one where that may read.

The second one reads only where the main one cannot, and in chats that let it have all that is read.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from bot.db.conversations import chat_settings
from bot.db.conversations.calls import NewCall
from bot.db.conversations.chat_settings import ContentKind
from bot.db.engine import Database
from bot.domain import CallPurpose
from bot.llm.client import QUICK_SECONDS
from bot.llm.read_gains import ReadGain, ReadUse
from bot.llm.typed_reads import TypedQuestions, TypedReading
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoints import ModelEndpoint


@dataclass(frozen=True, slots=True)
class ReadSubject:
    """What is read: a text with the questions about it.

    `chat`: of whom it is. `kinds`: what of the chat it may hold; None: it stays at the main endpoint.
    """

    chat: int
    purpose: CallPurpose
    questions: TypedQuestions
    state: str
    kinds: Set[ContentKind] | None = None
    tools_offered: int = 0


class RecordedReads:
    """Reads once for each who asks; `fallback`: the second endpoint, if there is one.

    `gains`: what was measured of uses of reads.
    """

    def __init__(
        self,
        database: Database,
        ledger: CallLedger,
        main: ModelEndpoint,
        fallback: ModelEndpoint | None = None,
        gains: Mapping[str, ReadGain] | None = None,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._main = main
        self._fallback = fallback
        self._gains = gains or {}

    @property
    def is_supported(self) -> bool | None:
        """Whether the main endpoint can read so; None: it was not asked yet."""
        return self._main.reader.is_supported if self._main.reader else False

    def find_clearness(self, use: ReadUse) -> float:
        """How clear the gain of a use is with the main endpoint's model; 0 where it was not measured."""
        gain = self._gains.get(use)
        return gain.clearness if gain and gain.model == self._main.model_name() else 0.0

    async def read(
        self, subject: ReadSubject, *, timeout_seconds: float = QUICK_SECONDS
    ) -> tuple[int | None, TypedReading | None]:
        """The ledger's row, None if nobody was asked; and the reading, None if there is none."""
        endpoint = self._main
        if self.is_supported is False and self._fallback and await self._may_read(self._fallback, subject):
            endpoint = self._fallback
        if endpoint.reader is None or endpoint.reader.is_supported is False:
            return None, None
        new_call = NewCall(
            turn=None,
            step=0,
            purpose=subject.purpose,
            again=None,
            endpoint=endpoint.url,
            model=endpoint.model_name(),
            thinking=False,
            tools_offered=subject.tools_offered,
            chars_system=0,
            chars_tools=0,
            chars_history=len(subject.state),
        )
        return await self._ledger.read_once(
            new_call, endpoint.reader, subject.questions, subject.state, timeout_seconds
        )

    async def _may_read(self, fallback: ModelEndpoint, subject: ReadSubject) -> bool:
        """Whether all that the text may hold may go to the second endpoint."""
        if subject.kinds is None:
            return False
        if not fallback.is_external:
            return True
        async with self._database.read_transaction() as tx:
            consent = await chat_settings.load_consent(tx, subject.chat, fallback.host)
        return consent.kinds is not None and subject.kinds <= consent.kinds

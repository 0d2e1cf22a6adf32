"""The services outside the own network that hear and speak, and what a chat is asked first.

Methods work inside the caller's transaction `tx`.
"""

from dataclasses import dataclass

from bot.db.conversations import chat_settings
from bot.db.queues import outbox
from bot.db.transaction import Transaction
from bot.domain import Button, Lane, Part
from bot.translations.translator import Translator, translatable
from bot.turns import hash_host

SPEECH_PREFIX = "speech"
SOUND_KEPT_HERE = translatable(
    "this chat doesn't let me send sound outside our network; /consent changes that"
)


@dataclass(frozen=True, slots=True)
class OutsideSpeech:
    """The hosts of the services that are outside; "" where one is inside, or there is none."""

    transcriber_host: str = ""
    speech_host: str = ""

    @property
    def hosts(self) -> str:
        """Both hosts, by a comma: a chat agrees to them together. "": nobody has to be asked."""
        return ",".join(sorted({self.transcriber_host, self.speech_host} - {""}))

    async def find_consent(self, tx: Transaction, chat: int, host: str) -> bool | None:
        """Whether something of a chat may go to one of the services; None: the chat has not said."""
        return await chat_settings.load_speech_consent(tx, chat, self.hosts) if host else True

    async def ask(
        self, tx: Transaction, lane: Lane, translate: Translator, *, item: int = 0, now: float
    ) -> None:
        """Ask the chat: for each message that waits, and once where none does."""
        is_new = await chat_settings.mark_consent_asked(tx, lane.chat, self.hosts, "speech_consent")
        if is_new or item:
            # Not as the answer of its item: that place belongs to the turn, once the chat has agreed.
            parts = (self.build_question(translate, item=item),)
            await outbox.add(tx, item=None, lane=lane, parts=parts, now=now)

    def build_question(self, translate: Translator, *, item: int = 0) -> Part:
        """What a chat is asked; `item`: the inbox item of the message that waits for it, 0: none does."""
        sentences = []
        if self.transcriber_host:
            host = self.transcriber_host
            sentences.append(
                translate(
                    "To understand voice messages, I'd send them to {host}, outside our network.", host=host
                )
            )
        if self.speech_host:
            host = self.speech_host
            sentences.append(
                translate(
                    "To speak my answers, I'd send their text to {host}, outside our network.", host=host
                )
            )
        labels = {"yes": translate("Yes"), "no": translate("No")}
        row = tuple(Button(label, self.format_data(answer, item)) for answer, label in labels.items())
        return Part(" ".join([*sentences, translate("Is that OK?")]), buttons=(row,))

    def format_data(self, answer: str, item: int = 0) -> str:
        """The callback data of an answer; it holds for these hosts alone."""
        return f"{SPEECH_PREFIX}:{answer}:{item}:{hash_host(self.hosts)}"

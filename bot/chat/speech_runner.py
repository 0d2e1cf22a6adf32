"""Has answers read out: runs the gateway's own inbox items of this kind, which hold no lane.

The text is sent by then, and waits for nothing here. Whatever the service does, the person has the text.
"""

import logging
import time
from functools import partial

from bot.attachments.speech import SpeechSynthesizer
from bot.chat.outside_speech import OutsideSpeech
from bot.db.conversations import chat_settings
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import admin_notices, inbox, outbox_files
from bot.db.queues.item_bodies import SpeechOrder
from bot.db.retry import retry_until_available
from bot.db.usage import speeches
from bot.db.usage.speeches import Speech
from bot.domain import InboxItem, Lane, NotifyAdmins, OutgoingFile, Part
from bot.errors import SpeechFailed
from bot.telegram.formatting.speech_text import build_speech_text
from bot.telegram.incoming.file_places import FilePlaces
from bot.translations.translator import defer
from tools.threads import run_in_thread

LATE_SECONDS = 600.0  # after its text a voice is of no use to anybody
_SUBJECT = "speech"

log = logging.getLogger(__name__)


class SpeechRunner:
    """The runner; `synthesizer` None: answers are not read out any more, and its items end without one.

    `outside_speech`: a chat is asked first, and until it has said yes its answers are not read out.
    A few answers of all people together are read out at a time, and at most two of one person.
    """

    def __init__(
        self,
        database: Database,
        synthesizer: SpeechSynthesizer | None,
        notify_admins: NotifyAdmins,
        outside_speech: OutsideSpeech,
    ) -> None:
        self._database = database
        self._synthesizer = synthesizer
        self._notify_admins = notify_admins
        self._outside_speech = outside_speech
        self._places = FilePlaces()
        self._may_be_failing = True  # until it is known: it may have failed before this start

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        order = SpeechOrder.parse(item.body)
        async with self._places.take(order.person):
            began_at = time.time()
            text = ""
            if began_at < item.received_at + LATE_SECONDS:
                text = await self._load_text(order)
            sound = await self._synthesize(text)
            speech = Speech(
                order.turn,
                chars=len(text),
                wanted_at=item.received_at,
                began_at=began_at,
                ended_at=time.time(),
                outcome="failed" if text and sound is None else "ok",
            )
            await retry_until_available(partial(self._store, item, order, speech, sound))

    async def _load_text(self, order: SpeechOrder) -> str:
        async with self._database.read_transaction() as tx:
            if await chat_settings.load_voice_mode(tx, order.lane.chat) in {"off", "refused"}:
                return ""
            answer = await speeches.load_answer(tx, order.turn)
            host = self._outside_speech.speech_host
            is_allowed = await self._outside_speech.find_consent(tx, order.lane.chat, host)
        if is_allowed is None:
            await retry_until_available(partial(self._ask_chat, order.lane))
        return await run_in_thread(build_speech_text, answer) if is_allowed else ""

    async def _ask_chat(self, lane: Lane) -> None:
        async with self._database.transaction() as tx:
            translate = await people.find_translator(tx, lane.chat)
            await self._outside_speech.ask(tx, lane, translate, now=time.time())

    async def _synthesize(self, text: str) -> bytes | None:
        """The sound; None if there is nothing to say, or the service failed, of which admins hear once."""
        if not text or self._synthesizer is None:
            return None
        try:
            sound = await self._synthesizer.synthesize(text)
        except SpeechFailed as error:
            log.warning("no voice: %s", error, extra={"action": "speech.failed"})
            self._may_be_failing = True
            await self._notify_admins(
                _SUBJECT,
                defer("I can't speak my answers: the voice service failed ({reason}).", reason=error.explain),
            )
            return None
        if self._may_be_failing:
            await self._tell_success()
        return sound

    async def _tell_success(self) -> None:
        """Tell admins, if the last that they were told is a failure: else they would not hear of the next."""
        async with self._database.read_transaction() as tx:
            was_told = await admin_notices.is_recorded(tx, _SUBJECT)
        if was_told:
            await self._notify_admins(_SUBJECT, defer("I can speak my answers again."))
        self._may_be_failing = False

    async def _store(self, item: InboxItem, order: SpeechOrder, speech: Speech, sound: bytes | None) -> None:
        """Store the voice message, unless its answer is gone by now, and that the item is done."""
        now = time.time()
        async with self._database.file_transaction(len(sound or b"")) as tx:
            if sound is not None and await speeches.load_answer(tx, order.turn):
                file = OutgoingFile("voice.ogg", "voice", len(sound), data=sound)
                files = await outbox_files.store(tx, (file,), turn=order.turn, now=now)
                # As messages of its own item: the account of the turn is about its text alone.
                voice = (Part("", silent=True, kind="voice"), files)
                await outbox_files.add_parts(
                    tx, [voice], item=item.id, lane=order.lane, reply_to=order.reply_to, now=now
                )
            if speech.chars:
                await speeches.store(tx, speech)
            await inbox.mark_done(tx, [item.id], now=now)

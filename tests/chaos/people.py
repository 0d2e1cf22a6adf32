"""The people of a chaos run: they write messages of all kinds, tap on buttons, and lose patience."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot.db.queues.outbox import UNSURE_TEXT
from bot.queue.dead_letters import DEAD_LETTER_NOTICE
from bot.sim.telegram.accounts import PersonMessage
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.events import Subscription
from tests.chaos.journal import ButtonTap, WrittenRequest
from tests.chaos.judge import STOP_BUTTON
from tests.chaos.marks import answer_words, read_marks
from tests.chaos.state import ChaosRun
from tests.support.attachment_files import make_image
from tests.support.telegram.server import ScriptedPerson

PATIENCE_SECONDS = 60.0  # until a person writes the next message without an answer to the last one
LOOK_SECONDS = 1.0  # until a person who waits sees that enough is written
ANSWERS = (("Allow once", "Deny"), ("Yes", "No"))  # on cards: of a tool, and of a reminder or a note
TAP_AGAIN_SECONDS = 15.0  # until a person taps again on a button that is still there
EDITED_NUMBERS = (
    90_000  # a command that a person edits a message into has such a number, and is never answered
)
KINDS = {
    "plain": 24,
    "long": 14,
    "stopped": 5,
    "ring": 8,
    "look": 6,
    "toll": 6,
    "remember": 5,
    "think": 4,
    "document": 3,
    "photo": 3,
    "voice": 3,
    "sticker": 1,
    "video note": 1,
    "command": 6,
    "bare command": 4,
    "remind": 6,
    "task": 4,
    "slip": 2,
}
UNORDERED_KINDS = frozenset({"command", "remind"})
BARE_COMMANDS = ("/usage", "/help", "/context", "/new", "/think on", "/think auto", "/notes", "/id")
ODD_UPDATES = (
    {"message": {"chat": {"id": 5}, "text": 7}},
    {"poll": {"id": "1"}},
    {"message": None},
    {"callback_query": {"id": 1, "data": 5}},
)
APOLOGIES = ("/retry", DEAD_LETTER_NOTICE, "a usable answer")


@dataclass
class Writer:
    """A person in their private chat."""

    run: ChaosRun
    person: ScriptedPerson
    rng: random.Random
    _tapped_at: dict[int, float] = field(default_factory=dict)

    async def write_all(self, free_slots: asyncio.Semaphore) -> None:
        """Write until enough is written."""
        while not self.run.has_written_enough():
            async with free_slots:
                await self._exchange()

    def settle(self) -> None:
        """Answer every question that is still open."""
        for message in self._messages():
            self._answer_question(message)

    async def _exchange(self) -> None:
        """Write one message or several, and wait for the answers as long as patience lasts."""
        first_message_id = 0  # answers are looked for below it
        numbers = list[int]()
        for _ in range(self.rng.choices((1, 2, 3, 6), (60, 20, 12, 8))[0]):
            if self.run.has_written_enough():
                break
            message = self._write(self.rng.choices([*KINDS], [*KINDS.values()])[0], numbers)
            first_message_id = first_message_id or message.message_id
        if self.rng.random() < 0.03:
            self.run.odd_updates.add(self.run.environment.api.push_update(self.rng.choice(ODD_UPDATES)))
        if any(self.run.requests[number].kind == "stopped" for number in numbers):
            await self._stop(first_message_id)
        await self._wait_for_answers(numbers, first_message_id)
        newest = self.run.requests[numbers[-1]] if numbers else None
        if newest and newest.kind == "plain" and self._sees_answer(newest) and self.rng.random() < 0.15:
            self.person.edit(message, f"/deep plain {EDITED_NUMBERS + newest.number}")
            self.run.forbidden.add(f"B{EDITED_NUMBERS + newest.number}")

    def _write(self, kind: str, numbers: list[int]) -> PersonMessage:
        number = len(self.run.requests)
        message = self._send(kind, number)
        numbers.append(number)
        self.run.requests[number] = WrittenRequest(
            number,
            self.person.id,
            kind,
            message.update_id,
            time.time(),
            answer_words(kind, number),
            is_ordered=kind not in UNORDERED_KINDS,
        )
        if kind == "plain" and self.rng.random() < 0.15:
            self.person.edit(message, f"plain {number:05} now")
        if self.rng.random() < 0.03:
            self.run.environment.api.updates.repeat(message.update_id)
        return message

    def _send(self, kind: str, number: int) -> PersonMessage:
        person = self.person
        text = f"{kind} {number:05}"
        match kind:
            case "document":
                return person.send_document("facts.txt", caption=text, content=b"Water is wet.")
            case "photo":
                return person.send_photo(text, content=make_image())
            case "voice":
                return person.send_voice(content=text.encode())
            case "sticker":
                return person.send_sticker()
            case "video note":
                return person.send_video_note()
            case "command":
                return person.send(f"/c{number:05}")
            case "bare command":
                return self._command(self.rng.choice(BARE_COMMANDS))
            case "remind":
                return person.send(f"/remind in 1 minute tea R{number:05}")
        return person.send(text)

    def _command(self, text: str) -> PersonMessage:
        if text == "/new":  # which ends what runs
            self._expect_stop()
        return self.person.send(text)

    async def _stop(self, first_message_id: int) -> None:
        """Stop what runs in this chat once something is seen of it, or after a while."""
        await self._wait_for_change(partial(self._read_words, first_message_id), self.rng.uniform(0.0, 2.0))
        self._expect_stop()
        stoppable = [message for message in self._messages() if _find_data(message, STOP_BUTTON)]
        if stoppable and self.rng.random() < 0.5:
            self._tap(self.rng.choice(stoppable), STOP_BUTTON)
        else:
            self.person.send("/stop")

    def _expect_stop(self) -> None:
        """Note that what is not answered yet may end now."""
        for number, request in self.run.requests.items():
            is_open = request.is_ordered and not self._sees_answer(request)
            if request.chat == self.person.id and is_open:
                self.run.requests[number] = replace(request, may_be_stopped=True)
        self.run.stops.append((self.person.id, time.time()))

    async def _wait_for_answers(self, numbers: Sequence[int], first_message_id: int) -> None:
        """Wait for the answers, and answer what is asked meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        words = {
            word
            for request in map(self.run.requests.__getitem__, numbers)
            if request.words and not request.may_be_stopped
            for word in (request.words[0], request.words[-1])
        }
        observe = partial(self._observe, first_message_id)
        has_changed = True
        while has_changed and self._has_open(words, first_message_id):
            for message in self._messages():
                self._answer_question(message)
                if message.text == UNSURE_TEXT and self.rng.random() < 0.6:
                    self._send_again(message)
            if self._reads_apology(first_message_id):
                return
            has_changed = await self._wait_for_change(observe, deadline - time.monotonic())

    async def _wait_for_change(self, observe: Callable[[], object], seconds: float) -> bool:
        """Whether what is observed changes in time, or enough is written."""
        before = observe()
        deadline = time.monotonic() + seconds
        with self.run.environment.api.subscribe(self.person.id) as events:
            while observe() == before and time.monotonic() < deadline:
                if self.run.has_written_enough():
                    return True
                await _wait_for_event(events, min(LOOK_SECONDS, deadline - time.monotonic()))
        return observe() != before

    def _has_open(self, words: set[str], first_message_id: int) -> bool:
        """Whether an answer is still to come, and worth waiting for."""
        return not self.run.has_written_enough() and bool(words - self._read_words(first_message_id))

    def _observe(self, first_message_id: int) -> tuple[frozenset[str], int]:
        """The marks since a message, and how many buttons are offered."""
        button_count = sum(len(message.buttons) for message in self._messages())
        return self._read_words(first_message_id), button_count

    def _read_words(self, first_message_id: int) -> frozenset[str]:
        return frozenset(
            mark.word
            for message in self._messages()
            if message.message_id > first_message_id
            for mark in read_marks(message.text)
        )

    def _sees_answer(self, request: WrittenRequest) -> bool:
        return not request.words or request.words[-1] in self._read_words(0)

    def _reads_apology(self, first_message_id: int) -> bool:
        return any(
            apology in message.text
            for message in self._messages()
            if message.message_id > first_message_id
            for apology in APOLOGIES
        )

    def _messages(self) -> list[ChatMessage]:
        return self.run.environment.messages(self.person.id)

    def _answer_question(self, message: ChatMessage) -> None:
        """Allow or deny what is asked; again after a while, if the buttons are still there."""
        answers = next((pair for pair in ANSWERS if _find_data(message, pair[0])), None)
        if answers is None:
            return
        if time.monotonic() - self._tapped_at.get(message.message_id, 0.0) > TAP_AGAIN_SECONDS:
            self._tapped_at[message.message_id] = time.monotonic()
            self._tap(message, answers[0] if self.rng.random() < 0.8 else answers[1])

    def _send_again(self, message: ChatMessage) -> None:
        """Tap on the button once or twice."""
        if message.message_id in self._tapped_at:
            return
        self._tapped_at[message.message_id] = time.monotonic()
        for _ in range(self.rng.randint(1, 2)):
            self._tap(message, "Send again")

    def _tap(self, message: ChatMessage, button: str) -> None:
        data = _find_data(message, button)
        self.person.tap(message, button)
        self.run.taps.append(ButtonTap(self.person.id, message.text, button, data))


async def _wait_for_event(events: Subscription, seconds: float) -> None:
    """Wait until something happens in the chat, at most for so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await events.get()


def _find_data(message: ChatMessage, button: str) -> str:
    """The callback data of a button; empty if there is none."""
    return next((str(found["callback_data"]) for found in message.buttons if found["text"] == button), "")

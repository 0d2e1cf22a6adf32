"""What running tools ask the person of their turn: puts the question, takes the answer, closes the question.

The call waits in memory for its answer. If the gateway stops meanwhile, what the call did is unknown, as of
every call that ran then, and an answer that comes later finds no question.
"""

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass
from functools import partial

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import outbox
from bot.db.retry import retry_until_available
from bot.domain import Button, Lane, NotifyAdmins, Part
from bot.translations.translator import Translator, defer, translatable
from tools.base import QUESTION_SECONDS, ToolAnswer, ToolQuestion

DECLINE = translatable("Decline")
_MINUTES = round(QUESTION_SECONDS / 60)
_TYPED_HINT = translatable("Reply to this message within {minutes} minutes. /stop ends it.")
_TAPPED_HINT = translatable("I'll wait {minutes} minutes. /stop ends it.")


@dataclass(frozen=True, slots=True)
class _OpenQuestion:
    person: int
    question: ToolQuestion
    answer: asyncio.Future[ToolAnswer]


class ToolQuestions:
    """The questions that are open in this process, by the key in their buttons."""

    def __init__(self, database: Database, notify_admins: NotifyAdmins) -> None:
        self._database = database
        self._notify_admins = notify_admins
        self._open: dict[str, _OpenQuestion] = {}

    async def ask(self, lane: Lane, person: int, question: ToolQuestion) -> ToolAnswer:
        """Put a question to the person of a lane, and wait for the answer."""
        if question.refusal is not None:
            text = defer(
                "{tool} wanted to ask a person something, and I refused: {reason}.",
                tool=question.asker,
                reason=question.refusal,
            )
            await retry_until_available(partial(self._notify_admins, f"question of {question.asker}", text))
            return ToolAnswer()
        key = secrets.token_hex(6)
        answer: asyncio.Future[ToolAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = _OpenQuestion(person, question, answer)
        rows: list[int] = []
        translate = await retry_until_available(partial(self._find_translator, person))
        closing_line = translate("This question is no longer open.")
        try:
            rows = await retry_until_available(partial(self._put, lane, _render(translate, question, key)))
            given = await _wait(answer)
            closing_line = _describe(translate, given)
            return given
        finally:
            del self._open[key]
            await asyncio.shield(retry_until_available(partial(self._close, rows, closing_line)))

    def find_choice(self, key: str, choice: int | None, person: int) -> ToolAnswer | None:
        """The answer that a tap of a person is, on a choice or (None) on Decline; None if it is too late."""
        question = self.find_question(key, person)
        if question is None:
            return None
        if choice is None:
            return ToolAnswer(has_declined=True)
        if choice < len(question.choices):
            return ToolAnswer(question.choices[choice])
        return None

    def find_question(self, key: str, person: int) -> ToolQuestion | None:
        """A question to a person; None if it is not open."""
        asked = self._open.get(key)
        if asked is None or asked.person != person or asked.answer.done():
            return None
        return asked.question

    def answer(self, key: str, answer: ToolAnswer) -> None:
        """Take an answer; the first one counts."""
        asked = self._open.get(key)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(answer)

    async def _find_translator(self, person: int) -> Translator:
        async with self._database.read_transaction() as tx:
            return await people.find_translator(tx, person)

    async def _put(self, lane: Lane, part: Part) -> list[int]:
        async with self._database.transaction() as tx:
            rows = await outbox.add(tx, item=None, lane=lane, parts=(part,), now=time.time())
            await outbox.allow_repeat(tx, rows)
            return rows

    async def _close(self, rows: list[int], line: str) -> None:
        """Replace the buttons of a question by what came of it."""
        async with self._database.transaction() as tx:
            await outbox.close_buttons(tx, rows, line)


async def _wait(answer: asyncio.Future[ToolAnswer]) -> ToolAnswer:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUESTION_SECONDS):
            return await answer
    return ToolAnswer()


def _describe(translate: Translator, answer: ToolAnswer) -> str:
    if answer.has_declined:
        return translate("Declined.")
    if answer.text is None:
        return translate("Nobody answered in time.")
    return translate("Answered: {answer}", answer=answer.text)


def _render(translate: Translator, question: ToolQuestion, key: str) -> Part:
    hint = translate(_TYPED_HINT if question.takes_reply else _TAPPED_HINT, minutes=_MINUTES)
    text = translate("❓ {tool} asks: {question}", tool=question.asker, question=question.text)
    buttons = [(Button(choice, f"answer:{key}:{n}"),) for n, choice in enumerate(question.choices)]
    decline = Button(translate(DECLINE), f"answer:{key}:no")
    return Part(f"{text}\n\n{hint}", buttons=(*buttons, (decline,)))

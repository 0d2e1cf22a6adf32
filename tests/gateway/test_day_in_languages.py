"""A day of people who read German, Russian and Brazilian Portuguese: each is told all in their language, and
their times are set as they said them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from babel.dates import format_skeleton

from bot.sim.telegram.chats import ChatMessage
from bot.translations.translator import Translator, load_translator
from tests.support.attachment_files import make_locked_pdf, make_pdf
from tests.support.gateway import GatewayHarness, is_being_written, running_gateway
from tests.support.telegram.server import ScriptedPerson
from tests.translations import catalogues

MIN_ENGLISH_WORDS = 3  # fewer may be a name, or a word that languages share


@dataclass(frozen=True)
class Habits:
    """What somebody writes; `*_text` is what a reminder then says."""

    name: str
    hello: str
    first: str
    first_text: str
    where: str
    zone: str
    nowhere: str
    monthly: str
    fortnightly: str
    soon: str
    unclear: str
    no_such_date: str
    no_date: str
    twice: str
    when: str
    decimal: str
    """The seconds that an answer took, as a pattern."""


HABITS = {
    "de": Habits(
        name="Greta",
        hello="Hallo, wer bist du?",
        first="/remind morgen um halb neun Mülltonne rausstellen",
        first_text="Mülltonne rausstellen",
        where="ich bin in Köln",
        zone="Europe/Berlin",
        nowhere="/zone Entenhausen",
        monthly="/remind jeden ersten Montag im Monat um 10 Uhr Blumen gießen",
        fortnightly="/remind alle zwei Wochen donnerstags um 18 Uhr Altpapier",
        soon="/remind in anderthalb Stunden Kuchen herausholen",
        unclear="/remind irgendwann den Keller aufräumen",
        no_such_date="/remind am 31. Februar um 9 feiern",
        no_date="31. Februar",
        twice="/remind morgen um 9 und um 12 Tabletten",
        when="morgen um 14 Uhr",
        decimal=r"\d,\d Sek\.",
    ),
    "ru": Habits(
        name="Ольга",
        hello="Здравствуйте!",
        first="/remind завтра в половине девятого вынести мусор",
        first_text="вынести мусор",
        where="я в Казани",
        zone="Europe/Moscow",
        nowhere="/zone Простоквашино",
        monthly="/remind каждый первый понедельник месяца в 10 полить цветы",
        fortnightly="/remind раз в две недели по четвергам в 18:00 сдать макулатуру",
        soon="/remind через полтора часа достать пирог",
        unclear="/remind когда-нибудь разобрать кладовку",
        no_such_date="/remind 31 февраля в 9 праздновать",
        no_date="31 февраля",
        twice="/remind завтра в 9 и в 12 таблетки",
        when="завтра в 14:00",
        decimal=r"\d,\d\sс",
    ),
    "pt": Habits(
        name="João",
        hello="Oi, quem é você?",
        first="/remind amanhã às oito e meia colocar o lixo para fora",
        first_text="colocar o lixo para fora",
        where="estou em Recife",
        zone="America/Recife",
        nowhere="/zone Patópolis",
        monthly="/remind toda primeira segunda do mês às 10 regar as plantas",
        fortnightly="/remind a cada duas semanas na quinta às 18h levar o papel",
        soon="/remind daqui a uma hora e meia tirar o bolo do forno",
        unclear="/remind qualquer dia arrumar o porão",
        no_such_date="/remind 31 de fevereiro às 9 festejar",
        no_date="31 de fevereiro",
        twice="/remind amanhã às 9 e às 12 comprimidos",
        when="amanhã às 14h",
        decimal=r"\d,\d s",
    ),
}


@dataclass
class LanguageDay:
    """The gateway, Ann who owns it, and somebody with these habits."""

    gateway: GatewayHarness
    language: str
    habits: Habits
    person: ScriptedPerson
    said_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When they last said something."""

    @property
    def translate(self) -> Translator:
        return load_translator(self.language)

    async def say(self, text: str, count: int = 1) -> list[ChatMessage]:
        """Send a message, and return what the bot writes below it once that is `count` whole messages."""
        self.said_at = datetime.now(UTC)
        return await self.wait_for_answers(self.person.send(text).message_id, count)

    async def wait_for_answers(self, after: int, count: int = 1) -> list[ChatMessage]:
        def find_answers() -> list[ChatMessage] | None:
            answers = [message for message in self.person.chat.bot_messages if message.message_id > after]
            is_whole = not any(map(is_being_written, answers))
            return answers if len(answers) >= count and is_whole else None

        answers = await self.gateway.api.wait_until(find_answers)
        assert answers is not None
        return answers

    async def set_limit(self, limit: str) -> None:
        """Let Ann set how many canvases the person has a day."""
        chat = self.gateway.ann.chat
        written = self.gateway.ann.send(f"/limits {self.person.id} {limit}").message_id
        await self.gateway.api.wait_until(lambda: chat.bot_messages[-1].message_id > written)

    def shows(self, text: str, time: str, find_day: Callable[[datetime], date]) -> bool:
        """Tell whether a text names this time, and with its weekday the day that is found from now on.

        Now is a moment where the person is; it may have been in an earlier day that they said something.
        """
        zone = ZoneInfo(self.habits.zone)
        moments = [moment.astimezone(zone) for moment in (self.said_at, datetime.now(UTC))]
        return time in text and any(self._name(find_day(moment)) in plain(text) for moment in moments)

    def _name(self, day: date) -> str:
        return plain(
            format_skeleton("yMMMEd", day, locale="pt_BR" if self.language == "pt" else self.language)
        )


def plain(text: str) -> str:
    return " ".join(text.split())


@cache
def list_english(language: str) -> list[str]:
    """What English texts say between their values, as far as it differs in this language."""
    return sorted(set(_iterate_english(language)))


def _iterate_english(language: str) -> Iterator[str]:
    for message in catalogues.iterate_messages(catalogues.read_catalogue(language)):
        translations = " ".join(catalogues.get_translations(message))
        for text in catalogues.get_texts(message):
            for piece in re.split(r"\{\w+\}|`[^`]*`|\n", text):
                words = re.findall(r"[A-Za-z']+", piece)
                if len(words) >= MIN_ENGLISH_WORDS and piece.strip() not in translations:
                    yield piece.strip()


@pytest.mark.parametrize("language", HABITS)
def test_english_of_each_text_would_be_noticed(language: str):
    assert len(list_english(language)) > 600


async def test_a_day_is_lived_in_each_language(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off", time_zone="Etc/UTC") as gateway:
        gateway.ann.send("/start")
        await gateway.wait_for_texts()
        for number, (language, habits) in enumerate(HABITS.items(), start=21):
            person = gateway.api.person(number, habits.name, language=language)
            day = LanguageDay(gateway, language, habits, person)
            await come_in(day)
            await set_reminders(day)
            await say_times_that_are_unclear(day)
            await send_documents(day)
            await be_asked_after_reading(day)
            await stop_and_start_anew(day)
            await meet_errors_and_limits(day)
            await look_around(day)
            check_language(day)


async def come_in(day: LanguageDay) -> None:
    """Who is let in is greeted with examples."""
    [line] = await day.say(day.habits.hello)
    ann = day.gateway.ann
    card = await day.gateway.api.wait_until(
        lambda: next((sent for sent in ann.chat.bot_messages[::-1] if len(sent.buttons) == 2), None)
    )
    assert card is not None
    ann.tap(card, "Give access")
    [greeting] = await day.wait_for_answers(line.message_id)
    assert day.habits.name in greeting.text
    assert len(greeting.buttons) == 3


async def set_reminders(day: LanguageDay) -> None:
    """The zone is asked for once, a city in a sentence answers it, and each time is set as it was said."""
    habits = day.habits
    await day.say(habits.first)
    zone, confirmation = sorted(await day.say(habits.where, 2), key=lambda sent: len(sent.buttons))
    assert habits.zone in zone.text
    assert habits.first_text in confirmation.text
    assert day.shows(confirmation.text, "08:30", find_tomorrow)
    [monthly] = await day.say(habits.monthly)
    assert day.shows(monthly.text, "10:00", find_later_first_monday)
    [fortnightly] = await day.say(habits.fortnightly)
    assert day.shows(fortnightly.text, "18:00", find_later_thursday)
    [soon] = await day.say(habits.soon)
    due = day.said_at.astimezone(ZoneInfo(habits.zone)) + timedelta(minutes=90)
    minutes = 1 + int((datetime.now(UTC) - day.said_at).total_seconds() / 60)
    assert any(f"{due + timedelta(minutes=late):%H:%M}" in soon.text for late in range(minutes + 1))
    await day.say(habits.nowhere)
    [jobs] = await day.say("/jobs")
    assert len(jobs.buttons) == 4
    day.person.tap(jobs, "1")
    await day.gateway.api.wait_until(lambda: len(jobs.buttons) == 5 and "1" not in jobs.buttons[0]["text"])


def find_tomorrow(now: datetime) -> date:
    return now.date() + timedelta(days=1)


def find_later_first_monday(now: datetime) -> date:
    """The last first Monday of a month within seventy days."""
    days = [now.date() + timedelta(days=number) for number in range(70)]
    return [day for day in days if day.weekday() == 0 and day.day <= 7][-1]


def find_later_thursday(now: datetime) -> date:
    """Two weeks after the next Thursday at 18:00, which may be today."""
    days_until = (3 - now.weekday()) % 7
    if days_until == 0 and now.hour >= 18:
        days_until = 7
    return now.date() + timedelta(days=days_until + 14)


async def say_times_that_are_unclear(day: LanguageDay) -> None:
    """What is wrong with a time is said with examples, and with the person's own words."""
    for line in (day.habits.unclear, day.habits.twice, "/remind"):
        await day.say(line)
    [refusal] = await day.say(day.habits.no_such_date)
    assert day.habits.no_date in refusal.text


async def send_documents(day: LanguageDay) -> None:
    """What could not be read, or only in part, is told."""
    sent = day.person.send_document("a.pdf", content=make_locked_pdf(["x"], "y"))
    [answer] = await day.wait_for_answers(sent.message_id)
    assert day.translate("it is locked with a password") in answer.text
    sent = day.person.send_document("b.pdf", caption="@@say:¡!@@", content=make_pdf(["word " * 900] * 12))
    await day.wait_for_answers(sent.message_id)


async def be_asked_after_reading(day: LanguageDay) -> None:
    """After a document, a reminder is put as a question: with the day written out, and no escapes."""
    call = f'@@tool:schedule {{"when": "{day.habits.when}", "text": "…"}}@@@@say:¡!@@'
    [question] = await day.say(call)
    assert day.shows(question.text, "14:00", find_tomorrow)
    assert "\\u" not in question.text
    day.person.tap(question, day.translate("Yes"))
    await day.wait_for_answers(question.message_id, 2)
    await day.say("/approvals")


async def stop_and_start_anew(day: LanguageDay) -> None:
    await day.say("/stop")
    endpoint = day.gateway.endpoint
    endpoint.hold()
    sent = day.person.send("@@say:¡!@@")
    await endpoint.wait_until(lambda: endpoint.running == 1)
    day.person.send("/stop")
    await day.wait_for_answers(sent.message_id)
    endpoint.release()
    await day.say("/new")
    await day.say("/notes")


async def meet_errors_and_limits(day: LanguageDay) -> None:
    """Who waits for a model that is away, or has used all up, is told in numbers of their language."""
    day.gateway.endpoint.inject_fault("busy", times=None)
    sent = day.person.send("@@say:¡!@@")
    waiting = await day.gateway.api.wait_until(
        lambda: [answer for answer in day.person.chat.bot_messages if answer.message_id > sent.message_id]
    )
    assert "10" in waiting[0].text
    day.gateway.endpoint.heal()
    await day.wait_for_answers(sent.message_id)
    await day.set_limit("1")
    answers = [(await day.say("@@say:¡!@@"))[-1].text for _ in range(2)]  # a new day may have begun meanwhile
    assert "/retry" in answers[-1]
    await day.set_limit("none")


async def look_around(day: LanguageDay) -> None:
    [usage] = await day.say("/usage")
    assert re.search(day.habits.decimal, usage.text)
    [menu] = await day.say("/language")
    assert day.translate({"de": "German", "ru": "Russian", "pt": "Portuguese"}[day.language]) in menu.text
    for command in ("/help", "/start", "/zone", "/context", "/limits", "/think", "/find …", "/instructions"):
        await day.say(command)
    for command in ("/xyz", "/people", "/deep …", "/id", "/forget"):
        await day.say(command)


def check_language(day: LanguageDay) -> None:
    """No text and no button is English, and no number is written as in English."""
    for message in day.person.chat.bot_messages:
        words = "\n".join([message.text, *(button["text"] for button in message.buttons)])
        assert [piece for piece in list_english(day.language) if piece in words] == []
        assert not re.search(r"\d\.\d+ ?(?:s|с|h|k|MB|Sek|Min)\b|\d[ap]m\b|Etc/", words), words

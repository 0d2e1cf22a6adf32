"""A day of a family with one gateway: what each of them sees, in the language of each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bot.sim.telegram.chats import ChatMessage
from bot.translations.translator import load_translator
from tests.support.attachment_files import make_locked_pdf
from tests.support.cache_warmup import wait_until
from tests.support.gateway import GatewayHarness, is_being_written, long_story, running_gateway
from tests.support.telegram.server import ScriptedPerson

MIA = 8
STAN = 9
FAMILY = -100
T = TypeVar("T")
GERMAN = load_translator("de")


@dataclass
class FamilyDay:
    """The gateway, Ann who owns it, her daughter Mia who reads German, and Stan whom nobody knows."""

    gateway: GatewayHarness

    def __post_init__(self) -> None:
        self.ann = self.gateway.ann
        self.mia = self.gateway.api.person(MIA, "Mia", language="de")
        self.stan = self.gateway.api.person(STAN, "Stan")

    async def say(self, person: ScriptedPerson, text: str, count: int = 1) -> list[ChatMessage]:
        """Send a message, and return what the bot writes below it once that is `count` whole messages."""
        return await self.wait_for_answers(person, person.send(text).message_id, count)

    async def wait_for_answers(self, person: ScriptedPerson, after: int, count: int = 1) -> list[ChatMessage]:
        def find_answers() -> list[ChatMessage] | None:
            answers = [message for message in person.chat.bot_messages if message.message_id > after]
            is_whole = not any(map(is_being_written, answers))
            return answers if len(answers) >= count and is_whole else None

        answers = await self.wait_until(find_answers)
        assert answers is not None
        return answers

    async def wait_until(self, predicate: Callable[[], T]) -> T:
        return await self.gateway.api.wait_until(predicate)


async def test_a_day_of_a_family(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        day = FamilyDay(gateway)
        await come_in(day)
        await find_out_what_it_does(day)
        await set_a_reminder(day)
        await write_while_it_is_busy(day)
        await send_a_file_that_is_locked(day)
        await ask_for_a_long_text(day)
        await ask_while_the_model_is_away(day)
        await block_it_for_a_while(day)
        await look_at_what_was_used(day)
        await add_it_to_a_group(day)
        await leave_nothing_behind(day)


async def come_in(day: FamilyDay) -> None:
    """A stranger gets a code, the owner a card; who is let in is greeted, who is blocked hears nothing."""
    [welcome] = await day.say(day.ann, "/start")
    [line] = await day.say(day.mia, "Hallo!")
    [card] = await day.wait_for_answers(day.ann, welcome.message_id)
    code = card.text.rpartition(" ")[2].rstrip(".")
    assert card.text == f"“Mia” ({MIA}) asks for access, with the code {code}."
    assert line.text == GERMAN(
        "This is a private bot. To get access, give an admin this code: {code} (valid for an hour).",
        code=code,
    )
    day.ann.tap(card, "Give access")
    [greeting] = await day.wait_for_answers(day.mia, line.message_id)
    assert len(greeting.buttons) == 3
    await day.say(day.stan, "Hi")
    [card] = await day.wait_for_answers(day.ann, card.message_id)
    day.ann.tap(card, "Block")
    await day.wait_until(lambda: card.text == "Stan is blocked.")
    day.stan.send("Hello?")
    [people] = await day.say(day.ann, "/people")
    rows = [[button["text"] for button in row] for row in people.raw["reply_markup"]["inline_keyboard"]]
    assert rows == [["Remove Mia", "Block Mia"], ["Unblock Stan"]]
    assert len(day.stan.chat.bot_messages) == 1


async def find_out_what_it_does(day: FamilyDay) -> None:
    """/help is in one's own language, and what can be written is copied by a tap."""
    [text] = await day.say(day.mia, "/help")
    units = text.text.encode("utf-16-le")
    codes = [
        units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
        for entity in text.entities
        if entity["type"] == "code"
    ]
    assert any(code.startswith("/remind ") for code in codes)
    assert "canvas" not in text.text.lower()
    [text] = await day.say(day.mia, "/language klingon")
    assert text.text == GERMAN("I don't know this language yet. Choose one of these:")


async def set_a_reminder(day: FamilyDay) -> None:
    """The zone is asked once, then the reminder is set by itself, and the model's clock goes by it."""
    [question] = await day.say(day.mia, "/remind morgen um 8 Zahnarzt")
    assert "/zone" in question.text
    [refusal] = await day.say(day.mia, "/zone Entenhausen")
    assert "Entenhausen" in refusal.text
    zone, confirmation = sorted(
        await day.say(day.mia, "/zone München", 2), key=lambda sent: len(sent.buttons)
    )
    assert "Europe/Berlin" in zone.text
    assert "Zahnarzt" in confirmation.text
    assert "08:00 (Europe/Berlin)" in confirmation.text
    await day.say(day.mia, "@@tool:clock {}@@@@say:Spät.@@")
    assert "in Europe/Berlin (UTC+0" in day.gateway.endpoint.requests[-1].prompt


async def write_while_it_is_busy(day: FamilyDay) -> None:
    """What waits is seen, answered together below the last of it, and the eyes leave with the answer."""
    endpoint = day.gateway.endpoint
    endpoint.hold()
    first = day.mia.send("@@say:erstens@@")
    await endpoint.wait_until(lambda: endpoint.running == 1)
    waiting = [day.mia.send(text) for text in ("und", "noch", "@@say:zweitens@@")]
    await day.wait_until(lambda: has_eyes(day.mia, waiting[0].message_id))
    endpoint.release()
    answers = await day.wait_for_answers(day.mia, first.message_id, 2)
    assert [answer.text for answer in answers] == ["erstens", "zweitens"]
    assert answers[1].raw["reply_to_message"]["message_id"] == waiting[-1].message_id
    await day.wait_until(lambda: not any(has_eyes(day.mia, sent.message_id) for sent in waiting))


def has_eyes(person: ScriptedPerson, message_id: int) -> bool:
    message = person.chat.find_message(message_id)
    return message is not None and bool(message.reactions)


async def send_a_file_that_is_locked(day: FamilyDay) -> None:
    """Who asks about a file reads that it could not be read, not an invented answer alone."""
    content = make_locked_pdf(["Rent: 900"], "secret")
    sent = day.mia.send_document("rent.pdf", caption="@@say:Keine Ahnung.@@", content=content)
    [answer] = await day.wait_for_answers(day.mia, sent.message_id)
    note, _, words = answer.text.rpartition("\n\n")
    assert words == "Keine Ahnung."
    assert note.startswith("(")


async def ask_for_a_long_text(day: FamilyDay) -> None:
    """A long answer comes in parts, of which only the first makes a sound."""
    parts = await day.say(day.mia, long_story(), 2)
    assert [part.silent for part in parts] == [False, True]
    day.mia.tap(parts[1], GERMAN("Continue"))
    await day.wait_for_answers(day.mia, parts[1].message_id)


async def ask_while_the_model_is_away(day: FamilyDay) -> None:
    """Who asked reads that it is tried again, the owner hears of it, and the answer comes by itself."""
    day.gateway.endpoint.inject_fault("busy", times=None)
    sent = day.mia.send("@@say:Da bin ich.@@")
    known = len(day.ann.chat.bot_messages)
    await day.wait_until(lambda: len(day.ann.chat.bot_messages) > known)
    day.gateway.endpoint.heal()
    await day.wait_until(lambda: day.mia.chat.bot_messages[-1].text == "Da bin ich.")
    [answer] = await day.wait_for_answers(day.mia, sent.message_id)
    assert answer.text == "Da bin ich."


async def block_it_for_a_while(day: FamilyDay) -> None:
    """Who blocks the bot is left alone, nobody is alarmed, and the next message is answered."""
    notices = len(day.ann.chat.bot_messages)
    endpoint = day.gateway.endpoint
    endpoint.hold()
    day.mia.send("@@say:ungelesen@@")
    await endpoint.wait_until(lambda: endpoint.running == 1)
    day.mia.block()
    endpoint.release()
    await wait_until(
        lambda: any(call.outcome == "refused" for call in day.gateway.api.calls_of("sendMessage", MIA))
    )
    day.mia.unblock()
    sent = day.mia.send("@@say:wieder da@@")
    await day.wait_until(lambda: day.mia.chat.bot_messages[-1].text == "wieder da")
    assert (await day.wait_for_answers(day.mia, sent.message_id))[-1].text == "wieder da"
    assert not any("Mia" in message.text for message in day.ann.chat.bot_messages[notices:])


async def look_at_what_was_used(day: FamilyDay) -> None:
    """A member reads answers and seconds, the owner what everybody took, by name."""
    [figures] = await day.say(day.mia, "/usage")
    assert "canvas" not in figures.text.lower()
    assert " Sek." in figures.text
    [changed] = await day.say(day.ann, "/limits Mia none")
    assert changed.text == f"Mia · {MIA}: no limit."
    [limit] = await day.say(day.mia, "/limits")
    assert limit.text == GERMAN("You don't have a daily limit.")
    [ranking] = await day.say(day.ann, "/usage all")
    assert "1. Mia: " in ranking.text


async def add_it_to_a_group(day: FamilyDay) -> None:
    """A group into which an admin brings it reads how to ask it something, and is answered."""
    group = day.gateway.api.add_group(FAMILY, "Family", owner=day.ann)
    chat = day.gateway.api.chat(FAMILY)
    await day.wait_until(lambda: chat.bot_messages)
    assert chat.bot_messages[0].text.startswith("Hello! To ask me something, reply to a message of mine")
    day.ann.send("/ask @@say:Here I am.@@", thread=group)
    await day.wait_until(lambda: "Here I am." in chat.bot_messages[-1].text)


async def leave_nothing_behind(day: FamilyDay) -> None:
    """/forget says what goes and what stays, asks, and is done within seconds."""
    [question] = await day.say(day.mia, "/forget")
    assert len(question.buttons) == 2
    day.mia.tap(question, question.buttons[0]["text"])
    [done] = await day.wait_for_answers(day.mia, question.message_id)
    assert done.text == GERMAN("Done. I kept only the statistics and settings listed above.")

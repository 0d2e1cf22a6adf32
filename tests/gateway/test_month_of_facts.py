"""A month of conversations in six languages: what was said in each is found after /new, with its date."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from bot.db.engine import open_database
from bot.db.tables import messages, turns
from bot.sim.vllm.script import ChatRequest, format_tool_call, message_text
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, running_gateway

# What is said, and what is asked later.
FACTS = (
    ("The plumber who mended our boiler is called Rossi.", "name of the plumber"),
    ("I parked the van on level four of the north garage.", "where is the van parked?"),
    ("We chose the green tiles for the bathroom floor.", "which tiles did we choose for the bathroom"),
    ("Unser Mietvertrag läuft bis Ende März.", "bis wann läuft der Mietvertrag"),
    ("Der Ersatzschlüssel liegt unter dem blauen Blumentopf.", "wo liegt der Ersatzschlüssel"),
    ("Das Passwort vom Gästenetz heißt Seerose.", "Passwort für das Gästenetz"),
    ("El dentista me cambió la cita al quince de junio.", "cuándo es la cita del dentista"),
    ("La bicicleta roja la tiene mi prima Lucía.", "quién tiene la bicicleta"),
    ("Guardé los pasaportes en la caja fuerte.", "dónde guardé los pasaportes"),
    ("Nous avons réservé le gîte à Quimper.", "où est le gîte réservé"),
    ("Le code du portail est 2580.", "code du portail"),
    ("Le voisin nous a prêté sa perceuse.", "qui a prêté la perceuse"),
    ("Кошку зовут Марфа, ей семь лет.", "кошку зовут"),
    ("Я оставил зонт в библиотеке на Невском.", "зонт остался в библиотеке"),
    ("Рецепт борща дала мне тётя Зина.", "рецепт борща"),
    ("妈妈的生日礼物藏在书架后面。", "生日礼物藏在哪里"),
    ("下个月的房租要付给王先生。", "房租付给谁"),
    ("医生说我对青霉素过敏。", "我对什么过敏"),
)
FIRST_DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def look_back_and_tell(request: ChatRequest) -> str:
    """A model that looks questions up, and answers with the first passage."""
    results = [message for message in request.round_messages if message["role"] == "tool"]
    if results:
        first = message_text(results[-1]).strip().splitlines()[1]
        return re.sub(r"\[[^]]* UTC\] ", "", first)  # without the time that stands in front of some
    _, is_question, words = request.user_texts[-1].partition("Look up: ")
    return format_tool_call("look_back", {"words": words}) if is_question else "Noted."


async def say(gateway: GatewayHarness, text: str) -> str:
    gateway.ann.send(text)
    count = len(gateway.texts())
    answer = (await gateway.wait_for_texts(count + 1))[count]
    await gateway.api.wait_until(gateway.is_finished)
    return answer


async def spread_over_a_month(gateway: GatewayHarness) -> None:
    """Date each conversation a day after the one before."""
    async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
        for number, turn in enumerate((await tx.execute(select(turns.c.id).order_by(turns.c.id))).scalars()):
            said_at = (FIRST_DAY + timedelta(days=number)).timestamp()
            await tx.execute(update(messages).where(messages.c.turn == turn).values(made_at=said_at))


async def test_each_fact_of_a_month_is_answered_from_with_its_date_after_three_new(tmp_path: Path):
    endpoint = ScriptedEndpoint(brain=look_back_and_tell)
    async with running_gateway(tmp_path, endpoint, thinking="off") as gateway:
        for fact, _ in FACTS:
            assert await say(gateway, fact) == "Noted."
            await say(gateway, "/new")
        await say(gateway, "/new")
        await say(gateway, "/new")
        await spread_over_a_month(gateway)
        answers = [await say(gateway, f"Look up: {question}") for _, question in FACTS]
    days = [(FIRST_DAY + timedelta(days=number)).date() for number in range(len(FACTS))]
    expected = [f"{day}, the user: {fact}" for day, (fact, _) in zip(days, FACTS, strict=True)]
    assert answers == expected

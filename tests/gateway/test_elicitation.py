"""An MCP server asks in the middle of a call: buttons and replies in the chat, /stop, refusals, due tasks."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from bot.http_server import serve
from bot.sim.telegram.chats import ChatMessage
from tests.gateway.test_schedules import add_due_job
from tests.support.asking_mcp_server import AskingMcpServer, ask_form
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway

SEATS = {"type": "integer", "title": "Seats"}
MEAL = {"type": "string", "title": "Meal", "enum": ["Pasta", "Soup"]}
USE_IT = "@@tool:rail_book {}@@ @@say:That is all.@@"


def run_gateway(tmp_path: Path, **more: Any) -> AbstractAsyncContextManager[GatewayHarness]:
    settings = {"tools_private_hosts": "127.0.0.1", "thinking": "off", "access": "open", **more}
    return running_gateway(tmp_path, **settings)


async def say(gateway: GatewayHarness, text: str, expected: str) -> None:
    """Send a message as the admin, and wait for a new message of the bot with these words."""
    person = gateway.ann
    before = len(gateway.texts())
    person.send(text)
    await wait_for(gateway, expected, before)


async def wait_for(gateway: GatewayHarness, expected: str, before: int = 0) -> ChatMessage:
    def find() -> list[ChatMessage]:
        messages = gateway.api.chat(ADMIN).bot_messages[before:]
        return [message for message in messages if expected in message.text]

    await gateway.api.wait_until(lambda: bool(find()))
    return find()[-1]


async def add_server(gateway: GatewayHarness, url: str) -> None:
    await say(gateway, f"/tools add mcp {url}/mcp rail", "Added, for admins")
    await say(gateway, "/new", "New conversation.")


async def test_a_person_answers_by_buttons_and_by_replying_while_no_seat_is_held(tmp_path: Path) -> None:
    server = AskingMcpServer(ask_form("Which seat?", seats=SEATS, meal=MEAL))
    async with serve(server.app) as url, run_gateway(tmp_path, model_seats=1) as gateway:
        await add_server(gateway, url)
        gateway.ann.send(USE_IT)
        question = await wait_for(gateway, "❓ rail asks: Which seat?\nSeats?")
        gateway.api.person(8, "Bob").send("@@say:Bob is served.@@")
        await gateway.api.wait_until(lambda: "Bob is served." in gateway.texts(8))
        gateway.ann.send("2", reply_to=question)
        question = await wait_for(gateway, "Meal?")
        gateway.ann.tap(question, "Soup")
        await wait_for(gateway, "That is all.")
        await wait_for(gateway, "Answered: Soup")
        assert server.answers[0]["content"] == {"seats": 2, "meal": "Soup"}
        assert '"seats": 2' in gateway.endpoint.requests[-1].prompt


async def test_a_reply_answers_the_question_that_it_replies_to(tmp_path: Path) -> None:
    cook = AskingMcpServer(ask_form("Which meal?", meal=MEAL))
    rail = AskingMcpServer(ask_form("Which seat?", seats=SEATS))
    async with serve(cook.app) as cook_url, serve(rail.app) as rail_url, run_gateway(tmp_path) as gateway:
        await say(gateway, f"/tools add mcp {cook_url}/mcp cook", "Added, for admins")
        await add_server(gateway, rail_url)
        gateway.ann.send('@@tools:[{"name":"cook_book"},{"name":"rail_book"}]@@@@say:That is all.@@')
        meal_question = await wait_for(gateway, "Which meal?")
        seat_question = await wait_for(gateway, "Which seat?")
        gateway.ann.send("Soup", reply_to=meal_question)
        await wait_for(gateway, "Please tap one of the buttons.")
        gateway.ann.send("7", reply_to=seat_question)
        await wait_for(gateway, "Answered: 7")
        gateway.ann.tap(meal_question, "Soup")
        await wait_for(gateway, "That is all.")
        contents = [answer["content"] for answer in (*cook.answers, *rail.answers)]
        assert contents == [{"meal": "Soup"}, {"seats": 7}]


async def test_an_optional_question_is_answered_by_a_reply_or_left_out(tmp_path: Path) -> None:
    server = AskingMcpServer(ask_form("Which seat?", [], seats=SEATS, rows=SEATS))
    async with serve(server.app) as url, run_gateway(tmp_path) as gateway:
        await add_server(gateway, url)
        gateway.ann.send(USE_IT)
        question = await wait_for(gateway, "Reply to this message within 2 minutes.")
        before = len(gateway.texts())
        gateway.ann.send("42", reply_to=question)
        gateway.ann.tap(await wait_for(gateway, "Seats?", before), "Leave it out")
        await wait_for(gateway, "That is all.")
        assert server.answers[0]["content"] == {"seats": 42}


async def test_a_reply_to_an_answer_that_looks_like_a_question_is_a_message(tmp_path: Path) -> None:
    async with run_gateway(tmp_path) as gateway:
        await say(gateway, "@@say:❓ rail asks: Which row?@@", "❓ rail asks: Which row?")
        answer = await wait_for(gateway, "❓ rail asks")
        gateway.ann.send("@@say:I have read it.@@", reply_to=answer)
        await wait_for(gateway, "I have read it.")


async def test_a_question_is_declined_or_ends_with_a_stop(tmp_path: Path) -> None:
    server = AskingMcpServer(ask_form("Which meal?", meal=MEAL))
    async with serve(server.app) as url, run_gateway(tmp_path) as gateway:
        await add_server(gateway, url)
        gateway.ann.send(USE_IT)
        gateway.ann.tap(await wait_for(gateway, "Which meal?"), "Decline")
        await wait_for(gateway, "That is all.")
        await wait_for(gateway, "Declined.")
        assert [answer["action"] for answer in server.answers] == ["decline"]

        server.answers.clear()
        before = len(gateway.texts())
        gateway.ann.send(USE_IT)
        question = await wait_for(gateway, "Which meal?", before)
        gateway.ann.send("/stop")
        await wait_for(gateway, "This question is no longer open.", before)
        await server.cancelled.wait()
        await gateway.api.wait_until(gateway.is_finished)
        assert not question.buttons


async def test_a_server_that_asks_for_a_password_is_refused_and_reported(tmp_path: Path) -> None:
    server = AskingMcpServer(ask_form("Log in, please.", password={"type": "string"}))
    async with serve(server.app) as url, run_gateway(tmp_path) as gateway:
        await add_server(gateway, url)
        await say(gateway, USE_IT, "That is all.")
        await wait_for(
            gateway, "rail wanted to ask a person something, and I refused: it asked for what looks"
        )
        assert not [text for text in gateway.texts() if "Log in" in text]
    assert [answer["action"] for answer in server.answers] == ["cancel"]


async def test_where_nobody_waits_a_question_is_declined(tmp_path: Path) -> None:
    server = AskingMcpServer(ask_form("Which meal?", meal=MEAL))
    async with serve(server.app) as url, run_gateway(tmp_path) as gateway:
        await add_server(gateway, url)
        await say(gateway, "/tools try rail_book", "ok after")
        assert [answer["action"] for answer in server.answers] == ["decline"]
        server.answers.clear()
        await add_due_job(gateway, USE_IT, rule=None)
        await wait_for(gateway, "That is all.")
        assert "asks:" not in "".join(gateway.texts())
    assert [answer["action"] for answer in server.answers] == ["decline"]

"""What servers ask in the middle of a call: as questions to a person, with answers that fit, and refused."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bot.http_server import serve
from tests.support.asking_mcp_server import AskingMcpServer, ask_form, ask_link
from tests.support.mcp_session import call_tool, running_server
from tools.base import ToolAnswer, ToolError, ToolQuestion
from tools.mcp.elicitation import MAX_QUESTIONS, SKIP, ElicitAnswer, Elicitation
from tools.mcp.location import ServerUrl
from tools.net.policy import NetworkPolicy

SEATS = {"type": "integer", "title": "Seats", "description": "How many", "minimum": 1, "maximum": 9}
WINDOW = {"type": "boolean", "title": "At the window"}
MEAL = {"type": "string", "enum": ["a", "b"], "enumNames": ["Pasta", "Soup"]}
PASSWORD = {"type": "string", "title": "Your password"}


class Person:
    """Answers questions in order: a text, or None to decline; then nobody does."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.questions: list[ToolQuestion] = []

    async def __call__(self, question: ToolQuestion) -> ToolAnswer:
        self.questions.append(question)
        if question.refusal or not self.answers:
            return ToolAnswer()
        text = self.answers.pop(0)
        return ToolAnswer(text, has_declined=text is None)

    @property
    def refusals(self) -> list[str]:
        return [question.refusal for question in self.questions if question.refusal]


async def book(
    server: AskingMcpServer, ask: Callable[[ToolQuestion], Awaitable[ToolAnswer]] | None, **more: Any
) -> Any:
    """Call the tool, and return what the server was answered."""
    async with serve(server.app) as url:
        location = ServerUrl(f"{url}/mcp", private=frozenset({"127.0.0.1"}), **more)
        async with running_server(location, name="rail") as (client, _):
            try:
                result = await call_tool(client, "book", {}, None, ask)
            except ToolError as error:
                return str(error)
    return json.loads(result.text)


async def answer_form(person: Person, question: dict[str, Any]) -> ElicitAnswer:
    elicitation = Elicitation("rail", person, NetworkPolicy())
    return await elicitation.answer_form(question["message"], question["requestedSchema"])


@pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
async def test_a_form_is_asked_field_by_field_and_its_answers_have_their_types(modern: bool):
    form = ask_form("Which seat?", ["seats", "meal"], seats=SEATS, window=WINDOW, meal=MEAL)
    server = AskingMcpServer(form, ask_form("Book it?"), modern=modern)
    person = Person("many", "12", "3", "No", "Soup", "Yes")
    content = {"seats": 3, "window": False, "meal": "b"}
    assert await book(server, person) == [["accept", content], ["accept", {}]]
    assert [(question.text, question.choices) for question in person.questions] == [
        ("Which seat?\nSeats: How many", ()),
        ("That is no whole number.\nSeats: How many", ()),
        ("It may be at most 9.\nSeats: How many", ()),
        ("Which seat?\nAt the window?", ("Yes", "No", SKIP)),
        ("Which seat?\nmeal?", ("Pasta", "Soup")),
        ("Book it?", ("Yes",)),
    ]


async def test_an_optional_value_is_typed_or_left_out():
    person = Person("42", SKIP, "Soup", "tapped")
    age = {"type": "integer", "title": "Age"}
    answer = await answer_form(person, ask_form("Who?", [], age=age, years=age, meal=MEAL))
    assert answer.content == {"age": 42, "meal": "b"}
    assert [(question.choices, question.takes_reply) for question in person.questions] == [
        ((SKIP,), True),
        ((SKIP,), True),
        (("Pasta", "Soup", SKIP), False),
    ]


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("date", ("31.2.2026", "2026-02-31", "2026-02-03T10:00"), "2026-02-28"),
        ("date-time", ("tomorrow",), "2026-02-28T10:00:00+01:00"),
        ("email", ("ann",), "ann@example.com"),
    ],
)
async def test_a_typed_value_has_the_form_that_is_asked_for(kind: str, wrong: tuple[str, ...], right: str):
    field = {"type": "string", "format": kind, "title": "Value"}
    for text in wrong:
        person = Person(text, right)
        answer = await answer_form(person, ask_form("Which?", ["value"], value=field))
        assert answer.content == {"value": right}
        assert person.questions[1].text.startswith("That is no ")


@pytest.mark.parametrize("modern", [False, True], ids=["2025", "2026"])
async def test_who_declines_answers_nothing_and_where_nobody_is_there_all_is_declined(modern: bool):
    form = ask_form("Which seat?", seats=SEATS, window=WINDOW)
    assert await book(AskingMcpServer(form, modern=modern), Person("3", None)) == [["decline", None]]
    assert await book(AskingMcpServer(form, modern=modern), Person()) == [["cancel", None]]
    assert await book(AskingMcpServer(form, modern=modern), None) == [["decline", None]]


async def test_a_password_is_never_asked_for():
    person = Person("hunter2")
    server = AskingMcpServer(ask_form("Please log in.", password=PASSWORD))
    assert await book(server, person) == [["cancel", None]]
    assert person.refusals == ["it asked for what looks like a password or another secret"]
    assert person.answers == ["hunter2"]


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "title": "PIN"},
        {"type": "string", "description": "the API-key of your account"},
        {"type": "string", "format": "password"},
        {"type": "integer", "title": "CVC"},
        {"type": "string", "title": "Einmal-Passwort"},
        {"type": "string", "title": "Pass\u200bword"},
        {"type": "string", "title": "P\u0430ssword"},
        {"type": "string", "title": "\uff30\uff41\uff53\uff53\uff57\uff4f\uff52\uff44"},
        {"type": "string", "title": "P\u00e1ssword"},
        {"type": "string", "title": "Пароль"},
    ],
)
async def test_other_words_for_a_secret_are_known(field: dict[str, Any]):
    person = Person("hunter2")
    assert await answer_form(person, ask_form("One thing more", value=field)) == ElicitAnswer("cancel")
    assert len(person.refusals) == 1


async def test_secrets_are_masked_in_what_a_server_asks():
    field = {"type": "string", "title": "Send sesame-4711", "enum": ["sesame-4711", "no"]}
    server = AskingMcpServer(ask_form("Is it sesame-4711?", value=field))
    person = Person("•••")
    assert await book(server, person, secrets={"key": "sesame-4711"}) == [["accept", {"value": "•••"}]]
    assert (person.questions[0].text, person.questions[0].choices) == (
        "Is it •••?\nSend •••?",
        ("•••", "no"),
    )
    assert server.answers[0]["content"] == {"value": "sesame-4711"}


async def test_a_secret_that_only_the_message_names_is_one():
    person = Person("hunter2")
    form = ask_form("Your password, please", value={"type": "string"})
    assert await answer_form(person, form) == ElicitAnswer("cancel")


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_flood_of_questions_ends_and_is_reported_once(at_once: bool):
    questions = [ask_form(f"Sure {n}?", sure=WINDOW) for n in range(50)]
    person = Person(*["Yes"] * 50)
    answers = await book(AskingMcpServer(*questions, at_once=at_once), person)
    actions = Counter(action for action, _ in answers)
    assert actions == {"accept": MAX_QUESTIONS, "cancel": len(questions) - MAX_QUESTIONS}
    assert len(person.questions) <= MAX_QUESTIONS + 1


async def test_a_form_that_asks_for_the_same_again_and_again_ends():
    person = Person(*["nonsense"] * 99)
    form = ask_form("Which seat?", seat=SEATS, other_seat=SEATS)
    assert await answer_form(person, form) == ElicitAnswer("cancel")
    assert len(person.questions) == 3


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": "what?"},
        {"properties": {"a": "what?"}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": ["string", "null"]}}},
        {"properties": {"a": {"enum": list(range(99))}}},
        {"properties": {"a": {"enum": ["x"], "enumNames": ["X", "Y"]}}},
        {"properties": {"a": {"enum": ["x", ""]}}},
        {"properties": {"a": {"enum": ["x", "x\u200b"]}}},
        {"properties": {"a": {"enum": ["x", SKIP]}}},
        {"properties": {"a": {"enum": ["x", "Decline"]}}},
        {"properties": {str(n): {} for n in range(99)}},
    ],
)
async def test_a_form_that_cannot_be_shown_is_refused(schema: dict[str, Any]):
    person = Person("x")
    elicitation = Elicitation("rail", person, NetworkPolicy())
    assert await elicitation.answer_form("?", schema) == ElicitAnswer("cancel")
    assert len(person.refusals) == 1


async def test_words_of_one_script_are_no_disguise():
    person = Person("Анна", "5")
    form = ask_form(
        "Кто едет в Paris?", name={"title": "Имя"}, length={"type": "number", "title": "Länge, 長さ"}
    )
    answer = await answer_form(person, form)
    assert answer.content == {"name": "Анна", "length": 5}


async def test_a_link_is_shown_with_its_host_and_never_opened():
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34" if host == "pay.example" else "192.168.1.1"]

    async def resolve_all(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    policy = NetworkPolicy(resolve=resolve)
    public = NetworkPolicy(resolve=resolve_all)
    person = Person("Yes")
    answer = await Elicitation("rail", person, policy).answer_link("Pay first", "https://pay.example/1")
    assert answer == ElicitAnswer("accept")
    assert person.questions[0].text == (
        "Pay first\nIt wants you to open a page at pay.example:\nhttps://pay.example/1"
    )
    person = Person("Yes")
    await Elicitation("rail", person, public).answer_link("Pay first", "https://xn--py-7kc.example/1")
    assert "a page at xn--py-7kc.example:" in person.questions[0].text
    for link in (
        "https://router.lan/reboot",
        "http://pay.example/1",
        "https://you@pay.example/",
        "tg://resolve",
        "https://p\u0430y.example/1",
        "https://pay.example/1 https://pay.example/2",
        "https://pay.example\\1",
    ):
        person = Person("Yes")
        assert await Elicitation("rail", person, policy).answer_link("Pay", link) == ElicitAnswer("cancel")
        assert len(person.refusals) == 1
    server = AskingMcpServer(ask_link("Pay first", "http://pay.example/1"))
    assert await book(server, Person("Yes")) == [["cancel", None]]


async def test_words_of_a_server_hide_nothing():
    person = Person("Yes")
    form = ask_form("Book\u202e it\n\n\x1b[31m?" + "x" * 5000, sure={**WINDOW, "title": "Sure\u200b"})
    await answer_form(person, form)
    text = person.questions[0].text
    assert text.startswith("Book it [31m?xxx")
    assert text.endswith("…\nSure?")
    assert len(text) < 1100


async def test_a_call_that_is_stopped_cancels_its_question():
    asked = asyncio.Event()
    left = asyncio.Event()

    async def ask(_: ToolQuestion) -> ToolAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        raise AssertionError

    server = AskingMcpServer(ask_form("Book it?"))
    async with serve(server.app) as url:
        location = ServerUrl(f"{url}/mcp", private=frozenset({"127.0.0.1"}))
        async with running_server(location) as (client, _), asyncio.TaskGroup() as tasks:
            call = tasks.create_task(call_tool(client, "book", {}, None, ask))
            await asked.wait()
            call.cancel()
            await left.wait()
            await server.cancelled.wait()


async def test_of_two_calls_at_once_nobody_knows_which_one_asks():
    server = AskingMcpServer(ask_form("Book it?"))
    person = Person("Yes")
    async with serve(server.app) as url:
        location = ServerUrl(f"{url}/mcp", private=frozenset({"127.0.0.1"}))
        async with running_server(location) as (client, _), asyncio.TaskGroup() as tasks:
            tasks.create_task(call_tool(client, "wait", {}, None, person))
            await server.is_waiting.wait()
            result = await call_tool(client, "book", {}, None, person)
            server.release.set()
    assert json.loads(result.text) == [["cancel", None]]
    assert person.questions == []


async def test_what_a_call_that_was_stopped_still_asks_is_put_to_nobody_else():
    server = AskingMcpServer(ask_form("Book it?"))
    person = Person("Yes")
    async with serve(server.app) as url:
        location = ServerUrl(f"{url}/mcp", private=frozenset({"127.0.0.1"}))
        async with running_server(location) as (client, _):
            async with asyncio.TaskGroup() as tasks:
                stopped = tasks.create_task(call_tool(client, "wait", {}, None, Person()))
                await server.is_waiting.wait()
                stopped.cancel()
            result = await call_tool(client, "book", {}, None, person)
            assert json.loads(result.text) == [["cancel", None]]
            assert person.questions == []
            server.answers.clear()
            result = await call_tool(client, "book", {}, None, person)
            assert json.loads(result.text) == [["accept", {}]]
            server.release.set()
    assert server.methods.count("initialize") == 2

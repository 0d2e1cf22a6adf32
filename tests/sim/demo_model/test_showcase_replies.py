import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bot.sim.demo_model.showcase import SHOWCASE_QUESTIONS, answer_showcase
from bot.sim.demo_model.story import STORY
from bot.sim.vllm.server import count_tokens
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.endpoint_client import SimulatorClient, open_client
from tools.builtin.ask import parse_question

NOW = datetime(2026, 11, 20, 10, 24, tzinfo=UTC)
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("ask", "clock", "calculate", "fetch_page", "remember", "recall", "schedule")
]


def clock_result(zone: str) -> str:
    now = NOW.astimezone(ZoneInfo(zone))
    offset = f"{now:%z}"
    return f"{now:%A, %Y-%m-%d %H:%M:%S} in {zone} (UTC{offset[:3]}:{offset[3:]})"


async def send_messages(player: SimulatorClient, *messages: Any, **fields: Any) -> dict[str, Any]:
    history = [
        {"role": "user", "content": message} if isinstance(message, str) else message for message in messages
    ]
    fields = {"tools": TOOLS, **fields}
    return (await player.send({"messages": history, **{k: v for k, v in fields.items() if v}})).message


def with_tool_results(message: dict[str, Any], *texts: str) -> list[Any]:
    pairs = zip(message["tool_calls"], texts, strict=True)
    answer = [{"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in pairs]
    return [{"role": "assistant", "tool_calls": message["tool_calls"]}, *answer]


async def answer_question(question: str, *texts: str) -> tuple[list[tuple[str, str]], str]:
    """The calls the model makes for a question, and what it says when the tools have answered."""
    stamped = f"[Fri 2026-11-20 10:24 UTC] {question}"
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        first_message = await send_messages(player, stamped)
        calls = [
            (call["function"]["name"], call["function"]["arguments"]) for call in first_message["tool_calls"]
        ]
        answer = await send_messages(player, stamped, *with_tool_results(first_message, *texts))
    assert "tool_calls" not in answer
    return calls, answer["content"]


async def test_it_looks_at_the_clock_and_tells_the_time() -> None:
    calls, text = await answer_question("What time is it in Tokyo?", clock_result("Asia/Tokyo"))
    assert calls == [("clock", '{"zone": "Asia/Tokyo"}')]
    assert "19:24 on Friday" in text


async def test_it_asks_two_clocks_at_once_and_says_who_is_ahead() -> None:
    calls, text = await answer_question(
        SHOWCASE_QUESTIONS[3], clock_result("Asia/Tokyo"), clock_result("America/New_York")
    )
    assert [arguments for _, arguments in calls] == ['{"zone": "Asia/Tokyo"}', '{"zone": "America/New_York"}']
    assert "Tokyo is 14 hours ahead of New York." in text


async def test_the_one_behind_may_be_named_first_and_clocks_may_agree() -> None:
    _, text = await answer_question(
        "Compare the time in London and Delhi", clock_result("Europe/London"), clock_result("Asia/Kolkata")
    )
    assert "Delhi is 5.5 hours ahead of London." in text
    _, text = await answer_question(
        "Compare the time in Paris and Berlin", clock_result("Europe/Paris"), clock_result("Europe/Berlin")
    )
    assert "Both clocks show the same." in text


async def test_it_calculates_exactly() -> None:
    calls, text = await answer_question(
        SHOWCASE_QUESTIONS[4], "1267650600228229401496703205376/7 ≈ 1.8109294288974705736e+29"
    )
    assert calls == [("calculate", '{"expression": "2^100 / 7"}')]
    assert "1267650600228229401496703205376/7\n" in text
    assert "about 1.8109294288974705736e+29." in text


async def test_it_remembers_and_recalls() -> None:
    calls, text = await answer_question(SHOWCASE_QUESTIONS[5], "Remembered as note 1.")
    assert calls == [("remember", '{"note": "The person says: my train leaves at 7:40."}')]
    assert text == "Noted: my train leaves at 7:40. Remembered as note 1."
    calls, text = await answer_question(
        SHOWCASE_QUESTIONS[6], "1. The person says: my train leaves at 7:40. (Ann, 2026-11-20)"
    )
    assert calls == [("recall", "{}")]
    assert "my train leaves at 7:40" in text
    _, text = await answer_question(SHOWCASE_QUESTIONS[6], "Nothing has been remembered in this chat.")
    assert text.startswith("Nothing has been remembered")


async def test_it_asks_back_with_choices() -> None:
    [(name, arguments)], text = await answer_question(SHOWCASE_QUESTIONS[7], "The sea")
    assert name == "ask"
    assert parse_question(json.loads(arguments)["question"]).choices == ("The sea", "The mountains", "A city")
    assert text.startswith("**The sea**, then")


async def test_it_has_itself_reminded_and_asks_where_the_person_is() -> None:
    calls, text = await answer_question(
        SHOWCASE_QUESTIONS[2], "Scheduled. Fri 20 Nov 2026, 10:25 (UTC). The person was shown this."
    )
    assert calls == [("schedule", '{"when": "in one minute", "text": "stretch"}')]
    assert text == "All right, I'll remind you."
    _, text = await answer_question(
        "remind me at 8 to eat", "The person's time zone is unknown. Ask in which city they are."
    )
    assert text.startswith("In which city are you?")
    _, text = await answer_question("remind me at 8 to eat", "That time has passed.")
    assert text == "That time has passed."


async def test_it_shows_the_beginning_of_a_page() -> None:
    calls, text = await answer_question("Read https://example.org/a, please", f"Example\n{'word ' * 300}")
    assert calls == [("fetch_page", '{"url": "https://example.org/a"}')]
    assert "> Example\n> word" in text
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("What time is it in Nowhere?", "No time zone is called 'Nowhere'"),
        ("What is 1/0?", "That divides by zero."),
    ],
)
async def test_it_hands_a_tools_refusal_on(question: str, problem: str) -> None:
    _, text = await answer_question(question, problem)
    assert problem in text
    assert "exactly" not in text


async def test_without_the_tool_it_says_so() -> None:
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        answer = await send_messages(player, "What time is it in Tokyo?", tools=None)
    assert "`clock`" in answer["content"]
    assert "not offered" in answer["content"]


async def test_the_story_takes_several_canvases_and_fits_in_a_usual_limit() -> None:
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        story = await player.send_text(SHOWCASE_QUESTIONS[0], max_tokens=1024, stream=True)
    assert story.streamed_reply.content == STORY
    assert story.streamed_reply.finish_reason == "stop"
    assert player.endpoint.requests[0].canvases >= 3
    assert all(mark in STORY for mark in ("\n## ", "\n1. ", "\n|---", "```python"))
    assert count_tokens(STORY) < 1000


async def test_it_greets_and_is_honest_about_anything_else() -> None:
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        hello = await send_messages(player, "hello!")
        fallback = await send_messages(player, "Why is the sky blue?")
    assert "simulated" in hello["content"]
    assert "simulated" in fallback["content"]
    assert all(question in fallback["content"] for question in SHOWCASE_QUESTIONS)


async def test_in_a_group_it_knows_who_asks_also_in_a_reply() -> None:
    replied = "[data: message this replies to]\nHm?\n[end of data]"
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        answers = [
            (await send_messages(player, f"[Fri 2026-11-20 10:24 UTC] {text}"))["content"]
            for text in ("Ann: Who am I?", f"Ben:\n{replied}\nwho am I", "Who am I?")
        ]
    assert answers[0].startswith("You are **Ann**")
    assert answers[1].startswith("You are **Ben**")
    assert answers[2].startswith("You are the one person of this chat")


async def test_words_of_others_are_not_taken_for_the_question() -> None:
    notes = "[data: notes of this chat]\n1. What time is it in Tokyo?\n[end of data]"
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        answer = await send_messages(player, notes, "[Fri 2026-11-20 10:24 UTC] Why?")
    assert "simulated" in answer["content"]


async def test_with_thinking_it_thinks_first() -> None:
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        answer = await send_messages(player, "hello", chat_template_kwargs={"enable_thinking": True})
    assert answer["reasoning"]
    assert answer["content"].startswith("Hello!")


async def test_it_says_what_reached_it_of_a_picture_and_a_file() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    parts = [
        {"type": "text", "text": "[Fri 2026-11-20 10:24 UTC] What is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    pages = "(page 1)\n(you see it as a picture)\n(page 2 is left out)"
    scanned = f"[data: file a.pdf, page 1 of 2]\n{pages}\n[end of data]"
    scan = [{"type": "text", "text": scanned}, parts[1]]
    of_file = "[data: file notes.txt]\nThe meeting is on Tuesday.\n[end of data]\nWhen does it begin?"
    async with open_client(ScriptedEndpoint(brain=answer_showcase)) as player:
        picture = await send_messages(player, {"role": "user", "content": parts})
        file = await send_messages(player, of_file)
        receipt = await send_messages(player, {"role": "user", "content": scan})
    assert receipt["content"] == picture["content"]
    assert picture["content"].startswith("Your picture has reached me")
    assert "the text of your file (notes.txt), 26 characters" in file["content"]
    assert "> The meeting is on Tuesday." in file["content"]

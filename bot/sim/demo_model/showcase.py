"""The simulated model of the demo: answers a few questions with the tools offered, and admits what it is.

Pure. A brain for `bot.sim.vllm.server.SimulatedEndpoint`; knows the gateway's tools by name only.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bot.sim.demo_model.story import STORY
from bot.sim.demo_model.web_pages import WEB_QUESTION
from bot.sim.vllm.script import ChatRequest, format_thought, format_tool_call, message_text

SHOWCASE_QUESTIONS: tuple[str, ...] = (
    "Write a long story about a lighthouse",
    WEB_QUESTION,
    "Remind me in one minute to stretch",
    "Compare the time in Tokyo and New York",
    "What is 2^100 / 7, exactly?",
    "Remember that my train leaves at 7:40",
    "What do you know about me?",
    "Suggest a day trip",
)
"""By what is most worth seeing."""

RECEIPT_QUESTION = "What did I pay for here?"
"""With it the demo sends a scanned receipt."""

GROUP_QUESTIONS: tuple[str, ...] = (
    "{bot} Who am I?",
    "{bot} What time is it in Tokyo?",
    "Shall we go on Saturday?",
    "/ask What is new in Grey Point?",
)
"""Questions for a group; the third one is for its people."""

_ZONES = {
    "tokyo": "Asia/Tokyo",
    "new york": "America/New_York",
    "london": "Europe/London",
    "paris": "Europe/Paris",
    "berlin": "Europe/Berlin",
    "sydney": "Australia/Sydney",
    "delhi": "Asia/Kolkata",
    "los angeles": "America/Los_Angeles",
}
_TIME_STAMP = re.compile(r"^\[\w{3} \d{4}-\d\d-\d\d [^\]]*\]\s*")
_DATA_SECTION = re.compile(r"\[data:.*?\[end of data\]", re.DOTALL)
_DATA_MARKS = re.compile(r"^\[data: [^\]\n]*\]\n|\n\[end of data\]$", re.MULTILINE)
_FILE_SECTION = re.compile(r"\[data: file ([^\]\n]{1,200})\]\n(.*?)(?=\n\[end of data\]|\Z)", re.DOTALL)
_SEEN_PAGES = re.compile(r"\(page \d+\)\n\(you see it as a picture\)|\(pages? [\d-]+ (?:is|are) left out\)")
_SHOWN_FILE_CHARACTERS = 200
_CLOCK_RESULT = re.compile(
    r"^(?P<day>\w+), (?P<date>[\d-]+) (?P<time>\d\d:\d\d)\S* in "
    r".+\(UTC(?P<sign>[+-])(?P<h>\d\d):(?P<m>\d\d)\)"
)
_HIT = re.compile(r"^(\d+)\. (.+) — .+\n(https?://\S+)\n(.+)$", re.MULTILINE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_TIDES_ANSWER = (
    "The Moon pulls a little harder on the side of the Earth that faces it, and a little less hard on the "
    "far side, so "
    "the sea bulges on both. The Earth turns beneath these two bulges, which is why most coasts have high "
    "water twice "
    "in about 25 hours. When the Sun pulls along the same line, at full and new Moon, tides are at their "
    "highest."
)
_RECEIPT_ANSWER = (
    "Your receipt of the Harbour Cafe, 14 November 2026:\n\n| | EUR |\n|---|---|\n| 2 flat whites | 7.60 |\n"
    "| Apple cake | 4.20 |\n| Fish soup | 9.80 |\n| **Total** | **21.60** |\n\nIts page has no text, so it "
    "reached me as a picture. A *simulated* model knows this one by heart; a real DiffusionGemma reads it."
)
_THOUGHT = (
    "One of the questions I can show something for. Is a tool needed? I take the shortest way to an answer."
)
_FALLBACK_ANSWER = (
    "I am a *simulated* model: the gateway, its tools and this chat are real, but nothing here can really "
    "think. "
    "With a real DiffusionGemma behind it, this would be its answer.\n\nThis is what I can show:\n"
)


class _ToolResult(NamedTuple):
    """A tool call of this turn and its result."""

    name: str
    text: str


TopicAnswer = Callable[[re.Match[str], Sequence[_ToolResult], frozenset[str]], str]


def answer_showcase(request: ChatRequest) -> str:
    """Raw Gemma text for the newest question that is known, or an honest list of what can be tried."""
    offered = frozenset(tool["function"]["name"] for tool in request.tools)
    results = _tool_results(request)
    text = _describe_attachments(request) or _list_questions()
    for user_text in reversed(request.user_texts):
        answer = _answer_question(_clean_question(user_text), results, offered)
        if answer is not None:
            text = answer
            break
    if request.thinking:
        return format_thought(_THOUGHT, request) + text
    return text


def _list_questions() -> str:
    return _FALLBACK_ANSWER + "\n".join(f"- {question}" for question in SHOWCASE_QUESTIONS)


def _describe_attachments(request: ChatRequest) -> str:
    """What reached the model beside words since its last answer; empty if nothing did."""
    lines = []
    images = _count_images(request)
    if images:
        pictures = "Your picture has" if images == 1 else f"Your {images} pictures have"
        lines.append(
            f"{pictures} reached me, made small enough for the model. I am a *simulated* model and "
            "cannot see; a real DiffusionGemma looks at it and answers your question about it."
        )
    for name, text in _FILE_SECTION.findall("\n".join(request.user_texts)):
        words = " ".join(_SEEN_PAGES.sub("", text).split())
        if not words:
            continue
        lines.append(
            f"I was given the text of your file ({name}), {len(text):,} characters. It begins:\n\n"
            f"> {words[:_SHOWN_FILE_CHARACTERS]} …\n\nA real model would now answer your question about it."
        )
    return "\n\n".join(lines)


def _count_images(request: ChatRequest) -> int:
    """The pictures in the user messages since the last answer."""
    images = 0
    for message in reversed(request.messages):
        if message["role"] == "assistant":
            break
        parts = message["content"] if isinstance(message.get("content"), list) else []
        images += sum(part.get("type") == "image_url" for part in parts)
    return images


def _answer_question(question: str, results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str | None:
    for pattern, answer_topic in _TOPICS:
        if match := pattern.search(question):
            return answer_topic(match, results, tool_names)
    return None


def _clean_question(text: str) -> str:
    """The user's own text, without the gateway's time stamp and text of others."""
    return _TIME_STAMP.sub("", _DATA_SECTION.sub("", text).strip()).strip()


def _tool_results(request: ChatRequest) -> Sequence[_ToolResult]:
    names = {
        call["id"]: call["function"]["name"]
        for message in request.round_messages
        for call in message.get("tool_calls") or ()
    }
    return [
        _ToolResult(
            names.get(message.get("tool_call_id"), "unknown"), _DATA_MARKS.sub("", message_text(message))
        )
        for message in request.round_messages
        if message["role"] == "tool"
    ]


def _call_tool(name: str, tool_names: frozenset[str], *arguments: Mapping[str, str]) -> str:
    if name not in tool_names:
        return f"I would ask the tool `{name}` for that, but it is not offered to me here."
    return "".join(format_tool_call(name, call_arguments) for call_arguments in arguments)


def _greet(_: re.Match[str], _results: Sequence[_ToolResult], _tool_names: frozenset[str]) -> str:
    tries = "\n".join(f"- {question}" for question in SHOWCASE_QUESTIONS[:3])
    return f"Hello! I am a simulated model behind a real gateway. Try one of these:\n{tries}"


def _answer_time(match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    places = [place.strip(" ?.!") for place in re.split(r",| and ", match["places"]) if place.strip(" ?.!")]
    if not results:
        return _call_tool(
            "clock", tool_names, *({"zone": _ZONES.get(place.lower(), place)} for place in places)
        )
    read = [_CLOCK_RESULT.match(result.text) for result in results]
    lines = [
        f"In **{place}** it is {clock['time']} on {clock['day']}, {clock['date']}." if clock else result.text
        for place, clock, result in zip(places, read, results, strict=False)
    ]
    if len(read) == 2 and read[0] and read[1]:
        lines.append(_describe_difference(places, read[0], read[1]))
    return "\n".join(lines)


def _describe_difference(places: Sequence[str], first: re.Match[str], second: re.Match[str]) -> str:
    hours = (_offset_minutes(first) - _offset_minutes(second)) / 60
    if not hours:
        return "\nBoth clocks show the same."
    ahead, behind = places[:2] if hours > 0 else (places[1], places[0])
    return f"\n{ahead} is {abs(hours):g} hours ahead of {behind}."


def _offset_minutes(clock: re.Match[str]) -> int:
    minutes = int(clock["h"]) * 60 + int(clock["m"])
    if clock["sign"] == "-":
        return -minutes
    return minutes


def _answer_arithmetic(
    match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]
) -> str:
    expression = _THOUSANDS.sub("", match["sum"].strip(" =?.,"))
    if not results:
        return _call_tool("calculate", tool_names, {"expression": expression})
    result = results[-1].text
    if not re.match(r"-?\d", result):
        return f"`{expression}`: {result}"
    exact, _, about = result.partition(" ≈ ")
    rounded = f"\n\nThat is about {about}." if about else ""
    return f"`{expression}` is exactly\n\n```\n{exact}\n```{rounded}"


def _answer_remember(match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    note = match["note"].strip(" .!")
    if not results:
        return _call_tool("remember", tool_names, {"note": f"The person says: {note}."})
    return f"Noted: {note}. {results[-1].text}"


def _answer_recall(_: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    if not results:
        return _call_tool("recall", tool_names, {})
    notes = results[-1].text
    if not re.match(r"\d+\. ", notes):
        return f"{notes} Tell me something with “Remember that …”."
    return f"This is what I was asked to keep:\n\n{notes}"


def _answer_remind(match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    if not results:
        return _call_tool("schedule", tool_names, {"when": match["when"], "text": match["text"].strip(" .!")})
    result = results[-1].text
    if "time zone is unknown" in result:
        return (
            "In which city are you? Say it again with that, such as: "
            "Remind me tomorrow at 9 in Paris to call Anna."
        )
    if result.startswith("Scheduled."):
        return "All right, I'll remind you."
    return result


def _answer_page(match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    if not results:
        return _call_tool("fetch_page", tool_names, {"url": match["url"].rstrip(".,!?)")})
    text = results[-1].text
    if len(text) > 600:
        text = f"{text[:600].rstrip()} …"
    return "This is how the page begins:\n\n> " + text.replace("\n", "\n> ")


def _answer_news(match: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    """Search, open the first hit, and answer with what was found, each line with the number of its source."""
    if not results:
        return _call_tool("search_web", tool_names, {"question": f"news from {match['place'].strip(' ?.!')}"})
    hits = _HIT.findall(results[0].text)
    if not hits:
        return f"{results[0].text} In this demo the web has a few pages, all about Grey Point."
    if len(results) == 1:
        return _call_tool("fetch_page", tool_names, {"url": hits[0][2]})
    opened = results[-1].text.rpartition("\n")[2]
    others = [
        f"- **{title}**: {_first_sentence(excerpt)} [{number}]" for number, title, _, excerpt in hits[1:3]
    ]
    return f"{opened} [{hits[0][0]}]\n\nAlso:\n\n" + "\n".join(others)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."


def _answer_who(match: re.Match[str], _results: Sequence[_ToolResult], _tool_names: frozenset[str]) -> str:
    if match["name"] is None:
        return "You are the one person of this chat. In a group I am told with each message who wrote it."
    return f"You are **{match['name']}**: in a group I am told with each message who wrote it."


def _answer_trip(_: re.Match[str], results: Sequence[_ToolResult], tool_names: frozenset[str]) -> str:
    if not results:
        question = "What are you in the mood for?\nThe sea\nThe mountains\nA city"
        return _call_tool("ask", tool_names, {"question": question})
    return (
        f"**{results[-1].text}**, then: a real model would plan your day now. My question waited without it."
    )


def _say(text: str) -> TopicAnswer:
    return lambda _match, _results, _tool_names: text


_TOPICS: tuple[tuple[re.Pattern[str], TopicAnswer], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), topic)
    for pattern, topic in (
        (r"\b(story|lighthouse)\b", _say(STORY)),
        (r"\btides?\b", _say(_TIDES_ANSWER)),
        (re.escape(RECEIPT_QUESTION), _say(_RECEIPT_ANSWER)),
        (r"\bday trip\b", _answer_trip),
        (r"^(?:(?P<name>[^:\n]{1,40}):\s+)?who am i\b", _answer_who),
        (r"\b(?:new|news) (?:in|from|about) (?P<place>.+)", _answer_news),
        (r"\bremind me (?P<when>.+?) to (?P<text>.+)", _answer_remind),
        (r"\bremember (?:that )?(?P<note>(?!.*about me).+)", _answer_remember),
        (r"(?P<url>https?://\S+)", _answer_page),
        (r"\btime\b.*?\bin (?P<places>.+)", _answer_time),
        (r"\b(know|remember\w*|notes?)\b.*\b(about )?me\b", _answer_recall),
        (
            r"(?:what(?: i|')s|how much is|calculate|compute|work "
            r"out)\s+(?P<sum>[\d(√-](?:[\d\s+*/^().,!%-]|\bof\b)*)",
            _answer_arithmetic,
        ),
        (r"^\W*(hello|hi|hey|good (morning|day|evening))\b", _greet),
    )
)

"""What the simulated model says in the demo: a handful of questions answered with the tools offered, else the
truth.

Pure. A brain for `bot.sim.vllm.server.Endpoint`; knows the house's tools by name only.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bot.sim.demo_model.story import STORY
from bot.sim.vllm.script import ChatRequest, call_text, text_of, thought

SHOWCASE: tuple[str, ...] = (
    "What time is it in Tokyo?",
    "Compare the time in Tokyo and New York",
    "What is 2^100 / 7, exactly?",
    "Remember that my train leaves at 7:40",
    "What do you know about me?",
    "Remind me in one minute to stretch",
    "Write a long story about a lighthouse",
)

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
_STAMP = re.compile(r"^\[\w{3} \d{4}-\d\d-\d\d [^\]]*\]\s*")
_DATA = re.compile(r"\[data:.*?\[end of data\]", re.DOTALL)
_CLOCK = re.compile(
    r"^(?P<day>\w+), (?P<date>[\d-]+) (?P<time>\d\d:\d\d)\S* in .+\(UTC(?P<sign>[+-])(?P<h>\d\d):(?P<m>\d\d)\)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_TIDES = (
    "The Moon pulls a little harder on the side of the Earth that faces it, and a little less hard on the far side, so "
    "the sea bulges on both. The Earth turns beneath these two bulges, which is why most coasts have high water twice "
    "in about 25 hours. When the Sun pulls along the same line, at full and new Moon, tides are at their highest."
)
_THOUGHT = (
    "One of the questions I can show something for. Is a tool needed? I take the shortest way to an answer."
)
_ELSE = (
    "I am a *simulated* model: the gateway, its tools and this chat are real, but nothing here can really think. "
    "With a real DiffusionGemma behind it, this would be its answer.\n\nThis is what I can show:\n"
)


class _Result(NamedTuple):
    """A tool call of this turn and what came of it."""

    name: str
    text: str


Topic = Callable[[re.Match[str], Sequence[_Result], frozenset[str]], str]


def showcase(request: ChatRequest) -> str:
    """Raw Gemma text for the newest question that is known, or an honest list of what there is to see."""
    offered = frozenset(tool["function"]["name"] for tool in request.tools)
    results = _results(request)
    text = _ELSE + "\n".join(f"- {question}" for question in SHOWCASE)
    for question in reversed([_question(asked) for asked in request.asked]):
        known = next(
            ((topic, found) for pattern, topic in _TOPICS if (found := pattern.search(question))), None
        )
        if known:
            topic, found = known
            text = topic(found, results, offered)
            break
    if request.thinking:
        return thought(_THOUGHT, request) + text
    return text


def _question(text: str) -> str:
    """What the person typed, without the house's time stamp and the words of others."""
    return _STAMP.sub("", _DATA.sub("", text).strip()).strip()


def _results(request: ChatRequest) -> Sequence[_Result]:
    names = {
        call["id"]: call["function"]["name"]
        for message in request.rounds
        for call in message.get("tool_calls") or ()
    }
    return [
        _Result(names.get(message.get("tool_call_id"), "unknown"), text_of(message))
        for message in request.rounds
        if message["role"] == "tool"
    ]


def _call(name: str, offered: frozenset[str], *arguments: Mapping[str, str]) -> str:
    if name not in offered:
        return f"I would ask the tool `{name}` for that, but it is not offered to me here."
    return "".join(call_text(name, given) for given in arguments)


def _hello(_: re.Match[str], _results: Sequence[_Result], _offered: frozenset[str]) -> str:
    tries = "\n".join(f"- {question}" for question in SHOWCASE[:3])
    return f"Hello! I am a simulated model behind a real gateway. Try one of these:\n{tries}"


def _time(found: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    places = [place.strip(" ?.!") for place in re.split(r",| and ", found["places"]) if place.strip(" ?.!")]
    if not results:
        return _call("clock", offered, *({"zone": _ZONES.get(place.lower(), place)} for place in places))
    read = [_CLOCK.match(result.text) for result in results]
    lines = [
        f"In **{place}** it is {clock['time']} on {clock['day']}, {clock['date']}." if clock else result.text
        for place, clock, result in zip(places, read, results, strict=False)
    ]
    if len(read) == 2 and read[0] and read[1]:
        lines.append(_difference(places, read[0], read[1]))
    return "\n".join(lines)


def _difference(places: Sequence[str], first: re.Match[str], second: re.Match[str]) -> str:
    hours = (_offset(first) - _offset(second)) / 60
    if not hours:
        return "\nBoth clocks show the same."
    ahead, behind = places[:2] if hours > 0 else (places[1], places[0])
    return f"\n{ahead} is {abs(hours):g} hours ahead of {behind}."


def _offset(clock: re.Match[str]) -> int:
    minutes = int(clock["h"]) * 60 + int(clock["m"])
    if clock["sign"] == "-":
        return -minutes
    return minutes


def _arithmetic(found: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    expression = _THOUSANDS.sub("", found["sum"].strip(" =?.,"))
    if not results:
        return _call("calculate", offered, {"expression": expression})
    told = results[-1].text
    if not re.match(r"-?\d", told):
        return f"`{expression}`: {told}"
    exact, _, about = told.partition(" ≈ ")
    rounded = f"\n\nThat is about {about}." if about else ""
    return f"`{expression}` is exactly\n\n```\n{exact}\n```{rounded}"


def _remember(found: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    note = found["note"].strip(" .!")
    if not results:
        return _call("remember", offered, {"note": f"The person says: {note}."})
    return f"Noted: {note}. {results[-1].text}"


def _recall(_: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    if not results:
        return _call("recall", offered, {})
    notes = results[-1].text
    if not re.match(r"\d+\. ", notes):
        return f"{notes} Tell me something with “Remember that …”."
    return f"This is what I was asked to keep:\n\n{notes}"


def _remind(found: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    if not results:
        return _call("schedule", offered, {"when": found["when"], "text": found["text"].strip(" .!")})
    told = results[-1].text
    if "time zone is unknown" in told:
        return "In which city are you? Say it again with that, such as: Remind me tomorrow at 9 in Paris to call Anna."
    if told.startswith("Scheduled."):
        return "All right, I remind you."
    return told


def _page(found: re.Match[str], results: Sequence[_Result], offered: frozenset[str]) -> str:
    if not results:
        return _call("fetch_page", offered, {"url": found["url"].rstrip(".,!?)")})
    text = results[-1].text
    shown = text if len(text) <= 600 else f"{text[:600].rstrip()} …"
    return "This is how the page begins:\n\n> " + shown.replace("\n", "\n> ")


def _tides(_: re.Match[str], _results: Sequence[_Result], _offered: frozenset[str]) -> str:
    return _TIDES


def _story(_: re.Match[str], _results: Sequence[_Result], _offered: frozenset[str]) -> str:
    return STORY


_TOPICS: tuple[tuple[re.Pattern[str], Topic], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), topic)
    for pattern, topic in (
        (r"\b(story|lighthouse)\b", _story),
        (r"\btides?\b", _tides),
        (r"\bremind me (?P<when>.+?) to (?P<text>.+)", _remind),
        (r"\bremember (?:that )?(?P<note>(?!.*about me).+)", _remember),
        (r"(?P<url>https?://\S+)", _page),
        (r"\btime\b.*?\bin (?P<places>.+)", _time),
        (r"\b(know|remember\w*|notes?)\b.*\b(about )?me\b", _recall),
        (
            r"(?:what(?: i|')s|how much is|calculate|compute|work out)\s+(?P<sum>[\d(√-](?:[\d\s+*/^().,!%-]|\bof\b)*)",
            _arithmetic,
        ),
        (r"^\W*(hello|hi|hey|good (morning|day|evening))\b", _hello),
    )
)

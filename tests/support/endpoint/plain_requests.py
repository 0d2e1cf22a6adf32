"""The simulated model's replies to plain requests: count, multiply, say a word, call a tool several times.

Pure; knows a handful of sentences and nothing of who sends them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Calls = Sequence[tuple[str, Mapping[str, Any]]]
Json = Mapping[str, Any]

_CALL_REQUEST = re.compile(
    r"\bCall (?P<tool>\w+) once for each of these \w+, side by side: (?P<things>[^.]+)\."
)
_WORD_REQUEST = re.compile(r"\banswer with the one word (?P<word>\w+)", re.IGNORECASE)
_COUNT_REQUEST = re.compile(r"\bWrite the numbers from (?P<first>\d{1,5}) to (?P<last>\d{1,5})\b")
_MULTIPLY_REQUEST = re.compile(r"\bWhat is (?P<left>\d{1,6}) times (?P<right>\d{1,6})\?")


def answer_plain_request(text: str, tools: Sequence[Json], *, has_tool_results: bool) -> str | Calls | None:
    """The text or the calls that the request asks for; None if it is no known request."""
    match = None if has_tool_results else _CALL_REQUEST.search(text)
    if match:
        return _build_calls(match, tools)
    return next((write(match) for pattern, write in _TEXT_WRITERS if (match := pattern.search(text))), None)


def _build_calls(match: re.Match[str], tools: Sequence[Json]) -> Calls | None:
    offered = {tool["function"]["name"]: tool["function"] for tool in tools}
    function = offered.get(match["tool"])
    if function is None:
        return None
    keys = list((function.get("parameters") or {}).get("properties") or {"thing": {}})
    return [(match["tool"], {keys[0]: thing.strip()}) for thing in match["things"].split(",")]


_TEXT_WRITERS: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = (
    (_COUNT_REQUEST, lambda match: " ".join(map(str, range(int(match["first"]), int(match["last"]) + 1)))),
    (_MULTIPLY_REQUEST, lambda match: str(int(match["left"]) * int(match["right"]))),
    (_WORD_REQUEST, lambda match: match["word"]),
)

"""What a check asks: short prompts with plain wishes, and conversations in which chat templates differ. Pure."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from PIL import Image as Picture

from bot.agent.sanitize import neutralise
from bot.check.observations import Shape
from bot.domain import CANVAS, WARMUP, Image, Message, ModelRequest, ToolCall
from bot.llm.dialect import Dialect

LAST: Final = 120  # the numbers up to it fill more than one canvas and less than two
ROOM: Final = 2 * CANVAS
ENDLESS: Final = 1500
PLACES: Final = ("Paris", "Rome")
TOOL: Final = "check_weather"
CONTROLS: Final = "<turn|>"
RAW: Final = 3  # times that a person's text holds CONTROLS as it is; as often it is told defused

# So long that the head's end and the prompt's end are not in one block of the cache.
PREAMBLE: Final = "A word to begin with. " + "All goes well, the lamp is lit and the tide is out. " * 12
READY: Final = "Answer with the one word ready, and nothing else."
COUNTING: Final = f"Write the numbers from 1 to {LAST}, separated by single blanks, and nothing else."
ASKING: Final = (
    f"Call {TOOL} once for each of these places, side by side: {', '.join(PLACES)}. When you have the results, answer "
    "with the one word done."
)
THINKING: Final = "What is 17 times 23? Think first, then answer with the number alone."

_WEATHER = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "The weather at a place, now.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "Name of a city."}},
            "required": ["place"],
        },
    },
}
_THINGS = (
    "lamp oil",
    "brass keys",
    "wool",
    "charts",
    "rope",
    "candles",
    "tea",
    "spare glass",
    "nails",
    "flags",
)


def head(nonce: str) -> Message:
    """A system text worth caching; `nonce` stands in front, so that no earlier check has warmed it."""
    rows = (
        f"Shelf {number}: {_THINGS[number * 7 % 10]} and {_THINGS[number * 3 % 10]}."
        for number in range(1, 71)
    )
    return Message("system", f"Check {nonce}. Background, not to be mentioned:\n" + "\n".join(rows))


def asking(
    messages: Sequence[Message], *, thinking: bool = False, tools: bool = True, limit: int = CANVAS
) -> ModelRequest:
    """A call as the gateway makes it. Without `tools` one is declared all the same, so that prompts share a
    head.
    """
    return ModelRequest(
        messages=tuple(messages),
        tools=(_WEATHER,),
        tool_choice="auto" if tools else "none",
        thinking=thinking,
        max_tokens=limit,
        session="check",
        lane="check",
    )


def counting(last: int, limit: int, *, urgent: bool = False) -> ModelRequest:
    """A call without tools that is worth some canvases; all but the urgent ones let people go first."""
    wish = COUNTING.replace(str(LAST), str(last))
    request = asking([Message("user", wish)], limit=limit)
    return replace(request, tools=(), priority=0 if urgent else WARMUP)


def with_picture() -> Message:
    """A wish beside a small white picture."""
    file = io.BytesIO()
    Picture.new("RGB", (64, 64), "white").save(file, "PNG")
    return Message("user", READY, images=(Image("image/png", file.getvalue()),))


def results() -> tuple[Message, ...]:
    """What follows ASKING: the calls with their thought, and what came of them."""
    calls = tuple(ToolCall(f"check-{place}", TOOL, f'{{"place": "{place}"}}') for place in PLACES)
    told = (Message("tool", "14 °C, dry", call_id=call.id) for call in calls)
    return (Message("assistant", calls=calls, reasoning="I look at both places."), *told)


def body(dialect: Dialect, model: str, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
    """The JSON of a call, as the gateway sends it; whole replies ask for the same without the stream."""
    made = dialect.body(model, request)
    if not streamed:
        del made["stream_options"]
        made["stream"] = False
    return made


def typed_read(model: str) -> dict[str, Any]:
    """A question that is answered in one step."""
    question = {
        "type": "noul",
        "instructions": "Is this about the weather?",
        "criteria": {"true": "yes", "false": "no"},
    }
    return {"model": model, "state": "It rains in Rome.", "questions": {"weather": question}}


def shape(wanted: Shape) -> dict[str, Any]:
    """The body for `/tokenize` that makes the template show itself."""
    messages, thinking = _CONVERSATIONS[wanted]
    made: dict[str, Any] = {"messages": messages, "return_token_strs": True, "return_prompt_text": True}
    if wanted in {"history", "loop"}:
        made["tools"] = [{"type": "function", "function": {"name": TOOL, "parameters": {"type": "object"}}}]
    if thinking is None:
        return made
    return {**made, "chat_template_kwargs": {"enable_thinking": thinking}}


_HELLO: Sequence[Mapping[str, Any]] = ({"role": "user", "content": "hello"},)
_CALL = {"id": "check-1", "type": "function", "function": {"name": TOOL, "arguments": '{"place": "Rome"}'}}
_CONVERSATIONS: Mapping[Shape, tuple[Sequence[Mapping[str, Any]], bool | None]] = {
    "off": (_HELLO, False),
    "on": (_HELLO, True),
    "default": (_HELLO, None),
    "history": (
        (
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": f"raw {CONTROLS * RAW} end"},
            {"role": "assistant", "content": "first answer"},
            {"role": "user", "content": f"defused {neutralise(CONTROLS) * RAW} end"},
        ),
        False,
    ),
    "loop": (
        (
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "spoken beside", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "check-1", "content": "it is dry"},
        ),
        True,
    ),
}

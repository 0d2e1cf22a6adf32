"""The requests of a check: short prompts, and conversations that chat templates render differently. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bot.agent.sanitize import break_control_tokens
from bot.attachments.images import PROBE_PICTURE
from bot.canvases import CANVAS_TOKENS
from bot.check.observations import TemplateCase
from bot.domain import WARMUP_PRIORITY, Image, Message, ModelRequest, ToolCall
from bot.llm.typed_reads import YesNoQuestion

LAST_NUMBER: Final = 120  # the numbers up to it fill more than one canvas and less than two
MAX_OUTPUT_TOKENS: Final = 2 * CANVAS_TOKENS
ENDLESS_LAST_NUMBER: Final = 1500
PLACES: Final = ("Paris", "Rome")
TOOL_NAME: Final = "check_weather"
WEATHER: Final = YesNoQuestion(
    "weather", "Is this about the weather?", yes="it is", no="it is not", role="You sort messages."
)
WEATHER_STATE: Final = "It rains in Rome."
CONTROL_TOKEN: Final = "<turn|>"  # noqa: S105
# A user's text in the history has CONTROL_TOKEN so often as it is, and as often defused.
RAW_CONTROL_COUNT: Final = 3

# So long that the ends of the head and of the prompt are not in the same block of the cache.
PREAMBLE: Final = "A word to begin with. " + "All goes well, the lamp is lit and the tide is out. " * 12
READY_PROMPT: Final = "Answer with the one word ready, and nothing else."
COUNTING_PROMPT: Final = (
    f"Write the numbers from 1 to {LAST_NUMBER}, separated by single blanks, and nothing else."
)
TOOL_PROMPT: Final = (
    f"Call {TOOL_NAME} once for each of these places, side by side: {', '.join(PLACES)}. "
    "When you have the results, answer with the one word done."
)
THINKING_PROMPT: Final = "What is 17 times 23? Think first, then answer with the number alone."

_WEATHER_TOOL = {
    "name": TOOL_NAME,
    "description": "The weather at a place, now.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "Name of a city."}},
        "required": ["place"],
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


def build_head(nonce: str) -> Message:
    """A system text worth caching; it begins with `nonce`, so that no earlier check has warmed it."""
    rows = (
        f"Shelf {number}: {_THINGS[number * 7 % 10]} and {_THINGS[number * 3 % 10]}."
        for number in range(1, 71)
    )
    return Message("system", f"Check {nonce}. Background, not to be mentioned:\n" + "\n".join(rows))


def build_request(
    messages: Sequence[Message],
    *,
    thinking: bool = False,
    with_tools: bool = True,
    max_tokens: int = CANVAS_TOKENS,
) -> ModelRequest:
    """A call as the gateway makes it.

    One tool is declared even without `with_tools`, so that prompts share a head.
    """
    return ModelRequest(
        messages=tuple(messages),
        tools=(_WEATHER_TOOL,),
        tool_choice="auto" if with_tools else "none",
        thinking=thinking,
        max_tokens=max_tokens,
        session="check",
        lane="check",
    )


def build_counting_request(last_number: int, max_tokens: int, *, is_urgent: bool = False) -> ModelRequest:
    """A call without tools that takes some canvases; unless it is urgent it has the priority of a warm-up."""
    prompt = COUNTING_PROMPT.replace(str(LAST_NUMBER), str(last_number))
    request = build_request([Message("user", prompt)], max_tokens=max_tokens)
    return replace(request, tools=(), priority=0 if is_urgent else WARMUP_PRIORITY)


def build_picture_message() -> Message:
    """A prompt with a small white picture."""
    return Message("user", READY_PROMPT, images=(Image("image/png", PROBE_PICTURE),))


def build_result_messages() -> tuple[Message, ...]:
    """What follows TOOL_PROMPT: the tool calls with their thought, and their results."""
    calls = tuple(ToolCall(f"check-{place}", TOOL_NAME, f'{{"place": "{place}"}}') for place in PLACES)
    results = (Message("tool", "14 °C, dry", call_id=call.id) for call in calls)
    return (Message("assistant", calls=calls, reasoning="I look at both places."), *results)


def build_template_body(case: TemplateCase) -> dict[str, Any]:
    """The body for `/tokenize` that shows what the template renders."""
    messages, thinking = _CONVERSATIONS[case]
    body: dict[str, Any] = {"messages": messages, "return_token_strs": True, "return_prompt_text": True}
    if case in {"history", "loop"}:
        body["tools"] = [
            {"type": "function", "function": {"name": TOOL_NAME, "parameters": {"type": "object"}}}
        ]
    if thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking}
    return body


_HELLO: Sequence[Mapping[str, Any]] = ({"role": "user", "content": "hello"},)
_TOOL_CALL = {
    "id": "check-1",
    "type": "function",
    "function": {"name": TOOL_NAME, "arguments": '{"place": "Rome"}'},
}
_CONVERSATIONS: Mapping[TemplateCase, tuple[Sequence[Mapping[str, Any]], bool | None]] = {
    "off": (_HELLO, False),
    "on": (_HELLO, True),
    "default": (_HELLO, None),
    "history": (
        (
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": f"raw {CONTROL_TOKEN * RAW_CONTROL_COUNT} end"},
            {"role": "assistant", "content": "first answer"},
            {
                "role": "user",
                "content": f"defused {break_control_tokens(CONTROL_TOKEN) * RAW_CONTROL_COUNT} end",
            },
        ),
        False,
    ),
    "loop": (
        (
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "spoken beside", "tool_calls": [_TOOL_CALL]},
            {"role": "tool", "tool_call_id": "check-1", "content": "it is dry"},
        ),
        True,
    ),
}

"""Renders a conversation the way vLLM's example chat template for Gemma 4 does, its traps included.

Pure. Mis-renderings that matter to a client are kept on purpose: text beside calls lands after the tool
responses, a tool without description says `None`, and nothing a user types is escaped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.tokens import IMAGE

OPEN_THOUGHT = "<|channel>thought\n"
EMPTY_THOUGHT = f"{OPEN_THOUGHT}<channel|>"
_QUOTE = '<|"|>'

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the template is given: messages and tools as they came, and the switches of the request."""

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    thinking: bool = False
    preserve_thinking: bool = False
    generate: bool = True
    continue_last: bool = False
    keeps_empty_thoughts: bool = True


def render(conversation: Conversation) -> str:
    """The prompt text, from `<bos>` to the place where the model goes on."""
    messages = list(conversation.messages)
    if messages and messages[0]["role"] in ("system", "developer"):
        first = messages[0]
    else:
        first = None
    parts = ["<bos>"]
    if first or conversation.tools or conversation.thinking:
        parts.append(_head(first, conversation))
    turns = [message for message in messages if message is not first]
    after = None
    for place, message in enumerate(turns):
        if message["role"] != "tool":
            text, after = _turn(turns, place, conversation)
            parts.append(text)
    if conversation.continue_last:
        # What stands open ends in no blank: the template trims the text, and the server trims the prompt.
        return "".join(parts).removesuffix("<turn|>\n").rstrip()
    if conversation.generate:
        parts.append(_generation_prompt(after, thinking=conversation.thinking))
    return "".join(parts)


def _head(first: Json | None, conversation: Conversation) -> str:
    thinking = "<|think|>\n" if conversation.thinking else ""
    if first:
        text = "".join(f"{piece.strip()} " for piece in _texts(first["content"]))
    else:
        text = ""
    tools = "".join(f"<|tool>{_declaration(tool['function'])}<tool|>" for tool in conversation.tools)
    return f"<|turn>system\n{thinking}{text}{tools}<turn|>\n"


def _generation_prompt(after: str | None, *, thinking: bool) -> str:
    if after == "call":
        return ""
    if after == "response":
        if thinking:
            return OPEN_THOUGHT
        return ""
    return "<|turn>model\n" + ("" if thinking else EMPTY_THOUGHT)


def _turn(turns: Sequence[Json], place: int, conversation: Conversation) -> tuple[str, str | None]:
    """One message with the tool results behind it, and what it ended in: a `call`, a `response` or nothing
    special.
    """
    message = turns[place]
    role = {"assistant": "model", "developer": "system"}.get(message["role"], message["role"])
    goes_on = role == "model" and _neighbour(turns, place, -1) == "assistant"
    parts = ["\n" if goes_on else f"<|turn>{role}\n"]
    if role == "model":
        parts.append(_thought(turns, place, conversation, goes_on=goes_on))
    calls = message.get("tool_calls") or ()
    parts.extend(_call(call["function"]) for call in calls)
    results = list(_results(turns, place)) if calls else []
    parts.extend(results)
    content = _content(message.get("content"), model=role == "model")
    parts.append(content)
    if calls and not results:
        return "".join([*parts, "<|tool_response>"]), "call"
    if content.strip() or not results:
        merges = role == "model" and _neighbour(turns, place, 1) == "assistant"
        parts.append("" if merges else "<turn|>\n")
    return "".join(parts), "response" if results else None


def _neighbour(turns: Sequence[Json], place: int, step: int) -> str | None:
    place += step
    while 0 <= place < len(turns):
        if turns[place]["role"] != "tool":
            return str(turns[place]["role"])
        place += step
    return None


def _thought(turns: Sequence[Json], place: int, conversation: Conversation, *, goes_on: bool) -> str:
    message = turns[place]
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    current = all(turn["role"] != "user" for turn in turns[place:])
    if reasoning and (current or conversation.preserve_thinking):
        return f"{OPEN_THOUGHT}{reasoning}\n<channel|>"
    if conversation.thinking or goes_on or not conversation.keeps_empty_thoughts:
        return ""
    return EMPTY_THOUGHT


def _call(function: Json) -> str:
    arguments = _arguments(function["arguments"])
    pairs = ",".join(f"{key}:{_value(value)}" for key, value in _by_name(arguments))
    return f"<|tool_call>call:{function['name']}{{{pairs}}}<tool_call|>"


def _arguments(raw: object) -> Json:
    """Broken JSON and anything but an object are read as no arguments at all, without a word."""
    try:
        value = json.loads(raw) if isinstance(raw, str) else raw
    except ValueError:
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _results(turns: Sequence[Json], place: int) -> Iterator[str]:
    names = {call.get("id"): call["function"]["name"] for call in turns[place]["tool_calls"]}
    for result in turns[place + 1 :]:
        if result["role"] != "tool":
            return
        name = names.get(result.get("tool_call_id"), "unknown")
        text = "".join(_texts(result.get("content")))
        images = IMAGE * sum(piece == IMAGE for piece in _pieces(result.get("content")))
        yield f"<|tool_response>response:{name}{{value:{_QUOTE}{text}{_QUOTE}}}<tool_response|>{images}"


def _content(content: object, *, model: bool) -> str:
    trimmed = (_without_thoughts(piece) if model else piece for piece in _pieces(content))
    return "".join(piece.strip() for piece in trimmed)


def _without_thoughts(text: str) -> str:
    return "".join(part.split("<|channel>")[0] for part in text.split("<channel|>"))


def _texts(content: object) -> Iterator[str]:
    return (piece for piece in _pieces(content) if piece != IMAGE)


def _pieces(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if part.get("type") == "image_url":
                yield IMAGE
            else:
                yield str(part.get("text", ""))


def _declaration(function: Json) -> str:
    description = function.get("description")
    parameters = function.get("parameters")
    text = f"declaration:{function['name']}{{description:{_quoted(description)}"
    return text + (f",parameters:{{{_schema(parameters)}}}}}" if parameters else "}")


def _schema(schema: Json) -> str:
    parts = []
    if schema.get("properties"):
        parts.append(f"properties:{{{_properties(schema['properties'])}}}")
    if schema.get("required"):
        parts.append(f"required:{_value(list(schema['required']))}")
    if schema.get("type"):
        parts.append(f"type:{_quoted(_kind(schema))}")
    return ",".join(parts)


def _properties(properties: Json) -> str:
    return ",".join(f"{name}:{{{_property(schema)}}}" for name, schema in _by_name(properties))


def _property(schema: Json) -> str:
    parts = []
    if schema.get("description"):
        parts.append(f"description:{_quoted(schema['description'])}")
    kind = _kind(schema)
    if kind == "STRING" and schema.get("enum"):
        parts.append(f"enum:{_value(schema['enum'])}")
    if kind == "ARRAY" and schema.get("items"):
        parts.append(f"items:{{{_items(schema['items'])}}}")
    if schema.get("nullable"):
        parts.append("nullable:true")
    if kind == "OBJECT":
        parts.append(f"properties:{{{_properties(schema.get('properties') or {})}}}")
        if schema.get("required"):
            parts.append(f"required:{_value(list(schema['required']))}")
    return ",".join([*parts, f"type:{_quoted(kind)}"])


def _items(items: Json) -> str:
    parts = []
    for key, value in _by_name(items):
        if key == "properties":
            parts.append(f"properties:{{{_properties(value)}}}")
        elif key == "type":
            parts.append(f"type:{_quoted(str(value).upper())}")
        elif value is not None:
            parts.append(f"{key}:{_value(value)}")
    return ",".join(parts)


def _kind(schema: Json) -> str:
    return str(schema.get("type", "")).upper()


def _value(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_value(item)}" for key, item in _by_name(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_value(item) for item in value) + "]"
    return str(value)


def _quoted(value: object) -> str:
    return f"{_QUOTE}{value}{_QUOTE}"


def _by_name(values: Json) -> list[tuple[str, Any]]:
    return sorted(values.items(), key=lambda item: str(item[0]).lower())

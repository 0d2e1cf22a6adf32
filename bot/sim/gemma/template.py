"""Renders a conversation the way vLLM's example chat template for Gemma 4 does, its traps included.

Pure. Mis-renderings that matter to a client are kept on purpose: text next to calls lands after the tool
responses, a tool without description says `None`, and nothing a user types is escaped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.tokens import IMAGE_MARKER

OPEN_THOUGHT = "<|channel>thought\n"
EMPTY_THOUGHT = f"{OPEN_THOUGHT}<channel|>"
_QUOTE = '<|"|>'

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TemplateInput:
    """The input of the template: messages and tools as sent, and the switches of the request."""

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    thinking: bool = False
    preserve_thinking: bool = False
    generate: bool = True
    continue_last: bool = False
    keeps_empty_thoughts: bool = True


def render_prompt(template_input: TemplateInput) -> str:
    """The prompt text, from `<bos>` to the position where the model continues."""
    messages = list(template_input.messages)
    if messages and messages[0]["role"] in ("system", "developer"):
        first = messages[0]
    else:
        first = None
    parts = ["<bos>"]
    if first or template_input.tools or template_input.thinking:
        parts.append(_system_turn(first, template_input))
    turns = [message for message in messages if message is not first]
    after = None
    for place, message in enumerate(turns):
        if message["role"] != "tool":
            text, after = _message_turn(turns, place, template_input)
            parts.append(text)
    if template_input.continue_last:
        # What stands open ends in no blank: the template trims the text, and the server trims the prompt.
        return "".join(parts).removesuffix("<turn|>\n").rstrip()
    if template_input.generate:
        parts.append(_generation_prompt(after, thinking=template_input.thinking))
    return "".join(parts)


def _system_turn(system_message: Json | None, template_input: TemplateInput) -> str:
    thinking = "<|think|>\n" if template_input.thinking else ""
    text = ""
    if system_message:
        text = "".join(f"{piece.strip()} " for piece in _text_pieces(system_message["content"]))
    tools = "".join(f"<|tool>{_declaration(tool['function'])}<tool|>" for tool in template_input.tools)
    return f"<|turn>system\n{thinking}{text}{tools}<turn|>\n"


def _generation_prompt(last_ending: str | None, *, thinking: bool) -> str:
    if last_ending == "call":
        return ""
    if last_ending == "response":
        return OPEN_THOUGHT if thinking else ""
    if thinking:
        return "<|turn>model\n"
    return f"<|turn>model\n{EMPTY_THOUGHT}"


def _message_turn(turns: Sequence[Json], index: int, template_input: TemplateInput) -> tuple[str, str | None]:
    """One message with the tool results after it, and how it ended.

    With a `call`, a `response` or nothing special.
    """
    message = turns[index]
    role = {"assistant": "model", "developer": "system"}.get(message["role"], message["role"])
    continues = role == "model" and _neighbour_role(turns, index, -1) == "assistant"
    parts = ["\n" if continues else f"<|turn>{role}\n"]
    if role == "model":
        parts.append(_thought(turns, index, template_input, continues=continues))
    calls = message.get("tool_calls") or ()
    parts.extend(_tool_call(call["function"]) for call in calls)
    results = list(_tool_responses(turns, index)) if calls else []
    parts.extend(results)
    content = _content(message.get("content"), from_model=role == "model")
    parts.append(content)
    if calls and not results:
        return "".join([*parts, "<|tool_response>"]), "call"
    if content.strip() or not results:
        merges = role == "model" and _neighbour_role(turns, index, 1) == "assistant"
        if not merges:
            parts.append("<turn|>\n")
    ending = "response" if results else None
    return "".join(parts), ending


def _neighbour_role(turns: Sequence[Json], index: int, step: int) -> str | None:
    index += step
    while 0 <= index < len(turns):
        if turns[index]["role"] != "tool":
            return str(turns[index]["role"])
        index += step
    return None


def _thought(turns: Sequence[Json], index: int, template_input: TemplateInput, *, continues: bool) -> str:
    message = turns[index]
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    current = all(turn["role"] != "user" for turn in turns[index:])
    if reasoning and (current or template_input.preserve_thinking):
        return f"{OPEN_THOUGHT}{reasoning}\n<channel|>"
    if template_input.thinking or continues or not template_input.keeps_empty_thoughts:
        return ""
    return EMPTY_THOUGHT


def _tool_call(function: Json) -> str:
    arguments = _parse_arguments(function["arguments"])
    pairs = ",".join(f"{key}:{_format_value(value)}" for key, value in _sort_by_name(arguments))
    return f"<|tool_call>call:{function['name']}{{{pairs}}}<tool_call|>"


def _parse_arguments(raw: object) -> Json:
    """The arguments as an object; broken JSON and anything else are silently read as none."""
    try:
        value = json.loads(raw) if isinstance(raw, str) else raw
    except ValueError:
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _tool_responses(turns: Sequence[Json], index: int) -> Iterator[str]:
    names = {call.get("id"): call["function"]["name"] for call in turns[index]["tool_calls"]}
    for result in turns[index + 1 :]:
        if result["role"] != "tool":
            return
        name = names.get(result.get("tool_call_id"), "unknown")
        text = "".join(_text_pieces(result.get("content")))
        images = IMAGE_MARKER * sum(piece == IMAGE_MARKER for piece in _content_pieces(result.get("content")))
        yield f"<|tool_response>response:{name}{{value:{_QUOTE}{text}{_QUOTE}}}<tool_response|>{images}"


def _content(content: object, *, from_model: bool) -> str:
    trimmed = (_without_thoughts(piece) if from_model else piece for piece in _content_pieces(content))
    return "".join(piece.strip() for piece in trimmed)


def _without_thoughts(text: str) -> str:
    return "".join(part.split("<|channel>")[0] for part in text.split("<channel|>"))


def _text_pieces(content: object) -> Iterator[str]:
    return (piece for piece in _content_pieces(content) if piece != IMAGE_MARKER)


def _content_pieces(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if part.get("type") == "image_url":
                yield IMAGE_MARKER
            else:
                yield str(part.get("text", ""))


def _declaration(function: Json) -> str:
    description = function.get("description")
    parameters = function.get("parameters")
    text = f"declaration:{function['name']}{{description:{_quote(description)}"
    if parameters:
        return f"{text},parameters:{{{_schema(parameters)}}}}}"
    return f"{text}}}"


def _schema(schema: Json) -> str:
    parts = []
    if schema.get("properties"):
        parts.append(f"properties:{{{_properties(schema['properties'])}}}")
    if schema.get("required"):
        parts.append(f"required:{_format_value(list(schema['required']))}")
    if schema.get("type"):
        parts.append(f"type:{_quote(_type_name(schema))}")
    return ",".join(parts)


def _properties(properties: Json) -> str:
    return ",".join(f"{name}:{{{_property(schema)}}}" for name, schema in _sort_by_name(properties))


def _property(schema: Json) -> str:
    parts = []
    if schema.get("description"):
        parts.append(f"description:{_quote(schema['description'])}")
    kind = _type_name(schema)
    if kind == "STRING" and schema.get("enum"):
        parts.append(f"enum:{_format_value(schema['enum'])}")
    if kind == "ARRAY" and schema.get("items"):
        parts.append(f"items:{{{_items(schema['items'])}}}")
    if schema.get("nullable"):
        parts.append("nullable:true")
    if kind == "OBJECT":
        parts.append(f"properties:{{{_properties(schema.get('properties') or {})}}}")
        if schema.get("required"):
            parts.append(f"required:{_format_value(list(schema['required']))}")
    return ",".join([*parts, f"type:{_quote(kind)}"])


def _items(items: Json) -> str:
    parts = []
    for key, value in _sort_by_name(items):
        if key == "properties":
            parts.append(f"properties:{{{_properties(value)}}}")
        elif key == "type":
            parts.append(f"type:{_quote(str(value).upper())}")
        elif value is not None:
            parts.append(f"{key}:{_format_value(value)}")
    return ",".join(parts)


def _type_name(schema: Json) -> str:
    return str(schema.get("type", "")).upper()


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_format_value(item)}" for key, item in _sort_by_name(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_format_value(item) for item in value) + "]"
    return str(value)


def _quote(value: object) -> str:
    return f"{_QUOTE}{value}{_QUOTE}"


def _sort_by_name(values: Json) -> list[tuple[str, Any]]:
    return sorted(values.items(), key=lambda item: str(item[0]).lower())

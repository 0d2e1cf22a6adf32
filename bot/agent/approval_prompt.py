"""The question whether a tool call may run, as messages: all of what would run, with nothing hidden in it.
Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent.taint import ANY_ARGUMENTS
from bot.domain import Button, Part

CALLBACK_PREFIX = "allow:"
"""The callback data of a button is this, an answer (once, here or denied), a colon, and the number of the
question.
"""

ALLOW_HERE_HOURS = 24
MAX_PIECE_UNITS = 3300  # UTF-16 units of arguments in one message; Telegram takes 4096 with all around it

# Printable by their class, and yet nothing is seen of them.
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x1D159))
) | frozenset(
    chr(code)
    for first, last in ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
    for code in range(first, last + 1)
)


@dataclass(frozen=True, slots=True)
class ApprovalPrompt:
    """What is asked about: a tool and its arguments (JSON), for whom, and why; `binding` as in caution.Ask.

    `elsewhere`: the question is put to others than who asked.
    """

    tool_name: str
    arguments: str
    requester_name: str
    requester_id: int
    reason: str
    binding: str | None
    is_for_admins: bool


def serialize_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as they are kept with the question: plain ASCII, the same for the same."""
    return json.dumps(arguments)


def render_question(prompt: ApprovalPrompt, question_id: int) -> tuple[Part, ...]:
    """The messages that put question `number`; the buttons are under the last one."""
    head = f"May I run {prompt.tool_name}?\n{prompt.requester_name} ({prompt.requester_id}) asked for it. {prompt.reason}"
    if prompt.is_for_admins:
        head += " An admin decides."
    pieces = list(
        _split_pieces(
            escape_invisible(json.dumps(json.loads(prompt.arguments), ensure_ascii=False, indent=2))
        )
    )
    if prompt.binding is None:
        below = ""
    else:
        below = f"Allow here: {ALLOW_HERE_HOURS} hours, in this chat, {_describe_prompt_binding(prompt)}."
    answers = {"once": "Allow once", "here": "Allow here", "denied": "Deny"}
    if prompt.binding is None:
        del answers["here"]
    row = tuple(Button(label, f"{CALLBACK_PREFIX}{word}:{question_id}") for word, label in answers.items())
    parts = []
    for at, piece in enumerate(pieces):
        if at == 0:
            before = f"{head}\nWith:\n"
        else:
            before = f"{prompt.tool_name}, continued ({at + 1} of {len(pieces)}):\n"
        is_last = at == len(pieces) - 1
        after = f"\n{below}" if is_last and below else ""
        if not is_last:
            after = "\n(It goes on below; the buttons are under the last message.)"
        entity = {"type": "pre", "offset": _count_units(before), "length": _count_units(piece)}
        parts.append(Part(f"{before}{piece}{after}", (entity,), (row,) if is_last else (), silent=at > 0))
    return tuple(parts)


def escape_invisible(text: str) -> str:
    """The text with all that is not seen, or turns the order of what is seen, as escapes that JSON knows."""
    return "".join(sign if sign == "\n" or _is_visible(sign) else json.dumps(sign)[1:-1] for sign in text)


def describe_binding(binding: str) -> str:
    """What an allowance holds for, in words."""
    if binding == ANY_ARGUMENTS:
        return "whatever the arguments"
    if len(binding) == 64 and "." not in binding:
        return "for just these arguments"
    return f"for {binding}"


def _describe_prompt_binding(prompt: ApprovalPrompt) -> str:
    return describe_binding(prompt.binding or ANY_ARGUMENTS)


def _is_visible(sign: str) -> bool:
    return sign.isprintable() and sign not in _INVISIBLE


def _split_pieces(text: str) -> Iterable[str]:
    """The text in pieces that a message can take, none of it lost."""
    while _count_units(text) > MAX_PIECE_UNITS:
        end = MAX_PIECE_UNITS // 2  # a sign may take two units
        line = text.rfind("\n", 0, end)
        end = line + 1 if line > end // 2 else end
        yield text[:end]
        text = text[end:]
    yield text


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

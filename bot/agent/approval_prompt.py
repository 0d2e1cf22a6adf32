"""Renders the question whether a tool call may run: all of what would run, nothing of it hidden. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bot.agent.approval_policy import ANY_ARGUMENTS
from bot.domain import Button, Part
from bot.translations.translator import Translator
from tools.base import CallPreview

CALLBACK_PREFIX = "allow:"
"""Callback data of a button: this, an answer (once, here or denied), a colon, the number of the question."""

CHOICE_PREFIX = "choice:"
"""Callback data of a choice: this, its number from 0, a colon, the number of the question."""

ALLOW_HERE_HOURS = 24
MAX_PIECE_UNITS = 2900  # UTF-16 units of arguments in one message; Telegram takes 4096 for the whole text

MAX_QUOTED_CHARS = 160  # of what an admin reads of the request, and of what the tool says it does

# Printable by their Unicode class, and yet invisible.
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x1D159))
) | frozenset(
    chr(code)
    for first, last in ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
    for code in range(first, last + 1)
)


@dataclass(frozen=True, slots=True)
class ApprovalPrompt:
    """A question about one tool call.

    arguments: JSON, as `serialize_arguments` writes it.
    requester_name, requester_id: the user whose turn made the call.
    reason: why it is asked.
    binding: as in taint.RequireApproval.
    is_for_admins: admins answer it, not the requester.
    preview: what the call does in words, for its requester; None: the tool's arguments say it.
    words: what the requester wrote; description: what the tool says it does. Both are shown to admins.
    minutes: how long it can be answered.
    """

    tool_name: str
    arguments: str
    requester_name: str
    requester_id: int
    reason: str
    binding: str | None
    is_for_admins: bool
    preview: CallPreview | None = None
    words: str = ""
    description: str = ""
    minutes: int = 0


def serialize_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as they are stored with the question: plain ASCII, deterministic."""
    return json.dumps(arguments)


def render_question(translate: Translator, prompt: ApprovalPrompt, question_id: int) -> tuple[Part, ...]:
    """The messages that ask question `question_id`; the buttons are under the last one."""
    requester = f"{prompt.requester_name} ({prompt.requester_id})"
    question = translate("May I run {tool}?", tool=prompt.tool_name)
    asked_by = translate("{name} asked for it.", name=requester)
    if prompt.is_for_admins:
        asked_by = translate(
            "{name} wrote: “{words}” What the tool says it does: “{description}”",
            name=requester,
            words=_quote(prompt.words),
            description=_quote(prompt.description),
        )
    head = f"{question}\n{asked_by} {prompt.reason}"
    if prompt.is_for_admins:
        head += " " + translate.plural(
            "An admin decides, within {count} minute.",
            "An admin decides, within {count} minutes.",
            prompt.minutes,
        )
    answers = {"once": translate("Allow once"), "here": translate("Allow here"), "denied": translate("Deny")}
    binding_note = ""
    if prompt.binding is None:
        del answers["here"]
    else:
        binding_note = translate(
            "“Allow here” allows this for {hours} hours in this chat, {covered}. "
            "I still ask after other text from outside.",
            hours=ALLOW_HERE_HOURS,
            covered=describe_binding(translate, prompt.binding),
        )
        binding_note = f"\n{binding_note}"
    head += "\n" + translate("With:")
    shown = json.dumps(json.loads(prompt.arguments), ensure_ascii=False, indent=2)
    if prompt.preview and not prompt.is_for_admins:
        head, shown = translate(prompt.preview.question), prompt.preview.details
        answers |= {"once": translate("Yes"), "denied": translate("No")}
    pieces = list(_split_pieces(escape_invisible(shown)))
    parts = []
    for number, piece in enumerate(pieces, start=1):
        before = translate(
            "{tool}, continued ({number} of {total}):",
            tool=prompt.tool_name,
            number=number,
            total=len(pieces),
        )
        if number == 1:
            before = head
        before += "\n"
        after = "\n" + translate("(Continued below; the buttons are under the last message.)")
        if number == len(pieces):
            after = binding_note
        entity = {"type": "pre", "offset": _count_units(before), "length": _count_units(piece)}
        parts.append(Part(f"{before}{piece}{after}", (entity,), silent=number > 1))
    row = tuple(Button(label, f"{CALLBACK_PREFIX}{word}:{question_id}") for word, label in answers.items())
    return (*parts[:-1], replace(parts[-1], buttons=(row,)))


def render_choices(
    translate: Translator,
    wording: Sequence[Part],
    choices: Sequence[str],
    question_id: int,
    group_member: str | None,
) -> tuple[Part, ...]:
    """The messages by which the model itself asks question `question_id`, in its rendered `wording`.

    `group_member`: who is asked in a group; None in a private chat, where the next message answers as well.
    """
    hint = ""
    if group_member is not None:
        hint = translate("{name}, please reply to this message.", name=group_member)
    if choices and group_member is not None:
        hint = translate("{name}, please tap an answer, or reply to this message.", name=group_member)
    elif choices:
        hint = translate("Or write your own answer.")
    last = wording[-1]
    buttons = tuple(
        (Button(choice, f"{CHOICE_PREFIX}{number}:{question_id}"),) for number, choice in enumerate(choices)
    )
    return (*wording[:-1], replace(last, text=f"{last.text}\n\n{hint}".rstrip(), buttons=buttons))


def _quote(text: str) -> str:
    """A text of others as one line, cut where it is long."""
    line = " ".join(text.split())
    if len(line) > MAX_QUOTED_CHARS:
        line = f"{line[:MAX_QUOTED_CHARS]}…"
    return escape_invisible(line)


def escape_invisible(text: str) -> str:
    """The text with invisible and direction-changing characters as JSON escapes."""
    return "".join(map(_escape_invisible_char, text))


def describe_binding(translate: Translator, binding: str) -> str:
    """What an allowance covers, as text for users."""
    if binding == ANY_ARGUMENTS:
        return translate("with any values")
    if len(binding) == 64 and "." not in binding:
        return translate("with exactly these values")
    return translate("for {host}", host=binding)


@lru_cache(maxsize=4096)
def _escape_invisible_char(char: str) -> str:
    if char == "\n" or (char.isprintable() and char not in _INVISIBLE):
        return char
    return json.dumps(char)[1:-1]


def _split_pieces(text: str) -> Iterable[str]:
    """The text in pieces that each fit into a message; none of it is lost."""
    start = 0
    while _count_units(text[start : start + MAX_PIECE_UNITS + 1]) > MAX_PIECE_UNITS:
        end = start + MAX_PIECE_UNITS // 2  # a character may take two units
        line_end = text.rfind("\n", start, end)
        if line_end > start + MAX_PIECE_UNITS // 4:
            end = line_end + 1
        yield text[start:end]
        start = end
    yield text[start:]


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

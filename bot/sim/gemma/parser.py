"""Turns raw Gemma text into reasoning, content and tool calls, as vLLM's gemma4 parser does.

Pure. `StreamParser` is fed one canvas at a time, `parse_reply` takes a reply that is not streamed. Where the
two disagree they do so on purpose: the real ones do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bot.sim.gemma.arguments import Schema, drop_repeated_keys, parse_arguments, stable_json_prefix, to_json
from bot.sim.gemma.tokens import CONTROL_IDS, SPELLED_OUT_MARK, split_control_tokens

_CHANNEL_LABEL = "thought\n"
_CHANNEL_OPEN = "<|channel>"
_CHANNEL_CLOSE = "<channel|>"
_CALL_START = "<|tool_call>"
_CALL_END = "<tool_call|>"
_DELIMITER = '<|"|>'
_CALL_HEADER = re.compile(r"(?:call)?:(?P<name>[^{(]*)(?P<open>[{(])?(?P<arguments>.*)", re.DOTALL)

Schemas = Mapping[str, Schema]


class _TokenStateMachine:
    """Follows the control tokens and tells which part of a reply each piece of text belongs to.

    Yields (kind, text): `reasoning`, `content`, `call` (raw text of a call, the first piece of each empty),
    `call end`.
    """

    def __init__(self, *, inside_thought: bool) -> None:
        self._state = "reasoning" if inside_thought else "start"
        self._expected_label = _CHANNEL_LABEL
        self._held_blanks = ""

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        for piece, control in split_control_tokens(text):
            is_text = piece == _DELIMITER or (piece == _CALL_END and self._state == "reasoning")
            if control and not is_text:
                event = self._handle_control_token(piece)
            else:
                event = self._handle_text(piece)
            if event:
                yield event

    def _handle_control_token(self, token: str) -> tuple[str, str] | None:
        if self._state == "call":
            if token != _CALL_END:
                return None
            self._state = "content"
            return "call end", ""
        if token == _CALL_START:
            self._state = "call"
            return "call", ""
        if token == _CHANNEL_OPEN:
            self._state = "reasoning"
        elif token == _CHANNEL_CLOSE and self._state == "reasoning":
            self._state = "content"
            self._held_blanks = ""
        return None

    def _handle_text(self, piece: str) -> tuple[str, str]:
        if self._state == "start":
            self._state = "reasoning" if piece.startswith(_CHANNEL_LABEL) else "content"
        return self._state, self._clean_thought(piece) if self._state == "reasoning" else piece

    def _clean_thought(self, piece: str) -> str:
        """Without the channel's label, and with blanks held back until something follows them."""
        piece = self._held_blanks + piece
        if self._expected_label:
            if self._expected_label.startswith(piece):
                self._held_blanks = piece
                return ""
            piece = piece.removeprefix(self._expected_label)
            self._expected_label = ""
        text = piece.rstrip()
        self._held_blanks = piece[len(text) :]
        return text


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of one tool call; None marks what this piece does not contain."""

    index: int
    name: str | None
    arguments: str | None


@dataclass(slots=True)
class Delta:
    """What one canvas added."""

    reasoning: str = ""
    content: str = ""
    calls: list[ToolCallDelta] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.reasoning or self.content or self.calls)


class StreamParser:
    """Streamed parsing.

    `schemas` are the parameters of the offered tools by name; None drops every call.
    `inside_thought` is true when the prompt ends in an open thought channel.
    """

    def __init__(self, schemas: Schemas | None, *, inside_thought: bool = False) -> None:
        self._schemas = schemas
        self._state_machine = _TokenStateMachine(inside_thought=inside_thought)
        self._open_call: str | None = None
        self._sent_name: str | None = None
        self._sent_arguments = ""
        self.call_count = 0

    def feed(self, text: str) -> Delta:
        """Parse the text of the next canvas; a control token never spans two of them."""
        delta = Delta()
        for kind, piece in self._state_machine.feed(text):
            if kind == "reasoning":
                delta.reasoning += piece
            elif kind == "content":
                delta.content += piece
            elif kind == "call":
                self._open_call = (self._open_call or "") + piece
            else:
                self._close_call(delta)
        if self._open_call:
            self._emit_stable_arguments(self._open_call, delta)
        return delta

    def finish(self) -> Delta:
        """End the text: a call that was never closed is closed."""
        delta = Delta()
        if self._open_call is not None:
            self._close_call(delta)
        return delta

    def _emit_stable_arguments(self, raw: str, delta: Delta) -> None:
        """Emit the part of an unclosed call that can no longer change."""
        header = _parse_call_header(raw, self._schemas)
        if header and header.has_arguments:
            pairs = drop_repeated_keys(parse_arguments(header.arguments, header.schema, is_partial=True))
            self._emit_arguments(header.name, stable_json_prefix(pairs, header.schema), delta)

    def _close_call(self, delta: Delta) -> None:
        header = _parse_call_header(self._open_call or "", self._schemas)
        if header:
            pairs = parse_arguments(header.arguments, header.schema)
            settled = drop_repeated_keys(pairs)
            if len(settled) < len(pairs):
                # The stream said the first value before it saw the second one, and never takes a word back.
                self._emit_arguments(header.name, stable_json_prefix(settled, header.schema), delta)
            self._emit_arguments(header.name, to_json(pairs), delta)
            self.call_count += 1
        self._open_call = None
        self._sent_name = None
        self._sent_arguments = ""

    def _emit_arguments(self, name: str, arguments: str, delta: Delta) -> None:
        if not arguments.startswith(self._sent_arguments):
            return
        more = arguments[len(self._sent_arguments) :]
        if self._sent_name is None or more:
            delta.calls.append(
                ToolCallDelta(self.call_count, name if self._sent_name is None else None, more or None)
            )
        self._sent_name = name
        self._sent_arguments = arguments


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A whole reply; the calls are (name, arguments as JSON)."""

    reasoning: str
    content: str
    calls: Sequence[tuple[str, str]]


def parse_reply(text: str, schemas: Schemas | None) -> ParsedReply:
    """Parse a reply that is not streamed: spelled-out markup counts, and text after a call is lost."""
    text = text.replace(SPELLED_OUT_MARK, "")
    if _CHANNEL_CLOSE in text and _CHANNEL_OPEN not in text:
        text = _CHANNEL_OPEN + text
    parts = {"reasoning": "", "content": "", "call": ""}
    calls: list[tuple[str, str]] = []
    for kind, piece in (*_TokenStateMachine(inside_thought=False).feed(text), ("call end", "")):
        if kind == "call end":
            header = _parse_call_header(parts["call"], schemas)
            parts["call"] = ""
            if header:
                calls.append((header.name, to_json(parse_arguments(header.arguments, header.schema))))
        elif kind != "content" or not calls:
            parts[kind] += piece
    content = parts["content"].strip() if calls else parts["content"]
    return ParsedReply(parts["reasoning"], content, calls)


@dataclass(frozen=True, slots=True)
class _CallHeader:
    name: str
    has_arguments: bool
    arguments: str
    schema: Schema


def _parse_call_header(raw: str, schemas: Schemas | None) -> _CallHeader | None:
    """Name and raw arguments of a call; None for garbage, an empty name, or when calls are dropped."""
    match = _CALL_HEADER.search(raw)
    name = match["name"].strip() if match else ""
    if not match or not name or schemas is None:
        return None
    return _CallHeader(name, bool(match["open"]), match["arguments"], schemas.get(name, {}))


def flag_reasoning_tokens(tokens: Sequence[str], *, inside_thought: bool) -> list[bool]:
    """The tokens that the server counts as reasoning, the channel's label included; empty when none are."""
    inside = inside_thought or "".join(tokens[:4]).startswith(_CHANNEL_LABEL)
    first = next((token for token in tokens if token in (_CHANNEL_OPEN, _CHANNEL_CLOSE)), None)
    if first is None and not inside:
        return []
    inside = inside or first == _CHANNEL_CLOSE
    flags = []
    for token in tokens:
        if token in (_CHANNEL_CLOSE, _CALL_START):
            inside = False
        flags.append(inside and token not in CONTROL_IDS)
        inside = inside or token == _CHANNEL_OPEN
    return flags

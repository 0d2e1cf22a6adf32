"""Turns raw Gemma text into reasoning, content and tool calls, as vLLM's gemma4 parser does.

Pure. `Stream` is fed a canvas at a time, `parse_whole` takes a reply that is not streamed. Where the two
disagree they do so on purpose: the real ones do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bot.sim.gemma.arguments import Schema, as_json, read, safe_prefix, unrepeated
from bot.sim.gemma.tokens import CONTROL_IDS, SPELLED, segments

_LABEL = "thought\n"
_OPEN = "<|channel>"
_CLOSE = "<channel|>"
_CALL = "<|tool_call>"
_CALL_END = "<tool_call|>"
_DELIMITER = '<|"|>'
_HEADER = re.compile(r"(?:call)?:(?P<name>[^{(]*)(?P<open>[{(])?(?P<arguments>.*)", re.DOTALL)

Schemas = Mapping[str, Schema]


class _Machine:
    """Follows the control tokens and says what each piece of text belongs to.

    Yields (kind, text): `reasoning`, `content`, `call` (raw text of a call, the first piece of each empty),
    `call end`.
    """

    def __init__(self, *, inside_thought: bool) -> None:
        self._state = "reasoning" if inside_thought else "start"
        self._label = _LABEL
        self._held = ""

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        for piece, control in segments(text):
            kept = piece == _DELIMITER or (piece == _CALL_END and self._state == "reasoning")
            if control and not kept:
                event = self._control(piece)
            else:
                event = self._text(piece)
            if event:
                yield event

    def _control(self, token: str) -> tuple[str, str] | None:
        if self._state == "call":
            if token != _CALL_END:
                return None
            self._state = "content"
            return "call end", ""
        if token == _CALL:
            self._state = "call"
            return "call", ""
        if token == _OPEN:
            self._state = "reasoning"
        elif token == _CLOSE and self._state == "reasoning":
            self._state = "content"
            self._held = ""
        return None

    def _text(self, piece: str) -> tuple[str, str]:
        if self._state == "start":
            self._state = "reasoning" if piece.startswith(_LABEL) else "content"
        return self._state, self._thought(piece) if self._state == "reasoning" else piece

    def _thought(self, piece: str) -> str:
        """Without the channel's label, and with blanks held back until something follows them."""
        piece = self._held + piece
        if self._label:
            if self._label.startswith(piece):
                self._held = piece
                return ""
            piece = piece.removeprefix(self._label)
            self._label = ""
        text = piece.rstrip()
        self._held = piece[len(text) :]
        return text


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of one tool call; None marks what this piece does not carry."""

    index: int
    name: str | None
    arguments: str | None


@dataclass(slots=True)
class Delta:
    """What one canvas added."""

    reasoning: str = ""
    content: str = ""
    calls: list[CallPiece] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.reasoning or self.content or self.calls)


class Stream:
    """Streamed parsing. `schemas` are the parameters of the offered tools by name; None drops every call.

    `inside_thought` is true when the prompt ends in an open thought channel.
    """

    def __init__(self, schemas: Schemas | None, *, inside_thought: bool = False) -> None:
        self._schemas = schemas
        self._machine = _Machine(inside_thought=inside_thought)
        self._raw: str | None = None
        self._name: str | None = None
        self._said = ""
        self.called = 0

    def feed(self, text: str) -> Delta:
        """Take the text of the next canvas; control tokens never lie across two of them."""
        delta = Delta()
        for kind, piece in self._machine.feed(text):
            if kind == "reasoning":
                delta.reasoning += piece
            elif kind == "content":
                delta.content += piece
            elif kind == "call":
                self._raw = (self._raw or "") + piece
            else:
                self._close(delta)
        if self._raw:
            self._say(self._raw, delta)
        return delta

    def finish(self) -> Delta:
        """The text is over: a call that was never closed gets its end."""
        delta = Delta()
        if self._raw is not None:
            self._close(delta)
        return delta

    def _say(self, raw: str, delta: Delta) -> None:
        """Give out what can no longer change of a call that is not closed yet."""
        found = _header(raw, self._schemas)
        if found and found.open:
            pairs = unrepeated(read(found.arguments, found.schema, cut=True))
            self._give(found.name, safe_prefix(pairs, found.schema), delta)

    def _close(self, delta: Delta) -> None:
        found = _header(self._raw or "", self._schemas)
        if found:
            pairs = read(found.arguments, found.schema)
            settled = unrepeated(pairs)
            if len(settled) < len(pairs):
                # The stream said the first value before it saw the second one, and never takes a word back.
                self._give(found.name, safe_prefix(settled, found.schema), delta)
            self._give(found.name, as_json(pairs), delta)
            self.called += 1
        self._raw = None
        self._name = None
        self._said = ""

    def _give(self, name: str, arguments: str, delta: Delta) -> None:
        if not arguments.startswith(self._said):
            return
        more = arguments[len(self._said) :]
        if self._name is None or more:
            delta.calls.append(CallPiece(self.called, name if self._name is None else None, more or None))
        self._name = name
        self._said = arguments


@dataclass(frozen=True, slots=True)
class Parsed:
    """A whole reply; the calls are (name, arguments as JSON)."""

    reasoning: str
    content: str
    calls: Sequence[tuple[str, str]]


def parse_whole(text: str, schemas: Schemas | None) -> Parsed:
    """Parse a reply that is not streamed: spelled-out markup counts, and text behind a call is lost."""
    text = text.replace(SPELLED, "")
    if _CLOSE in text and _OPEN not in text:
        text = _OPEN + text
    said = {"reasoning": "", "content": "", "call": ""}
    calls: list[tuple[str, str]] = []
    for kind, piece in (*_Machine(inside_thought=False).feed(text), ("call end", "")):
        if kind == "call end":
            found = _header(said["call"], schemas)
            said["call"] = ""
            if found:
                calls.append((found.name, as_json(read(found.arguments, found.schema))))
        elif kind != "content" or not calls:
            said[kind] += piece
    content = said["content"].strip() if calls else said["content"]
    return Parsed(said["reasoning"], content, calls)


@dataclass(frozen=True, slots=True)
class _Header:
    name: str
    open: bool
    arguments: str
    schema: Schema


def _header(raw: str, schemas: Schemas | None) -> _Header | None:
    """Name and raw arguments of a call; None for rubbish, an empty name, or when calls are not wanted."""
    found = _HEADER.search(raw)
    name = found["name"].strip() if found else ""
    if not found or not name or schemas is None:
        return None
    return _Header(name, bool(found["open"]), found["arguments"], schemas.get(name, {}))


def reasoning_flags(tokens: Sequence[str], *, inside_thought: bool) -> list[bool]:
    """Which tokens the server counts as reasoning, the channel's label included; empty when none are."""
    inside = inside_thought or "".join(tokens[:4]).startswith(_LABEL)
    first = next((token for token in tokens if token in (_OPEN, _CLOSE)), None)
    if first is None and not inside:
        return []
    inside = inside or first == _CLOSE
    flags = []
    for token in tokens:
        if token in (_CLOSE, _CALL):
            inside = False
        flags.append(inside and token not in CONTROL_IDS)
        inside = inside or token == _OPEN
    return flags

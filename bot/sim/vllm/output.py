"""What the simulated model writes for a request: its tokens, where they end and why.

Pure. Cuts the brain's text at end tokens, stop strings, repetition and the limit, then into canvases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import eq
from typing import Any

from bot.sim.gemma.tokens import CONTROL_IDS, tokenize

_END = "<eos>"
_TURN_END = "<turn|>"
_RESPONSE = "<|tool_response>"
_STOPS = {_END: None, _TURN_END: CONTROL_IDS[_TURN_END], _RESPONSE: CONTROL_IDS[_RESPONSE]}
_NAMES = {number: name for name, number in CONTROL_IDS.items()}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """The tokens a request gets, the last of which may be an end token; `text_end` leaves that one out.

    `cut` is text that a stop string took away from the last token.
    """

    tokens: Sequence[str]
    finish: str
    stop_reason: int | str | None
    text_end: int
    cut: int = 0

    def canvases(self, width: int) -> list[tuple[int, str]]:
        """Each canvas as (tokens up to its end, its text)."""
        ends = [*range(width, len(self.tokens), width), len(self.tokens)]
        texts = ["".join(self.tokens[start : min(end, self.text_end)]) for start, end in pairwise([0, *ends])]
        if self.cut:
            texts = _without_tail(texts, self.cut)
        return list(zip(ends, texts, strict=True))


def write(raw: str, body: Json, limit: int, *, detects_repetition: bool = True) -> Output:
    """End `raw` where the server would: whichever comes first of end token, stop string, repetition and
    limit.
    """
    tokens = tokenize(raw)
    output = _ended(tokens, raw, body)
    if isinstance(body.get("stop"), str):
        wanted = [body["stop"]]
    else:
        wanted = body.get("stop") or []
    if wanted:
        output = _stopped(output, wanted)
    if detects_repetition and body.get("repetition_detection"):
        output = _repeated(output, body["repetition_detection"])
    if len(output.tokens) > limit:
        return Output(output.tokens[:limit], "length", None, limit)
    return output


def _ended(tokens: list[str], raw: str, body: Json) -> Output:
    stops = dict(_STOPS)
    for number in body.get("stop_token_ids") or ():
        if number in _NAMES:
            stops[_NAMES[number]] = number
    place = next((n for n, token in enumerate(tokens) if token in stops), None)
    if place is None:
        tokens.append(_RESPONSE if raw.rstrip().endswith("<tool_call|>") else _TURN_END)
        place = len(tokens) - 1
    return Output(tokens[: place + 1], "stop", stops[tokens[place]], place)


def _stopped(output: Output, wanted: Sequence[str]) -> Output:
    text = "".join(output.tokens[: output.text_end])
    found = [(place, word) for word in wanted if word and (place := text.find(word)) >= 0]
    if not found:
        return output
    start, word = min(found)
    ends = accumulate(len(token) for token in output.tokens)
    count, end = next((n, end) for n, end in enumerate(ends, 1) if end >= start + len(word))
    return Output(output.tokens[:count], "stop", word, count, cut=end - start)


def _repeated(output: Output, rule: Json) -> Output:
    tokens = output.tokens[: output.text_end]
    sizes = range(int(rule.get("min_pattern_size") or 1), int(rule["max_pattern_size"]) + 1)
    ends = [end for size in sizes if (end := _repeated_until(tokens, size, int(rule.get("min_count") or 2)))]
    if not ends:
        return output
    return Output(tokens[: min(ends)], "repetition", "repetition_detected", min(ends))


def _repeated_until(tokens: Sequence[str], size: int, times: int) -> int | None:
    """Where a pattern of `size` tokens has been said `times` times in a row."""
    same = size * (times - 1)
    start = bytes(map(eq, tokens[size:], tokens)).find(b"\x01" * same)
    if start < 0:
        return None
    return start + size + same


def _without_tail(texts: list[str], count: int) -> list[str]:
    for place in range(len(texts) - 1, -1, -1):
        taken = min(count, len(texts[place]))
        texts[place] = texts[place][: len(texts[place]) - taken]
        count -= taken
    return texts

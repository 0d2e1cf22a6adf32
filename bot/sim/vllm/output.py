"""The output of the simulated model for a request: its tokens, where they end and why.

Pure. Cuts the brain's text at end tokens, stop strings, repetition and the limit, then into canvases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import eq
from typing import Any

from bot.sim.gemma.tokens import CONTROL_IDS, tokenize

_END_TOKEN = "<eos>"  # noqa: S105
_TURN_END_TOKEN = "<turn|>"  # noqa: S105
_TOOL_RESPONSE_TOKEN = "<|tool_response>"  # noqa: S105
_END_TOKEN_IDS = {
    _END_TOKEN: None,
    _TURN_END_TOKEN: CONTROL_IDS[_TURN_END_TOKEN],
    _TOOL_RESPONSE_TOKEN: CONTROL_IDS[_TOOL_RESPONSE_TOKEN],
}
_CONTROL_TOKEN_NAMES = {number: name for name, number in CONTROL_IDS.items()}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """The tokens of a request, the last of which may be an end token.

    `text_token_count` excludes that one. `cut_characters` is the length of the text that a stop string
    removed from the last token.
    """

    tokens: Sequence[str]
    finish_reason: str
    stop_reason: int | str | None
    text_token_count: int
    cut_characters: int = 0

    def canvases(self, width: int) -> list[tuple[int, str]]:
        """Each canvas as (tokens up to its end, its text)."""
        ends = [*range(width, len(self.tokens), width), len(self.tokens)]
        texts = [
            "".join(self.tokens[start : min(end, self.text_token_count)])
            for start, end in pairwise([0, *ends])
        ]
        if self.cut_characters:
            texts = _drop_tail(texts, self.cut_characters)
        return list(zip(ends, texts, strict=True))


def build_output(
    raw_text: str, body: Json, max_tokens: int, *, detects_repetition: bool = True
) -> ModelOutput:
    """End `raw_text` where the server would.

    At the first end token, stop string, repetition, or the limit.
    """
    tokens = tokenize(raw_text)
    output = _end_at_token(tokens, raw_text, body)
    if isinstance(body.get("stop"), str):
        stop_strings = [body["stop"]]
    else:
        stop_strings = body.get("stop") or []
    if stop_strings:
        output = _end_at_stop_string(output, stop_strings)
    if detects_repetition and body.get("repetition_detection"):
        output = _end_at_repetition(output, body["repetition_detection"])
    if len(output.tokens) > max_tokens:
        return ModelOutput(output.tokens[:max_tokens], "length", None, max_tokens)
    return output


def _end_at_token(tokens: list[str], raw_text: str, body: Json) -> ModelOutput:
    stops = dict(_END_TOKEN_IDS)
    for number in body.get("stop_token_ids") or ():
        if number in _CONTROL_TOKEN_NAMES:
            stops[_CONTROL_TOKEN_NAMES[number]] = number
    place = next((n for n, token in enumerate(tokens) if token in stops), None)
    if place is None:
        tokens.append(_TOOL_RESPONSE_TOKEN if raw_text.rstrip().endswith("<tool_call|>") else _TURN_END_TOKEN)
        place = len(tokens) - 1
    return ModelOutput(tokens[: place + 1], "stop", stops[tokens[place]], place)


def _end_at_stop_string(output: ModelOutput, stop_strings: Sequence[str]) -> ModelOutput:
    text = "".join(output.tokens[: output.text_token_count])
    matches = [(place, word) for word in stop_strings if word and (place := text.find(word)) >= 0]
    if not matches:
        return output
    start, word = min(matches)
    ends = accumulate(len(token) for token in output.tokens)
    count, end = next((n, end) for n, end in enumerate(ends, 1) if end >= start + len(word))
    return ModelOutput(output.tokens[:count], "stop", word, count, cut_characters=end - start)


def _end_at_repetition(output: ModelOutput, rule: Json) -> ModelOutput:
    tokens = output.tokens[: output.text_token_count]
    sizes = range(int(rule.get("min_pattern_size") or 1), int(rule["max_pattern_size"]) + 1)
    ends = [
        end for size in sizes if (end := _find_repetition_end(tokens, size, int(rule.get("min_count") or 2)))
    ]
    if not ends:
        return output
    return ModelOutput(tokens[: min(ends)], "repetition", "repetition_detected", min(ends))


def _find_repetition_end(tokens: Sequence[str], size: int, times: int) -> int | None:
    """The position where a pattern of `size` tokens has occurred `times` times in a row."""
    same = size * (times - 1)
    start = bytes(map(eq, tokens[size:], tokens)).find(b"\x01" * same)
    if start < 0:
        return None
    return start + size + same


def _drop_tail(texts: list[str], count: int) -> list[str]:
    for place in range(len(texts) - 1, -1, -1):
        cut = min(count, len(texts[place]))
        texts[place] = texts[place][: len(texts[place]) - cut]
        count -= cut
    return texts

"""What the tools offered tell of a message: whether one fits, and whether several do. Pure."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.agent.heavy_turns.word_classes import WordClasses, load_word_classes
from bot.agent.tool_matching.classifier import Weights
from bot.agent.tool_matching.features import MessageFeatures, extract_features
from bot.agent.tool_matching.index import ToolIndex, ToolProfile
from bot.agent.tool_matching.scores import ToolMatch, build_features, match_tools
from bot.agent.tool_matching.stems import split_words

MAX_PIECES = 6  # of a message that are matched one by one
MIN_PIECE_CHANCE = 0.3  # that a piece needs a tool, from which it counts as one that does
MAX_RIVALS = 8  # tools that are looked through for such as match by words of their own
MIN_RIVAL_SCORE = 0.8
MIN_RIVAL_SHARE = 0.5  # of the score of the best match

_PIECE_END = re.compile(
    r"[.!?;,:\n，、؛،؟]+(?:\s|$)|[。！？；，、]|然后|之后再|接着|并且|それから|その後|そして"
)
_JOIN_CLASSES = frozenset({"join", "order"})
_MAX_LOGIT = 6.0


@dataclass(frozen=True, slots=True)
class MatchedPiece:
    """A message or a part of it: its best match first, and the probability that it needs a tool.

    `features`: of the message and its matches, by name.
    """

    message: MessageFeatures
    matches: Sequence[ToolMatch]
    features: Mapping[str, float]
    tool_chance: float

    @property
    def nearest_tool(self) -> ToolProfile:
        """The tool that fits best; any if none has anything in common with the message."""
        return self.matches[0].tool


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """A message matched against the tools offered, as a whole and piece by piece; no pieces: it is one."""

    whole: MatchedPiece
    pieces: tuple[MatchedPiece, ...]


def match_message(text: str, tool_index: ToolIndex, weights: Weights) -> MatchedMessage:
    """Match a message against tools, of which there must be at least one."""
    pieces = split_pieces(text)[:MAX_PIECES]
    return MatchedMessage(
        _match_piece(text, tool_index, weights),
        tuple(_match_piece(piece, tool_index, weights) for piece in pieces),
    )


def _match_piece(text: str, tool_index: ToolIndex, weights: Weights) -> MatchedPiece:
    message = extract_features(text)
    matches = match_tools(message, tool_index)
    features = build_features(message, matches)
    chance = 0.0
    if message.is_readable:
        chance = weights.tool_chance(features)
    return MatchedPiece(message, matches, features, chance)


def split_pieces(text: str) -> list[str]:
    """The parts of a message between punctuation and words such as `and` and `then`; none if it is one."""
    classes = load_word_classes()
    parts = (piece for part in _PIECE_END.split(text) for piece in _split_at_joins(part, classes))
    pieces = [piece for piece in parts if len(piece) > 1]
    if len(pieces) > 1:
        return pieces
    return []


def _split_at_joins(part: str, classes: WordClasses) -> Iterator[str]:
    piece: list[str] = []
    for word in part.split():
        plain_words = split_words(word)
        if len(plain_words) == 1 and not _JOIN_CLASSES.isdisjoint(classes.words.get(plain_words[0], ())):
            yield " ".join(piece)
            piece = []
        else:
            piece.append(word)
    yield " ".join(piece)


def describe_tools(matched: MatchedMessage) -> dict[str, float]:
    """The features of a message that depend on the tools offered."""
    whole = matched.whole
    features = {
        "tool logit": _to_logit(whole.tool_chance) / 3,
        "tool chance": whole.tool_chance,
        "unreadable": float(not whole.message.is_readable),
        "english": float(whole.message.is_english),
    }
    features |= _describe_ranks(whole.matches)
    features |= {f"match {name}": value for name, value in whole.features.items()}
    if not whole.message.is_english:  # what is known of it stands in English
        features |= {f"w {name}": 1.0 for name in whole.message.stems}
    if matched.pieces:
        features |= _describe_pieces(matched.pieces)
    return features


def _to_logit(chance: float) -> float:
    if chance <= 0:
        return -_MAX_LOGIT
    return max(-_MAX_LOGIT, min(_MAX_LOGIT, math.log(chance / (1 - chance))))


def _describe_ranks(matches: Sequence[ToolMatch]) -> dict[str, float]:
    """How well the best three match, and how many match by words of their own."""
    best, second, third = [*(match.score for match in matches[:3]), 0.0, 0.0][:3]
    rival_count = _count_rivals(matches)
    features = {
        "best score": best / 3,
        "second score": second / 3,
        "third score": third / 3,
        "rivals": math.log1p(rival_count),
        "several rivals": float(rival_count > 1),
    }
    if best:
        features["second share"] = second / best
        features["third share"] = third / best
    return features


def _count_rivals(matches: Sequence[ToolMatch]) -> int:
    """How many of the best tools have words of the message in their names that no better one has."""
    min_score = max(MIN_RIVAL_SCORE, MIN_RIVAL_SHARE * matches[0].score)
    covered_stems: set[str] = set()
    count = 0
    for match in matches[:MAX_RIVALS]:
        if match.score > min_score and not match.counts.name_stems <= covered_stems:
            count += 1
            covered_stems |= match.counts.name_stems
    return count


def _describe_pieces(pieces: Sequence[MatchedPiece]) -> dict[str, float]:
    chances = sorted((piece.tool_chance for piece in pieces), reverse=True)
    clear_count = sum(chance > MIN_PIECE_CHANCE for chance in chances)
    chance_by_tool: dict[str, float] = {}
    for piece in pieces:
        name = piece.nearest_tool.name
        chance_by_tool[name] = max(piece.tool_chance, chance_by_tool.get(name, 0.0))
    by_tool = [*sorted(chance_by_tool.values(), reverse=True), 0.0, 0.0]
    return {
        "pieces": math.log1p(len(pieces)),
        "pieces with tools": math.log1p(clear_count),
        "several pieces with tools": float(clear_count > 1),
        "sum of pieces": math.log1p(sum(chances)),
        "second piece": chances[1],
        "tools of pieces": math.log1p(sum(chance > MIN_PIECE_CHANCE for chance in by_tool)),
        "second tool of pieces": by_tool[1],
        "third tool of pieces": by_tool[2],
    }

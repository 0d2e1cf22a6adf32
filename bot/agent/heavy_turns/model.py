"""The probability that a turn is heavy, and why it is: a logistic model over its message and its tools.

Pure apart from reading the shipped `weights.txt` once; `python -m tests.training.heavy_turns` writes it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.heavy_turns.message_features import MessageText, describe_message
from bot.agent.heavy_turns.tool_features import MatchedMessage, describe_tools
from bot.agent.tool_matching.classifier import to_probability

# Features that tell more where a tool matches: each stands once more, times the chance of that.
JOINT_FEATURES = (
    "at least 2 actions",
    "at least 3 actions",
    "some order",
    "some join",
    "many join",
    "some compare",
    "some condition",
    "some each",
    "two links",
    "two items",
    "two names",
    "two numbers",
    "several pieces with tools",
)
MAX_LOGIT = 30.0
_BIAS = "bias"
_THRESHOLD = "threshold"
_STEP_WORDS = {
    "find": "find out",
    "plan": "plan",
    "turn": "work out",
    "act": "book or change",
    "save": "note",
    "remind": "remind",
    "send": "send",
}
_SIGNS = (
    ("two links", "several links to read"),
    ("two items", "a list of tasks"),
    ("two inline items", "a list of tasks"),
    ("some compare", "a comparison"),
    ("some plan", "a plan"),
)


@dataclass(frozen=True, slots=True)
class HeavyModel:
    """The weights of features by name, each for heavy work and for one call, against chat.

    `threshold`: the probability from which a turn is heavy.
    """

    weights: Mapping[str, tuple[float, float]]
    bias: tuple[float, float]
    threshold: float

    def estimate_chance(self, features: Mapping[str, float]) -> float:
        """The probability that a turn with these features is heavy, 0 to 1."""
        heavy, one_call = self.bias
        for name, value in features.items():
            if name in self.weights:
                heavy_weight, one_call_weight = self.weights[name]
                heavy += value * heavy_weight
                one_call += value * one_call_weight
        others = math.log1p(math.exp(min(one_call, MAX_LOGIT)))  # one call, and chat, which counts as 0
        return to_probability(heavy - others)


def build_features(message: MessageText, matched: MatchedMessage) -> dict[str, float]:
    """The features of a message and of the tools it matches."""
    features = describe_message(message) | describe_tools(matched)
    tool_chance = matched.whole.tool_chance
    features |= {f"{name}, tool": tool_chance for name in JOINT_FEATURES if features.get(name)}
    return features


def is_known(features: Mapping[str, float]) -> bool:
    """Whether a message has any word that tells something: of a known class, or of a tool."""
    return not features["unreadable"] or any(name.startswith("some ") for name in features)


@cache
def load_model() -> HeavyModel:
    """The shipped model."""
    return parse_model(files("bot.agent.heavy_turns").joinpath("weights.txt").read_text(encoding="utf-8"))


def parse_model(text: str) -> HeavyModel:
    """Read a model as `format_model` writes it. Raises ValueError or KeyError for anything else."""
    threshold_line, *lines = text.splitlines()
    threshold, name = threshold_line.split(" ")
    if name != _THRESHOLD:
        raise ValueError(f"the first line is the {_THRESHOLD}")
    weights: dict[str, tuple[float, float]] = {}
    to_weight = cache(float)  # of 20,000 weights 1,200 differ: shared, they take 0.4 MiB less
    for line in lines:
        heavy, one_call, name = line.split(" ", 2)
        weights[name] = (to_weight(heavy), to_weight(one_call))
    bias = weights.pop(_BIAS)
    return HeavyModel(weights, bias, float(threshold))


def format_model(model: HeavyModel) -> str:
    """A model as text, one feature a line, rounded to the digits that matter."""
    rows = [(_BIAS, model.bias), *sorted(model.weights.items())]
    lines = [f"{model.threshold:.3f} {_THRESHOLD}"]
    lines += [f"{heavy:.3f} {one_call:.3f} {name}" for name, (heavy, one_call) in rows]
    return "\n".join(lines) + "\n"


def explain_heavy(features: Mapping[str, float]) -> str:
    """What makes a turn with these features heavy."""
    steps = [words for name, words in _STEP_WORDS.items() if features.get(f"some {name}")]
    if len(steps) > 1:
        return f"several steps: {', '.join(steps)}"
    for name, reason in _SIGNS:
        if features.get(name):
            return reason
    return "several things at once"


def explain_light(tools: Sequence[str]) -> str:
    """Why a turn for which these tools match is not heavy."""
    if not tools:
        return "no tool fits"
    return f"one step: {', '.join(tools)}"

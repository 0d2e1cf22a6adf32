"""The probability that a turn is heavy: a logistic model over the features of its message and its tools.

Pure apart from reading the shipped `weights.txt` once; `python -m tests.training.heavy_turns` writes it.
"""

from collections.abc import Mapping
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
_BIAS = "bias"
_THRESHOLD = "threshold"


@dataclass(frozen=True, slots=True)
class HeavyModel:
    """The weights of features by name, and the probability from which a turn is heavy."""

    weights: Mapping[str, float]
    bias: float
    threshold: float

    def estimate_chance(self, features: Mapping[str, float]) -> float:
        """The probability that a turn with these features is heavy, 0 to 1."""
        logit = self.bias
        for name, value in features.items():
            logit += value * self.weights.get(name, 0.0)
        return to_probability(logit)


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
    weights: dict[str, float] = {}
    for line in text.splitlines():
        weight, _, name = line.partition(" ")
        weights[name] = float(weight)
    bias = weights.pop(_BIAS)
    threshold = weights.pop(_THRESHOLD)
    return HeavyModel(weights, bias, threshold)


def format_model(model: HeavyModel) -> str:
    """A model as text, one feature a line, rounded to the digits that matter."""
    lines = [f"{model.bias:.3f} {_BIAS}", f"{model.threshold:.3f} {_THRESHOLD}"]
    lines += [f"{weight:.3f} {name}" for name, weight in sorted(model.weights.items())]
    return "\n".join(lines) + "\n"

"""A small model of whether a message needs the tools it fits: two logistic judgements, and the lower one
counts.

Pure apart from reading the shipped `weights.json` once; `canvasgram bench thinking --train` writes that file.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """One logistic judgement: features by name as (mean, weight); one that a message lacks counts as its
    mean.
    """

    bias: float
    features: Mapping[str, tuple[float, float]]

    def compute_logit(self, values: Mapping[str, float]) -> float:
        """How much speaks for it; 0 is even."""
        logit = self.bias
        for name, (mean, weight) in self.features.items():  # a loop, since a sum of terms takes twice as long
            if name in values:
                logit += (values[name] - mean) * weight
        return logit


@dataclass(frozen=True, slots=True)
class Weights:
    """`near`: is a tool on offer near the matter at all; `right`: would it do just this, with what it is
    given.

    `threshold` and `abroad` are the probabilities from which a message in English, or not, needs tools.
    """

    near: LogisticModel
    right: LogisticModel
    threshold: float
    non_english_threshold: float

    def tool_chance(self, values: Mapping[str, float]) -> float:
        """The probability that tools are needed, 0 to 1."""
        return to_probability(min(self.near.compute_logit(values), self.right.compute_logit(values)))

    def threshold_for(self, is_english: bool) -> float:
        """The probability from which tools are taken to be needed."""
        if is_english:
            return self.threshold
        return self.non_english_threshold


def to_probability(logit: float) -> float:
    """A logit as a probability; extremes stay short of 0 and 1."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def load_weights() -> Weights:
    """The weights that come with the house."""
    return parse_weights(
        files("bot.agent.tool_matching").joinpath("weights.json").read_text(encoding="utf-8")
    )


def parse_weights(text: str) -> Weights:
    """Weights as `to_json` writes them. Raises ValueError or KeyError for anything else."""
    body = json.loads(text)
    near, right = (
        LogisticModel(
            body[name]["bias"],
            {key: (mean, weight) for key, (mean, weight) in body[name]["features"].items()},
        )
        for name in ("near", "right")
    )
    return Weights(near, right, body["threshold"], body["abroad"])


def format_weights(weights: Weights) -> str:
    """The same as text, a feature a line, rounded to what matters."""
    body = {
        "threshold": round(weights.threshold, 3),
        "abroad": round(weights.non_english_threshold, 3),
        "near": _to_plain(weights.near),
        "right": _to_plain(weights.right),
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def _to_plain(model: LogisticModel) -> dict[str, object]:
    numbers = {name: [round(mean, 4), round(weight, 4)] for name, (mean, weight) in model.features.items()}
    return {"bias": round(model.bias, 4), "features": numbers}

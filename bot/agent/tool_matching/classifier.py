"""A small classifier of whether a message needs the tools it matches: the lower of two logistic models.

Pure apart from reading the shipped `weights.json` once; `python -m tests.training.tool_need` writes it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """A logistic model: features by name as (mean, weight); a missing feature counts as its mean."""

    bias: float
    features: Mapping[str, tuple[float, float]]

    def compute_logit(self, values: Mapping[str, float]) -> float:
        """The log odds; 0 is even."""
        logit = self.bias
        for name, (mean, weight) in self.features.items():  # sum() takes twice as long
            if name in values:
                logit += (values[name] - mean) * weight
        return logit


@dataclass(frozen=True, slots=True)
class Weights:
    """The trained models, and the probabilities from which a message in English, or not, needs tools.

    near: whether a tool offered has anything to do with the message.
    right: whether it would do exactly this, with the values the message gives.
    """

    near: LogisticModel
    right: LogisticModel
    threshold: float
    non_english_threshold: float

    def tool_chance(self, values: Mapping[str, float]) -> float:
        """The probability that tools are needed, 0 to 1."""
        return to_probability(min(self.near.compute_logit(values), self.right.compute_logit(values)))

    def threshold_for(self, is_english: bool) -> float:
        """The probability from which tools count as needed."""
        if is_english:
            return self.threshold
        return self.non_english_threshold


def to_probability(logit: float) -> float:
    """A logit as a probability, never exactly 0 or 1."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def load_weights() -> Weights:
    """The shipped weights."""
    path = files("bot.agent.tool_matching").joinpath("weights.json")
    return parse_weights(path.read_text(encoding="utf-8"))


def parse_weights(text: str) -> Weights:
    """Read weights as `format_weights` writes them. Raises ValueError or KeyError for anything else."""
    body = json.loads(text)
    near = _parse_model(body["near"])
    right = _parse_model(body["right"])
    return Weights(near, right, body["threshold"], body["abroad"])


def _parse_model(body: Mapping[str, Any]) -> LogisticModel:
    features = {name: (mean, weight) for name, (mean, weight) in body["features"].items()}
    return LogisticModel(body["bias"], features)


def format_weights(weights: Weights) -> str:
    """Weights as JSON, one feature a line, rounded to the digits that matter."""
    body = {
        "threshold": round(weights.threshold, 3),
        "abroad": round(weights.non_english_threshold, 3),
        "near": _model_to_json(weights.near),
        "right": _model_to_json(weights.right),
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def _model_to_json(model: LogisticModel) -> dict[str, object]:
    features = {name: [round(mean, 4), round(weight, 4)] for name, (mean, weight) in model.features.items()}
    return {"bias": round(model.bias, 4), "features": features}

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
class Judgement:
    """One logistic judgement: features by name as (mean, weight); one that a message lacks counts as its
    mean.
    """

    bias: float
    features: Mapping[str, tuple[float, float]]

    def logit(self, given: Mapping[str, float]) -> float:
        """How much speaks for it; 0 is even."""
        logit = self.bias
        for name, (mean, weight) in self.features.items():  # a loop, since a sum of terms takes twice as long
            if name in given:
                logit += (given[name] - mean) * weight
        return logit


@dataclass(frozen=True, slots=True)
class Weights:
    """`near`: is a tool on offer near the matter at all; `right`: would it do just this, with what it is
    given.

    `threshold` and `abroad` are the probabilities from which a message in English, or not, needs tools.
    """

    near: Judgement
    right: Judgement
    threshold: float
    abroad: float

    def needs(self, given: Mapping[str, float]) -> float:
        """The probability that tools are needed, 0 to 1."""
        return chance(min(self.near.logit(given), self.right.logit(given)))

    def least(self, english: bool) -> float:
        """The probability from which tools are taken to be needed."""
        if english:
            return self.threshold
        return self.abroad


def chance(logit: float) -> float:
    """A logit as a probability; extremes stay short of 0 and 1."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def shipped() -> Weights:
    """The weights that come with the house."""
    return from_json(files("bot.agent.tool_matching").joinpath("weights.json").read_text(encoding="utf-8"))


def from_json(text: str) -> Weights:
    """Weights as `to_json` writes them. Raises ValueError or KeyError for anything else."""
    body = json.loads(text)
    near, right = (
        Judgement(
            body[name]["bias"],
            {key: (mean, weight) for key, (mean, weight) in body[name]["features"].items()},
        )
        for name in ("near", "right")
    )
    return Weights(near, right, body["threshold"], body["abroad"])


def to_json(weights: Weights) -> str:
    """The same as text, a feature a line, rounded to what matters."""
    body = {
        "threshold": round(weights.threshold, 3),
        "abroad": round(weights.abroad, 3),
        "near": _plain(weights.near),
        "right": _plain(weights.right),
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def _plain(judgement: Judgement) -> dict[str, object]:
    numbers = {
        name: [round(mean, 4), round(weight, 4)] for name, (mean, weight) in judgement.features.items()
    }
    return {"bias": round(judgement.bias, 4), "features": numbers}

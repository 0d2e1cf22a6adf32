"""Trains the weights of the thinking policy: logistic regression by Newton's method, the same in every run.
Pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.agent.tool_matching.classifier import LogisticModel, Weights, to_probability
from bot.bench.harness.statistics import percentile

IRRELEVANCE_SOURCE = "irrelevance"  # source of the cases that an offered tool is near to and does not fit
TARGET_RECALL = 0.95
L2_PENALTY = 10.0  # on squared weights of standardised features
BIAS_LEAD = 0.8  # how much `right` is trusted less than `near`, as a logit: its cases are the harder ones
NON_ENGLISH_THRESHOLD = 0.25  # the threshold where a message is not English: fewer of its words are known
MAX_NEWTON_STEPS = 12

Vector = list[float]


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A case as the model sees it."""

    features: Mapping[str, float]
    needs_tools: bool
    source: str


def train_weights(samples: Sequence[TrainingSample]) -> Weights:
    """Weights from samples of all sources; thresholds are left at one half."""
    near = fit_logistic_model([one for one in samples if one.source != IRRELEVANCE_SOURCE])
    right = fit_logistic_model(
        [one for one in samples if one.needs_tools or one.source == IRRELEVANCE_SOURCE]
    )
    return Weights(near, replace(right, bias=right.bias + BIAS_LEAD), 0.5, 0.5)


def fit_logistic_model(samples: Sequence[TrainingSample]) -> LogisticModel:
    """One logistic judgement. A feature that some sample lacks counts as its mean there."""
    names = sorted({name for one in samples for name in one.features})
    given = {name: [one.features[name] for one in samples if name in one.features] for name in names}
    mean = {name: sum(values) / len(values) for name, values in given.items()}
    scale = {
        name: math.sqrt(sum((one - mean[name]) ** 2 for one in given[name]) / len(given[name]))
        for name in names
    }
    names = [name for name in names if scale[name] > 0]
    rows = [
        [1.0, *((one.features.get(name, mean[name]) - mean[name]) / scale[name] for name in names)]
        for one in samples
    ]
    bias, *weights = _fit_newton(rows, [float(one.needs_tools) for one in samples])
    return LogisticModel(
        bias, {name: (mean[name], weight / scale[name]) for name, weight in zip(names, weights, strict=True)}
    )


def predict_out_of_fold(samples: Sequence[TrainingSample], folds: Sequence[int]) -> list[float]:
    """The probability of each sample by weights that were trained without its fold."""
    found = [0.0] * len(samples)
    for fold in sorted(set(folds)):
        weights = train_weights([one for one, place in zip(samples, folds, strict=True) if place != fold])
        for number, (one, place) in enumerate(zip(samples, folds, strict=True)):
            if place == fold:
                found[number] = weights.tool_chance(one.features)
    return found


def find_threshold(
    probabilities: Sequence[float], needs_tools: Sequence[bool], recall: float = TARGET_RECALL
) -> float:
    """The highest probability at which so large a share of the cases that need tools is found."""
    found = percentile(
        (one for one, wanted in zip(probabilities, needs_tools, strict=True) if wanted), 1 - recall
    )
    if found is not None:
        return found
    return 0.5


def _fit_newton(rows: Sequence[Vector], targets: Sequence[float]) -> Vector:
    size = len(rows[0])
    weights = [0.0] * size
    for _ in range(MAX_NEWTON_STEPS):
        slope = [0.0 if place == 0 else -L2_PENALTY * weight for place, weight in enumerate(weights)]
        curve = [[L2_PENALTY * (row == column != 0) for column in range(size)] for row in range(size)]
        for row, target in zip(rows, targets, strict=True):
            guess = to_probability(sum(map(float.__mul__, row, weights)))
            error = target - guess
            spread = guess * (1 - guess)
            for place, value in enumerate(row):
                slope[place] += error * value
                part = spread * value
                line = curve[place]
                for other in range(place + 1):
                    line[other] += part * row[other]
        step = _solve_cholesky(curve, slope)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
        if max(map(abs, step)) < 1e-6:
            break
    return weights


def _solve_cholesky(lower: list[Vector], right_side: Vector) -> Vector:
    """The solution of a symmetric positive system, of which the lower half is given (Cholesky)."""
    size = len(right_side)
    root = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            rest = lower[row][column] - sum(map(float.__mul__, root[row][:column], root[column][:column]))
            if row == column:
                root[row][column] = math.sqrt(max(rest, 1e-9))
            else:
                root[row][column] = rest / root[column][column]
    forward: Vector = []
    for row in range(size):
        forward.append((right_side[row] - sum(map(float.__mul__, root[row][:row], forward))) / root[row][row])
    found = [0.0] * size
    for row in reversed(range(size)):
        rest = forward[row] - sum(root[below][row] * found[below] for below in range(row + 1, size))
        found[row] = rest / root[row][row]
    return found

"""Trains the weights that tell whether a message needs a tool, and prints how they do on cases left out.

    python -m tests.training.tool_need FOLDER ... --out bot/agent/tool_matching/weights.json

A folder holds cases.jsonl or english.jsonl, with tools.json. The same cases give the same weights.
"""

import argparse
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bot.agent.tool_matching.classifier import LogisticModel, Weights, format_weights
from bot.agent.tool_matching.features import extract_features
from bot.agent.tool_matching.scores import build_features, match_tools
from bot.bench.harness.statistics import percentile
from bot.bench.policies.cases import PolicyCase, read_cases
from bot.bench.policies.thinking import compute_auc

TRAINING_FILES = ("cases.jsonl", "english.jsonl")
IRRELEVANCE_SOURCE = "irrelevance"  # the source of cases that an offered tool is near to and does not fit
TARGET_RECALL = 0.95
L2_PENALTY = 10.0  # on squared weights of standardised features
BIAS_LEAD = 0.8  # how much `right` is trusted less than `near`, as a logit: its cases are the harder ones
NON_ENGLISH_THRESHOLD = 0.25  # fewer words of a message are known where it is not English
FOLDS = 5


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A case as the model sees it."""

    features: Mapping[str, float]
    needs_tools: bool
    source: str


def train_weights(samples: Sequence[TrainingSample]) -> Weights:
    """Fit both models on samples of all sources; the thresholds stay at one half."""
    near = fit_logistic_model([sample for sample in samples if sample.source != IRRELEVANCE_SOURCE])
    right = fit_logistic_model(
        [sample for sample in samples if sample.needs_tools or sample.source == IRRELEVANCE_SOURCE]
    )
    return Weights(near, replace(right, bias=right.bias + BIAS_LEAD), 0.5, 0.5)


def fit_logistic_model(samples: Sequence[TrainingSample]) -> LogisticModel:
    """Fit one logistic model. A missing feature counts as its mean; a constant one is dropped."""
    import numpy as np  # these take a second, and each collection of tests would import them
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    names = sorted({name for sample in samples for name in sample.features})
    values = np.array([[sample.features.get(name, np.nan) for name in names] for sample in samples])
    scaler = StandardScaler().fit(values)
    varies = scaler.var_ > 0
    rows = np.nan_to_num(scaler.transform(values))[:, varies]
    regression = LogisticRegression(C=1 / L2_PENALTY, solver="newton-cholesky", tol=1e-8)
    regression.fit(rows, [sample.needs_tools for sample in samples])
    kept = zip(
        itertools.compress(names, varies),
        scaler.mean_[varies],
        regression.coef_[0] / scaler.scale_[varies],
        strict=True,
    )
    features = {name: (float(mean), float(weight)) for name, mean, weight in kept}
    return LogisticModel(float(regression.intercept_[0]), features)


def assign_folds(keys: Sequence[str], count: int = FOLDS) -> list[int]:
    """Give each key the number of its fold; equal keys share one."""
    distinct = sorted(set(keys))
    random.Random(0).shuffle(distinct)  # the same folds in every run
    fold_of = {key: position % count for position, key in enumerate(distinct)}
    return [fold_of[key] for key in keys]


def predict_out_of_fold(samples: Sequence[TrainingSample], folds: Sequence[int]) -> list[float]:
    """The probability of each sample by weights that were trained without its fold."""
    probabilities = [0.0] * len(samples)
    for fold in sorted(set(folds)):
        weights = train_weights(
            [sample for sample, other in zip(samples, folds, strict=True) if other != fold]
        )
        for position, sample in enumerate(samples):
            if folds[position] == fold:
                probabilities[position] = weights.tool_chance(sample.features)
    return probabilities


def find_threshold(
    probabilities: Sequence[float], needs_tools: Sequence[bool], recall: float = TARGET_RECALL
) -> float:
    """The highest probability that finds this share of the cases that need tools; one half if none does."""
    positives = itertools.compress(probabilities, needs_tools)
    threshold = percentile(positives, 1 - recall)
    return 0.5 if threshold is None else threshold


def train(case_sets: Sequence[Sequence[PolicyCase]]) -> tuple[Weights, dict[str, float | None]]:
    """Train on all cases; and the AUC of cases left out by text, and by the tool that is nearest to a case.

    The threshold keeps its recall on the first set.
    """
    cases = [case for case_set in case_sets for case in case_set]
    samples = []
    nearest_tools = []
    for case in cases:
        features = extract_features(case.text)
        matches = match_tools(features, case.tool_index)
        nearest_tools.append(matches[0].tool.name)
        samples.append(TrainingSample(build_features(features, matches), case.needs_tools, case.source))
    by_text = predict_out_of_fold(samples, assign_folds([case.text for case in cases]))
    by_tool = predict_out_of_fold(samples, assign_folds(nearest_tools))
    first = len(case_sets[0])
    threshold = find_threshold(by_text[:first], [case.needs_tools for case in cases[:first]])
    weights = replace(
        train_weights(samples), threshold=threshold, non_english_threshold=NON_ENGLISH_THRESHOLD
    )
    needs_tools = [sample.needs_tools for sample in samples]
    return weights, {
        "folds by text": _compute_auc(by_text, needs_tools),
        "folds by tool": _compute_auc(by_tool, needs_tools),
    }


def _compute_auc(probabilities: Sequence[float], needs_tools: Sequence[bool]) -> float | None:
    positives = list(itertools.compress(probabilities, needs_tools))
    negatives = list(itertools.compress(probabilities, (not needed for needed in needs_tools)))
    return compute_auc(positives, negatives)


def read_training_sets(folders: Sequence[Path]) -> Iterator[list[PolicyCase]]:
    """The sets of cases that lie in the folders; sets of other languages are for judging alone."""
    for folder in folders:
        for cases_file in TRAINING_FILES:
            if (folder / cases_file).exists():
                yield read_cases(folder, cases_file)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the weights that tell whether a tool is needed.")
    parser.add_argument("folders", nargs="+", type=Path, help="folders with cases")
    parser.add_argument("--out", required=True, type=Path, help="the file to write the weights to")
    options = parser.parse_args()
    case_sets = list(read_training_sets(options.folders))
    if not case_sets:
        parser.error("no cases.jsonl and no english.jsonl in these folders")
    weights, aucs = train(case_sets)
    options.out.write_text(format_weights(weights), encoding="utf-8")
    for name, auc in aucs.items():
        print(f"{name}: AUC {auc:.4f}" if auc is not None else f"{name}: one class only")


if __name__ == "__main__":
    main()

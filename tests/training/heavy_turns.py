"""Trains the model of heavy turns; with --judge it prints how it does on what is left out.

    python -m tests.training.heavy_turns [--out bot/agent/heavy_turns/weights.txt] [--judge] [FOLDER ...]

A folder holds files of labelled cases beside a tools.json; without one, those of tests/fixtures are read, not
what is held out. The same cases give the same weights.
"""

import argparse
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from bot.agent.heavy_turns.message_features import describe_previous, read_message
from bot.agent.heavy_turns.model import HeavyModel, build_features, format_model
from bot.agent.heavy_turns.tool_features import match_message
from bot.agent.tool_matching.classifier import load_weights
from bot.bench.policies.cases import PolicyCase, list_case_files, read_cases
from bot.bench.policies.thinking import find_class

FIXTURES = Path(__file__).parents[1] / "fixtures"
OWN_FOLDER = "heavy"
FOLDERS = (FIXTURES / "heavy_sources", FIXTURES / OWN_FOLDER, FIXTURES / "thinking")
WEIGHTS = Path(__file__).parents[2] / "bot" / "agent" / "heavy_turns" / "weights.txt"

INVERSE_PENALTY = 0.5  # of squared weights: the smaller, the less a single feature counts
CHARACTER_SCALE = 0.3  # of features that stand for runs of characters
WORD_SCALE = 0.5  # of features that stand for words: what is said matters less than how it is put together
MIN_CASES = 8  # that have a feature
MIN_WEIGHT = 0.06  # of a feature that is kept, for heavy work or one call
THRESHOLD = 0.55
# What thinking in vain costs, against not thinking in a heavy turn. Chosen on folds.
CHAT_COST = 2.5
ONE_CALL_COST = 0.6
FOLDS = 5  # of our own cases, each judged by a model trained on all other cases
JOINED_CHAT = "joined chat"
MAX_JOINED = 3  # messages behind another
JOINTS = ("\n", " ", "\n\n", ". ")
CLASS_SHARES = {
    "heavy": 0.37,
    "one call": 0.11,
    "chat": 0.41,
    JOINED_CHAT: 0.11,
}  # of the weight of all cases, before OWN_FACTOR
OWN_FACTOR = 2.0  # what a case of our own counts, against one of a public collection
CLASSES = {"chat": 0, JOINED_CHAT: 0, "one call": 1, "heavy": 2}


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A case as the model sees it.

    `origin`: the file it stands in.
    `fold`: the fold it is left out with; joined messages are of the fold of their parts.
    """

    features: Mapping[str, float]
    label: str
    origin: str
    fold: int

    @property
    def is_own(self) -> bool:
        """Whether it was written for this, not taken from a public collection."""
        return self.origin.startswith(f"{OWN_FOLDER}/")


def read_samples(folders: Sequence[Path]) -> list[TrainingSample]:
    """The cases of all folders whose label is known, and joined ones."""
    dice = random.Random(0)  # the same joined messages in every run
    samples = []
    for folder in folders:
        for path in list_case_files(folder):
            origin = f"{folder.name}/{path.stem}"
            labelled = [(case, find_class(case)) for case in read_cases(folder, path.name)]
            dice.shuffle(labelled)
            for fold in range(FOLDS):
                part = [(case, label) for case, label in labelled[fold::FOLDS] if label is not None]
                chats = [case for case, label in part if label == "chat" and case.before is None]
                samples += [build_sample(case, origin, label, fold) for case, label in part]
                joined = join_chats(chats, dice)
                samples += [build_sample(case, origin, JOINED_CHAT, fold) for case in joined]
    return samples


def join_chats(chats: Sequence[PolicyCase], dice: random.Random) -> Iterator[PolicyCase]:
    """Each message that needs no tool with others behind it: talk is no work, however much of it there is."""
    for chat in chats:
        others = dice.sample(chats, min(len(chats), dice.randint(1, MAX_JOINED)))
        texts = [chat.text, *(other.text for other in others)]
        yield replace(chat, text=dice.choice(JOINTS).join(texts))


def build_sample(case: PolicyCase, origin: str, label: str, fold: int) -> TrainingSample:
    """The features of a case, with its class."""
    message = read_message(case.text)
    matched = match_message(message.plain, case.tool_index, load_weights())
    features = build_features(message, matched)
    if case.before is not None:
        features |= describe_previous(case.text, bool(case.before.tool_names), case.before.heavy)
    return TrainingSample(features, label, origin, fold)


def train(samples: Sequence[TrainingSample], threshold: float = THRESHOLD) -> HeavyModel:
    """Fit a logistic model of three classes. No origin and no class dominates it by its number of cases."""
    counts = Counter(name for sample in samples for name in sample.features)
    rows = [
        {
            name: value * find_scale(name)
            for name, value in sample.features.items()
            if counts[name] >= MIN_CASES
        }
        for sample in samples
    ]
    vectorizer = DictVectorizer()
    regression = LogisticRegression(C=INVERSE_PENALTY, tol=1e-4, max_iter=3000)
    classes = [CLASSES[sample.label] for sample in samples]
    regression.fit(vectorizer.fit_transform(rows), classes, sample_weight=weigh_samples(samples))
    chat, one_call, heavy = regression.coef_
    chat_bias, one_call_bias, heavy_bias = map(float, regression.intercept_)
    chat_bias += math.log(CHAT_COST)
    one_call_bias += math.log(ONE_CALL_COST)
    names = vectorizer.get_feature_names_out()
    weights = {
        name: (round(heavy_weight * find_scale(name), 3), round(one_call_weight * find_scale(name), 3))
        for name, heavy_weight, one_call_weight in zip(
            names, (heavy - chat).tolist(), (one_call - chat).tolist(), strict=True
        )
    }
    kept = {name: pair for name, pair in weights.items() if max(map(abs, pair)) >= MIN_WEIGHT}
    return HeavyModel(kept, (heavy_bias - chat_bias, one_call_bias - chat_bias), threshold)


def find_scale(name: str) -> float:
    """What a feature is multiplied with before the fit: the less, the more its weight is held back."""
    if name.startswith("w "):
        return WORD_SCALE
    if name.startswith("c "):
        return CHARACTER_SCALE
    return 1.0


def weigh_samples(samples: Sequence[TrainingSample]) -> np.ndarray:
    """The weight of each sample: by class as CLASS_SHARES say, by origin by its root; our own count more."""
    counts = Counter((sample.origin, sample.label) for sample in samples)
    raw = [counts[sample.origin, sample.label] ** -0.5 for sample in samples]
    sums: defaultdict[str, float] = defaultdict(float)
    for sample, weight in zip(samples, raw, strict=True):
        sums[sample.label] += weight
    shares = (
        weight * CLASS_SHARES[sample.label] / sums[sample.label] * (OWN_FACTOR if sample.is_own else 1.0)
        for sample, weight in zip(samples, raw, strict=True)
    )
    return np.array(list(shares)) * len(samples)


def judge_left_out(samples: Sequence[TrainingSample]) -> Iterator[str]:
    """A line for each file: the share of its turns that think by a model that was trained without it."""
    for origin in dict.fromkeys(sample.origin for sample in samples):
        left_out = {number for number, sample in enumerate(samples) if sample.origin == origin}
        yield f"{origin}: {format_shares(judge(samples, left_out))}"


def judge_folds(samples: Sequence[TrainingSample]) -> str:
    """The shares of our own cases that think, each fifth by a model that was trained without it."""
    verdicts: list[tuple[str, bool]] = []
    for fold in range(FOLDS):
        left_out = {number for number, sample in enumerate(samples) if sample.is_own and sample.fold == fold}
        verdicts += judge(samples, left_out)
    return f"folds: {format_shares(verdicts)}"


def judge(samples: Sequence[TrainingSample], left_out: Set[int]) -> list[tuple[str, bool]]:
    """The label of each sample that is left out, and whether its turn thinks by a model of the others."""
    model = train([sample for number, sample in enumerate(samples) if number not in left_out])
    judged = [samples[number] for number in sorted(left_out)]
    return [(sample.label, model.estimate_chance(sample.features) >= model.threshold) for sample in judged]


def format_shares(verdicts: Sequence[tuple[str, bool]]) -> str:
    """The share that thinks, by label."""
    thinks: defaultdict[str, list[bool]] = defaultdict(list)
    for label, is_thinking in verdicts:
        thinks[label].append(is_thinking)
    return ", ".join(f"{label} {sum(row) / len(row):.0%} of {len(row)}" for label, row in thinks.items())


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the model of heavy turns.")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS, help="folders with cases")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the file to write the weights to")
    parser.add_argument("--judge", action="store_true", help="also leave out each file in turn")
    options = parser.parse_args()
    samples = read_samples(options.folders)
    model = train(samples)
    options.out.write_text(format_model(model), encoding="utf-8")
    print(f"{len(samples)} samples, {len(model.weights)} features in {options.out}")
    if options.judge:
        print(judge_folds(samples))
        for line in judge_left_out(samples):
            print(line)


if __name__ == "__main__":
    main()

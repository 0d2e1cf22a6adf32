"""The training of what tells whether a tool is needed: folds, models, threshold, and one whole run."""

import random
import sys
from pathlib import Path

import pytest

from bot.agent.tool_matching.classifier import parse_weights
from tests.support.thinking_cases import write_cases
from tests.training import tool_need
from tests.training.tool_need import (
    TrainingSample,
    assign_folds,
    find_threshold,
    fit_logistic_model,
    predict_out_of_fold,
    train_weights,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "thinking"


def test_equal_keys_share_a_fold() -> None:
    keys = [str(number % 7) for number in range(50)]
    folds = assign_folds(keys)
    assert len(set(zip(keys, folds, strict=True))) == 7
    assert set(folds) == set(range(5))
    assert assign_folds(keys) == folds


def test_training_finds_the_feature_that_tells() -> None:
    dice = random.Random(1)
    samples = [
        TrainingSample(
            {"tells": float(needs) + dice.gauss(0, 0.2), "noise": dice.random(), "same": 1.0}, needs, "simple"
        )
        for needs in (True, False) * 40
    ]
    model = fit_logistic_model(samples)
    assert model.features["tells"][1] > 2 * abs(model.features["noise"][1])
    assert "same" not in model.features
    assert fit_logistic_model(samples) == model


def test_left_out_cases_are_told_apart_and_the_threshold_keeps_its_recall() -> None:
    sources = ("simple", "chatable", "simple", "irrelevance")
    samples = [
        TrainingSample({"a": float(source == "simple") + number % 3 / 10}, source == "simple", source)
        for number, source in enumerate(sources * 20)
    ]
    probabilities = predict_out_of_fold(
        samples, assign_folds([str(number) for number in range(len(samples))])
    )
    needs_tools = [sample.needs_tools for sample in samples]
    threshold = find_threshold(probabilities, needs_tools)
    positives = [
        chance >= threshold for chance, needed in zip(probabilities, needs_tools, strict=True) if needed
    ]
    assert sum(positives) / len(positives) >= 0.95
    assert (
        max(chance for chance, needed in zip(probabilities, needs_tools, strict=True) if not needed)
        < threshold
    )
    assert train_weights(samples) == train_weights(samples)


def test_the_threshold_of_no_case_is_one_half() -> None:
    assert find_threshold([], []) == 0.5


def test_a_run_writes_weights_and_prints_scores_of_cases_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "weights.json"
    write_cases(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tool_need", str(tmp_path), str(FIXTURES), "--out", str(weights)])
    tool_need.main()
    assert parse_weights(weights.read_text(encoding="utf-8")).non_english_threshold == 0.25
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["folds by text", "folds by tool"]


def test_a_folder_without_training_cases_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tool_need", str(tmp_path), "--out", str(tmp_path / "weights.json")])
    with pytest.raises(SystemExit):
        tool_need.main()
    assert "no cases.jsonl and no english.jsonl" in capsys.readouterr().err

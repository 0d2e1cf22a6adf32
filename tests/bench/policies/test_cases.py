"""Cases of the policies: how files of them are read, and the form of the labelled ones."""

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bot.bench.harness.gateway_process import BenchFailed
from bot.bench.policies.cases import PolicyCase, PreviousTurn, list_case_files, read_cases

HEAVY = Path(__file__).parents[2] / "fixtures" / "heavy"
HELD_OUT = HEAVY / "held_out"
LANGUAGES = sorted(path.stem for path in HEAVY.glob("*.jsonl"))
LEAST_OF_A_CLASS = 100
LEAST_OF_A_CLASS_IN_ENGLISH = 160
LEAST_HELD_OUT = 33  # a third of the least
CLASSES = {(True, True): "heavy", (True, False): "one call", (False, False): "chat"}

TOOLS = {
    name: {"name": name, "description": f"Does {name}.", "parameters": {"type": "object"}}
    for name in ("lamp", "radio")
}


def write(folder: Path, cases: list[dict[str, Any]], name: str = "cases.jsonl") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two tools and a set of one of them."""
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    (tmp_path / "tool_sets.json").write_text('{"dark": ["lamp"]}', encoding="utf-8")
    return tmp_path


def case(**fields: Any) -> dict[str, Any]:
    return {"text": "on", "tools": ["lamp", "radio"], "needs_tools": True, "source": "written"} | fields


def test_a_case_may_name_a_set_of_tools(folder: Path) -> None:
    write(folder, [case(tools="dark"), case()])
    assert [read.tool_names for read in read_cases(folder)] == [("lamp",), ("lamp", "radio")]


def test_a_case_says_whether_it_is_heavy_what_was_before_and_its_language(folder: Path) -> None:
    before = {"heavy": True, "tools": ["lamp"], "text": "lamp on, then off"}
    write(folder, [case(heavy=False, before=before, lang="en"), case(heavy=None), case(language="de")])
    follow_up, unknown, german = read_cases(folder)
    assert (follow_up.heavy, follow_up.language, follow_up.source) == (False, "en", "written")
    assert follow_up.before == PreviousTurn(("lamp",), heavy=True)
    assert (unknown.heavy, unknown.before, unknown.language) == (None, None, "")
    assert (german.language, german.source) == ("de", "de")


def test_all_files_of_a_folder_hold_cases_and_may_use_the_tools_above(folder: Path) -> None:
    write(folder, [case()], "en.jsonl")
    write(folder, [case()], "de.jsonl")
    write(folder / "held_out", [case(tools="dark")], "de.jsonl")
    assert list_case_files(folder) == [folder / "de.jsonl", folder / "en.jsonl"]
    assert list_case_files(folder / "held_out") == [folder / "held_out" / "de.jsonl"]
    assert read_cases(folder / "held_out", "de.jsonl")[0].tool_names == ("lamp",)


def test_a_folder_without_tools_has_no_cases(tmp_path: Path) -> None:
    write(tmp_path / "in", [case()])
    assert list_case_files(tmp_path / "in") == []


@pytest.mark.parametrize(
    ("cases", "tools", "tool_sets"),
    [
        ("{", "{}", "{}"),
        ('{"text": "a"}', "{}", "{}"),
        ('{"text":"a","tools":["x"],"needs_tools":true,"source":"s"}', "{}", "{}"),
        ('{"text":"a","tools":"x","needs_tools":true,"source":"s"}', "{}", "{}"),
        ('{"text":"a","tools":[],"needs_tools":true,"source":"s","before":{}}', "{}", "{}"),
        ("", "[]", "{}"),
        ("", "{}", "[]"),
    ],
)
def test_invalid_files_are_named(tmp_path: Path, cases: str, tools: str, tool_sets: str) -> None:
    (tmp_path / "cases.jsonl").write_text(cases, encoding="utf-8")
    (tmp_path / "tools.json").write_text(tools, encoding="utf-8")
    (tmp_path / "tool_sets.json").write_text(tool_sets, encoding="utf-8")
    with pytest.raises(BenchFailed, match="does not hold"):
        read_cases(tmp_path)


@functools.cache
def read_language(language: str) -> list[PolicyCase]:
    return read_cases(HEAVY, f"{language}.jsonl") + read_cases(HELD_OUT, f"{language}.jsonl")


def label(policy_case: PolicyCase) -> str:
    assert policy_case.heavy is not None
    return CLASSES[policy_case.needs_tools, policy_case.heavy]  # a KeyError: heavy, and needs no tool


@pytest.mark.parametrize("language", LANGUAGES)
def test_labelled_cases_are_as_many_as_promised_and_some_are_held_out(language: str) -> None:
    """At most a third: messages of other authors that came later are for training alone."""
    least = LEAST_OF_A_CLASS_IN_ENGLISH if language == "en" else LEAST_OF_A_CLASS
    counts = Counter(map(label, read_language(language)))
    held_out = Counter(map(label, read_cases(HELD_OUT, f"{language}.jsonl")))
    for name in CLASSES.values():
        assert counts[name] >= least
        assert held_out[name] - counts[name] / 3 <= 1
        assert held_out[name] >= LEAST_HELD_OUT


@pytest.mark.parametrize("language", LANGUAGES)
def test_labelled_cases_name_their_language_and_tools_that_are_known(language: str) -> None:
    known_tools = json.loads((HEAVY / "tools.json").read_text(encoding="utf-8"))
    for policy_case in read_language(language):
        assert policy_case.language == language
        assert policy_case.text.strip()
        before = policy_case.before
        if before is not None:
            assert known_tools.keys() >= set(before.tool_names)
            assert before.tool_names or not before.heavy


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_message_is_labelled_twice(language: str) -> None:
    repeated = Counter((read.text.casefold(), read.before) for read in read_language(language))
    assert [text for text, count in repeated.items() if count > 1] == []
    alone = Counter(read.text.casefold() for read in read_language(language) if read.before is None)
    assert [text for text, count in alone.items() if count > 1] == []


def test_a_name_of_a_set_tells_how_many_tools_are_registered() -> None:
    tool_sets = json.loads((HEAVY / "tool_sets.json").read_text(encoding="utf-8"))
    shipped = set(tool_sets["shipped"])
    sizes = {"shipped": 0, "ten": 10, "twenty": 20, "two": 200}
    for name, tool_names in tool_sets.items():
        assert len(set(tool_names) - shipped) == sizes[name.split("-")[0]]
        assert len(tool_names) == len(set(tool_names))

"""Cases for the thinking policy: a small set, written as files, and what reads in doubt would change."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import floor
from pathlib import Path

from bot.agent.heavy_turns.model import load_model
from bot.agent.thinking_policy import settle_doubt
from bot.bench.policies.thinking import CaseClass, JudgedCase, find_class

SUBJECTS = ("lamp", "door", "kettle", "radio", "blind", "heater", "camera", "oven", "fan", "bell")


def write_cases(folder: Path) -> None:
    """Write cases.jsonl and tools.json: per subject a message that a tool fits, one that it nearly fits and
    one about something else.
    """
    minutes = {"type": "object", "properties": {"minutes": {"type": "number"}}, "required": ["minutes"]}
    tools = {
        f"switch_{subject}": {
            "name": f"switch_{subject}",
            "description": f"Turn the {subject} on or off.",
            "parameters": minutes,
        }
        for subject in SUBJECTS
    }
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    cases = []
    for number, subject in enumerate(SUBJECTS):
        offered = [f"switch_{SUBJECTS[(number + step) % 10]}" for step in range(3)]
        for text, needs_tools, source in (
            (f"Turn the {subject} off in {number + 2} minutes", True, "simple"),
            (f"Who made the first {subject}?", False, "irrelevance"),
            (f"Turn the page of book {number}", False, "chatable"),
        ):
            case = {"text": text, "tools": offered, "needs_tools": needs_tools, "heavy": False}
            cases.append({**case, "source": source})
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    (folder / "cases.jsonl").write_text(lines, encoding="utf-8")


def simulate_reads(judged: Iterable[JudgedCase], accuracy: float) -> Iterator[JudgedCase]:
    """Decide the cases in doubt with reads of an endpoint that are right in this share, and as sure of it.

    Of every class the same share is read wrongly.
    """
    threshold = load_model().threshold
    wrong_counts: dict[CaseClass | None, float] = {}
    for row in judged:
        if not row.decision.is_unsure:
            yield row
            continue
        case_class = find_class(row.case)
        wrong_before = wrong_counts.get(case_class, 0.0)
        wrong_counts[case_class] = wrong_before + 1 - accuracy
        is_right = floor(wrong_counts[case_class] + 1e-9) == floor(wrong_before + 1e-9)
        read_chance = accuracy if (case_class == "heavy") == is_right else 1 - accuracy
        yield replace(row, decision=settle_doubt(row.decision, read_chance, threshold))

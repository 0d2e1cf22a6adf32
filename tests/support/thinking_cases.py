"""A small set of cases for the thinking policy, written as files."""

import json
from pathlib import Path

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

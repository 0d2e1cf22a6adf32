"""Says in plain words why the work of a turn is heavy or not. Pure."""

from collections.abc import Mapping, Sequence

_STEP_WORDS = {
    "find": "find out",
    "plan": "plan",
    "turn": "work out",
    "act": "book or change",
    "save": "note",
    "remind": "remind",
    "send": "send",
}
_SIGNS = (
    ("two links", "several links to read"),
    ("two items", "a list of tasks"),
    ("two inline items", "a list of tasks"),
    ("some compare", "a comparison"),
    ("some plan", "a plan"),
)


def explain_heavy(features: Mapping[str, float]) -> str:
    """What makes a turn with these features heavy."""
    steps = [words for name, words in _STEP_WORDS.items() if features.get(f"some {name}")]
    if len(steps) > 1:
        return f"several steps: {', '.join(steps)}"
    for name, reason in _SIGNS:
        if features.get(name):
            return reason
    return "several things at once"


def explain_light(tools: Sequence[str]) -> str:
    """Why a turn for which these tools match is not heavy."""
    if not tools:
        return "no tool fits"
    return f"one step: {', '.join(tools)}"

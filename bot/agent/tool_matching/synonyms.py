"""Words of searches for tools: what a tool does, and other words for the things it does it with. Pure.

Apart from reading `synonyms.txt` once. `concepts.py` has the same for whole messages, in any language.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.tool_matching.stems import stem

SAME_ACTION = 1.5  # factor of a score if a tool does what is searched for
LIKE_ACTION = 1.25  # if it does nearly that: what lists things, finds them
OTHER_ACTION = 0.65  # if it does something else

_ALIKE_ACTIONS = frozenset({("search", "read"), ("read", "search"), ("create", "send"), ("send", "create")})


@dataclass(frozen=True, slots=True)
class Synonyms:
    """By stem: the actions it stands for, and the stems of other words for the same thing."""

    actions: Mapping[str, frozenset[str]]
    alike_stems: Mapping[str, frozenset[str]]


@cache
def load_synonyms() -> Synonyms:
    """The shipped lists."""
    path = files("bot.agent.tool_matching").joinpath("synonyms.txt")
    return parse_synonyms(path.read_text(encoding="utf-8"))


def parse_synonyms(text: str) -> Synonyms:
    """Read lists as `synonyms.txt` has them; `#` begins a remark. Raises ValueError for any other line."""
    actions: defaultdict[str, set[str]] = defaultdict(set)
    alike_stems: defaultdict[str, set[str]] = defaultdict(set)
    section = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, _, tail = line.rpartition(":")
        if line in ("actions:", "alike:"):
            section = head
        elif section == "actions" and head:
            for word in tail.split():
                actions[stem(word)].add(head)
        elif section == "alike" and not head:
            stems = set(map(stem, line.split()))
            for key in stems:
                alike_stems[key] |= stems - {key}
        else:
            raise ValueError(f"{line!r} is neither an action with its words nor words that are alike")
    return Synonyms(_freeze(actions), _freeze(alike_stems))


def find_actions(words: Iterable[str]) -> frozenset[str]:
    """What the first of these words that stands for an action stands for; empty: none does."""
    actions = load_synonyms().actions
    return next((actions[key] for key in map(stem, words) if key in actions), frozenset())


def compare_actions(wanted: frozenset[str], offered: frozenset[str]) -> float:
    """The factor of a tool's score; 1 if it is not known what is wanted, or what the tool does."""
    if not wanted or not offered:
        return 1.0
    if wanted & offered:
        return SAME_ACTION
    if any((action, other) in _ALIKE_ACTIONS for action in wanted for other in offered):
        return LIKE_ACTION
    return OTHER_ACTION


def _freeze(sets: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {key: frozenset(values) for key, values in sets.items()}

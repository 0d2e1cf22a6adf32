"""Reads from a raw update what somebody's reaction says about an answer. Pure, and never raises."""

from collections.abc import Iterator
from typing import Any

from bot.db.conversations.verdicts import Verdict

GOOD_REACTIONS = frozenset("👍❤🔥")
BAD_REACTIONS = frozenset("👎💩")
_MAX_REACTIONS = 11  # of one person; Telegram lets them have three


def judge_reactions(reactions: object) -> Verdict | None:
    """Return what a list of reactions says; one that is bad outweighs the others."""
    emojis = set(_list_emojis(reactions))
    if emojis & BAD_REACTIONS:
        return "bad"
    if emojis & GOOD_REACTIONS:
        return "good"
    return None


def changes_verdict(change: dict[str, Any]) -> bool:
    """Whether a person, whom Telegram names, says something else about a message than before."""
    before = judge_reactions(change.get("old_reaction"))
    return "user" in change and judge_reactions(change.get("new_reaction")) != before


def _list_emojis(reactions: object) -> Iterator[str]:
    if not isinstance(reactions, list):
        return
    for reaction in reactions[:_MAX_REACTIONS]:
        if isinstance(reaction, dict) and isinstance(reaction.get("emoji"), str):
            yield reaction["emoji"].removesuffix("\ufe0f")  # which a client may add to the heart

"""Why tool calls were not run, in words of reports, of the admins' page and of chats. Pure."""

from collections.abc import Mapping

from bot.translations.translator import ENGLISH, Translator

REFUSAL_LABELS: Mapping[str | None, str] = {
    "arguments": "bad arguments",
    "no_tool": "no such tool in this conversation (/new offers new ones)",
    "repeat": "a repeat",
    "too_many": "too many calls",
    "suspended": "the tool was off",
    "not_granted": "not for this person",
    "address": "an address nobody gave",
    "guest": "in a chat of others",
    "nobody": "nobody could allow it",
    "denied": "denied",
    "expired": "nobody answered in time",
    "stopped": "stopped",
    "changed": "the tool had changed",
    None: "reason unknown",
}
"""Why a tool call was not run; None where the call is older than the stored reasons."""


def describe_refusals(counts: Mapping[str | None, int]) -> str:
    """The reasons with their counts, the most frequent first."""
    return ", ".join(f"{describe_refusal(reason)} {count:,}" for reason, count in sort_refusals(counts))


def sort_refusals(counts: Mapping[str | None, int]) -> list[tuple[str | None, int]]:
    """The counts by reason, the most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))


def describe_tool_outcome(outcome: str, refusal: str | None, translate: Translator = ENGLISH) -> str:
    """How a tool call ended; of a refused one why it was not run."""
    if outcome != "refused":
        return translate(outcome)
    return translate("refused: {reason}", reason=translate(describe_refusal(refusal)))


def describe_refusal(reason: str | None) -> str:
    """Why a call was not run."""
    return REFUSAL_LABELS.get(reason) or str(reason)

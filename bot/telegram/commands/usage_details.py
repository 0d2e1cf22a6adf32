"""One turn in its details, in short lines for a phone: thinking and why, each model call, the model. Pure.

Canvases are estimates and labelled so; what the server did not tell is said to be unknown.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from bot.db.usage.spending import CallSpent, TurnSpent
from bot.domain import Which
from bot.telegram.commands.usage_summary import seconds, short
from bot.usage.tables import NAMES

MOST = 20  # calls that are told one by one
LEAST = 0.05  # seconds that are told

# Why a call was made that would not have been needed, as it is written down.
_AGAIN = {
    "away": "no answer came before",
    "blind": "the model cannot see images",
    "brake": "it thought too long",
    "cut": "the reply before was cut",
    "empty": "the reply before was empty",
    "failing": "calls kept failing",
    "fallback": "goes on at the second endpoint",
    "main": "goes on at the first endpoint",
    "more": "the answer goes on",
    "refused": "the request was refused before",
    "silent": "two replies were empty",
}
_ENDPOINTS: dict[Which, str] = {"main": "the first", "fallback": "the second"}
_OUTCOMES = {"ok": "", "cut": ", cut", "cancelled": ", stopped", "failed": ", failed", None: ", not ended"}


def lines(turn: TurnSpent) -> str:
    """The details of an ended turn."""
    calls = [call for call in turn.calls if call.purpose != "decision"]
    told = [
        f"Turn {turn.id}: {seconds(turn.seconds)}",
        f"Thinking: {_on(turn.thinking)}",
        f"Why: {turn.why or 'unknown'}",
    ]
    told += islice(_changes(turn.thinking, calls), MOST)
    for call in turn.calls:
        told += _reading(call) if call.purpose == "decision" else ()
    told.append("Model calls, canvases estimated:" if calls else "Model calls: none")
    for number, call in enumerate(calls[:MOST], start=1):
        told += _call(number, call)
    if len(calls) > MOST:
        told.append(f"… and {len(calls) - MOST} more calls")
    return "\n".join([*told, *_cached(calls), *_where(turn), *_answered_by(turn, calls)])


def _on(thinking: bool) -> str:
    if thinking:
        return "on"
    return "off"


def _changes(thinking: bool, calls: Iterable[CallSpent]) -> Iterator[str]:
    """Where thinking was switched, and where a call was made again, with the reason."""
    for number, call in enumerate(calls, start=1):
        if call.thinking != thinking:
            switch = f"thinking {_on(call.thinking)}"
        else:
            switch = ""
        why = _AGAIN.get(call.again, call.again) if call.again else ""
        if switch or why:
            yield f"Call {number}: {', '.join(filter(None, (switch, why)))}"
        thinking = call.thinking


def _reading(call: CallSpent) -> tuple[str, str]:
    """The endpoint was asked in one step whether to think."""
    if call.prompt_tokens is None:
        tokens = "tokens unknown"
    else:
        tokens = f"{short(call.prompt_tokens)} in"
    return f"Decision read: {_took(call)}", f"    {tokens}"


def _call(number: int, call: CallSpent) -> tuple[str, str]:
    unit = "canvas" if call.canvases == 1 else "canvases"
    if call.canvases is None:
        canvases = "canvases unknown"
    else:
        canvases = f"{call.canvases} {unit}"
    if call.waited and call.waited >= 0.1:
        waited = f", waited {seconds(call.waited)}"
    else:
        waited = ""
    if call.cached_tokens is None:
        cached = "cached unknown"
    else:
        cached = f"{short(call.cached_tokens)} cached"
    if call.prompt_tokens is None:
        tokens = "tokens unknown"
    else:
        tokens = f"{short(call.prompt_tokens)} in, {cached}"
    return f"{number}. {canvases}, {_took(call)}", f"    {tokens}{waited}"


def _took(call: CallSpent) -> str:
    return ("time unknown" if call.seconds is None else seconds(call.seconds)) + _OUTCOMES[call.outcome]


def _cached(calls: Iterable[CallSpent]) -> Iterator[str]:
    """How much of the input had not to be computed, where the server tells."""
    told = [(call.cached_tokens, call.prompt_tokens) for call in calls if call.cached_tokens is not None]
    whole = sum(prompt or 0 for _, prompt in told)
    if whole:
        yield f"Cached: {100 * sum(cached or 0 for cached, _ in told) / whole:.0f} % of the input"


def _where(turn: TurnSpent) -> Iterator[str]:
    """The seconds by what they went to, those that can be felt."""
    if not turn.account:
        return
    yield f"Where {seconds(turn.account['whole'])} went:"
    for kind, took in turn.account.items():
        if kind != "whole" and took >= LEAST:
            yield f"    {seconds(took)} {NAMES[kind]}"


def _answered_by(turn: TurnSpent, calls: Iterable[CallSpent]) -> Iterator[str]:
    """The models, the first asked first, and the endpoint if there are two."""
    names = dict.fromkeys(call.model or "unknown" for call in calls)
    if names:
        yield f"Model: {', then '.join(names)}"
    if turn.endpoint_why is not None:
        yield f"Endpoint: {_ENDPOINTS[turn.endpoint]}, {turn.endpoint_why}"

"""Judges the chat template by how it renders a few conversations: whose it is, and what it does with markup.
Pure.
"""

import hashlib
import json

from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.observations import Route, Seen
from bot.check.prompts import CONTROLS, RAW

_PINNED = "--chat-template tool_chat_template_gemma4.jinja, of the vLLM release"
_EMPTY_THOUGHT = "<|channel>thought\n<channel|>"


def fingerprint(seen: Seen) -> str | None:
    """Twelve digits that change when the template renders anything of ours in another way; None if it was not
    shown.
    """
    if len(seen.templates) < 5 or not all(route.ok and _text(route) for route in seen.templates.values()):
        return None
    shown = {name: route.body.get("tokens") for name, route in seen.templates.items()}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]


def template(seen: Seen) -> Verdict:
    """Whether it is Gemma 4's, and which of those in the wild."""
    mark = fingerprint(seen)
    if mark is None:
        return unknown(_hidden(seen))
    history = _text(seen.templates["history"])
    loop = _text(seen.templates["loop"])
    if "<|turn>" not in _text(seen.templates["off"]):
        return failed(f"It is not the template of Gemma 4 (fingerprint {mark}).", _PINNED)
    if "response:check_weather" not in loop:
        return failed(f"Tool results are not rendered with their tool's name (fingerprint {mark}).", _PINNED)
    if _switches(seen) and f"{_EMPTY_THOUGHT}first answer" not in history:
        return warned(
            "Answers of the history are rendered without the empty thought their prompts ended with, so that some "
            f"second turns find nothing in the cache (vllm#57610; fingerprint {mark}).",
            _PINNED,
        )
    return passed(f"Gemma 4's; {_traps(history, loop)} (fingerprint {mark}).")


def controls(seen: Seen) -> Verdict:
    """Whether a person's `<turn|>` ends a turn, and whether a defused one does."""
    shown = seen.templates.get("history")
    if shown is not None and shown.ok:
        strings = shown.body.get("token_strs")
    else:
        strings = None
    if shown is None or not isinstance(strings, list):
        return unknown(_hidden(seen))
    real = strings.count(CONTROLS)
    written = _text(shown).count(CONTROLS)
    if real > written:
        return failed(
            "Defused markup of a person's text becomes control tokens again: the tokenizer drops the character of no "
            "width that the gateway puts into it.",
            "the model's own tokenizer, without normalisation",
        )
    if real == written:
        return passed("A person's markup would be real control tokens; what the gateway defuses stays text.")
    if real == written - RAW:
        return passed("A person's markup stays text, defused or not.")
    return unknown("The tokens do not tell which markup is real.")


def _switches(seen: Seen) -> bool:
    return seen.templates["off"].body.get("tokens") != seen.templates["on"].body.get("tokens")


def _traps(history: str, loop: str) -> str:
    known = []
    if "description:" in loop + history and "None" in loop + history:
        known.append("a tool without description reads None")
    if 0 <= loop.find("it is dry") < loop.find("spoken beside"):
        known.append("text beside calls lands behind their results")
    if loop.endswith("<|channel>thought\n"):
        known.append("a thought is opened after results")
    if known:
        return "known traps, which the gateway avoids: " + ", ".join(known)
    return "none of the known traps"


def _text(route: Route) -> str:
    told = route.body.get("prompt_text")
    if isinstance(told, str):
        return told
    strings = route.body.get("token_strs")
    if isinstance(strings, list):
        return "".join(map(str, strings)).replace("▁", " ")
    return ""


def _hidden(seen: Seen) -> str:
    if not seen.templates:
        return f"The template does not show itself: {seen.why('template')}."
    return "There is no /tokenize that renders conversations."

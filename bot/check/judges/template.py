"""Judges the chat template by how it renders a few conversations: whose it is, and what it does with markup.
Pure.
"""

import hashlib
import json

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import Observations, RouteResponse
from bot.check.prompts import CONTROL_TOKEN, RAW_CONTROL_COUNT

_TEMPLATE_FIX = "--chat-template tool_chat_template_gemma4.jinja, of the vLLM release"
_EMPTY_THOUGHT = "<|channel>thought\n<channel|>"


def template_fingerprint(observations: Observations) -> str | None:
    """Twelve digits that change when the template renders anything of ours in another way; None if it was not
    shown.
    """
    if len(observations.templates) < 5 or not all(
        route.ok and _rendered_text(route) for route in observations.templates.values()
    ):
        return None
    shown = {name: route.body.get("tokens") for name, route in observations.templates.items()}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]


def judge_template(observations: Observations) -> Verdict:
    """Whether it is Gemma 4's, and which of those in the wild."""
    mark = template_fingerprint(observations)
    if mark is None:
        return unknown_verdict(_hidden_reason(observations))
    history = _rendered_text(observations.templates["history"])
    loop = _rendered_text(observations.templates["loop"])
    if "<|turn>" not in _rendered_text(observations.templates["off"]):
        return fail_verdict(f"It is not the template of Gemma 4 (fingerprint {mark}).", _TEMPLATE_FIX)
    if "response:check_weather" not in loop:
        return fail_verdict(
            f"Tool results are not rendered with their tool's name (fingerprint {mark}).", _TEMPLATE_FIX
        )
    if _has_thinking_switch(observations) and f"{_EMPTY_THOUGHT}first answer" not in history:
        return warn_verdict(
            "Answers of the history are rendered without the empty thought their prompts ended with, so that some "
            f"second turns find nothing in the cache (vllm#57610; fingerprint {mark}).",
            _TEMPLATE_FIX,
        )
    return pass_verdict(f"Gemma 4's; {_describe_known_traps(history, loop)} (fingerprint {mark}).")


def judge_control_tokens(observations: Observations) -> Verdict:
    """Whether a person's `<turn|>` ends a turn, and whether a defused one does."""
    shown = observations.templates.get("history")
    if shown is not None and shown.ok:
        strings = shown.body.get("token_strs")
    else:
        strings = None
    if shown is None or not isinstance(strings, list):
        return unknown_verdict(_hidden_reason(observations))
    real = strings.count(CONTROL_TOKEN)
    written = _rendered_text(shown).count(CONTROL_TOKEN)
    if real > written:
        return fail_verdict(
            "Defused markup of a person's text becomes control tokens again: the tokenizer drops the character of no "
            "width that the gateway puts into it.",
            "the model's own tokenizer, without normalisation",
        )
    if real == written:
        return pass_verdict(
            "A person's markup would be real control tokens; what the gateway defuses stays text."
        )
    if real == written - RAW_CONTROL_COUNT:
        return pass_verdict("A person's markup stays text, defused or not.")
    return unknown_verdict("The tokens do not tell which markup is real.")


def _has_thinking_switch(observations: Observations) -> bool:
    return observations.templates["off"].body.get("tokens") != observations.templates["on"].body.get("tokens")


def _describe_known_traps(history: str, loop: str) -> str:
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


def _rendered_text(route: RouteResponse) -> str:
    told = route.body.get("prompt_text")
    if isinstance(told, str):
        return told
    strings = route.body.get("token_strs")
    if isinstance(strings, list):
        return "".join(map(str, strings)).replace("▁", " ")
    return ""


def _hidden_reason(observations: Observations) -> str:
    if not observations.templates:
        return f"The template does not show itself: {observations.unknown_reason('template')}."
    return "There is no /tokenize that renders conversations."

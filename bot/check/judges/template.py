"""Judges the chat template by how it renders a few conversations: whose it is, how it treats markup. Pure."""

import hashlib
import json

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.observations import Observations, RouteResponse
from bot.check.prompts import CONTROL_TOKEN, RAW_CONTROL_COUNT

_TEMPLATE_FIX = "--chat-template tool_chat_template_gemma4.jinja, of the vLLM release"
_EMPTY_THOUGHT = "<|channel>thought\n<channel|>"


def template_fingerprint(observations: Observations) -> str | None:
    """Twelve digits that change when the template renders any of our conversations in another way.

    None if it was not shown.
    """
    routes = observations.templates
    if len(routes) < 5 or not all(route.ok and _rendered_text(route) for route in routes.values()):
        return None
    tokens = {case: route.body.get("tokens") for case, route in routes.items()}
    return hashlib.sha256(json.dumps(tokens, sort_keys=True).encode()).hexdigest()[:12]


def judge_template(observations: Observations) -> Verdict:
    """Whether it is Gemma 4's, and which of the known variants."""
    fingerprint = template_fingerprint(observations)
    if fingerprint is None:
        return unknown_verdict(_hidden_reason(observations))
    history = _rendered_text(observations.templates["history"])
    loop = _rendered_text(observations.templates["loop"])
    if "<|turn>" not in _rendered_text(observations.templates["off"]):
        return fail_verdict(f"It is not the template of Gemma 4 (fingerprint {fingerprint}).", _TEMPLATE_FIX)
    if "response:check_weather" not in loop:
        return fail_verdict(
            f"Tool results are not rendered with their tool's name (fingerprint {fingerprint}).",
            _TEMPLATE_FIX,
        )
    if _has_thinking_switch(observations) and f"{_EMPTY_THOUGHT}first answer" not in history:
        return warn_verdict(
            "Answers of the history are rendered without the empty thought their prompts ended with, "
            f"so that some second turns find nothing in the cache (vllm#57610; fingerprint {fingerprint}).",
            _TEMPLATE_FIX,
        )
    traps = _describe_known_traps(history, loop)
    return pass_verdict(f"Gemma 4's; {traps} (fingerprint {fingerprint}).")


def judge_control_tokens(observations: Observations) -> Verdict:
    """Whether a user's `<turn|>` ends a turn, and whether a defused one does."""
    route = observations.templates.get("history")
    if route is None or not route.ok:
        return unknown_verdict(_hidden_reason(observations))
    tokens = route.body.get("token_strs")
    if not isinstance(tokens, list):
        return unknown_verdict(_hidden_reason(observations))
    real = tokens.count(CONTROL_TOKEN)
    written = _rendered_text(route).count(CONTROL_TOKEN)
    if real > written:
        return fail_verdict(
            "Defused markup of a person's text becomes control tokens again: "
            "the tokenizer drops the character of no width that the gateway puts into it.",
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
    traps = []
    if "description:" in loop + history and "None" in loop + history:
        traps.append("a tool without description reads None")
    if 0 <= loop.find("it is dry") < loop.find("spoken beside"):
        traps.append("text beside calls lands behind their results")
    if loop.endswith("<|channel>thought\n"):
        traps.append("a thought is opened after results")
    if traps:
        return "known traps, which the gateway avoids: " + ", ".join(traps)
    return "none of the known traps"


def _rendered_text(route: RouteResponse) -> str:
    text = route.body.get("prompt_text")
    if isinstance(text, str):
        return text
    tokens = route.body.get("token_strs")
    if isinstance(tokens, list):
        return "".join(map(str, tokens)).replace("▁", " ")
    return ""


def _hidden_reason(observations: Observations) -> str:
    if not observations.templates:
        return f"The template does not show itself: {observations.unknown_reason('template')}."
    return "There is no /tokenize that renders conversations."

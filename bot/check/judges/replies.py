"""Judges what comes in replies: calls where calls were asked for, thoughts and answers where they belong.
Pure.
"""

import json
import re

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.judges.counts import has_leaked_thoughts
from bot.check.observations import (
    CALLS_WITH_TOOLS,
    NON_THINKING_CALLS,
    THINKING_CALLS,
    CallKind,
    Observations,
    ProbeResponse,
    TemplateCase,
)
from bot.check.prompts import PLACES, TOOL_NAME
from bot.domain import ToolCall

_MARKUP = re.compile(r'<\|tool_call>|<tool_call\|>|<\|"\|>|\bcall:\w+\s*[{(]')
_PARSER_FLAGS = "--enable-auto-tool-choice --tool-call-parser gemma4"
_SWITCH_CASES: tuple[TemplateCase, ...] = ("off", "on", "default")
_REASONING_FIX = "--reasoning-parser gemma4, and vLLM 0.33 or newer"


def judge_tool_calls(observations: Observations) -> Verdict:
    """Calls of a tool, streamed and whole, with thinking and without."""
    asked = {
        part: answer for part in CALLS_WITH_TOOLS if (answer := observations.answers.get(part)) is not None
    }
    if not asked:
        return unknown_verdict(f"No call was asked for: {observations.unknown_reason('tools')}.")
    refused = next((answer for answer in asked.values() if not answer.ok), None)
    if refused is not None:
        if "tool choice" in refused.error_message or "tool_choice" in refused.error_message:
            flags = _PARSER_FLAGS
        else:
            flags = None
        return fail_verdict(f"Tools are refused (HTTP {refused.status}): {refused.error_message}", flags)
    whole = {part: answer for part, answer in asked.items() if answer.finish != "length"}
    if not whole:
        return unknown_verdict("Every reply was cut before its calls could be whole.")
    wrong = {part: how for part, answer in whole.items() if (how := _find_call_problem(answer)) is not None}
    if not wrong:
        return pass_verdict(f"Parsed in {len(whole)} of {len(asked)} replies: {'; '.join(whole)}.")
    told = "; ".join(f"{part}: {how}" for part, how in wrong.items())
    if any(_MARKUP.search(answer.text) or answer.calls for part, answer in whole.items() if part in wrong):
        return fail_verdict(f"{told}.", f"{_PARSER_FLAGS}, and vLLM 0.33 or newer")
    return warn_verdict(f"{told}.", "ask again; if it stays so, see --chat-template and --tool-call-parser")


def judge_parallel_calls(observations: Observations) -> Verdict:
    """Several calls in one reply."""
    answers = [
        one
        for one in observations.ok_responses(*CALLS_WITH_TOOLS)
        if one.finish != "length" and _find_call_problem(one) is None
    ]
    if not answers:
        return unknown_verdict("No call was parsed.")
    most = max(len(answer.calls) for answer in answers)
    if most < len(PLACES):
        return warn_verdict(
            "Two calls were asked for, and one came at a time.", "nothing: it costs a reply a call"
        )
    return pass_verdict(f"{most} calls came in one reply.")


def judge_thinking_switch(observations: Observations) -> Verdict:
    """Thinking when it is asked for, and none when not."""
    if observations.refuses_ours is not None:
        return unknown_verdict("There is no switch for thinking in the common protocol.")
    off = observations.ok_responses(*NON_THINKING_CALLS)
    on = [answer for answer in observations.ok_responses(*THINKING_CALLS) if answer.blocks]
    if not off or not on:
        return unknown_verdict(f"Not seen both ways: {observations.unknown_reason('thought')}.")
    if _renders_alike(observations):
        return fail_verdict(
            "The chat template renders the same prompt with thinking and without.", _template_fix()
        )
    if any(_has_thought(answer) and answer.text for answer in off):
        return fail_verdict("It thinks though it was told not to.", _template_fix())
    if not any(_has_thought(answer) for answer in on):
        return fail_verdict(
            f"It does not think though it was told to, in {len(on)} replies.", _template_fix()
        )
    return pass_verdict("Obeyed both ways.")


def judge_thinking_default(observations: Observations) -> Verdict:
    """What a request gets that does not say."""
    shown = [route for name in _SWITCH_CASES if (route := observations.templates.get(name)) and route.ok]
    if len(shown) < len(_SWITCH_CASES):
        return unknown_verdict(
            f"The template does not show itself: {observations.unknown_reason('template')}."
        )
    off, on, silent = (route.body.get("tokens") for route in shown)
    if off == on:
        return unknown_verdict("The template knows no switch, or does not show itself.")
    if silent == on:
        return warn_verdict(
            "Requests that do not say whether to think, think. The gateway always says.",
            "no --default-chat-template-kwargs '{\"enable_thinking\": true}'",
        )
    return pass_verdict("Requests that do not say whether to think, do not.")


def judge_thoughts_apart(observations: Observations) -> Verdict:
    """Whether thoughts, or their markup, come as text."""
    answers = observations.ok_responses(*NON_THINKING_CALLS, *THINKING_CALLS)
    if not answers:
        return unknown_verdict(f"No reply came: {observations.unknown_reason('plain')}.")
    leaking = [
        part
        for part in (*NON_THINKING_CALLS, *THINKING_CALLS)
        if (one := observations.answers.get(part)) and one.ok and has_leaked_thoughts(one)
    ]
    if leaking:
        return fail_verdict(f"Thoughts come as text: {'; '.join(leaking)}.", _REASONING_FIX)
    if not any(answer.reasoning for answer in answers):
        return unknown_verdict("Nothing was thought.")
    return pass_verdict("Thoughts come apart from the answer.")


def judge_answers_apart(observations: Observations) -> Verdict:
    """Whether answers come as thoughts, or not at all."""
    parts = [part for part in (*NON_THINKING_CALLS, *THINKING_CALLS) if part not in CALLS_WITH_TOOLS]
    if not observations.ok_responses(*parts):
        return unknown_verdict(f"No reply came: {observations.unknown_reason('plain')}.")
    lost: list[CallKind] = []
    empty: list[CallKind] = []
    for part in parts:
        answer = observations.answers.get(part)
        if (
            answer is None
            or not answer.ok
            or answer.text.strip()
            or answer.calls
            or answer.finish == "length"
        ):
            continue
        (lost if answer.reasoning else empty).append(part)
    if lost:
        return warn_verdict(
            f"The whole answer came as a thought: {'; '.join(lost)}. The gateway shows it as the answer.",
            "a known fault of the parser (vllm#49717); a --chat-template that opens no thought after tool results",
        )
    if empty:
        return warn_verdict(
            f"Nothing came: {'; '.join(empty)}. The gateway asks once more.", "vLLM 0.33 or newer"
        )
    return pass_verdict("Answers come as text.")


def _has_thought(response: ProbeResponse) -> bool:
    return bool(response.reasoning.strip()) or has_leaked_thoughts(response)


def _renders_alike(observations: Observations) -> bool:
    off = observations.templates.get("off")
    on = observations.templates.get("on")
    if off is None or on is None or not (off.ok and on.ok):
        return False
    return bool(off.body.get("tokens")) and off.body["tokens"] == on.body.get("tokens")


def _template_fix() -> str:
    return "--chat-template with Gemma 4's template, and --reasoning-parser gemma4"


def _find_call_problem(response: ProbeResponse) -> str | None:
    """What is wrong with a reply that should have called a tool."""
    if not response.calls:
        if _MARKUP.search(response.text):
            return "the call came as text"
        if response.text.strip():
            return "answered without a call"
        if response.reasoning:
            return "only a thought came"
        return "nothing came"
    return next(
        (fault for call in response.calls if (fault := _find_argument_problem(call)) is not None), None
    )


def _find_argument_problem(call: ToolCall) -> str | None:
    if call.name != TOOL_NAME:
        return "it called a tool nobody offered"
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    fits = isinstance(given, dict) and isinstance(given.get("place"), str)
    if fits:
        return None
    return "its arguments are not what was declared"

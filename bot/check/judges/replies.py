"""Judges replies: tool calls where they were asked for, thoughts and answers where they belong. Pure."""

import json
import re
from collections.abc import Iterable

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
_TEMPLATE_FIX = "--chat-template with Gemma 4's template, and --reasoning-parser gemma4"
_REASONING_FIX = "--reasoning-parser gemma4, and vLLM 0.33 or newer"


def judge_tool_calls(observations: Observations) -> Verdict:
    """Whether tools are called, streamed and whole, with thinking and without."""
    responses = {
        kind: observations.answers[kind] for kind in CALLS_WITH_TOOLS if kind in observations.answers
    }
    if not responses:
        return unknown_verdict(f"No call was asked for: {observations.unknown_reason('tools')}.")
    refusal = next((response for response in responses.values() if not response.ok), None)
    if refusal is not None:
        return _judge_tool_refusal(refusal)
    complete = {
        kind: response for kind, response in responses.items() if response.reply.finish_reason != "length"
    }
    if not complete:
        return unknown_verdict("Every reply was cut before its calls could be whole.")
    problems = {kind: _find_call_problem(response) for kind, response in complete.items()}
    wrong = {kind: problem for kind, problem in problems.items() if problem is not None}
    if not wrong:
        kinds = "; ".join(complete)
        return pass_verdict(f"Parsed in {len(complete)} of {len(responses)} replies: {kinds}.")
    observation = "; ".join(f"{kind}: {problem}" for kind, problem in wrong.items())
    if any(_MARKUP.search(complete[kind].reply.text) or complete[kind].reply.calls for kind in wrong):
        return fail_verdict(f"{observation}.", f"{_PARSER_FLAGS}, and vLLM 0.33 or newer")
    return warn_verdict(
        f"{observation}.", "ask again; if it stays so, see --chat-template and --tool-call-parser"
    )


def judge_parallel_calls(observations: Observations) -> Verdict:
    """Whether one reply can have several calls."""
    call_counts = [
        len(response.reply.calls)
        for response in observations.ok_responses(*CALLS_WITH_TOOLS)
        if response.reply.finish_reason != "length" and _find_call_problem(response) is None
    ]
    if not call_counts:
        return unknown_verdict("No call was parsed.")
    if max(call_counts) < len(PLACES):
        return warn_verdict(
            "Two calls were asked for, and one came at a time.", "nothing: it costs a reply a call"
        )
    return pass_verdict(f"{max(call_counts)} calls came in one reply.")


def judge_thinking_switch(observations: Observations) -> Verdict:
    """Whether the model thinks when it is told to, and only then."""
    if observations.refuses_ours is not None:
        return unknown_verdict("There is no switch for thinking in the common protocol.")
    off = observations.ok_responses(*NON_THINKING_CALLS)
    on = [response for response in observations.ok_responses(*THINKING_CALLS) if response.blocks]
    if not off or not on:
        return unknown_verdict(f"Not seen both ways: {observations.unknown_reason('thought')}.")
    if _renders_alike(observations):
        return fail_verdict(
            "The chat template renders the same prompt with thinking and without.", _TEMPLATE_FIX
        )
    if any(_has_thought(response) and response.reply.text for response in off):
        return fail_verdict("It thinks though it was told not to.", _TEMPLATE_FIX)
    if not any(_has_thought(response) for response in on):
        return fail_verdict(f"It does not think though it was told to, in {len(on)} replies.", _TEMPLATE_FIX)
    return pass_verdict("Obeyed both ways.")


def judge_thinking_default(observations: Observations) -> Verdict:
    """Whether requests that do not say whether to think, do."""
    routes = [observations.templates[case] for case in _SWITCH_CASES if case in observations.templates]
    if len(routes) < len(_SWITCH_CASES) or not all(route.ok for route in routes):
        return unknown_verdict(
            f"The template does not show itself: {observations.unknown_reason('template')}."
        )
    off, on, default = (route.body.get("tokens") for route in routes)
    if off == on:
        return unknown_verdict("The template knows no switch, or does not show itself.")
    if default == on:
        return warn_verdict(
            "Requests that do not say whether to think, think. The gateway always says.",
            "no --default-chat-template-kwargs '{\"enable_thinking\": true}'",
        )
    return pass_verdict("Requests that do not say whether to think, do not.")


def judge_thoughts_apart(observations: Observations) -> Verdict:
    """Whether thoughts, or their markup, come as text."""
    responses = _ok_responses_by_kind(observations, (*NON_THINKING_CALLS, *THINKING_CALLS))
    if not responses:
        return unknown_verdict(f"No reply came: {observations.unknown_reason('plain')}.")
    leaking_kinds = [kind for kind, response in responses.items() if has_leaked_thoughts(response)]
    if leaking_kinds:
        return fail_verdict(f"Thoughts come as text: {'; '.join(leaking_kinds)}.", _REASONING_FIX)
    if not any(response.reply.reasoning for response in responses.values()):
        return unknown_verdict("Nothing was thought.")
    return pass_verdict("Thoughts come apart from the answer.")


def judge_answers_apart(observations: Observations) -> Verdict:
    """Whether answers come as thoughts, or not at all."""
    kinds = [kind for kind in (*NON_THINKING_CALLS, *THINKING_CALLS) if kind not in CALLS_WITH_TOOLS]
    responses = _ok_responses_by_kind(observations, kinds)
    if not responses:
        return unknown_verdict(f"No reply came: {observations.unknown_reason('plain')}.")
    missing = {kind: response for kind, response in responses.items() if _has_no_answer(response)}
    as_thought = [kind for kind, response in missing.items() if response.reply.reasoning]
    if as_thought:
        return warn_verdict(
            f"The whole answer came as a thought: {'; '.join(as_thought)}. "
            "The gateway shows it as the answer.",
            "a known fault of the parser (vllm#49717); "
            "a --chat-template that opens no thought after tool results",
        )
    if missing:
        return warn_verdict(
            f"Nothing came: {'; '.join(missing)}. The gateway asks once more.", "vLLM 0.33 or newer"
        )
    return pass_verdict("Answers come as text.")


def _judge_tool_refusal(refusal: ProbeResponse) -> Verdict:
    observation = f"Tools are refused (HTTP {refusal.status}): {refusal.error_message}"
    if "tool choice" in refusal.error_message or "tool_choice" in refusal.error_message:
        return fail_verdict(observation, _PARSER_FLAGS)
    return fail_verdict(observation)


def _ok_responses_by_kind(
    observations: Observations, kinds: Iterable[CallKind]
) -> dict[CallKind, ProbeResponse]:
    responses = {kind: observations.answers[kind] for kind in kinds if kind in observations.answers}
    return {kind: response for kind, response in responses.items() if response.ok}


def _has_no_answer(response: ProbeResponse) -> bool:
    """Whether neither text nor calls came, though the reply was not cut."""
    return (
        not response.reply.text.strip()
        and not response.reply.calls
        and response.reply.finish_reason != "length"
    )


def _has_thought(response: ProbeResponse) -> bool:
    return bool(response.reply.reasoning.strip()) or has_leaked_thoughts(response)


def _renders_alike(observations: Observations) -> bool:
    off = observations.templates.get("off")
    on = observations.templates.get("on")
    if off is None or on is None or not (off.ok and on.ok):
        return False
    return bool(off.body.get("tokens")) and off.body["tokens"] == on.body.get("tokens")


def _find_call_problem(response: ProbeResponse) -> str | None:
    """What is wrong with a reply that should have called a tool."""
    if not response.reply.calls:
        if _MARKUP.search(response.reply.text):
            return "the call came as text"
        if response.reply.text.strip():
            return "answered without a call"
        if response.reply.reasoning:
            return "only a thought came"
        return "nothing came"
    problems = map(_find_argument_problem, response.reply.calls)
    return next((problem for problem in problems if problem is not None), None)


def _find_argument_problem(call: ToolCall) -> str | None:
    if call.name != TOOL_NAME:
        return "it called a tool nobody offered"
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    if isinstance(arguments, dict) and isinstance(arguments.get("place"), str):
        return None
    return "its arguments are not what was declared"

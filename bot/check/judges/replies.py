"""Judges what comes in replies: calls where calls were asked for, thoughts and answers where they belong.
Pure.
"""

import json
import re

from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.judges.counts import leaks
from bot.check.observations import NOT_THINKING, THINKING, WITH_TOOLS, Answer, Part, Seen, Shape
from bot.check.prompts import PLACES, TOOL
from bot.domain import ToolCall

_MARKUP = re.compile(r'<\|tool_call>|<tool_call\|>|<\|"\|>|\bcall:\w+\s*[{(]')
_PARSERS = "--enable-auto-tool-choice --tool-call-parser gemma4"
_SWITCHED: tuple[Shape, ...] = ("off", "on", "default")
_APART = "--reasoning-parser gemma4, and vLLM 0.33 or newer"


def tool_calls(seen: Seen) -> Verdict:
    """Calls of a tool, streamed and whole, with thinking and without."""
    asked = {part: answer for part in WITH_TOOLS if (answer := seen.answers.get(part)) is not None}
    if not asked:
        return unknown(f"No call was asked for: {seen.why('tools')}.")
    refused = next((answer for answer in asked.values() if not answer.ok), None)
    if refused is not None:
        if "tool choice" in refused.words or "tool_choice" in refused.words:
            flags = _PARSERS
        else:
            flags = None
        return failed(f"Tools are refused (HTTP {refused.status}): {refused.words}", flags)
    whole = {part: answer for part, answer in asked.items() if answer.finish != "length"}
    if not whole:
        return unknown("Every reply was cut before its calls could be whole.")
    wrong = {part: how for part, answer in whole.items() if (how := _wrong(answer)) is not None}
    if not wrong:
        return passed(f"Parsed in {len(whole)} of {len(asked)} replies: {'; '.join(whole)}.")
    told = "; ".join(f"{part}: {how}" for part, how in wrong.items())
    if any(_MARKUP.search(answer.text) or answer.calls for part, answer in whole.items() if part in wrong):
        return failed(f"{told}.", f"{_PARSERS}, and vLLM 0.33 or newer")
    return warned(f"{told}.", "ask again; if it stays so, see --chat-template and --tool-call-parser")


def parallel(seen: Seen) -> Verdict:
    """Several calls in one reply."""
    answers = [one for one in seen.good(*WITH_TOOLS) if one.finish != "length" and _wrong(one) is None]
    if not answers:
        return unknown("No call was parsed.")
    most = max(len(answer.calls) for answer in answers)
    if most < len(PLACES):
        return warned("Two calls were asked for, and one came at a time.", "nothing: it costs a reply a call")
    return passed(f"{most} calls came in one reply.")


def switch(seen: Seen) -> Verdict:
    """Thinking when it is asked for, and none when not."""
    if seen.refuses_ours is not None:
        return unknown("There is no switch for thinking in the common protocol.")
    off = seen.good(*NOT_THINKING)
    on = [answer for answer in seen.good(*THINKING) if answer.blocks]
    if not off or not on:
        return unknown(f"Not seen both ways: {seen.why('thought')}.")
    if _renders_alike(seen):
        return failed("The chat template renders the same prompt with thinking and without.", _template())
    if any(_thought(answer) and answer.text for answer in off):
        return failed("It thinks though it was told not to.", _template())
    if not any(_thought(answer) for answer in on):
        return failed(f"It does not think though it was told to, in {len(on)} replies.", _template())
    return passed("Obeyed both ways.")


def default(seen: Seen) -> Verdict:
    """What a request gets that does not say."""
    shown = [route for name in _SWITCHED if (route := seen.templates.get(name)) and route.ok]
    if len(shown) < len(_SWITCHED):
        return unknown(f"The template does not show itself: {seen.why('template')}.")
    off, on, silent = (route.body.get("tokens") for route in shown)
    if off == on:
        return unknown("The template knows no switch, or does not show itself.")
    if silent == on:
        return warned(
            "Requests that do not say whether to think, think. The gateway always says.",
            "no --default-chat-template-kwargs '{\"enable_thinking\": true}'",
        )
    return passed("Requests that do not say whether to think, do not.")


def thoughts_apart(seen: Seen) -> Verdict:
    """Whether thoughts, or their markup, come as text."""
    answers = seen.good(*NOT_THINKING, *THINKING)
    if not answers:
        return unknown(f"No reply came: {seen.why('plain')}.")
    leaking = [
        part
        for part in (*NOT_THINKING, *THINKING)
        if (one := seen.answers.get(part)) and one.ok and leaks(one)
    ]
    if leaking:
        return failed(f"Thoughts come as text: {'; '.join(leaking)}.", _APART)
    if not any(answer.reasoning for answer in answers):
        return unknown("Nothing was thought.")
    return passed("Thoughts come apart from the answer.")


def answers_apart(seen: Seen) -> Verdict:
    """Whether answers come as thoughts, or not at all."""
    parts = [part for part in (*NOT_THINKING, *THINKING) if part not in WITH_TOOLS]
    if not seen.good(*parts):
        return unknown(f"No reply came: {seen.why('plain')}.")
    lost: list[Part] = []
    empty: list[Part] = []
    for part in parts:
        answer = seen.answers.get(part)
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
        return warned(
            f"The whole answer came as a thought: {'; '.join(lost)}. The gateway shows it as the answer.",
            "a known fault of the parser (vllm#49717); a --chat-template that opens no thought after tool results",
        )
    if empty:
        return warned(f"Nothing came: {'; '.join(empty)}. The gateway asks once more.", "vLLM 0.33 or newer")
    return passed("Answers come as text.")


def _thought(answer: Answer) -> bool:
    return bool(answer.reasoning.strip()) or leaks(answer)


def _renders_alike(seen: Seen) -> bool:
    off = seen.templates.get("off")
    on = seen.templates.get("on")
    if off is None or on is None or not (off.ok and on.ok):
        return False
    return bool(off.body.get("tokens")) and off.body["tokens"] == on.body.get("tokens")


def _template() -> str:
    return "--chat-template with Gemma 4's template, and --reasoning-parser gemma4"


def _wrong(answer: Answer) -> str | None:
    """What is wrong with a reply that should have called a tool."""
    if not answer.calls:
        if _MARKUP.search(answer.text):
            return "the call came as text"
        if answer.text.strip():
            return "answered without a call"
        if answer.reasoning:
            return "only a thought came"
        return "nothing came"
    return next((fault for call in answer.calls if (fault := _fault(call)) is not None), None)


def _fault(call: ToolCall) -> str | None:
    if call.name != TOOL:
        return "it called a tool nobody offered"
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    fits = isinstance(given, dict) and isinstance(given.get("place"), str)
    if fits:
        return None
    return "its arguments are not what was declared"

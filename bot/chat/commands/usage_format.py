"""Formats what turns took in short lines for a phone: sums, rankings, and one turn in detail. Pure.

Canvases are estimates and labelled so. Unknown is shown as unknown, and a sum with unknown parts as "at
least". There is no rate: seconds and counts say enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bot.canvases import CANVASES, TOKENS, OutputUnit, costs_canvases
from bot.chat.commands.stored_reasons import explain_stored
from bot.db.usage.spending import (
    NewestTurn,
    RankedSpender,
    SpendingOverview,
    SpendingSums,
)
from bot.db.usage.thinking_sums import ThinkingSums
from bot.db.usage.turn_steps import CallStep, TurnSteps
from bot.db.usage.verdict_sums import VerdictSums
from bot.domain import EndpointRole
from bot.translations.formats import (
    abbreviate_number,
    format_duration,
    format_series,
    format_share,
)
from bot.translations.translator import Translator, isolate, translatable
from bot.usage.figures import EMPTY_CELL, UNKNOWN
from bot.usage.thinking_report import count_endings

MAX_LINE_CHARS = 35  # a phone shows a line of this length without wrapping it
MAX_LISTED_CALLS = 20  # further calls of a turn are only counted
MAX_LISTED_TOOLS = 8
MIN_SHOWN_SECONDS = 0.05

# Why a call was made that would not have been needed, as it is stored.
_RETRY_REASONS = {
    "away": translatable("there was no answer before"),
    "blind": translatable("the model cannot see images"),
    "brake": translatable("it thought too long"),
    "cut": translatable("the last reply was cut off"),
    "empty": translatable("the last reply was empty"),
    "failing": translatable("calls kept failing"),
    "fallback": translatable("continues with the second model"),
    "main": translatable("continues with the first model"),
    "more": translatable("the answer continues"),
    "refused": translatable("the last request was refused"),
    "restart": translatable("I was restarted"),
    "silent": translatable("two replies were empty"),
    "yielded": translatable("it had been set aside for your message"),
}
_ENDPOINT_LABELS: dict[EndpointRole, str] = {
    "main": translatable("the first"),
    "fallback": translatable("the second"),
}
_OUTCOME_LABELS = {
    "ok": "{time}",
    "cut": translatable("{time}, cut off"),
    "cancelled": translatable("{time}, stopped"),
    "failed": translatable("{time}, failed"),
    None: translatable("{time}, not finished"),
}
_ON_OFF = {True: translatable("on"), False: translatable("off")}
_SWITCHED_THINKING = {True: translatable("thinking on"), False: translatable("thinking off")}
_NO_CALLS = translatable("Model calls: none")
_INTERVAL_LABELS = {
    "intake": translatable("{time} to store it"),
    "lane_wait": translatable("{time} waiting for earlier messages"),
    "starting": translatable("{time} to load what answers need"),
    "preflight": translatable("{time} to look at the message"),
    "seat_wait": translatable("{time} waiting for the model"),
    "server_queue": translatable("{time} waiting while others used the model"),
    "first_canvas": translatable("{time} until the first text"),
    "further_canvases": translatable("{time} for the rest of the text"),
    "failed_calls": translatable("{time} for calls that failed"),
    "tools": translatable("{time} for tools"),
    "approval_wait": translatable("{time} waiting for your answer"),
    "telegram": translatable("{time} for Telegram"),
    "back_off": translatable("{time} before another try"),
    "down": translatable("{time} while I was away"),
    "own": translatable("{time} on my side"),
}


@dataclass(frozen=True, slots=True)
class _UnitTexts:
    """The texts that count the output in a unit."""

    unit: OutputUnit
    unknown: str
    calls: str
    part: str
    people: str
    chats: str

    def get_amount(self, sums: SpendingSums) -> int | None:
        return sums.canvases if self.unit.has_canvases else sums.output_tokens


_CANVASES = _UnitTexts(
    CANVASES,
    unknown=translatable("canvases unknown"),
    calls=translatable("Model calls, canvases estimated:"),
    part=translatable("    {part} of {total} canvases est."),
    people=translatable("People, canvases in 30 d:"),
    chats=translatable("Chats, canvases in 30 d:"),
)
_TOKENS = _UnitTexts(
    TOKENS,
    unknown=translatable("tokens unknown"),
    calls=translatable("Model calls:"),
    part=translatable("    {part} of {total} tokens est."),
    people=translatable("People, tokens in 30 d:"),
    chats=translatable("Chats, tokens in 30 d:"),
)
_UNITS = {texts.unit: texts for texts in (_CANVASES, _TOKENS)}


def format_summary(
    translate: Translator,
    last: NewestTurn | None,
    today: SpendingSums,
    month: SpendingSums,
    *,
    output_unit: OutputUnit = CANVASES,
) -> str:
    """Format at most six lines, each under 36 characters; `month` is the last 30 days."""
    if last is None and not month.turns:
        return translate("Nothing yet. Ask me something.")
    unit = _UNITS[output_unit]
    lines = [] if last is None else _format_last_turn(translate, last, unit)
    lines.append(_format_sums(translate, translate("Today"), today, unit))
    lines.append(_format_sums(translate, translate("30 d"), month, unit))
    unknown = (translate(UNKNOWN), translate(unit.unknown))
    if any(word in line for word in unknown for line in lines):
        lines.append(translate("Unknown: the server sent no count"))
    if output_unit.has_canvases:
        lines.append(translate("Canvas: up to 256 tokens at once"))
    return "\n".join(lines)


def _format_last_turn(translate: Translator, last: NewestTurn, unit: _UnitTexts) -> list[str]:
    """Format one line or two; of a turn that was stopped before anything was counted nothing is unknown."""
    if not last.was_stopped:
        return [
            _format_sums(translate, translate("Answer"), last.spending, unit),
            _format_tokens(translate, last.spending),
        ]
    time = format_duration(translate, last.spending.seconds)
    line = translate("Last answer: stopped after {time}", time=time)
    if last.spending.output_tokens is None:
        return [line]
    return [line, _format_tokens(translate, last.spending)]


def format_answers(
    translate: Translator, last: NewestTurn | None, today: SpendingSums, month: SpendingSums
) -> str:
    """Format for members, in answers and seconds; `month` is the last 30 days."""
    if last is None and not month.turns:
        return translate("Nothing yet. Ask me something.")
    lines = []
    if last is not None:
        text = translatable("Last answer: {time}")
        if last.was_stopped:
            text = translatable("Last answer: stopped after {time}")
        lines.append(translate(text, time=format_duration(translate, last.spending.seconds)))
    headings = ((translate("Today:"), today), (translate("Last 30 days:"), month))
    for heading, sums in headings:
        count = translate.plural("{count} answer", "{count} answers", sums.turns)
        lines.append(f"{heading} {count}, {format_duration(translate, sums.seconds)}")
    return "\n".join(lines)


def format_thinking(
    translate: Translator, all_sums: Sequence[ThinkingSums], *, output_unit: OutputUnit = CANVASES
) -> list[str]:
    """Format what thinking cost in 30 days, and how many turns got an answer with and without it.

    At most five lines, each under 36 characters; none if no turn thought.
    """
    with_thinking = next((sums for sums in all_sums if sums.thinking), None)
    if with_thinking is None:
        return []
    without = [sums for sums in all_sums if not sums.thinking]
    unit = _UNITS[output_unit]
    lines = [
        translate(
            "Thinking, 30 d: {part} of {total} turns",
            part=abbreviate_number(translate, with_thinking.turns),
            total=abbreviate_number(translate, sum(sums.turns for sums in all_sums)),
        ),
        translate(
            unit.part,
            part=_format_known_canvases(translate, [with_thinking], unit),
            total=_format_known_canvases(translate, all_sums, unit),
        ),
        translate(
            "    {part} of {total}",
            part=format_duration(translate, with_thinking.seconds),
            total=format_duration(translate, sum(sums.seconds for sums in all_sums)),
        ),
        translate(
            "    answered {share}, without {other}",
            share=_format_answered_share(translate, [with_thinking]),
            other=_format_answered_share(translate, without),
        ),
    ]
    if any(sums.replaced for sums in all_sums):
        others = sum(sums.replaced for sums in without)
        lines.append(
            translate(
                "    asked again {count}, without {other}",
                count=with_thinking.replaced,
                other=others,
            )
        )
    return lines


def format_verdicts(translate: Translator, all_sums: Iterable[VerdictSums]) -> list[str]:
    """Format how many answers of 30 days were liked and disliked; no line if nobody reacted."""
    return [
        translate("Reactions, 30 d: {good} 👍, {bad} 👎", good=sums.judged - sums.bad, bad=sums.bad)
        for sums in all_sums
    ]


def _format_known_canvases(translate: Translator, all_sums: Sequence[ThinkingSums], unit: _UnitTexts) -> str:
    if not any(sums.counted for sums in all_sums) and any(sums.calls for sums in all_sums):
        return "?"
    is_complete = not any(sums.counted < sums.calls or sums.partial for sums in all_sums)
    canvases = sum(sums.canvases for sums in all_sums)
    return _format_bound(translate, unit.unit.convert(canvases), is_complete=is_complete)


def _format_answered_share(translate: Translator, all_sums: Sequence[ThinkingSums]) -> str:
    """The share of the turns that ran and have ended."""
    endings = [count_endings(sums) for sums in all_sums]
    ended = sum(counts.answered + counts.cut + counts.stopped + counts.failed for counts in endings)
    if not ended:
        return EMPTY_CELL
    percent = 100 * sum(counts.answered for counts in endings) // ended
    return format_share(translate, percent / 100)


def format_ranking(
    translate: Translator, today: SpendingSums, month: SpendingOverview, *, output_unit: OutputUnit = CANVASES
) -> str:
    """Format what everybody took, and who took most in 30 days, in lines under 36 characters."""
    if not month.total.turns:
        return translate("Nothing yet in the last 30 days.")
    unit = _UNITS[output_unit]
    lines = [
        translate("Everybody:"),
        _format_sums(translate, translate("Today"), today, unit),
        _format_sums(translate, translate("30 d"), month.total, unit),
    ]
    for heading, ranked in ((unit.people, month.people), (unit.chats, month.chats)):
        ranks = (_format_rank(translate, *rank, unit) for rank in enumerate(ranked, start=1))
        lines += [translate(heading), *ranks]
    return "\n".join(lines)


def _format_rank(translate: Translator, number: int, spender: RankedSpender, unit: _UnitTexts) -> str:
    name = " ".join(spender.name.split())
    spending = spender.spending
    prefix = f"{number}. "
    amount = _format_count(translate, unit.get_amount(spending), spending)
    suffix = f": {amount}, {format_duration(translate, spending.seconds)}"
    name_limit = MAX_LINE_CHARS - len(prefix) - len(suffix)
    if len(name) > name_limit:
        name = f"{name[: name_limit - 1]}…"
    return f"{prefix}{isolate(name)}{suffix}"


def _format_sums(translate: Translator, label: str, sums: SpendingSums, unit: _UnitTexts) -> str:
    if not sums.turns:
        return translate("{label}: nothing yet", label=label)
    number = unit.get_amount(sums) or 0
    count = _format_count(translate, unit.get_amount(sums), sums)
    if count == UNKNOWN:
        amount = translate(unit.unknown)
    elif unit.unit.has_canvases:
        amount = translate.plural("{shown} canvas est.", "{shown} canvases est.", number, shown=count)
    else:
        amount = translate.plural("{shown} token", "{shown} tokens", number, shown=count)
    return f"{label}: {format_duration(translate, sums.seconds)}, {amount}"


def _format_tokens(translate: Translator, sums: SpendingSums) -> str:
    tokens_in = translate(_format_count(translate, sums.input_tokens, sums))
    tokens_out = translate(_format_count(translate, sums.output_tokens, sums))
    return translate("Tokens: {input} in, {output} out", input=tokens_in, output=tokens_out)


def _format_count(translate: Translator, number: int | None, sums: SpendingSums) -> str:
    if number is None:
        return UNKNOWN if sums.calls else "0"
    return _format_bound(translate, number, is_complete=sums.is_complete)


def format_member_details(translate: Translator, turn: TurnSteps) -> str:
    """Format the details of an ended turn for people who don't run the bot: its tools and its time."""
    lines = [
        translate("Answer {number}: {time}", number=turn.id, time=_format_time(translate, turn.seconds)),
        translate("Thinking: {mode}", mode=translate(_ON_OFF[turn.thinking])),
        *_format_tools(translate, turn.used),
        *_format_breakdown(translate, turn),
    ]
    return "\n".join(lines)


def format_details(translate: Translator, turn: TurnSteps, *, output_unit: OutputUnit = CANVASES) -> str:
    """Format the details of an ended turn: thinking and why, tools, each model call, the model."""
    calls = [call for call in turn.calls if costs_canvases(call.purpose)]
    lines = [
        translate("Answer {number}: {time}", number=turn.id, time=_format_time(translate, turn.seconds)),
        translate("Thinking: {mode}", mode=translate(_ON_OFF[turn.thinking])),
        translate("Why: {reason}", reason=explain_stored(translate, turn.thinking_why) or translate(UNKNOWN)),
        *_format_tools(translate, turn.used),
    ]
    lines += islice(_format_changes(translate, turn.thinking, calls), MAX_LISTED_CALLS)
    for call in turn.calls:
        if not costs_canvases(call.purpose):
            lines += _format_decision_read(translate, call)
    unit = _UNITS[output_unit]
    heading = unit.calls if calls else _NO_CALLS
    lines.append(translate(heading))
    for number, call in enumerate(calls[:MAX_LISTED_CALLS], start=1):
        lines += _format_call(translate, number, call, unit)
    if len(calls) > MAX_LISTED_CALLS:
        more = len(calls) - MAX_LISTED_CALLS
        lines.append(translate.plural("… and {count} more call", "… and {count} more calls", more))
    lines += _format_cached(translate, calls)
    lines += _format_breakdown(translate, turn)
    lines += _format_models(translate, turn, calls)
    return "\n".join(lines)


def _format_tools(translate: Translator, names: Sequence[str]) -> Iterator[str]:
    """Yield the line of the tools that were called, if any were; of many, the last are only counted."""
    if names:
        listed = format_series(translate, names[:MAX_LISTED_TOOLS])
        left_out = len(names) - MAX_LISTED_TOOLS
        if left_out > 0:
            listed = translate("{names} and {count} more", names=listed, count=left_out)
        yield translate("Tools: {names}", names=listed)


def _format_changes(translate: Translator, thinking: bool, calls: Iterable[CallStep]) -> Iterator[str]:
    """Yield where thinking was switched, and where a call was made again, with the reason."""
    for number, call in enumerate(calls, start=1):
        changes = []
        if call.thinking != thinking:
            changes.append(translate(_SWITCHED_THINKING[call.thinking]))
        if call.again:
            changes.append(translate(_RETRY_REASONS.get(call.again, call.again)))
        if changes:
            listed = format_series(translate, changes)
            yield translate("Call {number}: {changes}", number=number, changes=listed)
        thinking = call.thinking


def _format_decision_read(translate: Translator, call: CallStep) -> tuple[str, str]:
    """Format the call that asked the endpoint in one step whether to think."""
    seconds = None if call.ended_at is None else call.ended_at - call.created_at  # it takes no seat
    time = _format_call_time(translate, call, seconds)
    return translate("Whether to think: {time}", time=time), f"    {_format_input(translate, call)}"


def _format_call(translate: Translator, number: int, call: CallStep, unit: _UnitTexts) -> tuple[str, str]:
    if call.canvases is None or call.completion_tokens is None:
        amount = translate(unit.unknown)
    elif not unit.unit.has_canvases:
        tokens = abbreviate_number(translate, call.completion_tokens)
        amount = translate.plural("{shown} token", "{shown} tokens", call.completion_tokens, shown=tokens)
    else:
        amount = translate.plural("{count} canvas", "{count} canvases", call.canvases)
    details = [_format_input(translate, call)]
    if call.prompt_tokens is not None:
        details.append(_format_cached_tokens(translate, call.cached_tokens))
    if call.waited and call.waited >= 0.1:
        details.append(translate("waited {time}", time=format_duration(translate, call.waited)))
    duration = _format_call_time(translate, call, call.seat_seconds)
    return f"{number}. {amount}, {duration}", f"    {format_series(translate, details)}"


def _format_input(translate: Translator, call: CallStep) -> str:
    if call.prompt_tokens is None:
        return translate("tokens unknown")
    return translate("{tokens} in", tokens=abbreviate_number(translate, call.prompt_tokens))


def _format_cached_tokens(translate: Translator, tokens: int | None) -> str:
    if tokens is None:
        return translate("cached unknown")
    return translate("{tokens} cached", tokens=abbreviate_number(translate, tokens))


def _format_call_time(translate: Translator, call: CallStep, seconds: float | None) -> str:
    return translate(_OUTCOME_LABELS[call.outcome], time=_format_time(translate, seconds))


def _format_time(translate: Translator, seconds: float | None) -> str:
    if seconds is None:
        return translate("time unknown")
    return format_duration(translate, seconds)


def _format_cached(translate: Translator, calls: Iterable[CallStep]) -> Iterator[str]:
    """Yield how much of the input did not have to be computed, and of how many calls that is known."""
    calls = list(calls)
    reported = [call for call in calls if call.cached_tokens is not None and call.prompt_tokens is not None]
    prompt_tokens = sum(call.prompt_tokens or 0 for call in reported)
    cached_tokens = sum(call.cached_tokens or 0 for call in reported)
    if prompt_tokens:
        share = format_share(translate, cached_tokens / prompt_tokens)
        yield translate("Cached: {share} of the input", share=share)
        if len(reported) < len(calls):
            yield translate("    known for {part} of {total} calls", part=len(reported), total=len(calls))


def _format_breakdown(translate: Translator, turn: TurnSteps) -> Iterator[str]:
    """Yield the seconds by what they went to, those long enough to be noticed."""
    if not turn.account:
        return
    yield translate("Where {time} went:", time=format_duration(translate, turn.account["whole"]))
    for kind, seconds in turn.account.items():
        if kind != "whole" and seconds >= MIN_SHOWN_SECONDS:
            time = format_duration(translate, seconds)
            yield f"    {translate(_INTERVAL_LABELS[kind], time=time)}"


def _format_models(translate: Translator, turn: TurnSteps, calls: Iterable[CallStep]) -> Iterator[str]:
    """Yield the models in the order they were asked, and the endpoint if there are two."""
    names = dict.fromkeys(call.model or translate(UNKNOWN) for call in calls)
    if names:
        yield translate("Model: {names}", names=" → ".join(names))
    if turn.endpoint_why is not None:
        endpoint = translate(_ENDPOINT_LABELS[turn.endpoint])
        reason = explain_stored(translate, turn.endpoint_why)
        yield translate("Model server: {endpoint}, {reason}", endpoint=endpoint, reason=reason)


def _format_bound(translate: Translator, number: int, *, is_complete: bool) -> str:
    """Shorten a count; one with unknown parts is “at least”."""
    text = abbreviate_number(translate, number)
    return text if is_complete else f"≥{text}"

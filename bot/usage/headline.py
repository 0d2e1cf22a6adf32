"""The first lines of a report: who used how much, how fast answers came, what failed, what people think."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from bot.db.usage.speeches import SpeechSums
from bot.db.usage.usage_sums import CallSums
from bot.db.usage.verdict_sums import VerdictSums
from bot.usage.figures import format_seconds, format_share
from bot.usage.report import UsageReport, format_person

MAX_NAMED = 5  # people; the others are counted together


def build_lines(
    report: UsageReport,
    calls_by_person: Sequence[CallSums],
    names: Mapping[int, str],
    speech_sums: SpeechSums,
) -> Iterator[str]:
    """One line each; `calls_by_person` are of the same scope, the gateway's own under None."""
    yield _describe_use(report, calls_by_person, names)
    yield _describe_speed(report)
    yield _describe_failures(report)
    if count := speech_sums.spoken + speech_sums.failed:
        seconds = format_seconds(speech_sums.seconds / count)
        yield f"Voice: {speech_sums.spoken:,} answers read out, {speech_sums.failed:,} not; {seconds} s each."
    if report.total.verdicts is not None:
        yield _describe_verdicts(report.total.verdicts)


def _describe_use(report: UsageReport, calls_by_person: Sequence[CallSums], names: Mapping[int, str]) -> str:
    calls = report.total.calls
    get_amount = attrgetter(report.output_unit.column)
    if calls is None or not get_amount(calls):
        return "Used: nothing that is known."
    total = get_amount(calls)
    ordered = sorted(calls_by_person, key=get_amount, reverse=True)
    shares = [
        f"{_name_spender(sums, names)} {format_share(get_amount(sums), total, decimals=0)}"
        for sums in ordered[:MAX_NAMED]
    ]
    others = ordered[MAX_NAMED:]
    if others:
        share = format_share(sum(map(get_amount, others)), total, decimals=0)
        shares.append(f"{len(others)} others {share}")
    turns = report.total.turn_sums
    answered = turns.answered if turns else 0
    answers = "1 answer" if answered == 1 else f"{answered:,} answers"
    return f"Used: {answers}, about {total:,} {report.output_unit.name}: {', '.join(shares)}."


def _name_spender(sums: CallSums, names: Mapping[int, str]) -> str:
    if sums.key is None:
        return "the gateway itself"
    return format_person(str(sums.key), names)


def _describe_speed(report: UsageReport) -> str:
    whole = report.total.percentiles.get("whole")
    turns = report.total.turn_sums
    if whole is not None:
        half = format_seconds(whole.p50)
        most = format_seconds(whole.p95)
        return f"Speed: half of the answers took at most {half} s, 95 of 100 at most {most} s."
    if turns is None or not turns.settled:
        return "Speed: unknown."
    return f"Speed: an answer took {format_seconds(turns.seconds[0] / turns.settled)} s on average."


def _describe_failures(report: UsageReport) -> str:
    calls = report.total.calls
    tools = report.total.tools
    turns = report.total.turns
    counts: list[tuple[int, str]] = []
    if calls is not None:
        counts.append((calls.failed, f"of {calls.calls:,} model calls"))
    if tools is not None:
        counts.append((tools.failed, f"of {tools.calls:,} tool calls"))
    if turns is not None:
        counts.append((turns.failed, f"of {turns.turns:,} turns"))
    failures = [f"{count:,} {what}" for count, what in counts if count]
    return f"Failed: {', '.join(failures) or 'nothing'}."


def _describe_verdicts(sums: VerdictSums) -> str:
    answers = "1 answer" if sums.judged == 1 else f"{sums.judged:,} answers"
    return f"Judged: {answers} by reactions, {format_share(sums.bad, sums.judged, decimals=0)} bad."

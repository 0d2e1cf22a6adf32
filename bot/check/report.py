"""All that a check looks at, in the order it is told, and the report that comes of it. Pure."""

from collections.abc import Sequence
from typing import Final

from bot.check.client import MOST_CALLS
from bot.check.findings import Finding, Report, Rule
from bot.check.judges import counts, engine, replies, seats, server, template
from bot.check.observations import Seen

RULES: Final[Sequence[Rule]] = (
    Rule("reachable", "without it messages wait, up to MODEL_WAIT seconds", server.reachable),
    Rule("version", "fields, flags and faults differ from release to release", server.version),
    Rule("protocol", "what is missing is done without, or not at all", server.protocol),
    Rule("model", "calls name the model", server.model),
    Rule("context", "a prompt and its answer must fit", server.context),
    Rule("key", "whoever reaches an open endpoint may use it", server.key),
    Rule(
        "usage in streams",
        "turns are streamed: without it nothing is known of what they cost",
        counts.in_streams,
    ),
    Rule("usage in whole replies", "the benchmark counts these, too", counts.in_whole),
    Rule("cached tokens", "the account says what the cache saved", counts.cached),
    Rule("reasoning tokens", "the account says what thinking cost", counts.reasoning),
    Rule("server timings", "they tell the queue from the prefill", counts.timings),
    Rule("tool calls", "without them no tool runs", replies.tool_calls),
    Rule("parallel calls", "several questions at once cost one canvas", replies.parallel),
    Rule(
        "thinking switch",
        "thinking takes many times as long, and is wanted in some turns only",
        replies.switch,
    ),
    Rule("thinking by default", "other programs at this endpoint may think unasked", replies.default),
    Rule("thoughts apart", "people would read the model's thoughts", replies.thoughts_apart),
    Rule("answers apart", "an answer in the wrong place looks like none", replies.answers_apart),
    Rule("template", "it decides what the model reads, and what the cache can keep", template.template),
    Rule("control tokens", "a person could end a turn and speak as the system", template.controls),
    Rule("reply length", "a hidden cap cuts every long answer", engine.cap),
    Rule("temperature", "tells a diffusion model from another", engine.temperature),
    Rule("canvas", "cost is counted in canvases", engine.canvas),
    Rule("prefix cache", "what is cached need not be computed again", engine.cache),
    Rule("pictures", "people send some", engine.pictures),
    Rule("seats", "MODEL_SEATS should be what the endpoint really runs at once", seats.seats),
    Rule("priority", "people go before summaries and warming up", seats.priority),
    Rule("abort", "/stop should free the seat at once", seats.abort),
    Rule("typed reads", "a cheap way to decide whether to think", engine.typed_reads),
)


def report(seen: Seen, most_calls: int = MOST_CALLS) -> Report:
    """Judge what was seen."""
    return Report(
        url=seen.url,
        findings=tuple(_finding(rule, seen) for rule in RULES),
        calls=seen.calls,
        most_calls=most_calls,
        seconds=seen.seconds,
        template=template.fingerprint(seen),
        stopped=seen.stopped,
    )


def _finding(rule: Rule, seen: Seen) -> Finding:
    verdict = rule.judge(seen)
    return Finding(rule.name, verdict.status, verdict.seen, rule.meaning, verdict.mend)

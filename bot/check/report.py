"""Everything that a check judges, in the order of the report, and the report. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from bot.check.client import MAX_CALLS
from bot.check.findings import CheckReport, CheckRule, Finding
from bot.check.judges import counts, engine, replies, seats, server, template
from bot.check.observations import Observations

_VLLM_FLAG = re.compile("(?:no )?--")
RULES: Final[Sequence[CheckRule]] = (
    CheckRule("reachable", "without it messages wait, up to ten minutes", server.judge_reachable),
    CheckRule("version", "fields, flags and faults differ from release to release", server.judge_version),
    CheckRule("router", "its /metrics is that of one server alone", server.judge_router),
    CheckRule("protocol", "what is missing is done without, or not at all", server.judge_protocol),
    CheckRule("model", "calls name the model", server.judge_model),
    CheckRule("context", "a prompt and its answer must fit", server.judge_context),
    CheckRule("key", "whoever reaches an open endpoint may use it", server.judge_key),
    CheckRule(
        "usage in streams",
        "turns are streamed, and a stopped one costs what was counted on the way",
        counts.judge_stream_usage,
    ),
    CheckRule("usage in whole replies", "the benchmark counts these, too", counts.judge_whole_usage),
    CheckRule("cached tokens", "the account says what the cache saved", counts.judge_cached_tokens),
    CheckRule("reasoning tokens", "the account says what thinking cost", counts.judge_reasoning_tokens),
    CheckRule("server timings", "they tell the queue from the prefill", counts.judge_timings),
    CheckRule("tool calls", "without them no tool runs", replies.judge_tool_calls),
    CheckRule("parallel calls", "several questions at once cost one call", replies.judge_parallel_calls),
    CheckRule(
        "thinking switch",
        "thinking takes many times as long, and is wanted in some turns only",
        replies.judge_thinking_switch,
    ),
    CheckRule(
        "thinking by default",
        "other programs at this endpoint may think unasked",
        replies.judge_thinking_default,
    ),
    CheckRule("thoughts apart", "people would read the model's thoughts", replies.judge_thoughts_apart),
    CheckRule("answers apart", "an answer in the wrong place looks like none", replies.judge_answers_apart),
    CheckRule(
        "template", "it decides what the model reads, and what the cache can keep", template.judge_template
    ),
    CheckRule(
        "control tokens", "a person could end a turn and speak as the system", template.judge_control_tokens
    ),
    CheckRule("reply length", "a hidden cap cuts every long answer", engine.judge_reply_length),
    CheckRule("temperature", "tells a diffusion model from another", engine.judge_temperature),
    CheckRule("output", "cost is counted by what it writes", engine.judge_output),
    CheckRule("prefix cache", "what is cached need not be computed again", engine.judge_prefix_cache),
    CheckRule("pictures", "people send some", engine.judge_pictures),
    CheckRule("seats", "MODEL_SEATS should be what the endpoint really runs at once", seats.judge_seats),
    CheckRule("priority", "people go before summaries and warming up", seats.judge_priority),
    CheckRule("abort", "/stop should free the seat at once", seats.judge_abort),
    CheckRule(
        "typed reads",
        "a cheap way to decide whether to think, and which message of a group is for the bot",
        engine.judge_typed_reads,
    ),
)


def build_report(observations: Observations, max_calls: int = MAX_CALLS) -> CheckReport:
    """Judge the observations."""
    return CheckReport(
        url=observations.url,
        findings=tuple(_judge(rule, observations) for rule in RULES),
        calls=observations.calls,
        max_calls=max_calls,
        seconds=observations.seconds,
        template=template.template_fingerprint(observations),
        stopped=observations.stopped,
    )


def _judge(rule: CheckRule, observations: Observations) -> Finding:
    verdict = rule.judge(observations)
    mend = verdict.mend
    if mend is not None and _VLLM_FLAG.match(mend) and not server.is_vllm(observations):
        mend = f"with vLLM: {mend}"
    return Finding(rule.name, verdict.status, verdict.seen, rule.meaning, mend)

"""Judges what an endpoint counts: usage in both ways, cached and reasoning tokens, its own timings. Pure."""

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.judges.server import parse_release
from bot.check.observations import NON_THINKING_CALLS, THINKING_CALLS, CallKind, Observations, ProbeResponse

REASONING_COUNT_RELEASE = (0, 28)
_WHOLE_CALLS: tuple[CallKind, ...] = ("plain", "tools, whole", "tools, thinking, whole", "results, whole")
_STREAMED_CALLS: tuple[CallKind, ...] = ("counting", "tools", "thought", "tools, thinking", "results")


def judge_stream_usage(observations: Observations) -> Verdict:
    """Usage at the end of a stream, and while it runs."""
    answers = observations.ok_responses(*_STREAMED_CALLS)
    if not answers:
        return unknown_verdict(f"No stream came: {observations.unknown_reason('counting')}.")
    if any(answer.output_tokens is None for answer in answers):
        return fail_verdict("Streams end without a count of their tokens.", "--enable-force-include-usage")
    blocks = [block for answer in answers for block in answer.blocks]
    running = any(block.tokens is not None for block in blocks)
    if observations.refuses_ours is None and blocks and not running:
        return warn_verdict("Counted at the end of a stream only.", "--enable-force-include-usage")
    return pass_verdict(
        "Counted at the end and with each block." if running else "Counted at the end of a stream."
    )


def judge_whole_usage(observations: Observations) -> Verdict:
    """Usage of replies that are not streamed."""
    answers = observations.ok_responses(*_WHOLE_CALLS)
    if not answers:
        return unknown_verdict(f"No whole reply came: {observations.unknown_reason('plain')}.")
    if any(answer.output_tokens is None for answer in answers):
        return warn_verdict(
            "Replies that are not streamed are not counted.", "let a proxy in front pass `usage`"
        )
    return pass_verdict("Counted.")


def judge_cached_tokens(observations: Observations) -> Verdict:
    """How much of a prompt was in the cache."""
    answers = _counted_responses(observations, *NON_THINKING_CALLS, *THINKING_CALLS)
    if not answers:
        return unknown_verdict("No reply was counted.")
    if any(answer.cached_tokens is None for answer in answers):
        return warn_verdict("What the cache had of a prompt is not told.", "--enable-prompt-tokens-details")
    return pass_verdict("Told with each reply.")


def judge_reasoning_tokens(observations: Observations) -> Verdict:
    """How much of a reply was thought."""
    answers = _counted_responses(observations, *THINKING_CALLS) or _counted_responses(
        observations, *NON_THINKING_CALLS
    )
    if not answers:
        return unknown_verdict("No reply was counted.")
    if all(answer.reasoning_tokens is not None for answer in answers):
        return pass_verdict("Told with each reply.")
    if any(has_leaked_thoughts(answer) for answer in observations.ok_responses(*THINKING_CALLS)):
        return unknown_verdict("Thoughts come as text, so nobody can count them apart.")
    number = parse_release(observations)
    if number is not None and number < REASONING_COUNT_RELEASE:
        return warn_verdict("Not counted before vLLM 0.28.", "vLLM 0.33 or newer")
    return warn_verdict("Thoughts are not counted apart.", "--reasoning-parser gemma4")


def judge_timings(observations: Observations) -> Verdict:
    """The server's own clock, a reply."""
    answers = observations.ok_responses(
        *_WHOLE_CALLS
    )  # in a stream they come with the usage, and would be missed twice
    if not answers:
        return unknown_verdict(f"No whole reply came: {observations.unknown_reason('plain')}.")
    if any(answer.server is None for answer in answers):
        return warn_verdict(
            "The server does not tell its own times of a reply.", "--enable-per-request-metrics"
        )
    return pass_verdict("Queue, first token and generation are told with each reply.")


def has_leaked_thoughts(response: ProbeResponse) -> bool:
    """Whether thoughts, or their markup, stand in the text of an answer."""
    text = response.text.lstrip()
    return "<|channel>" in text or "<channel|>" in text or text.startswith("thought\n")


def _counted_responses(observations: Observations, *kinds: CallKind) -> tuple[ProbeResponse, ...]:
    return tuple(answer for answer in observations.ok_responses(*kinds) if answer.output_tokens is not None)

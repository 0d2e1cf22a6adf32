"""Judges what an endpoint counts: usage, cached and reasoning tokens, its own timings. Pure."""

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.judges.server import parse_release
from bot.check.observations import NON_THINKING_CALLS, THINKING_CALLS, CallKind, Observations, ProbeResponse

REASONING_COUNT_RELEASE = (0, 28)
_WHOLE_CALLS: tuple[CallKind, ...] = ("plain", "tools, whole", "tools, thinking, whole", "results, whole")
_STREAMED_CALLS: tuple[CallKind, ...] = ("counting", "tools", "thought", "tools, thinking", "results")


def judge_stream_usage(observations: Observations) -> Verdict:
    """Whether streams report usage at their end, and while they run."""
    responses = observations.ok_responses(*_STREAMED_CALLS)
    if not responses:
        return unknown_verdict(f"No stream came: {observations.unknown_reason('counting')}.")
    if any(response.usage.completion_tokens is None for response in responses):
        return fail_verdict(
            "Streams end without a count of their tokens: nothing is known of what turns cost.",
            "--enable-force-include-usage",
        )
    blocks = [block for response in responses for block in response.blocks]
    if any(block.tokens is not None for block in blocks):
        return pass_verdict("Counted at the end and with each block.")
    if observations.refuses_ours is None and blocks:
        return warn_verdict("Counted at the end of a stream only.", "--enable-force-include-usage")
    return pass_verdict("Counted at the end of a stream.")


def judge_whole_usage(observations: Observations) -> Verdict:
    """Whether replies that are not streamed report usage."""
    responses = observations.ok_responses(*_WHOLE_CALLS)
    if not responses:
        return unknown_verdict(f"No whole reply came: {observations.unknown_reason('plain')}.")
    if any(response.usage.completion_tokens is None for response in responses):
        return warn_verdict(
            "Replies that are not streamed are not counted.", "let a proxy in front pass `usage`"
        )
    return pass_verdict("Counted.")


def judge_cached_tokens(observations: Observations) -> Verdict:
    """Whether replies report how much of a prompt was cached."""
    responses = _counted_responses(observations, *NON_THINKING_CALLS, *THINKING_CALLS)
    if not responses:
        return unknown_verdict("No reply was counted.")
    if any(response.usage.cached_tokens is None for response in responses):
        return warn_verdict("What the cache had of a prompt is not told.", "--enable-prompt-tokens-details")
    return pass_verdict("Told with each reply.")


def judge_reasoning_tokens(observations: Observations) -> Verdict:
    """Whether replies report how much was thought."""
    responses = _counted_responses(observations, *THINKING_CALLS)
    if not responses:
        responses = _counted_responses(observations, *NON_THINKING_CALLS)
    if not responses:
        return unknown_verdict("No reply was counted.")
    if all(response.usage.reasoning_tokens is not None for response in responses):
        return pass_verdict("Told with each reply.")
    if any(map(has_leaked_thoughts, observations.ok_responses(*THINKING_CALLS))):
        return unknown_verdict("Thoughts come as text, so nobody can count them apart.")
    release = parse_release(observations)
    if release is not None and release < REASONING_COUNT_RELEASE:
        return warn_verdict("Not counted before vLLM 0.28.", "vLLM 0.33 or newer")
    return warn_verdict("Thoughts are not counted apart.", "--reasoning-parser gemma4")


def judge_timings(observations: Observations) -> Verdict:
    """Whether replies report the server's own timings."""
    # In a stream they come with the usage; without it two findings would say the same.
    responses = observations.ok_responses(*_WHOLE_CALLS)
    if not responses:
        return unknown_verdict(f"No whole reply came: {observations.unknown_reason('plain')}.")
    if any(response.reply.server_timings is None for response in responses):
        return warn_verdict(
            "The server does not tell its own times of a reply.", "--enable-per-request-metrics"
        )
    return pass_verdict("Queue, first token and generation are told with each reply.")


def has_leaked_thoughts(response: ProbeResponse) -> bool:
    """Whether thoughts, or their markup, are in the text of a response."""
    text = response.reply.text.lstrip()
    return "<|channel>" in text or "<channel|>" in text or text.startswith("thought\n")


def _counted_responses(observations: Observations, *kinds: CallKind) -> tuple[ProbeResponse, ...]:
    responses = observations.ok_responses(*kinds)
    return tuple(response for response in responses if response.usage.completion_tokens is not None)

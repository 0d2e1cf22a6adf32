"""Judges what an endpoint counts: usage in both ways, cached and reasoning tokens, its own timings. Pure."""

from bot.check.findings import Verdict, failed, passed, unknown, warned
from bot.check.judges.server import release
from bot.check.observations import NOT_THINKING, THINKING, Answer, Part, Seen

COUNTS_REASONING = (0, 28)
_WHOLE: tuple[Part, ...] = ("plain", "tools, whole", "tools, thinking, whole", "results, whole")
_STREAMS: tuple[Part, ...] = ("counting", "tools", "thought", "tools, thinking", "results")


def in_streams(seen: Seen) -> Verdict:
    """Usage at the end of a stream, and while it runs."""
    answers = seen.good(*_STREAMS)
    if not answers:
        return unknown(f"No stream came: {seen.why('counting')}.")
    if any(answer.tokens is None for answer in answers):
        return failed("Streams end without a count of their tokens.", "--enable-force-include-usage")
    blocks = [block for answer in answers for block in answer.blocks]
    running = any(block.tokens is not None for block in blocks)
    if seen.refuses_ours is None and blocks and not running:
        return warned("Counted at the end of a stream only.", "--enable-force-include-usage")
    return passed("Counted at the end and with each block." if running else "Counted at the end of a stream.")


def in_whole(seen: Seen) -> Verdict:
    """Usage of replies that are not streamed."""
    answers = seen.good(*_WHOLE)
    if not answers:
        return unknown(f"No whole reply came: {seen.why('plain')}.")
    if any(answer.tokens is None for answer in answers):
        return warned("Replies that are not streamed are not counted.", "let a proxy in front pass `usage`")
    return passed("Counted.")


def cached(seen: Seen) -> Verdict:
    """How much of a prompt was in the cache."""
    answers = _counted(seen, *NOT_THINKING, *THINKING)
    if not answers:
        return unknown("No reply was counted.")
    if any(answer.cached is None for answer in answers):
        return warned("What the cache had of a prompt is not told.", "--enable-prompt-tokens-details")
    return passed("Told with each reply.")


def reasoning(seen: Seen) -> Verdict:
    """How much of a reply was thought."""
    answers = _counted(seen, *THINKING) or _counted(seen, *NOT_THINKING)
    if not answers:
        return unknown("No reply was counted.")
    if all(answer.thought_tokens is not None for answer in answers):
        return passed("Told with each reply.")
    if any(leaks(answer) for answer in seen.good(*THINKING)):
        return unknown("Thoughts come as text, so nobody can count them apart.")
    number = release(seen)
    if number is not None and number < COUNTS_REASONING:
        return warned("Not counted before vLLM 0.28.", "vLLM 0.33 or newer")
    return warned("Thoughts are not counted apart.", "--reasoning-parser gemma4")


def timings(seen: Seen) -> Verdict:
    """The server's own clock, a reply."""
    answers = seen.good(*_WHOLE)  # in a stream they come with the usage, and would be missed twice
    if not answers:
        return unknown(f"No whole reply came: {seen.why('plain')}.")
    if any(answer.server is None for answer in answers):
        return warned("The server does not tell its own times of a reply.", "--enable-per-request-metrics")
    return passed("Queue, first token and generation are told with each reply.")


def leaks(answer: Answer) -> bool:
    """Whether thoughts, or their markup, stand in the text of an answer."""
    text = answer.text.lstrip()
    return "<|channel>" in text or "<channel|>" in text or text.startswith("thought\n")


def _counted(seen: Seen, *parts: Part) -> tuple[Answer, ...]:
    return tuple(answer for answer in seen.good(*parts) if answer.tokens is not None)

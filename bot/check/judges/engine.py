"""Judges the engine: how it writes, the length of replies, the prefix cache, what else it accepts. Pure."""

import re
from collections.abc import Mapping

from bot.attachments.images import find_image_tokens
from bot.canvases import CANVAS_TOKENS
from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.judges.seats import median_block_gap
from bot.check.judges.server import parse_release
from bot.check.observations import CallKind, Observations, ProbeResponse
from bot.check.prompts import LAST_NUMBER, MAX_OUTPUT_TOKENS
from bot.llm.diagnostics import TYPED_READS_SINCE
from bot.llm.stream import parse_count

_CACHE_CALLS: Mapping[str, CallKind] = {
    "a second person who shares its head": "counting",
    "a third": "tools",
    "thinking toggled": "thought",
    "and again": "tools, thinking, whole",
}
"""Calls that share a head, by what the finding calls them."""

_MAX_STEPS = 48  # of a canvas, by the checkpoint
_CAPPED_STEPS = 0.9 * _MAX_STEPS  # on average; single canvases may well run to the limit

SPARSE_CACHE = (
    "Only the ends of prompts are kept, as vLLM does by itself: each answer is computed again in the next "
    "prompt. --prefix-cache-retention-interval 1024 keeps them, too: chats then compute 15 to 55 % less of "
    "their prompts, tool loops 2 to 5 % (simulated), but each conversation takes more of the cache's memory. "
    "Neither was measured on a card."
)


def judge_reply_length(observations: Observations) -> Verdict:
    """Whether long replies are cut."""
    response = observations.answers.get("counting")
    if response is None or not response.ok:
        return unknown_verdict(f"No long reply came: {observations.unknown_reason('counting')}.")
    numbers = re.findall(r"\d+", response.reply.text)
    if numbers[-1:] == [str(LAST_NUMBER)] and response.reply.finish_reason != "length":
        return pass_verdict("A reply of some 300 tokens came to its end.")
    tokens = response.usage.completion_tokens
    length = "unknown" if tokens is None else str(tokens)
    if response.reply.finish_reason == "length" and (tokens or 0) < MAX_OUTPUT_TOKENS:
        return fail_verdict(
            f"Replies are cut after {length} tokens, though {MAX_OUTPUT_TOKENS} were allowed.",
            "no --override-generation-config with max_new_tokens; vLLM 0.24 or newer",
        )
    return unknown_verdict(
        f"The reply was not what was asked for ({length} tokens, ended by {response.reply.finish_reason})."
    )


def judge_temperature(observations: Observations) -> Verdict:
    """Whether a temperature is refused, as diffusion models do."""
    response = observations.answers.get("temperature")
    if response is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('temperature')}.")
    if response.ok and is_autoregressive(observations):
        return pass_verdict("Accepted, as by all but diffusion models; the gateway sends none.")
    if response.ok:
        return warn_verdict(
            "A temperature of 0.5 is accepted: no DiffusionGemma, or vLLM before 0.26. "
            "The gateway sends none.",
            "serve a DiffusionGemma with vLLM 0.33 or newer",
        )
    if response.status == 400 and "diffusion" in response.error_message:
        return pass_verdict("Refused, as diffusion models do; the gateway sends none.")
    return unknown_verdict(f"Refused with other words (HTTP {response.status}): {response.error_message}")


def is_autoregressive(observations: Observations) -> bool:
    """Whether the model writes token by token, as far as its counters or a long reply show it."""
    if observations.before is not None and observations.before.committed is not None:
        return False
    response = observations.answers.get("counting")
    if response is None or not response.ok or not response.blocks or response.usage.completion_tokens is None:
        return False
    return _writes_token_by_token(response, response.usage.completion_tokens)


def judge_output(observations: Observations) -> Verdict:
    """Whether text comes one canvas at a time, how long a canvas is, and whether it takes too many steps."""
    response = observations.answers.get("counting")
    if response is None or not response.ok or not response.blocks:
        return unknown_verdict(f"No stream came: {observations.unknown_reason('counting')}.")
    count = len(response.blocks)
    tokens = response.usage.completion_tokens
    if is_autoregressive(observations):
        return pass_verdict(
            f"Token by token, {tokens} tokens in {count} blocks: no diffusion model. What is used is shown "
            "in tokens."
        )
    if count < 2 or tokens is None:
        return unknown_verdict("The reply was one block, or was not counted: how it writes does not show.")
    steps = _measure_denoising_steps(observations)
    pace = _format_block_gap(response)
    if steps is not None:
        pace += f", {steps:.0f} denoising steps each by the server's count"
    observation = f"{tokens} tokens came in {count} blocks{pace}"
    minimum, maximum = _canvas_length_limits(response, tokens)
    is_full_width = minimum <= CANVAS_TOKENS <= maximum
    if is_full_width and steps is not None and steps >= _CAPPED_STEPS:
        return warn_verdict(
            f"{observation}: nearly all run to the limit of {_MAX_STEPS}, which takes several times as "
            "long. A default top_k, or a top_p below 1, does that (vllm#58440).",
            "--override-generation-config without top_k and top_p",
        )
    if is_full_width:
        return pass_verdict(f"{observation}: canvases of {CANVAS_TOKENS}.")
    length = str(minimum)
    if minimum != maximum:
        length = f"{minimum} to {maximum}"
    return warn_verdict(
        f"{observation}: a canvas is {length} tokens, and is counted as {CANVAS_TOKENS}.",
        "--diffusion-config",
    )


def judge_prefix_cache(observations: Observations) -> Verdict:
    """What the prefix cache gives back: of the same prompt, with thinking toggled, and for somebody else."""
    first = observations.answers.get("tools")
    repeated = observations.answers.get("tools, whole")
    if first is None or repeated is None:
        return unknown_verdict(f"No prompt was sent twice: {observations.unknown_reason('tools, whole')}.")
    if not (first.ok and repeated.ok):
        status = repeated.status if first.ok else first.status
        return unknown_verdict(f"The prompt that is sent twice was refused (HTTP {status}).")
    if repeated.usage.cached_tokens is None:
        return unknown_verdict("What was cached is not told.")
    if repeated.usage.cached_tokens == 0:
        return warn_verdict(
            "The same prompt again: nothing of it was cached.", "no --no-enable-prefix-caching"
        )
    observation = _describe_cached(observations, repeated)
    thinking_again = observations.answers.get("tools, thinking, whole")
    if thinking_again is not None and thinking_again.ok and thinking_again.usage.cached_tokens == 0:
        return warn_verdict(
            f"{observation}. One lineage pushes the other out.", "more memory: --gpu-memory-utilization"
        )
    if first.usage.cached_tokens == 0:
        return warn_verdict(
            f"{observation}. Who shares only the head finds nothing, even the third.",
            "--prefix-cache-retention-interval 512",
        )
    second = observations.answers.get("counting")
    if second is not None and second.ok and second.usage.cached_tokens == 0:
        return pass_verdict(f"{observation}. {SPARSE_CACHE}")
    return pass_verdict(f"{observation}.")


def judge_pictures(observations: Observations) -> Verdict:
    """Whether the model accepts pictures, and how many tokens it sees of each."""
    response = observations.answers.get("picture")
    if response is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('picture')}.")
    if response.ok:
        found = find_image_tokens(response.usage.prompt_tokens)
        return _judge_image_tokens(found, observations.image_tokens)
    return warn_verdict(
        f"Pictures are refused (HTTP {response.status}): {response.error_message}",
        "a model that sees, or TURN_IMAGES=0",
    )


def _judge_image_tokens(found: int | None, wanted: int | None) -> Verdict:
    if found is None:
        return pass_verdict("Accepted.")
    if wanted not in (None, found):
        return warn_verdict(
            f"Each picture takes {found:,} tokens, and IMAGE_TOKENS says {wanted:,}.",
            f'IMAGE_TOKENS=auto, or --mm-processor-kwargs={{"max_soft_tokens":{wanted}}}',
        )
    return pass_verdict(f"Accepted; each takes {found:,} tokens.")


def judge_typed_reads(observations: Observations) -> Verdict:
    """Whether a question can be answered in one denoising step."""
    route = observations.read
    if route is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('read')}.")
    if route.ok and "answers" in route.body:
        tokens = parse_count(route.body.get("usage"), "input_tokens")
        cost = f"{observations.read_seconds:.2f} s"
        if tokens is not None:
            cost += f" and {tokens:,} tokens"
        return pass_verdict(f"Offered at {observations.read_path}: {cost} for a short question.")
    release = parse_release(observations)
    if release is not None and release < TYPED_READS_SINCE:
        return warn_verdict(
            "Not offered before vLLM 0.32; words alone decide whether to think.", "vLLM 0.33 or newer"
        )
    if route.status == 501:
        return warn_verdict(
            "Switched off; words alone decide whether to think.", "--logprobs-mode raw_logprobs"
        )
    return warn_verdict(
        f"Not offered (HTTP {route.status}); words alone decide whether to think.",
        "THINKING_READ=off",
    )


def _writes_token_by_token(response: ProbeResponse, tokens: int) -> bool:
    count = len(response.blocks)
    first_count = response.blocks[0].tokens
    if first_count is not None and count > 1:
        return first_count <= 2
    return tokens > 32 and count > tokens / 2


def _canvas_length_limits(response: ProbeResponse, tokens: int) -> tuple[int, int]:
    """The least and the greatest number of tokens that a canvas may have, of a reply of several blocks."""
    first_count = response.blocks[0].tokens
    if first_count is not None:
        return first_count, first_count
    # Nothing is counted on the way: the tokens fill all blocks, or all but one.
    count = len(response.blocks)
    return -(-tokens // count), (tokens - 1) // (count - 1)


def _describe_cached(observations: Observations, repeated: ProbeResponse) -> str:
    """How many tokens of each prompt were cached."""
    text = f"the same prompt again: {repeated.usage.cached_tokens:,}"
    if repeated.usage.prompt_tokens is not None:
        text += f" of {repeated.usage.prompt_tokens:,} tokens"
    for name, kind in _CACHE_CALLS.items():
        response = observations.answers.get(kind)
        if response is not None and response.ok and response.usage.cached_tokens is not None:
            text += f"; {name}: {response.usage.cached_tokens:,}"
    return text


def _format_block_gap(response: ProbeResponse) -> str:
    """Seconds between blocks; empty where they are too few to mean anything."""
    gap = median_block_gap([response])
    return f", {gap:.1f} s apart" if gap >= 0.05 else ""


def _measure_denoising_steps(observations: Observations) -> float | None:
    """Denoising steps a canvas during the check; None where the server does not count them."""
    if observations.before is None or observations.crowd is None or observations.crowd.before is None:
        return None
    return observations.crowd.before.steps_per_canvas_since(observations.before)

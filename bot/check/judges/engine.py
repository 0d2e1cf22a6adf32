"""Judges the engine behind the protocol: does it denoise canvases, how long may a reply be, what does its
cache keep, what else does it take. Pure.
"""

import re
from itertools import pairwise
from statistics import median

from bot.check.findings import Verdict, fail_verdict, pass_verdict, unknown_verdict, warn_verdict
from bot.check.judges.server import parse_release
from bot.check.observations import Observations, ProbeResponse
from bot.check.prompts import LAST_NUMBER, MAX_OUTPUT_TOKENS
from bot.domain import CANVAS_TOKENS
from bot.llm.diagnostics import TYPED_READS_SINCE

_DIFFUSION = "diffusion model"


def judge_reply_length(observations: Observations) -> Verdict:
    """Whether replies end where they were not told to."""
    answer = observations.answers.get("counting")
    if answer is None or not answer.ok:
        return unknown_verdict(f"No long reply came: {observations.unknown_reason('counting')}.")
    written = re.findall(r"\d+", answer.text)
    if written[-1:] == [str(LAST_NUMBER)] and answer.finish != "length":
        return pass_verdict("A reply of two canvases came to its end.")
    length = "unknown" if answer.output_tokens is None else f"{answer.output_tokens}"
    if answer.finish == "length" and (answer.output_tokens or 0) < MAX_OUTPUT_TOKENS:
        return fail_verdict(
            f"Replies are cut after {length} tokens, though {MAX_OUTPUT_TOKENS} were allowed.",
            "no --override-generation-config with max_new_tokens; vLLM 0.24 or newer",
        )
    return unknown_verdict(
        f"The reply was not what was asked for ({length} tokens, ended by {answer.finish})."
    )


def judge_temperature(observations: Observations) -> Verdict:
    """Refused by a diffusion model, taken by any other."""
    answer = observations.answers.get("temperature")
    if answer is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('temperature')}.")
    if answer.ok:
        return warn_verdict(
            "A temperature of 0.5 is accepted: no DiffusionGemma, or vLLM before 0.26. The gateway sends none.",
            "serve a DiffusionGemma with vLLM 0.33 or newer",
        )
    if answer.status == 400 and (_DIFFUSION in answer.error_message or "diffusion" in answer.error_message):
        return pass_verdict("Refused, as diffusion models do; the gateway sends none.")
    return unknown_verdict(f"Refused with other words (HTTP {answer.status}): {answer.error_message}")


def judge_canvas(observations: Observations) -> Verdict:
    """Whether text comes a canvas at a time, and how long one is."""
    answer = observations.answers.get("counting")
    if answer is None or not answer.ok or not answer.blocks:
        return unknown_verdict(f"No stream came: {observations.unknown_reason('counting')}.")
    count = len(answer.blocks)
    tokens = answer.output_tokens
    if tokens is not None and tokens > 32 and count > tokens / 2:
        return warn_verdict(
            f"No diffusion model: {tokens} tokens came in {count} blocks, a token or two each. Canvases mean nothing.",
            "serve a DiffusionGemma",
        )
    if count < 2 or tokens is None:
        return unknown_verdict(
            "The reply was one block, or was not counted: how long a canvas is does not show."
        )
    told = f"{tokens} tokens came in {count} blocks{_format_block_gap(answer)}{_format_denoising_steps(observations)}"
    first = answer.blocks[0].tokens
    # Where nothing is counted on the way, the length lies between what fills all blocks and what fills all
    # but one.
    least, most = (-(-tokens // count), (tokens - 1) // (count - 1)) if first is None else (first, first)
    if least <= CANVAS_TOKENS <= most:
        return pass_verdict(f"{told}: canvases of {CANVAS_TOKENS}.")
    length = f"{least} to {most}" if least != most else f"{least}"
    return warn_verdict(
        f"{told}: a canvas is {length} tokens, and is counted as {CANVAS_TOKENS}.", "--diffusion-config"
    )


def judge_prefix_cache(observations: Observations) -> Verdict:
    """What the prefix cache gives back: the same prompt, with thinking toggled, and to somebody else."""
    first = observations.answers.get("tools")
    same = observations.answers.get("tools, whole")
    if first is None or same is None or not (first.ok and same.ok):
        return unknown_verdict(f"No prompt was sent twice: {observations.unknown_reason('tools, whole')}.")
    if same.cached_tokens is None:
        return unknown_verdict("What was cached is not told.")
    if same.cached_tokens == 0:
        return warn_verdict(
            "The same prompt again: nothing of it was cached.", "no --no-enable-prefix-caching"
        )
    of = "" if same.prompt_tokens is None else f" of {same.prompt_tokens:,} tokens"
    told = [f"the same prompt again: {same.cached_tokens:,}{of}"]
    told += [
        f"{name}: {one.cached_tokens:,}"
        for name, one in _other_cached_responses(observations)
        if one.cached_tokens is not None
    ]
    again = observations.answers.get("tools, thinking, whole")
    if again is not None and again.ok and again.cached_tokens == 0:
        return warn_verdict(
            f"{'; '.join(told)}. One lineage pushes the other out.", "more memory: --gpu-memory-utilization"
        )
    if first.cached_tokens == 0:
        return warn_verdict(
            f"{'; '.join(told)}. Who shares only the head finds nothing, even the third.",
            "--prefix-cache-retention-interval 512",
        )
    return pass_verdict(f"{'; '.join(told)}.")


def judge_pictures(observations: Observations) -> Verdict:
    """Whether the model sees."""
    answer = observations.answers.get("picture")
    if answer is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('picture')}.")
    if answer.ok:
        return pass_verdict("Accepted.")
    return warn_verdict(
        f"Pictures are refused (HTTP {answer.status}): {answer.error_message}",
        "a model that sees, or TURN_IMAGES=0",
    )


def judge_typed_reads(observations: Observations) -> Verdict:
    """Whether a question can be answered in one denoising step."""
    if observations.read is None:
        return unknown_verdict(f"Not asked: {observations.unknown_reason('read')}.")
    if observations.read.ok and "answers" in observations.read.body:
        return pass_verdict("Offered: one step instead of a canvas decides whether to think.")
    number = parse_release(observations)
    if number is not None and number < TYPED_READS_SINCE:
        return warn_verdict(
            "Not offered before vLLM 0.32; words alone decide whether to think.", "vLLM 0.33 or newer"
        )
    if observations.read.status == 501:
        return warn_verdict(
            "Switched off; words alone decide whether to think.", "--logprobs-mode raw_logprobs"
        )
    return warn_verdict(
        f"Not offered (HTTP {observations.read.status}); words alone decide whether to think.",
        "THINKING_READ=off",
    )


def _other_cached_responses(observations: Observations) -> list[tuple[str, ProbeResponse]]:
    parts = {
        "a second person who shares its head": "counting",
        "a third": "tools",
        "thinking toggled": "thought",
        "and again": "tools, thinking, whole",
    }
    asked = observations.answers
    return [(name, asked[part]) for name, part in parts.items() if part in asked and asked[part].ok]  # type: ignore[index]


def _format_block_gap(response: ProbeResponse) -> str:
    """Seconds between blocks; nothing where it is too short to mean anything."""
    gaps = [later.after_seconds - earlier.after_seconds for earlier, later in pairwise(response.blocks)]
    if gaps and median(gaps) >= 0.05:
        return f", {median(gaps):.1f} s apart"
    return ""


def _format_denoising_steps(observations: Observations) -> str:
    after = observations.crowd.before if observations.crowd else None
    if observations.before is None or after is None:
        steps = None
    else:
        steps = after.steps_per_canvas_since(observations.before)
    if steps is None:
        return ""
    return f", {steps:.0f} denoising steps each by the server's count"
